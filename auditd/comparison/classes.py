"""What each byte is for in two files, position by position.

Both files are told in stretches (:mod:`auditd.accounting.segments`) and walked together once. A byte has changed its
class where A has it in a tensor and B in the header, or where both have it in tensors of two types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from auditd.accounting.cover import Extent
from auditd.accounting.segments import Segment, SegmentKind, laid
from auditd.comparison.difference import ByteDifference, ClassChange, ClassTotal
from auditd.comparison.sized_tensors import Sized, Tensor
from auditd.evidence.record import Evidence
from auditd.formats.gguf.wire import DEFAULT_ALIGNMENT
from auditd.formats.safetensors.entries import PREFIX_BYTES

#: The words for people; a tensor's type follows its word.
WORDS: Final[dict[SegmentKind, str]] = {
    "head": "head",
    "metadata": "metadata",
    "directory": "directory",
    "json": "json",
    "header_padding": "header padding",
    "tensor": "tensor",
    "padding": "padding",
    "gap": "gap",
    "trailing": "trailing bytes",
    "padding_partial": "partial padding",
    "overlap": "overlap",
    "missing": "missing",
    "unknown": "unknown",
    "unread": "unread",
}


#: A half-open range of the file, and the word for it. A plain tuple: there may be a million.
_Stretch: TypeAlias = tuple[int, int, str]


class _Sum:
    """Bytes and runs of one class, or of one change of class."""

    __slots__ = ("end", "first", "runs", "size")

    def __init__(self, first: int) -> None:
        self.first = self.end = first
        self.size = self.runs = 0

    def add(self, begin: int, end: int) -> None:
        """A stretch behind those before it; if it touches the last one, it is the same run."""
        self.runs += begin != self.end or not self.runs
        self.size += end - begin
        self.end = end


def byte_difference(a: Sized, b: Sized) -> tuple[ByteDifference | None, str | None]:
    """The bytes of both by what they are for, or None and why it cannot be said of one of them."""
    reasons = [f"{name}: {reason}" for name, side in (("A", a), ("B", b)) if (reason := _why_not(side))]
    if reasons:
        return None, "; ".join(reasons)
    return _swept(list(_stretches(a)), list(_stretches(b))), None


def _why_not(side: Sized) -> str | None:
    """Why it is not known what each byte is for."""
    accounting = side.evidence.accounting
    if side.evidence.artifact.size is None or accounting is None or accounting.data_offset is None:
        return "where the data begins is not known"
    if side.evidence.coverage.tensors.status != "complete":
        return "not every tensor has a row"
    if any(tensor.byte_length is None or tensor.begin is None for tensor in side.tensors):
        return "some tensors have no known size or place"
    return None


# -- one file ---------------------------------------------------------------------------------------


def _stretches(side: Sized) -> Iterator[_Stretch]:
    """Every byte of the file once, in order; what is missing past its end is no byte."""
    evidence, rows = side
    size, data = evidence.artifact.size or 0, _data_offset(evidence)
    alignment = 1 if evidence.gguf is None else evidence.gguf.alignment or DEFAULT_ALIGNMENT
    behind = laid(_extents(rows), size, data, alignment, lambda index: (rows[index].type, b""))
    told = 0
    for piece in (*_front(evidence, data), *behind):
        # The pieces of a record from elsewhere may contradict each other; each byte still comes once.
        begin, end = max(piece.begin, told), min(piece.end, size)
        if begin >= end or piece.kind == "missing":
            continue
        if begin > told:
            yield told, begin, WORDS["unknown"]
        yield begin, end, _word(piece)
        told = end


def _data_offset(evidence: Evidence) -> int:
    return (evidence.accounting and evidence.accounting.data_offset) or 0


def _front(evidence: Evidence, data: int) -> list[Segment]:
    """The header's pieces, up to the data."""
    if evidence.gguf is None:
        return [Segment(0, PREFIX_BYTES, "head"), Segment(PREFIX_BYTES, data, "json")]
    spans = evidence.gguf.spans
    pieces: list[Segment] = []
    at = 0
    lengths: tuple[tuple[SegmentKind, int | None], ...] = (
        ("head", spans.head),
        ("metadata", spans.metadata),
        ("directory", spans.directory),
    )
    for kind, length in lengths:
        pieces.append(Segment(at, at + (length or 0), kind))
        at += length or 0
    return [*pieces, Segment(at, data, "header_padding")]


def _extents(rows: Sequence[Tensor]) -> list[Extent]:
    """Non-empty extents in the order of (begin, index)."""
    extents = [
        Extent(index, row.begin, row.begin + row.byte_length)
        for index, row in enumerate(rows)
        if row.begin is not None and row.byte_length
    ]
    return sorted(extents, key=lambda extent: (extent.begin, extent.tensor))


def _word(piece: Segment) -> str:
    return f"{WORDS[piece.kind]} {piece.type}" if piece.type else WORDS[piece.kind]


# -- both -------------------------------------------------------------------------------------------


def _swept(a: Sequence[_Stretch], b: Sequence[_Stretch]) -> ByteDifference:
    same = 0
    changed: dict[tuple[str, str], _Sum] = {}
    for begin, end, ours, theirs in _common(a, b):
        if ours == theirs:
            same += end - begin
        else:
            changed.setdefault((ours, theirs), _Sum(begin)).add(begin, end)
    shorter = min(_size(a), _size(b))
    return ByteDifference(
        same_class=same,
        changed=[
            ClassChange(a=ours, b=theirs, bytes=found.size, runs=found.runs, first_offset=found.first)
            for (ours, theirs), found in sorted(changed.items(), key=lambda item: -item[1].size)
        ],
        only_a=_behind(a, shorter),
        only_b=_behind(b, shorter),
    )


def _size(stretches: Sequence[_Stretch]) -> int:
    """Where the last one ends."""
    return stretches[-1][1] if stretches else 0


def _common(a: Sequence[_Stretch], b: Sequence[_Stretch]) -> Iterator[tuple[int, int, str, str]]:
    """Ranges that both files have, and the word of each side; one pass over both."""
    at = first = second = 0
    while first < len(a) and second < len(b):
        (_, end_a, ours), (_, end_b, theirs) = a[first], b[second]
        end = min(end_a, end_b)
        yield at, end, ours, theirs
        at = end
        first += end_a == end
        second += end_b == end


def _behind(stretches: Sequence[_Stretch], size: int) -> list[ClassTotal]:
    """What lies past ``size``, by class."""
    found: dict[str, _Sum] = {}
    for begin, end, word in stretches:
        if end > size:
            found.setdefault(word, _Sum(max(begin, size))).add(max(begin, size), end)
    totals = [ClassTotal(kind=word, bytes=s.size, runs=s.runs, first_offset=s.first) for word, s in found.items()]
    return sorted(totals, key=lambda total: -total.bytes)
