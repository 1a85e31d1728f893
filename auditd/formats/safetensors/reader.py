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
from array import array
from collections.abc import Iterator
from typing import Final

from auditd.formats.bounds import HEADER_BYTES
from auditd.formats.declarations import RangeColumns, SafetensorsHeader, SafetensorsTensor
from auditd.formats.faults import Constraint, Fault, FaultKind, Notice, Tally
from auditd.formats.quoting import counted
from auditd.formats.retention import Retention, text_cost
from auditd.formats.safetensors.entries import PREFIX_BYTES, Entries
from auditd.formats.safetensors.json_walk import JSON_SUBJECT, JsonWalk
from auditd.formats.safetensors.ranges import VALIDATIONS, RangeCheck
from auditd.formats.strict_json import JsonFault
from auditd.formats.window import Walk

_LENGTH_SUBJECT: Final = "safetensors.header_length"


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
        self._json: JsonWalk | None = None
        self._check: RangeCheck | None = None
        self._valid = False
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
            self._walk = self._whole(raw)

    def _take_length(self, prefix: bytes) -> None:
        length = int.from_bytes(prefix, "little")
        left = self._file_size - PREFIX_BYTES
        if length > HEADER_BYTES:
            swapped = int.from_bytes(prefix, "big")
            hint = f"; with its bytes in the other order it is {swapped:,} and fits" if swapped <= left else ""
            message = f"the length of the header is {length:,}; at most {HEADER_BYTES:,} bytes are read{hint}"
            kind = FaultKind.MALFORMED if length > left else FaultKind.BOUND
            self._stop(Constraint.HEADER_LENGTH, kind, 0, message, HEADER_BYTES, length)
        elif length > left:
            self._length = length
            message = f"the length of the header is {length:,}, with {counted(left, 'byte')} left in the file"
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
                Constraint.JSON_ENCODING, FaultKind.MALFORMED, JSON_SUBJECT, offset, message, "UTF-8", found
            )

    def _advance(self, walk: Iterator[None]) -> None:
        try:
            next(walk)
        except StopIteration:
            self.done = True
        except JsonFault as fault:
            at = PREFIX_BYTES + fault.at
            self._stopped = Fault(fault.constraint, FaultKind.MALFORMED, JSON_SUBJECT, at, fault.message)
            self.done = True

    def _stop(
        self, constraint: Constraint, kind: FaultKind, offset: int, message: str, expected: int | str, actual: int | str
    ) -> None:
        self._stopped = Fault(constraint, kind, _LENGTH_SUBJECT, offset, message, expected, actual)
        self.done = True

    def result(self) -> SafetensorsHeader:
        """What is validated so far."""
        faults = list(self._faults)
        if self._stopped is not None:
            faults.append((self._stopped, 1))
        walk, check = (self._json, self._check) if self._valid else (None, None)
        rows = () if walk is None or check is None else tuple(self._rows(walk.entries, check))
        count = None if walk is None else len(walk.entries)
        return SafetensorsHeader(
            file_size=self._file_size,
            header_length=None if self._length is None else PREFIX_BYTES + self._length,
            data_offset=self.header_end,
            bytes_present=self._bytes_present,
            metadata=None if walk is None else walk.metadata,
            metadata_kept=walk is None or walk.metadata_kept,
            tensors=rows,
            tensor_count=count,
            rows_complete=count == len(rows),
            totals=() if check is None else tuple(check.totals),
            columns=None if walk is None or check is None else _columns(walk.entries, check.order),
            complete=self._valid,
            stopped=self._stopped,
            faults=tuple(sorted(faults, key=lambda item: item[0].offset)),
            notices=tuple(self._notices),
        )

    def _rows(self, entries: Entries, check: RangeCheck) -> Iterator[SafetensorsTensor]:
        """Rows in name order, as far as they are kept."""
        for index in check.order:
            text_bytes = text_cost(entries.name(index))
            shape_bytes = entries.shape_end[index] - entries.shape_at[index]
            if not self._retention.admit(text_bytes + 8 * shape_bytes):
                return
            yield SafetensorsTensor(
                entries.name(index).decode("utf-8"),
                entries.dtypes[entries.dtype[index]],
                entries.shape(index),
                entries.begin[index],
                entries.end[index],
                None if check.overflows[index] else check.elements[index],
                VALIDATIONS[check.validations[index]],
                entries.at(index),
            )

    def _whole(self, raw: bytes) -> Walk:
        self._json = walk = JsonWalk(raw, self._retention, self._notices)
        yield from walk.walk()
        data_offset = PREFIX_BYTES + len(raw)
        self._check = RangeCheck(walk.entries, data_offset, self._file_size, self._faults, self._notices)
        yield from self._check.walk()
        self._valid = True


def _columns(entries: Entries, order: array[int]) -> RangeColumns:
    begin, end = entries.begin, entries.end
    return RangeColumns(array("Q", (begin[i] for i in order)), array("Q", (end[i] for i in order)))
