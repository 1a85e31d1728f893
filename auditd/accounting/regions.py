"""The runs of a file that are not plain, with the tensors on either side of each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from auditd.accounting.cover import Extent, RunKind

#: Regions that are kept; their number is always exact.
REGIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class Run:
    """A half-open range of the file; ``after`` and ``before`` are tensor indices, resolved at the end."""

    kind: RunKind
    begin: int
    end: int
    after: int | None = None
    before: int | None = None


class Spans:
    """Half-open ranges in file order, 16 bytes each: every tensor of a file may be followed by padding."""

    __slots__ = ("_begins", "_ends")

    def __init__(self) -> None:
        self._begins = array("Q")
        self._ends = array("Q")

    def add(self, begin: int, end: int) -> None:
        """Take one more range, behind the others."""
        self._begins.append(begin)
        self._ends.append(end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._begins, self._ends, strict=True)


class RunCollector:
    """Collects runs: pieces of overlapping and missing bytes that touch become one run."""

    def __init__(self) -> None:
        self._open: dict[RunKind, Run] = {}
        self._kept: dict[RunKind, list[Run]] = {}
        #: Exact number of runs of each kind, padding apart.
        self.counts: dict[RunKind, int] = {}
        #: Padding runs, for whoever wants to look into them.
        self.padding = Spans()

    def observe(self, kind: RunKind, begin: int, end: int) -> None:
        """A ``RunObserver``."""
        if kind == "padding":
            self.padding.add(begin, end)
            return
        last = self._open.get(kind)
        if last is not None and begin <= last.end:
            self._open[kind] = replace(last, end=max(last.end, end))
            return
        self._flush(kind)
        self._open[kind] = Run(kind, begin, end)

    def _flush(self, kind: RunKind) -> None:
        run = self._open.pop(kind, None)
        if run is None:
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        kept = self._kept.setdefault(kind, [])
        if len(kept) < REGIONS:
            kept.append(run)

    def finish(self, extents: Iterable[Extent]) -> tuple[Run, ...]:
        """The first 1,000 runs in the order of their begins, with neighbours among ``extents``.

        ``extents`` come in the order of (begin, index); those of unknown size are nobody's neighbour.
        """
        for kind in tuple(self._open):
            self._flush(kind)
        runs = sorted((run for kept in self._kept.values() for run in kept), key=lambda run: (run.begin, run.end))
        return _with_neighbours(runs[:REGIONS], extents)


def _with_neighbours(runs: Sequence[Run], extents: Iterable[Extent]) -> tuple[Run, ...]:
    """``after`` ends last among those that begin before the run, ``before`` is the first at or past its end.

    One pass over the extents, which are never all in memory.
    """
    by_end = sorted(range(len(runs)), key=lambda number: runs[number].end)
    after: list[int | None] = [None] * len(runs)
    before: list[int | None] = [None] * len(runs)
    last: Extent | None = None
    begun = ended = 0
    for extent in extents:
        if extent.end is None:
            continue
        while begun < len(runs) and runs[begun].begin <= extent.begin:
            after[begun] = None if last is None else last.tensor
            begun += 1
        while ended < len(runs) and runs[by_end[ended]].end <= extent.begin:
            before[by_end[ended]] = extent.tensor
            ended += 1
        if last is None or extent.end > (last.end or 0):
            last = extent
    after[begun:] = [None if last is None else last.tensor] * (len(runs) - begun)
    return tuple(replace(run, after=after[number], before=before[number]) for number, run in enumerate(runs))
