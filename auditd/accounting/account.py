"""The account of one file: the way in for both formats.

``account_gguf`` and ``account_safetensors`` take a completed header and return an :class:`Account`. Integers
are exact throughout; a figure that needs something unknown is None.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditd.accounting.candidates import (
    Basis,
    Candidate,
    Directory,
    Place,
    empty_offset_slips,
    select,
    try_layouts,
)
from auditd.accounting.cover import Cover, Extent, RunKind, lay
from auditd.accounting.figures import Figures, agreement, figures_of, or_known
from auditd.accounting.regions import Run, RunCollector, Spans
from auditd.formats import layouts
from auditd.formats.bounds import EXACT_INTEGER
from auditd.formats.declarations import GgufHeader, SafetensorsHeader, Shape
from auditd.formats.layouts import LAYOUTS, Layout

#: Sizes that need no choice: for totals, and for what ``strict`` may say.
_ESTABLISHED = Layout("established", layouts.ESTABLISHED)

#: As many layouts must apply before it means anything that none of them comes out.
_RIVALS = 2

#: Larger than any position that a header can declare: a file without end.
_NO_END = 1 << 80


@dataclass(frozen=True, slots=True)
class TypeTotal:
    """What the tensors of one type hold: ``type_id`` None for safetensors, ``size`` in bytes, None if unknown."""

    type: str
    type_id: int | None
    tensors: int
    elements: int | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Slip:
    """Tensors that share a trait: how many, and the index of the first."""

    count: int
    first: int


@dataclass(frozen=True, slots=True)
class Overreach(Slip):
    """Tensors that lie past 2**53 - 1; ``position`` is where the first one ends, as a file offset."""

    position: int


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns the bytes of a file.

    ``runs`` are the first thousand that are not plain, ``run_count`` is their exact number, ``padding_runs``
    the half-open ranges between extents that should hold zeros. ``unsized`` are non-empty tensors without a
    size whose shape is sound, ``partial_blocks`` those whose rows are not whole blocks of today's layout while
    no layout comes out, ``nothing_fits`` says that no released layout and no offset agrees with the bytes.
    """

    file_size: int
    data_offset: int | None
    header_padding: int | None
    figures: Figures
    runs: tuple[Run, ...]
    run_count: int
    run_counts: dict[RunKind, int]
    padding_runs: Spans
    layout: str | None
    basis: Basis | None
    candidates: tuple[Candidate, ...]
    by_type: tuple[TypeTotal, ...]
    #: The same over established sizes alone, whatever layout the figures are computed with.
    declared: tuple[TypeTotal, ...]
    parameters: int | None
    unsized: Slip | None = None
    #: Of these, the ones that begin at or past the end of the file.
    unsized_gone: Slip | None = None
    #: Tensors that end (or, without a size, begin) past 2**53 - 1, and where the first of them does.
    out_of_range: Overreach | None = None
    partial_blocks: Slip | None = None
    empty_offsets: Slip | None = None
    nothing_fits: bool = False


@dataclass(frozen=True, slots=True)
class _Laid:
    """Extents over a file, with the runs that are not plain."""

    cover: Cover
    runs: tuple[Run, ...]
    counts: dict[RunKind, int]
    padding_runs: Spans


def _lay_out(extents: Callable[[], Iterable[Extent]], place: Place) -> _Laid:
    collector = RunCollector()
    cover = lay(extents(), place.file_size, place.data_offset, place.alignment, collector.observe)
    runs = collector.finish(extents())
    return _Laid(cover, runs, collector.counts, collector.padding)


#: What tensors of unknown size may own nobody can call a gap.
_RUNS_OF_KNOWN: frozenset[RunKind] = frozenset({"missing", "overlap"})


def _only(laid: _Laid, kinds: frozenset[RunKind]) -> _Laid:
    counts = {kind: count for kind, count in laid.counts.items() if kind in kinds}
    return _Laid(laid.cover, tuple(run for run in laid.runs if run.kind in kinds), counts, Spans())


# -- GGUF -------------------------------------------------------------------------------------------


def no_pulse() -> None:
    """The pulse of a caller that never stops an account."""


