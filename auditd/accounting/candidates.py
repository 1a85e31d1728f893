"""Sizing the tensors of a GGUF directory under every released layout, and choosing one.

A candidate is *applicable* when every non-empty tensor has a size and whole blocks under it, and *exact* when
it is applicable and all bytes come out. Candidates that give every tensor the same size are one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final, Literal, TypeAlias

from auditd.accounting.cover import Cover, Extent, lay, padded
from auditd.formats import layouts
from auditd.formats.declarations import Shape, TensorColumns
from auditd.formats.layouts import Layout

Basis: TypeAlias = Literal["operator", "established", "default", "derived", "strict"]

AUTO, STRICT = "auto", "strict"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the data lies: file size, data start, alignment, in bytes.

    With no single valid alignment (``known`` false) lengths still add up and overlap is still overlap: the
    extents are laid from 0 on over a file without end.
    """

    file_size: int
    data_offset: int
    alignment: int
    known: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """One layout, or several that size every tensor the same. ``cover`` is None if it is not applicable."""

    names: tuple[str, ...]
    layout: Layout
    cover: Cover | None
    reason: str | None
    #: Whether the blocks are what makes it inapplicable.
    blocks: bool = False

    @property
    def applicable(self) -> bool:
        """Whether every non-empty tensor has a size and whole blocks."""
        return self.cover is not None


@dataclass(frozen=True, slots=True)
class TypeUse:
    """The non-empty tensors of one type: how many, and what every row is a multiple of."""

    tensors: int
    row_divisor: int


#: Tensors between two pulses: a few tens of milliseconds. A directory with fewer is never interrupted, so what
#: is known of its header is never without its account.
_PULSE_TENSORS: Final = 1 << 15


class Directory:
    """The tensors of a GGUF directory, in file order and in offset order.

    ``pulse`` is called now and then in every pass over them; what it raises ends the account.
    """

    def __init__(self, columns: TensorColumns, pulse: Callable[[], None]) -> None:
        self.columns = columns
        self._pulse = pulse
        self.order = _offset_order(columns.offsets)
        self.uses, self.unsizeable = self._uses()

    def __iter__(self) -> Iterator[int]:
        """The indices in file order."""
        return self.paced(range(len(self.columns)))

    def paced(self, indices: Sequence[int]) -> Iterator[int]:
        """``indices``, with a pulse now and then."""
        for begin in range(0, len(indices), _PULSE_TENSORS):
            if begin:
                self._pulse()
            yield from indices[begin : begin + _PULSE_TENSORS]

    def _uses(self) -> tuple[dict[int, TypeUse], int]:
        """Each type's use by non-empty tensors, and how many of these have no sound shape."""
        columns = self.columns
        uses: dict[int, tuple[int, int]] = {}
        unsizeable = 0
        for index in self:
            if columns.is_empty(index):
                continue
            if columns.shapes[index] != Shape.SOUND:
                unsizeable += 1
            tensors, divisor = uses.get(columns.types[index], (0, 0))
            uses[columns.types[index]] = (tensors + 1, gcd(divisor, columns.rows[index]))
        return {type_id: TypeUse(*use) for type_id, use in uses.items()}, unsizeable

    def length(self, index: int, layout: Layout) -> int | None:
        """Bytes of tensor ``index``: 0 if empty, None if it has no size under ``layout``."""
        columns = self.columns
        if columns.is_empty(index):
            return 0
        sizing = layout.sizings.get(columns.types[index])
        if sizing is None or columns.shapes[index] != Shape.SOUND:
            return None
        return sizing.byte_length(columns.elements[index], columns.rows[index])

    def extents(self, layout: Layout, data_offset: int, *, known: frozenset[int] | None = None) -> Iterator[Extent]:
        """Non-empty extents in the order of (begin, index).

        A type that is not in ``known`` counts as one without a size (None: all are known).
        """
        offsets, types = self.columns.offsets, self.columns.types
        for index in self.paced(self.order):
            length = self.length(index, layout)
            if length == 0:
                continue
            begin = data_offset + offsets[index]
            if length is None or (known is not None and types[index] not in known):
                yield Extent(index, begin, None)
            else:
                yield Extent(index, begin, begin + length)


#: Indices that are sorted at once: sorting makes objects of them and of their offsets for the while.
_SORTED_AT_ONCE: Final = 1 << 17

#: Bits of an offset that a larger number of them is split by.
_SPLIT_BITS: Final = 8


def _offset_order(offsets: array[int]) -> Sequence[int]:
    """Indices by (offset, index); most directories are in that order already."""
    previous = -1
    for offset in offsets:
        if offset < previous:
            return _ordered(array("I", range(len(offsets))), offsets, max(offsets).bit_length())
        previous = offset
    return range(len(offsets))


