"""Laying extents over a file: the residue is computed here.

S file size, D data start, A alignment, all in bytes; positions are file offsets, ranges half-open. For the
non-empty extents: T the sum of their lengths, U the set of bytes in at least one, E their greatest end (D if
there is none)::

    overlap  = T - |U|                      a byte claimed three times counts two
    missing  = max(0, D - S) + bytes of U at or past S
    padding  = bytes of [D, S) in no extent, from some extent's end to the next multiple of A;
               the run that begins at E counts only if all of it is in the file
    surplus  = every other byte of [D, S) in no extent
    residue  = S - D - T - padding = surplus - missing - overlap

One pass over the extents in the order of their begins is enough for all of it: a run without an owner begins
where the furthest end so far is, and a byte is claimed twice where an extent begins before that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

RunKind: TypeAlias = Literal["padding", "gap", "trailing", "padding_partial", "missing", "overlap"]

#: Told of every run that is not plainly owned: kind, begin, end.
RunObserver: TypeAlias = Callable[[RunKind, int, int], None]


class Extent(NamedTuple):
    """A non-empty tensor's bytes: ``end`` is None where its size is unknown."""

    tensor: int
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Cover:
    """What extents own of a file. ``sized`` is false if one of them has no known end."""

    tensor_bytes: int
    padding: int
    surplus: int
    missing: int
    overlap: int
    residue: int
    contiguous: int
    discontiguous: int
    cut: int
    gone: int
    sized: bool

    @property
    def exact(self) -> bool:
        """Whether every byte comes out. The parts are asked, since surplus and missing can cancel out."""
        return self.sized and not (self.surplus or self.missing or self.overlap)


def padded(position: int, alignment: int) -> int:
    """The first multiple of ``alignment`` at or after ``position``."""
    return -(-position // alignment) * alignment


def ignore_run(kind: RunKind, begin: int, end: int) -> None:
    """The observer of a caller that wants figures only."""


class _Sweep:
    """The state of one pass; extents come in the order of their begins."""

    def __init__(self, file_size: int, data_offset: int, alignment: int, observe: RunObserver) -> None:
        self.size = file_size
        self.data = data_offset
        self.alignment = alignment
        self.observe = observe
        self.tensor_bytes = self.padding = self.surplus = self.overlap = self.past_end = 0
        self.contiguous = self.discontiguous = self.cut = self.gone = 0
        self.reached: int | None = None
        self.last_end: int | None = None
        self.sized = True

    def extent(self, extent: Extent) -> None:
        _, begin, end = extent
        if begin >= self.size:
            self.gone += 1
        if end is None:
            self.sized = False
            return
        self.tensor_bytes += end - begin
        self._follow(begin, end)
        owned_from = begin
        if self.reached is None or begin >= self.reached:
            self._unowned(begin)
        else:
            self.overlap += min(end, self.reached) - begin
            self.observe("overlap", begin, min(end, self.reached))
            owned_from = self.reached
        if end > self.size:
            self.cut += begin < self.size
            first_lost = max(owned_from, self.size)
            self.past_end += max(0, end - first_lost)
            if first_lost < end:
                self.observe("missing", first_lost, end)
        self.reached = end if self.reached is None else max(self.reached, end)

    def _follow(self, begin: int, end: int) -> None:
        """Whether the extent starts where the one before it ended, padded; the first one, at the data start."""
        due = self.data if self.last_end is None else padded(self.last_end, self.alignment)
        if begin == due:
            self.contiguous += 1
        else:
            self.discontiguous += 1
        self.last_end = end

    def _unowned(self, until: int) -> None:
        """The run from what was reached up to the next extent, as far as it is in the file."""
        until = min(until, self.size)
        begin = self.data if self.reached is None else self.reached
        if begin >= until:
            return
        split = begin if self.reached is None else min(until, padded(begin, self.alignment))
        self._run("padding", begin, split)
        self._run("gap", split, until)

    def _run(self, kind: RunKind, begin: int, end: int) -> None:
        if begin == end:
            return
        if kind == "padding":
            self.padding += end - begin
        else:
            self.surplus += end - begin
        self.observe(kind, begin, end)

    def close(self) -> None:
        """The run behind the last extent, up to the end of the file."""
        begin = self.data if self.reached is None else self.reached
        if begin >= self.size:
            return
        split = begin if self.reached is None else padded(begin, self.alignment)
        if split > self.size:
            self._run("padding_partial", begin, self.size)
        else:
            self._run("padding", begin, split)
            self._run("trailing", split, self.size)


def lay(
    extents: Iterable[Extent],
    file_size: int,
    data_offset: int,
    alignment: int,
    observe: RunObserver = ignore_run,
) -> Cover:
    """Lay ``extents``, which come in the order of (begin, index), over a file.

    ``observe`` hears of the runs in the order in which the pass meets them; overlapping and missing runs
    come piecewise, in the order of their begins, and touching pieces belong together.
    """
    if file_size < data_offset:
        observe("missing", file_size, data_offset)
    sweep = _Sweep(file_size, data_offset, alignment, observe)
    for extent in extents:
        sweep.extent(extent)
    sweep.close()
    missing = max(0, data_offset - file_size) + sweep.past_end
    return Cover(
        sweep.tensor_bytes,
        sweep.padding,
        sweep.surplus,
        missing,
        sweep.overlap,
        sweep.surplus - missing - sweep.overlap,
        sweep.contiguous,
        sweep.discontiguous,
        sweep.cut,
        sweep.gone,
        sweep.sized,
    )