def account_gguf(header: GgufHeader, choice: str = "auto", pulse: Callable[[], None] = no_pulse) -> Account:
    """The account of a completed GGUF header; ``choice`` is ``auto``, ``strict`` or a layout's name.

    ``pulse`` is called now and then, and may raise to end the account.
    """
    directory = Directory(header.columns, pulse)
    place = _place(header)
    candidates = try_layouts(directory, place, LAYOUTS.get(choice))
    selection = select(candidates, directory, choice)
    if selection.candidate is None:
        return _strict(header, directory, place, candidates)
    candidate, layout = selection.candidate, selection.candidate.layout
    known = None if candidate.applicable else _uncontested(directory)
    laid = _lay_out(lambda: directory.extents(layout, place.data_offset, known=known), place)
    if not (place.known and laid.cover.sized):
        laid = _only(laid, _RUNS_OF_KNOWN if place.known else frozenset())
    by_type = tuple(_by_type(directory, layout, known))
    return Account(
        file_size=header.file_size,
        data_offset=header.data_offset,
        header_padding=_header_padding(header),
        figures=figures_of(laid.cover, place),
        runs=laid.runs,
        run_count=sum(laid.counts.values()),
        run_counts=laid.counts,
        padding_runs=laid.padding_runs,
        layout=layout.name,
        basis=selection.basis,
        candidates=candidates,
        by_type=by_type,
        declared=by_type if selection.basis == "established" else tuple(_by_type(directory, _ESTABLISHED, None)),
        parameters=_sum(total.elements for total in by_type),
        unsized=_collect(_unsized(directory, layout, known)),
        unsized_gone=_gone(_unsized(directory, layout, known), directory, place),
        out_of_range=_out_of_range(directory.extents(layout, header.data_offset or 0)),
        partial_blocks=_partial_blocks(directory, candidates, layout),
        empty_offsets=_slip(*empty_offset_slips(directory, layout, place.alignment)) if place.known else None,
        nothing_fits=place.known and selection.basis != "established" and _nothing_fits(candidates, candidate),
    )


def _place(header: GgufHeader) -> Place:
    if header.data_offset is None or header.alignment is None:
        return Place(_NO_END, 0, 1, known=False)
    return Place(header.file_size, header.data_offset, header.alignment, known=True)


def _header_padding(header: GgufHeader) -> int | None:
    if header.data_offset is None or header.directory_end is None:
        return None
    return header.data_offset - header.directory_end


def _uncontested(directory: Directory) -> frozenset[int]:
    return frozenset(type_id for type_id in directory.uses if not layouts.is_contested(type_id))


def _strict(header: GgufHeader, directory: Directory, place: Place, candidates: Sequence[Candidate]) -> Account:
    """No layout is chosen: a figure stands where all applicable ones agree on it, or the known extents alone say it."""
    applicable = [c for c in candidates if c.cover is not None]
    agreed = agreement([figures_of(c.cover, place) for c in applicable if c.cover is not None])
    settled = agreed.residue is not None
    layout = applicable[0].layout if settled else _ESTABLISHED
    laid = _lay_out(lambda: directory.extents(layout, place.data_offset), place)
    if not settled:
        laid = _only(laid, _RUNS_OF_KNOWN if place.known else frozenset())
        agreed = or_known(agreed, figures_of(laid.cover, place))
    by_type = tuple(_by_type(directory, _ESTABLISHED, None))
    return Account(
        file_size=header.file_size,
        data_offset=header.data_offset,
        header_padding=_header_padding(header),
        figures=agreed,
        runs=laid.runs,
        run_count=sum(laid.counts.values()),
        run_counts=laid.counts,
        padding_runs=laid.padding_runs,
        layout=None,
        basis="strict",
        candidates=tuple(candidates),
        by_type=by_type,
        declared=by_type,
        parameters=_sum(total.elements for total in by_type),
        unsized=None if settled else _collect(_unsized(directory, _ESTABLISHED, None)),
        unsized_gone=None if settled else _gone(_unsized(directory, _ESTABLISHED, None), directory, place),
        out_of_range=_out_of_range(directory.extents(layout, header.data_offset or 0)),
        partial_blocks=_partial_blocks(directory, candidates, layouts.DEFAULT_LAYOUT),
    )


def _by_type(directory: Directory, layout: Layout, known: frozenset[int] | None) -> Iterator[TypeTotal]:
    totals: dict[int, tuple[int, int | None, int | None]] = {}
    columns = directory.columns
    for index in directory:
        type_id = columns.types[index]
        tensors, elements, size = totals.get(type_id, (0, 0, 0))
        length = directory.length(index, layout)
        if known is not None and type_id not in known and not columns.is_empty(index):
            length = None
        counted = None if columns.shapes[index] == Shape.OVERFLOW else columns.elements[index]
        totals[type_id] = (tensors + 1, _plus(elements, counted), _plus(size, length))
    for type_id in sorted(totals):
        yield TypeTotal(layouts.type_label(type_id), type_id, *totals[type_id])


