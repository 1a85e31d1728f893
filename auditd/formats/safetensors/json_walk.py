"""Walking the JSON of a safetensors header into columns, in byte order, stopping at its first fault.

Raises ``JsonFault``; yields now and then, so that whoever drives the walk can stop it.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, NoReturn

from auditd.formats.bounds import HEADER_BYTES
from auditd.formats.faults import Constraint, Notice, Tally
from auditd.formats.quoting import shown
from auditd.formats.retention import Retention, text_cost
from auditd.formats.safetensors.entries import PREFIX_BYTES, Entries
from auditd.formats.strict_json import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    JsonFault,
    Scanner,
)
from auditd.formats.uniqueness import Seen
from auditd.formats.window import Walk

METADATA_NAME: Final = "__metadata__"
JSON_SUBJECT: Final = "safetensors.json"

#: Entries, or numbers, between two pauses.
_PAUSE_ENTRIES: Final = 1024

#: Begin and end.
_OFFSETS: Final = 2


def _spaced(pattern: bytes) -> re.Pattern[bytes]:
    """``pattern`` with ``~`` for JSON white space."""
    return re.compile(pattern.replace(b"~", rb"[ \t\n\r]*+"))


#: The form in which every known writer writes an entry, at one match; anything else takes the long way, with
#: the same result. Numbers of up to 19 digits are below 2**64.
_ENTRY: Final = _spaced(
    rb'"([^"\\\x00-\x1f]*+)"~:~\{~"dtype"~:~"([^"\\\x00-\x1f]*+)"~,'
    rb'~"shape"~:~\[((?:~(?:0|[1-9][0-9]{0,18})(?:~,~(?:0|[1-9][0-9]{0,18})){0,63}+)?+~)\]~,'
    rb'~"data_offsets"~:~\[~(0|[1-9][0-9]{0,18})~,~(0|[1-9][0-9]{0,18})~\]~\}'
)


#: An array of up to 64 integers below 10**19, or none.
_NUMBERS: Final = _spaced(rb"~\[((?:~(?:0|[1-9][0-9]{0,18})(?:~,~(?:0|[1-9][0-9]{0,18})){0,63}+)?+~)\]")


class JsonWalk:
    """What the JSON has said so far; nothing of it counts before ``walk`` has come to its end."""

    def __init__(self, raw: bytes, retention: Retention, notices: Tally[Notice]) -> None:
        self._scan = Scanner(raw)
        self._retention = retention
        self._notices = notices
        self.entries = Entries(raw)
        #: None where there is no ``__metadata__``, or a null.
        self.metadata: dict[str, str] | None = None
        self.metadata_kept = True

    def walk(self) -> Walk:
        """The whole header: an object, and white space."""
        first = self._scan.space()
        if self._scan.pos:
            self._white_space(PREFIX_BYTES, "white space in front of the JSON")
        if first != OPEN_OBJECT:
            self._scan.fail("'{'")
        self._scan.pos += 1
        names = Seen()
        if self._scan.space() == CLOSE_OBJECT:
            self._scan.pos += 1
        else:
            yield from self._members(names)
        self._tail()
        self._check_numbers()

    def _tail(self) -> None:
        tail = self._scan.data[self._scan.pos :]
        if self._scan.space() != -1:
            self._scan.fail("the end of the header")
        other = tail.lstrip(b" ")
        if other:
            at = PREFIX_BYTES + len(self._scan.data) - len(other)
            self._white_space(at, "white space other than spaces behind the JSON")

    def _check_numbers(self) -> None:
        """Numbers in fields that nobody asked for, which the reference reader looks at all the same."""
        if self._scan.large_numbers:
            at = PREFIX_BYTES + self._scan.first_large
            notice = Notice("json_number", JSON_SUBJECT, at, "a number past the largest double, which is about 1.8e308")
            self._notices.add("json_number", notice, self._scan.large_numbers)

    def _members(self, names: Seen) -> Walk:
        for count in range(1, HEADER_BYTES):
            self._scan.space()
            if not self._canonical_entry(names):
                yield from self._member(names)
            byte = self._scan.space()
            self._scan.pos += 1
            if byte == CLOSE_OBJECT:
                return
            if byte != COMMA:
                self._scan.pos -= 1
                self._scan.fail("',' or '}'")
            if count % _PAUSE_ENTRIES == 0:
                yield

    def _canonical_entry(self, names: Seen) -> bool:
        match = _ENTRY.match(self._scan.data, self._scan.pos)
        if match is None:
            return False
        name, dtype, _, begin, end = match.groups()
        if name == METADATA_NAME.encode():
            return False
        if not names.add(name):
            self._refuse_duplicate(self._scan.pos, name.decode("utf-8"))
        self.entries.add(match.span(1), dtype.decode("utf-8"), match.span(3), int(begin), int(end))
        self._scan.pos = match.end()
        return True

    @staticmethod
    def _refuse_duplicate(at: int, name: str) -> None:
        raise JsonFault(Constraint.JSON_DUPLICATE, at, f"a name that the header has already {shown(name)}")

    def _member(self, names: Seen) -> Walk:
        at = self._scan.pos
        name = self._scan.string()
        span = (at + 1, self._scan.pos - 1)
        if not names.add(name.encode("utf-8")):
            self._refuse_duplicate(at, name)
        self._scan.take(COLON, "':'")
        byte = self._scan.space()
        if name == METADATA_NAME:
            yield from self._metadata_value(byte, at)
            return
        if byte != OPEN_OBJECT:
            raise JsonFault(Constraint.ENTRY_FIELDS, at, f"an entry that is no object {shown(name)}")
        yield from self._entry(name, at, span)

    def _metadata_value(self, byte: int, at: int) -> Walk:
        if self._scan.data[self._scan.pos : self._scan.pos + 4] == b"null":
            self._scan.pos += 4
            return
        if byte != OPEN_OBJECT:
            raise JsonFault(Constraint.METADATA_VALUES, at, f"{METADATA_NAME} is no object")
        self._scan.pos += 1
        metadata: dict[str, str] = {}
        self.metadata = metadata
        if self._scan.space() == CLOSE_OBJECT:
            self._scan.pos += 1
            return
        names = Seen()
        for count in range(1, HEADER_BYTES):
            name_at = self._scan.pos
            name = self._scan.member(names)
            if self._scan.data[self._scan.pos : self._scan.pos + 1] != b'"':
                raise JsonFault(Constraint.METADATA_VALUES, name_at, f"a value that is no string, under {shown(name)}")
            value = self._scan.string()
            if self._retention.admit(text_cost(name.encode()) + text_cost(value.encode())):
                metadata[name] = value
            else:
                self.metadata_kept = False
            if self._scan.space() == CLOSE_OBJECT:
                self._scan.pos += 1
                return
            self._scan.take(COMMA, "',' or '}'")
            self._scan.space()
            if count % _PAUSE_ENTRIES == 0:
                yield

    def _entry(self, name: str, at: int, span: tuple[int, int]) -> Walk:
        """An entry in any form that JSON allows."""
        self._scan.pos += 1
        fields = Seen()
        dtype: str | None = None
        shape: tuple[int, int] | None = None
        offsets: list[int] | None = None
        if self._scan.space() != CLOSE_OBJECT:
            while True:
                field = self._scan.member(fields)
                if field == "dtype":
                    if self._scan.space() != QUOTE:
                        message = f"a dtype that is no string, in the entry {shown(name)}"
                        raise JsonFault(Constraint.ENTRY_FIELDS, at, message)
                    dtype = self._scan.string()
                elif field == "shape":
                    begin = self._scan.pos + 1
                    yield from self._numbers(name, at, "shape")
                    shape = (begin, self._scan.pos - 1)
                elif field == "data_offsets":
                    offsets = yield from self._numbers(name, at, "data_offsets")
                else:
                    yield from self._scan.skip_value(2)
                if self._scan.space() == CLOSE_OBJECT:
                    break
                self._scan.take(COMMA, "',' or '}'")
                self._scan.space()
        self._scan.pos += 1
        if dtype is None or shape is None or offsets is None:
            absent = "dtype" if dtype is None else "shape" if shape is None else "data_offsets"
            raise JsonFault(Constraint.ENTRY_FIELDS, at, f"no {absent} in the entry {shown(name)}")
        if len(offsets) != _OFFSETS:
            message = f"data_offsets is not two numbers in the entry {shown(name)}"
            raise JsonFault(Constraint.ENTRY_FIELDS, at, message)
        escaped = span[1] - span[0] != len(name.encode("utf-8"))
        self.entries.add(span, dtype, shape, offsets[0], offsets[1], escaped=escaped)

    def _numbers(self, name: str, at: int, field: str) -> Generator[None, None, list[int]]:
        """An array of exact 64-bit unsigned integers: the first few of them, and all of them checked."""
        scan = self._scan
        short = _NUMBERS.match(scan.data, scan.pos)
        if short is not None:
            scan.pos = short.end()
            return [
                int(number) for number in short.group(1).split(b",", _OFFSETS + 1)[: _OFFSETS + 1] if number.strip()
            ]
        if scan.space() != OPEN_ARRAY:
            self._refuse_numbers(name, at, field)
        scan.pos += 1
        numbers: list[int] = []
        while True:
            scan.space()
            number = scan.unsigned()
            if number is None:
                self._refuse_numbers(name, at, field)
            if len(numbers) <= _OFFSETS:
                numbers.append(number)
            byte = scan.space()
            if byte == CLOSE_ARRAY:
                scan.pos += 1
                return numbers
            scan.take(COMMA, "',' or ']'")
            scan.space()
            scan.skip_unsigned_run()
            yield

    @staticmethod
    def _refuse_numbers(name: str, at: int, field: str) -> NoReturn:
        message = f"{field} is no array of 64-bit integers in the entry {shown(name)}"
        raise JsonFault(Constraint.ENTRY_FIELDS, at, message)

    def _white_space(self, offset: int, message: str) -> None:
        self._notices.add("json_white_space", Notice("json_white_space", JSON_SUBJECT, offset, message))
