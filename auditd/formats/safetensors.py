"""The safetensors reader: an 8-byte length, that many bytes of JSON, tensor data.

Fed the bytes of a file from its first one on until ``done``; while ``needs_bytes`` is false, ``feed(b"")``
lets it go on with what it has, a bounded stretch at a time. Atomic: no name, shape or range is in ``result()``
before the whole header is validated. Returns declarations, standing faults and at most one stopping fault;
raises nothing for any bytes.

The encoding is judged first, then everything in byte order (safetensors 0.8 reads the same way, but takes
duplicate names, the array form of an entry and fields of other types).
"""

from __future__ import annotations

import codecs
import re
from array import array
from typing import TYPE_CHECKING, Final, Literal

from auditd.formats.bounds import HEADER_BYTES, U64
from auditd.formats.declarations import RangeColumns, SafetensorsHeader, SafetensorsTensor, TypeTally
from auditd.formats.dtypes import DTYPE_BITS
from auditd.formats.faults import Constraint, Fault, FaultKind, Notice, Tally
from auditd.formats.quoting import shown
from auditd.formats.retention import Retention
from auditd.formats.strict_json import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COMMA,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    JsonFault,
    Scanner,
)
from auditd.formats.uniqueness import Seen
from auditd.formats.window import Walk

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

PREFIX_BYTES: Final = 8
METADATA_NAME: Final = "__metadata__"

_LENGTH_SUBJECT: Final = "safetensors.header_length"
_JSON_SUBJECT: Final = "safetensors.json"

#: Entries between two pauses.
_PAUSE_ENTRIES: Final = 1024


def _spaced(pattern: bytes) -> re.Pattern[bytes]:
    """``pattern`` with ``~`` for JSON white space."""
    return re.compile(pattern.replace(b"~", rb"[ \t\n\r]*+"))


#: The form in which every known writer writes an entry, at one match; anything else takes the long way, with
#: the same result. Numbers of up to 19 digits are below 2**64.
_ENTRY: Final = _spaced(
    rb'"([^"\\\x00-\x1f]*+)"~:~\{~"dtype"~:~"([^"\\\x00-\x1f]*+)"~,'
    rb'~"shape"~:~\[((?:~(?:0|[1-9][0-9]{0,18})(?:~,~(?:0|[1-9][0-9]{0,18}))*+)?+~)\]~,'
    rb'~"data_offsets"~:~\[~(0|[1-9][0-9]{0,18})~,~(0|[1-9][0-9]{0,18})~\]~\}'
)


class _Entries:
    """All entries as columns, 37 bytes each: a header may declare two million of them.

    Positions are those in the JSON. The text of a name or shape is made when it is asked for.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.name_at = array("I")
        self.name_end = array("I")
        self.shape_at = array("I")
        self.shape_end = array("I")
        self.begin = array("Q")
        self.end = array("Q")
        self.dtype = array("I")
        self.dtypes: list[str] = []
        self._dtype_ids: dict[str, int] = {}
        #: Names that were written with escapes.
        self.escaped: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.begin)

    def add(self, name: tuple[int, int], dtype: str, shape: tuple[int, int], begin: int, end: int) -> None:
        """Add an entry; ``name`` and ``shape`` are spans of their text between quotes and brackets."""
        self.name_at.append(name[0])
        self.name_end.append(name[1])
        self.shape_at.append(shape[0])
        self.shape_end.append(shape[1])
        self.begin.append(begin)
        self.end.append(end)
        if dtype not in self._dtype_ids:
            self._dtype_ids[dtype] = len(self.dtypes)
            self.dtypes.append(dtype)
        self.dtype.append(self._dtype_ids[dtype])

    def name(self, index: int) -> bytes:
        """The name of entry ``index`` in UTF-8, whose order is the order by code point."""
        if index in self.escaped:
            return self.escaped[index].encode("utf-8")
        return self.data[self.name_at[index] : self.name_end[index]]

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of entry ``index``."""
        raw = self.data[self.shape_at[index] : self.shape_end[index]].strip()
        return tuple(map(int, raw.split(b","))) if raw else ()