def _plus(total: int | None, term: int | None) -> int | None:
    return None if total is None or term is None else total + term


def _sum(terms: Iterable[int | None]) -> int | None:
    total: int | None = 0
    for term in terms:
        total = _plus(total, term)
    return total


def _slip(count: int, first: int | None) -> Slip | None:
    return None if first is None else Slip(count, first)


def _collect(indices: Iterable[int]) -> Slip | None:
    count = 0
    first: int | None = None
    for index in indices:
        first = index if first is None else first
        count += 1
    return _slip(count, first)


def _unsized(directory: Directory, layout: Layout, known: frozenset[int] | None) -> Iterator[int]:
    """Non-empty tensors that have no size, apart from those whose shape is at fault already."""
    columns = directory.columns
    for index in directory:
        if columns.shapes[index] != Shape.SOUND or columns.is_empty(index) or _is_partial(directory, index, layout):
            continue
        if directory.length(index, layout) is None or (known is not None and columns.types[index] not in known):
            yield index


def _gone(indices: Iterable[int], directory: Directory, place: Place) -> Slip | None:
    offsets = directory.columns.offsets
    return _collect(index for index in indices if place.data_offset + offsets[index] >= place.file_size)


def _out_of_range(extents: Iterable[Extent]) -> Overreach | None:
    count = 0
    first: Extent | None = None
    for extent in extents:
        if max(extent.begin, extent.end or 0) > EXACT_INTEGER:
            first = extent if first is None else first
            count += 1
    return None if first is None else Overreach(count, first.tensor, first.end or first.begin)


def _is_partial(directory: Directory, index: int, layout: Layout) -> bool:
    sizing = layout.sizings.get(directory.columns.types[index])
    return sizing is not None and directory.columns.rows[index] % sizing.block != 0


def _partial_blocks(directory: Directory, candidates: Sequence[Candidate], layout: Layout) -> Slip | None:
    """Rows that are not whole blocks of today's layout, or of the one that was named, while none comes out."""
    default = candidates[0] if layout.name not in layouts.LAYOUT_NAMES else _candidate_of(candidates, layout)
    default = candidates[0] if default.applicable else default
    if not default.blocks or any(c.cover is not None and c.cover.exact for c in candidates):
        return None
    columns = directory.columns
    return _collect(
        index
        for index in directory
        if columns.shapes[index] == Shape.SOUND
        and not columns.is_empty(index)
        and _is_partial(directory, index, default.layout)
    )


def _candidate_of(candidates: Sequence[Candidate], layout: Layout) -> Candidate:
    return next(c for c in candidates if layout.name in c.names)


def _nothing_fits(candidates: Sequence[Candidate], selected: Candidate) -> bool:
    """Two or more layouts apply, none comes out, and even the offsets follow none of their sizes."""
    covers = [c.cover for c in candidates if c.cover is not None]
    if len(covers) < _RIVALS or any(cover.exact for cover in covers):
        return False
    return selected.cover is not None and selected.cover.discontiguous > 0


# -- safetensors ------------------------------------------------------------------------------------


def account_safetensors(header: SafetensorsHeader) -> Account:
    """The account of a validated safetensors header: its ranges are the extents, and nothing is padded."""
    columns = header.columns
    if columns is None or header.data_offset is None:
        message = "only a validated header has an account"
        raise ValueError(message)
    place = Place(header.file_size, header.data_offset, 1, known=True)
    order = array("I", sorted(range(len(columns)), key=columns.begins.__getitem__))
    data = header.data_offset

    def extents() -> Iterator[Extent]:
        for index in order:
            begin, end = columns.begins[index], columns.ends[index]
            if begin != end:
                yield Extent(index, data + begin, data + end if begin < end else None)

    laid = _lay_out(extents, place)
    if not laid.cover.sized:
        laid = _only(laid, _RUNS_OF_KNOWN)
    by_type = tuple(
        TypeTotal(tally.dtype, None, tally.tensors, tally.elements, tally.size if laid.cover.sized else None)
        for tally in sorted(header.totals)
    )
    return Account(
        file_size=header.file_size,
        data_offset=data,
        header_padding=0,
        figures=figures_of(laid.cover, place),
        runs=laid.runs,
        run_count=sum(laid.counts.values()),
        run_counts=laid.counts,
        padding_runs=laid.padding_runs,
        layout=None,
        basis=None,
        candidates=(),
        by_type=by_type,
        declared=by_type,
        parameters=_sum(total.elements for total in by_type),
        out_of_range=_out_of_range(extents()),
    )
