"""Judging the entries of a whole header: shape and dtype against the range, and empty tensors' places.

Gaps, overlaps and ranges past the end of the file are the accounting's to find.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Generator
from typing import Final, Literal, NamedTuple, TypeAlias

from auditd.formats.bounds import U64
from auditd.formats.declarations import TypeTally
from auditd.formats.dtypes import DTYPE_BITS
from auditd.formats.faults import Constraint, Fault, FaultKind, Notice, Tally
from auditd.formats.quoting import counted, shown
from auditd.formats.safetensors.entries import Entries
from auditd.formats.window import Walk

Validation: TypeAlias = Literal["consistent", "unknown", "contradicted"]

VALIDATIONS: Final[tuple[Validation, ...]] = ("consistent", "unknown", "contradicted")
_CONSISTENT, _UNKNOWN, _CONTRADICTED = range(len(VALIDATIONS))

#: Entries, or dimensions, between two pauses.
_PAUSE_ENTRIES: Final = 1024

_DIMENSION: Final = re.compile(rb"[0-9]++")

BYTE_BITS: Final = 8

#: What writers pad the JSON to, so that data can be mapped in place.
_MAPPED_BYTES: Final = 8

#: How much of a shape a message shows.
_SHAPE_SHOWN: Final = 64


class _Place(NamedTuple):
    """Where an entry is: its path, the file offset of its name, and the name in UTF-8."""

    subject: str
    at: int
    raw_name: bytes

    @property
    def name(self) -> str:
        """The name for a message; made only for one, since most entries have nothing wrong."""
        return shown(self.raw_name)


class RangeCheck:
    """Faults and notices of the entries, and totals by dtype."""

    def __init__(
        self, entries: Entries, data_offset: int, file_size: int, faults: Tally[Fault], notices: Tally[Notice]
    ) -> None:
        self._entries = entries
        self._data_offset = data_offset
        self._file_size = file_size
        self._faults = faults
        self._notices = notices
        #: Entries in name order.
        self.order = array("I")
        #: For each entry an index into :data:`VALIDATIONS`.
        self.validations = bytearray()
        #: Element counts; meaningless where ``overflows`` is set.
        self.elements = array("Q")
        self.overflows = bytearray()
        self.totals: list[TypeTally] = []

    def walk(self) -> Walk:
        """Judge everything, pausing now and then."""
        entries = self._entries
        self.order = array("I", sorted(range(len(entries)), key=entries.name))
        yield
        ranks = array("I", bytes(4 * len(entries)))
        for rank, index in enumerate(self.order):
            ranks[index] = rank
        totals: dict[int, tuple[int, int | None, int]] = {}
        for index in range(len(entries)):
            elements = yield from self._product(index)
            self._check(index, ranks[index], elements)
            length = max(0, entries.end[index] - entries.begin[index])
            tensors, known, size = totals.get(entries.dtype[index], (0, 0, 0))
            known = None if known is None or elements is None else known + elements
            totals[entries.dtype[index]] = (tensors + 1, known, size + length)
            if index % _PAUSE_ENTRIES == 0:
                yield
        self.totals = [TypeTally(entries.dtypes[dtype], *figures) for dtype, figures in totals.items()]
        yield from self._check_empty(ranks)
        if self._data_offset % _MAPPED_BYTES:
            message = f"the data starts at {self._data_offset}, which is no multiple of 8"
            self._unaligned("safetensors.header_length", 0, message)

    def _product(self, index: int) -> Generator[None, None, int | None]:
        """The element count of an entry, in declaration order; None if it passes u64 on the way.

        Taken from the text, number by number: a shape may have millions of dimensions.
        """
        entries = self._entries
        elements = 1
        dimensions = _DIMENSION.finditer(entries.data, entries.shape_at[index], entries.shape_end[index])
        for count, dimension in enumerate(dimensions, 1):
            elements *= int(dimension.group())
            if elements >= U64:
                return None
            if count % _PAUSE_ENTRIES == 0:
                yield
        return elements

    def _check(self, index: int, rank: int, elements: int | None) -> None:
        """The faults of one entry alone."""
        entries = self._entries
        begin, end = entries.begin[index], entries.end[index]
        dtype = entries.dtypes[entries.dtype[index]]
        bits = DTYPE_BITS.get(dtype)
        place = _Place(f"tensors[{rank}]", entries.at(index), entries.name(index))
        validation = _CONSISTENT if bits is not None else _UNKNOWN
        if bits is None:
            message = f"{place.name} has the dtype {shown(dtype)}, which the reference reader refuses"
            self._notices.add("unknown_type", Notice("unknown_type", f"{place.subject}.dtype", place.at, message))
        if begin > end:
            validation = _CONTRADICTED
            message = f"the range of {place.name} begins at {begin} and ends at {end}"
            self._fault(
                Constraint.RANGE_ORDER, f"{place.subject}.data_offsets", place.at, message, f"at least {begin}", end
            )
        if elements is None:
            validation = _CONTRADICTED
            self._refuse_overflow(index, place)
        elif bits is not None and begin <= end:
            if elements * bits != (end - begin) * BYTE_BITS:
                validation = _CONTRADICTED
                self._refuse_size(place, dtype, elements * bits, end - begin)
            elif end > begin and bits > BYTE_BITS and begin % (bits // BYTE_BITS):
                message = f"{place.name} begins {counted(begin, 'byte')} into the data, no multiple of its element size {bits // BYTE_BITS}"
                self._unaligned(f"{place.subject}.data_offsets", place.at, message)
        self.validations.append(validation)
        self.elements.append(elements or 0)
        self.overflows.append(elements is None)

    def _refuse_overflow(self, index: int, place: _Place) -> None:
        entries = self._entries
        raw = entries.data[entries.shape_at[index] : entries.shape_end[index]][: _SHAPE_SHOWN + 1]
        text = raw.decode("ascii").replace(",", " x ")[:_SHAPE_SHOWN] + ("..." if len(raw) > _SHAPE_SHOWN else "")
        message = f"{place.name} has {text} elements, which no 64-bit count holds"
        self._fault(Constraint.SHAPE_OVERFLOW, f"{place.subject}.shape", place.at, message, "below 2^64", text)

    def _refuse_size(self, place: _Place, dtype: str, bits: int, length: int) -> None:
        if bits % BYTE_BITS:
            message = f"{place.name} has {counted(bits, 'bit')} of {dtype}, which fill no whole bytes; its range has {counted(length, 'byte')}"
            self._fault(
                Constraint.RANGE_SIZE, f"{place.subject}.shape", place.at, message, "whole bytes", f"{bits} bits"
            )
            return
        message = f"shape and dtype ({dtype}) of {place.name} give {counted(bits // BYTE_BITS, 'byte')}; its range has {length:,}"
        self._fault(
            Constraint.RANGE_SIZE, f"{place.subject}.data_offsets", place.at, message, bits // BYTE_BITS, length
        )

    def _check_empty(self, ranks: array[int]) -> Walk:
        """Empty tensors own no byte, but one inside another's range or past the data is out of place."""
        begin, end = self._entries.begin, self._entries.end
        empty = array("I", (index for index in range(len(begin)) if begin[index] == end[index]))
        if not empty:
            return
        yield
        ranges = array("I", (index for index in range(len(begin)) if begin[index] < end[index]))
        ranges = array("I", sorted(ranges, key=begin.__getitem__))
        yield
        left = self._file_size - self._data_offset
        #: The furthest end of the ranges that begin before the tensor at hand, and how many these are.
        reached = passed = 0
        for count, index in enumerate(sorted(empty, key=begin.__getitem__)):
            while passed < len(ranges) and begin[ranges[passed]] < begin[index]:
                reached = max(reached, end[ranges[passed]])
                passed += 1
            self._check_empty_one(index, ranks[index], reached, left)
            if count % _PAUSE_ENTRIES == 0:
                yield

    def _check_empty_one(self, index: int, rank: int, reached: int, left: int) -> None:
        at = self._entries.begin[index]
        subject = f"tensors[{rank}].data_offsets"
        name = shown(self._entries.name(index))
        if at > left:
            message = f"{name} is empty and at {at}; the data has {counted(left, 'byte')}"
            self._fault(Constraint.RANGE_PAST_END, subject, self._entries.at(index), message, left, at)
        elif at < reached:
            message = f"{name} is empty and at {at}, inside the range of another tensor"
            self._fault(Constraint.RANGE_OVERLAP, subject, self._entries.at(index), message, None, at)

    def _unaligned(self, subject: str, offset: int, message: str) -> None:
        self._notices.add("data_unaligned", Notice("data_unaligned", subject, offset, message))

    def _fault(
        self,
        constraint: Constraint,
        subject: str,
        offset: int,
        message: str,
        expected: int | str | None,
        actual: int | str | None,
    ) -> None:
        self._faults.add(constraint, Fault(constraint, FaultKind.MALFORMED, subject, offset, message, expected, actual))