class SafetensorsReader:
    """One walk over one header. ``file_size`` in bytes is what lengths and ranges are checked against."""

    def __init__(self, file_size: int, retention: Retention | None = None) -> None:
        self._file_size = file_size
        self._retention = retention or Retention()
        self._pieces: list[bytes] = []
        self._have = 0
        self._length: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._decoded = 0
        self._bytes_present = False
        self._walk: Iterator[None] | None = None
        self._entries = _Entries(b"")
        self._metadata: dict[str, str] | None = None
        self._valid = False
        self._order: list[int] = []
        self._validations = bytearray()
        self._unsizeable = False
        self._totals: list[TypeTally] = []
        self._faults: Tally[Fault] = Tally()
        self._notices: Tally[Notice] = Tally()
        self._stopped: Fault | None = None
        self.done = False
        if file_size < PREFIX_BYTES:
            message = f"the length of the header: the file ends after {file_size} of its {PREFIX_BYTES} bytes"
            self._stop(Constraint.END_OF_FILE, FaultKind.TRUNCATED, 0, message, PREFIX_BYTES, file_size)

    # -- feeding ------------------------------------------------------------------------------------

    @property
    def needs_bytes(self) -> bool:
        """Whether only more bytes of the file can bring it on."""
        return not self.done and self._walk is None

    @property
    def header_end(self) -> int | None:
        """The file offset after the last byte of the header, if it is known and in the file."""
        if self._length is None or PREFIX_BYTES + self._length > self._file_size:
            return None
        return PREFIX_BYTES + self._length

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the file, or with none of them go on for a bounded stretch."""
        if self.done:
            return
        if self._walk is None:
            self._take(data)
        if self._walk is not None:
            self._advance(self._walk)

    def _take(self, data: bytes) -> None:
        self._pieces.append(data)
        self._have += len(data)
        if self._length is None:
            if self._have < PREFIX_BYTES:
                return
            head = b"".join(self._pieces)
            self._take_length(head[:PREFIX_BYTES])
            self._pieces = [head[PREFIX_BYTES:]]
            data = self._pieces[0]
        if self._length is None or self.done:
            return
        self._check_encoding(data[: max(0, self._length - self._decoded)])
        if self._have - PREFIX_BYTES >= self._length:
            self._bytes_present = True
            raw = b"".join(self._pieces)[: self._length]
            self._pieces.clear()
            if self._stopped is not None:
                self.done = True
                return
            self._entries = _Entries(raw)
            self._walk = self._whole(Scanner(raw))

    def _take_length(self, prefix: bytes) -> None:
        length = int.from_bytes(prefix, "little")
        left = self._file_size - PREFIX_BYTES
        if length > HEADER_BYTES:
            swapped = int.from_bytes(prefix, "big")
            hint = f"; with its bytes in the other order it is {swapped} and fits" if swapped <= left else ""
            message = f"the length of the header is {length}; at most {HEADER_BYTES} bytes are read{hint}"
            kind = FaultKind.MALFORMED if length > left else FaultKind.BOUND
            self._stop(Constraint.HEADER_LENGTH, kind, 0, message, HEADER_BYTES, length)
        elif length > left:
            self._length = length
            message = f"the length of the header is {length} and {left} bytes are left in the file"
            self._stop(Constraint.LENGTH_PAST_END, FaultKind.TRUNCATED, 0, message, left, length)
        else:
            self._length = length

    def _check_encoding(self, data: bytes) -> None:
        """Feed the UTF-8 check; the fault is kept, and the bytes are still read for the header's digest."""
        final = self._decoded + len(data) == self._length
        pending = len(self._decoder.getstate()[0])
        at = self._decoded
        self._decoded += len(data)
        if self._stopped is not None:
            return
        try:
            self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            offset = PREFIX_BYTES + at - pending + error.start
            message = f"the JSON is not UTF-8: {error.reason}"
            found = f"byte 0x{error.object[error.start]:02x}"
            self._stopped = Fault(
                Constraint.JSON_ENCODING, FaultKind.MALFORMED, _JSON_SUBJECT, offset, message, "UTF-8", found
            )

    def _advance(self, walk: Iterator[None]) -> None:
        try:
            next(walk)
        except StopIteration:
            self.done = True
        except JsonFault as fault:
            at = PREFIX_BYTES + fault.at
            self._stopped = Fault(fault.constraint, FaultKind.MALFORMED, _JSON_SUBJECT, at, fault.message)
            self.done = True
        if self.done and not self._valid:
            self._metadata = None

    def _stop(
        self, constraint: Constraint, kind: FaultKind, offset: int, message: str, expected: int | str, actual: int | str
    ) -> None:
        self._stopped = Fault(constraint, kind, _LENGTH_SUBJECT, offset, message, expected, actual)
        self.done = True

    def result(self) -> SafetensorsHeader:
        """What is validated so far."""
        placed = self._length is not None and PREFIX_BYTES + self._length <= self._file_size
        faults = list(self._faults)
        if self._stopped is not None:
            faults.append((self._stopped, 1))
        rows = tuple(self._rows()) if self._valid else ()
        count = len(self._entries) if self._valid else None
        return SafetensorsHeader(
            file_size=self._file_size,
            header_length=None if self._length is None else PREFIX_BYTES + self._length,
            data_offset=PREFIX_BYTES + self._length if placed and self._length is not None else None,
            bytes_present=self._bytes_present,
            metadata=self._metadata if self._valid else None,
            metadata_complete=self._valid,
            tensors=rows,
            tensor_count=count,
            rows_complete=count == len(rows),
            totals=tuple(self._totals),
            columns=self._columns() if self._valid else None,
            unsizeable=self._unsizeable,
            complete=self._valid,
            stopped=self._stopped,
            faults=tuple(sorted(faults, key=lambda item: item[0].offset)),
            notices=tuple(self._notices),
        )

    def _columns(self) -> RangeColumns:
        begin, end = self._entries.begin, self._entries.end
        return RangeColumns(array("Q", (begin[i] for i in self._order)), array("Q", (end[i] for i in self._order)))

    def _rows(self) -> Iterator[SafetensorsTensor]:
        entries = self._entries
        for index in self._order:
            name = entries.name(index).decode("utf-8")
            shape = entries.shape(index)
            if not self._retention.admit(entries.name_end[index] - entries.name_at[index] + 8 * len(shape)):
                return
            yield SafetensorsTensor(
                name,
                entries.dtypes[entries.dtype[index]],
                shape,
                entries.begin[index],
                entries.end[index],
                product(shape),
                _VALIDATIONS[self._validations[index]],
                PREFIX_BYTES + entries.name_at[index] - 1,
            )

    # -- the walk -----------------------------------------------------------------------------------

    def _whole(self, scan: Scanner) -> Walk:
        yield from self._root(scan)
        yield from self._validate()
        self._valid = True

    def _root(self, scan: Scanner) -> Walk:
        first = scan.space()
        if scan.pos:
            self._notice("json_white_space", PREFIX_BYTES, "white space in front of the JSON")
        if first != OPEN_OBJECT:
            scan.fail("'{'")
        scan.pos += 1
        names = Seen()
        if scan.space() == CLOSE_OBJECT:
            scan.pos += 1
        else:
            yield from self._members(scan, names)
        self._tail(scan)

    def _tail(self, scan: Scanner) -> None:
        tail = scan.data[scan.pos :]
        if scan.space() != -1:
            scan.fail("the end of the header")
        other = tail.lstrip(b" ")
        if other:
            at = PREFIX_BYTES + len(scan.data) - len(other)
            self._notice("json_white_space", at, "white space other than spaces behind the JSON")

    def _members(self, scan: Scanner, names: Seen) -> Walk:
        for count in range(1, HEADER_BYTES):
            scan.space()
            if not self._canonical_entry(scan, names):
                yield from self._member(scan, names)
            byte = scan.space()
            scan.pos += 1
            if byte == CLOSE_OBJECT:
                return
            if byte != COMMA:
                scan.pos -= 1
                scan.fail("',' or '}'")
            if count % _PAUSE_ENTRIES == 0:
                yield

    def _canonical_entry(self, scan: Scanner, names: Seen) -> bool:
        match = _ENTRY.match(scan.data, scan.pos)
        if match is None:
            return False
        name, dtype, _, begin, end = match.groups()
        if name == METADATA_NAME.encode():
            return False
        if not names.add(name):
            self._refuse_duplicate(scan.pos, name.decode("utf-8"))
        self._entries.add(match.span(1), dtype.decode("utf-8"), match.span(3), int(begin), int(end))
        scan.pos = match.end()
        return True

    @staticmethod
    def _refuse_duplicate(at: int, name: str) -> None:
        raise JsonFault(Constraint.JSON_DUPLICATE, at, f"a name that the header has already {shown(name)}")

    def _member(self, scan: Scanner, names: Seen) -> Walk:
        at = scan.pos
        name = scan.string()
        span = (at + 1, scan.pos - 1)
        if not names.add(name.encode("utf-8")):
            self._refuse_duplicate(at, name)
        scan.take(ord(":"), "':'")
        byte = scan.space()
        if name == METADATA_NAME:
            yield from self._metadata_value(scan, byte, at)
            return
        if byte != OPEN_OBJECT:
            raise JsonFault(Constraint.ENTRY_FIELDS, at, f"an entry that is no object {shown(name)}")
        yield from self._entry(scan, name, at, span)

    def _metadata_value(self, scan: Scanner, byte: int, at: int) -> Walk:
        if scan.data[scan.pos : scan.pos + 4] == b"null":
            scan.pos += 4
            return
        if byte != OPEN_OBJECT:
            raise JsonFault(Constraint.METADATA_VALUES, at, f"{METADATA_NAME} is no object")
        scan.pos += 1
        metadata: dict[str, str] = {}
        self._metadata = metadata
        if scan.space() == CLOSE_OBJECT:
            scan.pos += 1
            return
        names = Seen()
        for count in range(1, HEADER_BYTES):
            name_at = scan.pos
            name = scan.member(names)
            if scan.data[scan.pos : scan.pos + 1] != b'"':
                raise JsonFault(Constraint.METADATA_VALUES, name_at, f"a value that is no string, under {shown(name)}")
            value = scan.string()
            if self._retention.admit(len(name) + len(value)):
                metadata[name] = value
            if scan.space() == CLOSE_OBJECT:
                scan.pos += 1
                return
            scan.take(COMMA, "',' or '}'")
            scan.space()
            if count % _PAUSE_ENTRIES == 0:
                yield

    def _entry(self, scan: Scanner, name: str, at: int, span: tuple[int, int]) -> Walk:
        """An entry in any form that JSON allows."""
        scan.pos += 1
        fields = Seen()
        dtype: str | None = None
        shape: tuple[int, int] | None = None
        offsets: list[int] | None = None
        if scan.space() != CLOSE_OBJECT:
            while True:
                field = scan.member(fields)
                if field == "dtype":
                    if scan.space() != QUOTE:
                        raise JsonFault(Constraint.ENTRY_FIELDS, at, f"a dtype that is no string, in the entry {shown(name)}")
                    dtype = scan.string()
                elif field == "shape":
                    begin = scan.pos + 1
                    yield from self._numbers(scan, name, at, "shape")
                    shape = (begin, scan.pos - 1)
                elif field == "data_offsets":
                    offsets = yield from self._numbers(scan, name, at, "data_offsets")
                else:
                    yield from scan.skip_value(2)
                if scan.space() == CLOSE_OBJECT:
                    break
                scan.take(COMMA, "',' or '}'")
                scan.space()
        scan.pos += 1
        if dtype is None or shape is None or offsets is None:
            absent = "dtype" if dtype is None else "shape" if shape is None else "data_offsets"
            raise JsonFault(Constraint.ENTRY_FIELDS, at, f"no {absent} in the entry {shown(name)}")
        if len(offsets) != 2:
            message = f"data_offsets of {len(offsets)} numbers in the entry {shown(name)}"
            raise JsonFault(Constraint.ENTRY_FIELDS, at, message)
        if span[1] - span[0] != len(name.encode("utf-8")):
            self._entries.escaped[len(self._entries)] = name
        self._entries.add(span, dtype, shape, offsets[0], offsets[1])

    @staticmethod
    def _numbers(scan: Scanner, name: str, at: int, field: str) -> Generator[None, None, list[int]]:
        """An array of exact 64-bit unsigned integers."""
        numbers: list[int] = []
        message = f"{field} is no array of 64-bit integers in the entry {shown(name)}"
        wrong = JsonFault(Constraint.ENTRY_FIELDS, at, message)
        if scan.space() != OPEN_ARRAY:
            raise wrong
        scan.pos += 1
        if scan.space() == CLOSE_ARRAY:
            scan.pos += 1
            return numbers
        while True:
            number = scan.unsigned()
            if number is None:
                raise wrong
            numbers.append(number)
            byte = scan.space()
            scan.pos += 1
            if byte == CLOSE_ARRAY:
                return numbers
            if byte != COMMA:
                scan.pos -= 1
                scan.fail("',' or ']'")
            scan.space()
            if len(numbers) % _PAUSE_ENTRIES == 0:
                yield

    # -- what the entries say -----------------------------------------------------------------------

    def _validate(self) -> Walk:
        entries = self._entries
        self._order = sorted(range(len(entries)), key=entries.name)
        ranks = array("I", bytes(4 * len(entries)))
        for rank, index in enumerate(self._order):
            ranks[index] = rank
        yield
        totals: dict[int, tuple[int, int | None, int]] = {}
        for index in range(len(entries)):
            elements = self._judge(index, ranks[index])
            length = max(0, entries.end[index] - entries.begin[index])
            tensors, known, size = totals.get(entries.dtype[index], (0, 0, 0))
            known = None if known is None or elements is None else known + elements
            totals[entries.dtype[index]] = (tensors + 1, known, size + length)
            if index % _PAUSE_ENTRIES == 0:
                yield
        self._totals = [TypeTally(entries.dtypes[dtype], *figures) for dtype, figures in totals.items()]
        yield from self._judge_empty(ranks)
        if self._length is not None and self._length % 8:
            message = f"the data starts at {PREFIX_BYTES + self._length}, which is no multiple of 8"
            self._notice("data_unaligned", 0, message, _LENGTH_SUBJECT)

    def _judge(self, index: int, rank: int) -> int | None:
        """The faults of one entry alone; its element count."""
        entries = self._entries
        shape = entries.shape(index)
        elements = product(shape)
        begin, end = entries.begin[index], entries.end[index]
        at = PREFIX_BYTES + entries.name_at[index] - 1
        label = shown(entries.name(index).decode("utf-8"))
        bits = DTYPE_BITS.get(entries.dtypes[entries.dtype[index]])
        subject = f"tensors[{rank}]"
        validation = _CONSISTENT if bits is not None else _UNKNOWN
        if bits is None:
            dtype = shown(entries.dtypes[entries.dtype[index]])
            message = f"{label} has the dtype {dtype}, which the reference reader refuses"
            self._notice("unknown_type", at, message, f"{subject}.dtype")
        if begin > end:
            self._unsizeable = True
            validation = _CONTRADICTED
            message = f"the range of {label} begins at {begin} and ends at {end}"
            self._fault(Constraint.RANGE_ORDER, f"{subject}.data_offsets", at, message, f"at least {begin}", end)
        if elements is None:
            validation = _CONTRADICTED
            text = " x ".join(map(str, shape[:8])) + (" x ..." if len(shape) > 8 else "")
            message = f"{label} has {text} elements, which no 64-bit count holds"
            self._fault(Constraint.SHAPE_OVERFLOW, f"{subject}.shape", at, message, "below 2^64", text)
        elif bits is not None and begin <= end:
            if elements * bits != (end - begin) * 8:
                validation = _CONTRADICTED
                self._refuse_size(label, entries.dtypes[entries.dtype[index]], elements * bits, end - begin, subject, at)
            elif end > begin and bits > 8 and begin % (bits // 8):
                message = f"{label} begins {begin} bytes into the data, no multiple of its element size {bits // 8}"
                self._notice("data_unaligned", at, message, f"{subject}.data_offsets")
        self._validations.append(validation)
        return elements

    def _refuse_size(self, label: str, dtype: str, bits: int, length: int, subject: str, at: int) -> None:
        if bits % 8:
            message = f"{label} has {bits} bits of {dtype}, which fill no whole bytes; its range has {length} bytes"
            self._fault(Constraint.RANGE_SIZE, f"{subject}.shape", at, message, "whole bytes", f"{bits} bits")
            return
        message = f"shape and dtype ({dtype}) of {label} give {bits // 8} bytes; its range has {length}"
        self._fault(Constraint.RANGE_SIZE, f"{subject}.data_offsets", at, message, bits // 8, length)

    def _judge_empty(self, ranks: array[int]) -> Walk:
        """Empty tensors own no byte, but one inside another's range or past the data is out of place."""
        entries = self._entries
        begin, end = entries.begin, entries.end
        if not any(begin[i] == end[i] for i in range(len(entries))):
            return
        yield
        left = self._file_size - PREFIX_BYTES - (self._length or 0)
        reached = 0
        for index in sorted(range(len(entries)), key=lambda i: (begin[i], begin[i] != end[i])):
            place = begin[index]
            if place < end[index]:
                reached = max(reached, end[index])
            elif place == end[index]:
                self._judge_empty_one(index, ranks[index], place, reached, left)

    def _judge_empty_one(self, index: int, rank: int, place: int, reached: int, left: int) -> None:
        """``reached`` is the furthest end of the ranges that begin before ``place``."""
        at = PREFIX_BYTES + self._entries.name_at[index] - 1
        subject = f"tensors[{rank}].data_offsets"
        label = shown(self._entries.name(index).decode("utf-8"))
        if place > left:
            message = f"{label} is empty and at {place}; the data has {left} bytes"
            self._fault(Constraint.RANGE_PAST_END, subject, at, message, left, place)
        elif place < reached:
            message = f"{label} is empty and at {place}, inside the range of another tensor"
            self._fault(Constraint.RANGE_OVERLAP, subject, at, message, None, place)

    # -- reports ------------------------------------------------------------------------------------

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

    def _notice(self, code: str, offset: int, message: str, subject: str = _JSON_SUBJECT) -> None:
        self._notices.add(code, Notice(code, subject, offset, message))


_CONSISTENT, _UNKNOWN, _CONTRADICTED = range(3)
_VALIDATIONS: Final[tuple[Validation, ...]] = ("consistent", "unknown", "contradicted")


def product(shape: tuple[int, ...]) -> int | None:
    """The product of a shape in declaration order; None if it passes 2**64 - 1 on the way."""
    elements = 1
    for dimension in shape:
        elements *= dimension
        if elements >= U64:
            return None
    return elements