def _ordered(indices: array[int], offsets: array[int], bits: int) -> array[int]:
    """``indices`` by offset, those of equal offset as they were; the offsets differ in their lowest ``bits`` only."""
    if len(indices) <= _SORTED_AT_ONCE or not bits:
        return array("I", sorted(indices, key=offsets.__getitem__))
    shift = max(0, bits - _SPLIT_BITS)
    parts = [array("I") for _ in range(1 << (bits - shift))]
    for index in indices:
        parts[(offsets[index] >> shift) & (len(parts) - 1)].append(index)
    ordered = array("I")
    for part in parts:
        ordered.extend(_ordered(part, offsets, shift))
    return ordered


def try_layouts(directory: Directory, place: Place, named: Layout | None) -> tuple[Candidate, ...]:
    """Every released layout (and ``named``, if it is another one), the ones of the same sizes together."""
    has_q8_1 = layouts.Q8_1 in directory.uses
    tried = [layout for layout in layouts.RELEASED if has_q8_1 or "+" not in layout.name]
    if named is not None and named not in tried:
        tried.append(named)
    groups: dict[tuple[object, ...], list[Layout]] = {}
    for layout in tried:
        groups.setdefault(_signature(layout, directory), []).append(layout)
    return tuple(_try(tuple(group), directory, place, named) for group in groups.values())


def _signature(layout: Layout, directory: Directory) -> tuple[object, ...]:
    """What decides every size: two layouts with the same signature are one hypothesis."""
    sizings = (layout.sizings.get(type_id) for type_id in directory.uses)
    return tuple(None if sizing is None else sizing[1:] for sizing in sizings)


def _try(group: tuple[Layout, ...], directory: Directory, place: Place, named: Layout | None) -> Candidate:
    names = tuple(layout.name for layout in group)
    layout = named if named is not None and named in group else group[0]
    obstacle = _obstacle(layout, directory)
    if obstacle is not None:
        return Candidate(names, layout, None, obstacle[0], blocks=obstacle[1])
    cover = lay(directory.extents(layout, place.data_offset), place.file_size, place.data_offset, place.alignment)
    contested = [type_id for type_id in directory.uses if layouts.is_contested(type_id)]
    if contested and layout is not named and not (place.known and cover.exact):
        reason = f"type {contested[0]} is claimed by forks too, and the bytes do not come out"
        return Candidate(names, layout, None, reason)
    return Candidate(names, layout, cover, None)


def _obstacle(layout: Layout, directory: Directory) -> tuple[str, bool] | None:
    """Why the layout cannot be applied, and whether whole blocks are the reason."""
    for type_id, use in directory.uses.items():
        sizing = layout.sizings.get(type_id)
        if sizing is None:
            return f"no size for type {type_id} ({layouts.type_label(type_id)})", False
        if use.row_divisor % sizing.block:
            return f"rows of {sizing.name} (type {type_id}) are not whole blocks of {sizing.block}", True
    if directory.unsizeable:
        return "a tensor whose shape has no size", False
    return None


@dataclass(frozen=True, slots=True)
class Selection:
    """The layout of the headline figures; ``candidate`` is None under ``strict``."""

    candidate: Candidate | None
    basis: Basis


def select(candidates: Sequence[Candidate], directory: Directory, choice: str) -> Selection:
    """Choose a candidate: the operator's, else what is established, else what comes out.

    ``choice`` is ``auto``, ``strict`` or a layout's name. Today's layout wins every tie.
    """
    if choice == STRICT:
        return Selection(None, "strict")
    if choice != AUTO:
        return Selection(next(c for c in candidates if choice in c.names), "operator")
    default = candidates[0]
    if all(type_id in layouts.ESTABLISHED for type_id in directory.uses) and not directory.unsizeable:
        return Selection(default, "established")
    pool = _pool(candidates)
    if not pool or default in pool:
        return Selection(default, "default")
    return Selection(pool[0], "derived")


def _pool(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The exact ones; else those whose tensors all follow each other; else the only applicable one."""
    applicable = [c for c in candidates if c.cover is not None]
    exact = [c for c in applicable if c.cover is not None and c.cover.exact]
    contiguous = [c for c in applicable if c.cover is not None and not c.cover.discontiguous]
    return exact or contiguous or (applicable if len(applicable) == 1 else [])


def empty_offset_slips(directory: Directory, layout: Layout, alignment: int) -> tuple[int, int | None]:
    """Empty tensors whose offset is not the padded sum of the sizes before them: how many, and the first.

    Nothing is said past a tensor without a size.
    """
    due = slips = 0
    first: int | None = None
    for index in directory:
        length = directory.length(index, layout)
        if length is None:
            break
        if length == 0 and directory.columns.offsets[index] != due:
            first = index if first is None else first
            slips += 1
        due = padded(due + length, alignment)
    return slips, first
