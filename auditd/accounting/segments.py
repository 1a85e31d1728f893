"""A file's bytes one stretch after the other: what each is for, and whose it is.

``segments`` gives half-open ranges of file offsets in ascending order. Those before the end of the file cover it
exactly once, whatever is wrong with the header; those behind it are the bytes that are missing, each once. A byte
that several tensors claim is ``overlap`` in the file and ``missing`` past its end. One pass, nothing kept: the state
is the furthest end so far, and the furthest end of what is claimed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from auditd.accounting.account import Account, no_pulse
from auditd.accounting.candidates import Directory
from auditd.accounting.cover import Extent, padded
from auditd.accounting.sizes import sizings_of
from auditd.formats import layouts
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.gguf.wire import DEFAULT_ALIGNMENT, HEAD_BYTES
from auditd.formats.layouts import Layout
from auditd.formats.safetensors.entries import PREFIX_BYTES

#: ``unread`` is behind the place where the header could not be followed; ``unknown`` has a header that is read, and
#: yet nobody can say whose it is: a tensor without a size begins before it, or the data start is not known.
SegmentKind: TypeAlias = Literal[
    "head",
    "metadata",
    "directory",
    "json",
    "header_padding",
    "tensor",
    "padding",
    "gap",
    "trailing",
    "padding_partial",
    "overlap",
    "missing",
    "unknown",
    "unread",
]


class Segment(NamedTuple):
    """One stretch of bytes, ``end`` excluded.

    ``owner`` is the index of the metadata entry or tensor that it belongs to (for ``missing``: should), ``type`` the
    tensor's under the selected layout, ``label`` the exact bytes of its key or name. A key or name whose row was not
    kept is empty; what belongs to nobody in particular has none of the three.
    """

    begin: int
    end: int
    kind: SegmentKind
    owner: int | None = None
    type: str | None = None
    label: bytes = b""

    @property
    def length(self) -> int:
        """Bytes."""
        return self.end - self.begin


#: ``(type, name)`` of a tensor by its index.
_Owner: TypeAlias = Callable[[int], tuple[str | None, bytes]]


def segments(
    header: GgufHeader | SafetensorsHeader | None,
    account: Account | None,
    file_size: int,
    pulse: Callable[[], None] = no_pulse,
) -> Iterator[Segment]:
    """Every segment of a file of ``file_size`` bytes; ``pulse`` is called now and then and may raise to end it."""
    return _joined(_pulsed(_pieces(header, account, file_size, pulse), pulse))


#: Pieces between two calls of a pulse.
_BEAT: Final = 4096


def _pulsed(pieces: Iterable[Segment], pulse: Callable[[], None]) -> Iterator[Segment]:
    for number, piece in enumerate(pieces):
        if number % _BEAT == 0:
            pulse()
        yield piece


def _joined(pieces: Iterable[Segment]) -> Iterator[Segment]:
    """Pieces that touch and say the same are one; empty ones are none."""
    last: Segment | None = None
    for piece in pieces:
        if piece.begin >= piece.end:
            continue
        if last is not None and last.end == piece.begin and last[2:] == piece[2:]:
            last = last._replace(end=piece.end)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _pieces(
    header: GgufHeader | SafetensorsHeader | None, account: Account | None, size: int, pulse: Callable[[], None]
) -> Iterator[Segment]:
    told = 0
    for piece in _front(header):
        told = min(piece.end, size)
        yield piece._replace(end=told)
    if header is None or account is None or not header.complete:
        yield Segment(told, size, "unread")
    elif account.data_offset is None:
        yield Segment(told, size, "unknown")
    elif isinstance(header, GgufHeader):
        yield from _gguf_data(header, account, account.data_offset, size, pulse)
    else:
        extents = _ranges(header, account.data_offset)
        yield from _Sweep(size, account.data_offset, 1, _safetensors_owner(header)).walk(extents)


# -- in front of the data ---------------------------------------------------------------------------


def _front(header: GgufHeader | SafetensorsHeader | None) -> Iterator[Segment]:
    """The header as far as it was followed; it begins at 0 and leaves nothing out."""
    if isinstance(header, GgufHeader):
        yield from _gguf_front(header)
    elif header is not None and header.header_length is not None:
        yield Segment(0, PREFIX_BYTES, "head")
        if header.bytes_present:
            yield Segment(PREFIX_BYTES, header.header_length, "json")


def _gguf_front(header: GgufHeader) -> Iterator[Segment]:
    if header.metadata_count is None:
        return
    yield Segment(0, HEAD_BYTES, "head")
    told = HEAD_BYTES
    for entry in header.metadata:
        yield Segment(told, entry.begin, "metadata")
        yield Segment(entry.begin, entry.end, "metadata", entry.index, None, entry.key)
        told = entry.end
    if header.metadata_end is None:
        return
    yield Segment(told, header.metadata_end, "metadata")
    walked = header.tensors[-1].end if header.tensors else header.metadata_end
    directory_end = walked if header.directory_end is None else header.directory_end
    yield Segment(header.metadata_end, directory_end, "directory")
    if header.directory_end is not None and header.data_offset is not None:
        yield Segment(header.directory_end, header.data_offset, "header_padding")


# -- tensors ----------------------------------------------------------------------------------------


def _gguf_data(
    header: GgufHeader, account: Account, data: int, size: int, pulse: Callable[[], None]
) -> Iterator[Segment]:
    directory = Directory(header.columns, pulse)
    layout = Layout("selected", sizings_of(account))
    alignment = DEFAULT_ALIGNMENT if header.alignment is None else header.alignment
    sweep = _Sweep(size, data, alignment, _gguf_owner(header, layout))
    yield from sweep.walk(directory.extents(layout, data))


def _gguf_owner(header: GgufHeader, layout: Layout) -> _Owner:
    types, rows = header.columns.types, header.tensors

    def owner(index: int) -> tuple[str | None, bytes]:
        sizing = layout.sizings.get(types[index])
        name = rows[index].name if index < len(rows) else b""
        return layouts.type_label(types[index]) if sizing is None else sizing.name, name

    return owner


def _ranges(header: SafetensorsHeader, data: int) -> Iterator[Extent]:
    columns = header.columns
    if columns is None:
        return
    begins, ends = columns.begins, columns.ends
    for index in sorted(range(len(columns)), key=begins.__getitem__):
        begin, end = begins[index], ends[index]
        if begin != end:
            yield Extent(index, data + begin, data + end if begin < end else None)


def _safetensors_owner(header: SafetensorsHeader) -> _Owner:
    rows = header.tensors

    def owner(index: int) -> tuple[str | None, bytes]:
        return (rows[index].dtype, rows[index].name.encode("utf-8")) if index < len(rows) else (None, b"")

    return owner


class _Sweep:
    """One pass over extents in the order of their begins; everything before ``at`` is told."""

    def __init__(self, size: int, data: int, alignment: int, owner: _Owner) -> None:
        self.size = size
        self.alignment = alignment
        self.owner = owner
        self.at = self.data = data
        #: The furthest end so far, and whose it is.
        self.reached: int | None = None
        self.tensor = 0
        #: The furthest end of what is claimed at least twice.
        self.twice = data
        #: The tensor without a size that began last: what nobody owns behind it may be its.
        self.unsized: int | None = None

    def walk(self, extents: Iterable[Extent]) -> Iterator[Segment]:
        """The segments from the data start on."""
        yield Segment(self.size, self.data, "missing")
        for tensor, begin, end in extents:
            yield from self._advance(begin, last=False)
            if end is None:
                self.unsized = tensor
                continue
            if self.reached is not None and begin < self.reached:
                self.twice = max(self.twice, min(end, self.reached))
            if self.reached is None or end > self.reached:
                self.reached, self.tensor = end, tensor
        yield from self._advance(max(self.size, self.reached or 0), last=True)

    def _advance(self, to: int, *, last: bool) -> Iterator[Segment]:
        """Tell the bytes from ``at`` to ``to``; ``last`` if no extent begins there."""
        begin = self.at
        self.at = max(begin, to)
        if begin < self.twice:
            end = min(to, self.twice)
            yield Segment(begin, min(end, self.size), "overlap")
            yield from self._missing(begin, end)
            begin = max(begin, end)
        if self.reached is not None and begin < min(to, self.reached):
            end = min(to, self.reached)
            yield Segment(begin, min(end, self.size), "tensor", self.tensor, *self.owner(self.tensor))
            yield from self._missing(begin, end)
            begin = end
        if begin < min(to, self.size):
            yield from self._unowned(begin, min(to, self.size), last=last)

    def _missing(self, begin: int, end: int) -> Iterator[Segment]:
        begin = max(begin, self.size)
        if begin < end:
            yield Segment(begin, end, "missing", self.tensor, *self.owner(self.tensor))

    def _unowned(self, begin: int, end: int, *, last: bool) -> Iterator[Segment]:
        """Tell a run in no extent, as :mod:`auditd.accounting.cover` judges it."""
        if self.unsized is not None:
            yield Segment(begin, end, "unknown", self.unsized, *self.owner(self.unsized))
            return
        due = begin if self.reached is None else padded(begin, self.alignment)
        if last and due > end:
            yield Segment(begin, end, "padding_partial")
            return
        split = min(due, end)
        yield Segment(begin, split, "padding")
        yield Segment(split, end, "trailing" if last else "gap")


def laid(
    extents: Iterable[Extent], file_size: int, data_offset: int, alignment: int, owner: _Owner
) -> Iterator[Segment]:
    """The segments from the data start on, for whoever has extents and no header; in the order of (begin, index)."""
    return _joined(_Sweep(file_size, data_offset, alignment, owner).walk(extents))
