"""A strict JSON scanner over bytes that builds nothing it is not asked for.

For headers of up to 100,000,000 bytes of other people's JSON: the standard library would build every value
of it in memory, takes duplicate keys and NaN, and has no bound for nesting. Offsets are positions in the
buffer, which must be valid UTF-8 already. Raises :class:`JsonFault` with the rule and the position.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Final, NoReturn

from auditd.formats.bounds import NESTING_DEPTH, U64
from auditd.formats.faults import Constraint
from auditd.formats.quoting import shown
from auditd.formats.uniqueness import Seen

_BLANK: Final = 0x20
SPACE: Final = re.compile(rb"[ \t\n\r]*+")
QUOTE, COLON, COMMA, OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = b'":,{}[]'

_STRING: Final = re.compile(rb'"((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+)"')
_BEGUN_STRING: Final = re.compile(rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_NUMBER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?")
_UNSIGNED: Final = re.compile(rb"(0|[1-9][0-9]{0,19}+)(?![0-9.eE])")
_UNSIGNED_RUN: Final = re.compile(rb"(?:(?:0|[1-9][0-9]{0,18}+)[ \t\n\r]*+,[ \t\n\r]*+){1,4096}+")
_LITERAL: Final = re.compile(rb"true|false|null")


def _plain_run(*extra: bytes) -> re.Pattern[bytes]:
    """Array elements without structure, each with its comma, thousands in one match.

    An array of ten million numbers in a field that nobody asked for is easily written.
    """
    forms = (
        rb"-?(?:0|[1-9][0-9]{0,199}+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]{1,2}+)?+",  # all of them below 1e300
        rb"true|false|null",
        rb'"[^"\\\x00-\x1f]*+"',
        *extra,
    )
    return re.compile(rb"(?:(?:" + b"|".join(forms) + rb")[ \t\n\r]*+,[ \t\n\r]*+){1,4096}+")


_SCALAR_RUN: Final = _plain_run()
_EMPTY_RUN: Final = _plain_run(rb"\[\]", rb"\{\}")

#: Integers of fewer digits are below the largest double.
_SURE_DIGITS: Final = 300

#: A number is below 10 to the power of its digits in front of the point; the largest double has so many.
_DOUBLE_DIGITS: Final = 309

#: Digits that decide between the largest double and infinity, and those of an exponent.
_LEADING: Final = 40
_EXPONENT: Final = 10

#: Bytes between two pauses of a walk over an ignored value.
_PAUSE_BYTES: Final = 1 << 18


class JsonFault(Exception):
    """A broken rule at a position of the buffer."""

    def __init__(self, constraint: Constraint, at: int, message: str) -> None:
        self.constraint = constraint
        self.at = at
        self.message = message
        super().__init__(message)


class Scanner:
    """A position in a buffer of JSON; every method starts at ``pos`` and leaves it behind what it took."""

    __slots__ = ("data", "end", "first_large", "large_numbers", "pos")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.end = len(data)
        self.pos = 0
        #: Numbers that no double holds, and where the first of them is.
        self.large_numbers = 0
        self.first_large = 0

    def fail(self, expected: str) -> NoReturn:
        """Raise the syntax fault of something else where ``expected`` should be."""
        found = self.data[self.pos : self.pos + 1]
        what = "the end of the header" if not found else ascii(found.decode("latin-1"))
        raise JsonFault(Constraint.JSON, self.pos, f"{what} where {expected} should be")

    def space(self) -> int:
        """Skip white space; the byte there, or -1 at the end."""
        if self.pos < self.end and (byte := self.data[self.pos]) > _BLANK:
            return byte
        match = SPACE.match(self.data, self.pos)
        self.pos = match.end() if match else self.pos
        return self.data[self.pos] if self.pos < self.end else -1

    def take(self, mark: int, expected: str) -> None:
        """Skip white space and the byte ``mark``, or fail."""
        if self.space() != mark:
            self.fail(expected)
        self.pos += 1

    def string(self) -> str:
        """A string, unescaped. A lone surrogate is a fault of the encoding."""
        match = _STRING.match(self.data, self.pos)
        if match is None:
            self._fail_string()
        raw = match.group(1)
        if b"\\" not in raw:
            text = raw.decode("utf-8")
        else:
            text = json.loads(match.group())
            if not _encodable(text):
                raise JsonFault(Constraint.JSON_ENCODING, self.pos, "a string with half of a surrogate pair")
        self.pos = match.end()
        return text

    def _fail_string(self) -> NoReturn:
        begun = _BEGUN_STRING.match(self.data, self.pos)
        if begun is None:
            self.fail("a string")
        self.pos = begun.end()
        self.fail("the rest of a string")

    def skip_unsigned_run(self) -> None:
        """Pass over unsigned integers, each with its comma, as far as they are sure to be below 2**64."""
        match = _UNSIGNED_RUN.match(self.data, self.pos)
        if match is not None:
            self.pos = match.end()

    def unsigned(self) -> int | None:
        """An integer from 0 to 2**64 - 1 written as plain digits, or None (and the position stays)."""
        match = _UNSIGNED.match(self.data, self.pos)
        if match is None or (value := int(match.group(1))) >= U64:
            return None
        self.pos = match.end()
        return value

    def member(self, names: Seen) -> str:
        """A member's name and its colon; a name that is in ``names`` already is a fault, and it is added."""
        at = self.pos
        name = self.string()
        if not names.add(name.encode("utf-8")):
            raise JsonFault(Constraint.JSON_DUPLICATE, at, f"the object has the name {shown(name)} already")
        self.take(COLON, "':'")
        self.space()
        return name

    def skip_value(self, depth: int) -> Iterator[None]:
        """Check and pass over one value inside ``depth`` containers, pausing now and then."""
        #: One item for each open container: the names that an object has so far, None for an array.
        stack: list[Seen | None] = []
        paused_at = self.pos
        while True:
            if self.pos - paused_at > _PAUSE_BYTES:
                paused_at = self.pos
                yield
            byte = self.space()
            if byte == OPEN_OBJECT:
                self._open(depth + len(stack))
                if self.space() != CLOSE_OBJECT:
                    names = Seen()
                    stack.append(names)
                    self.member(names)
                    continue
                self.pos += 1
            elif byte == OPEN_ARRAY:
                self._open(depth + len(stack))
                if self.space() != CLOSE_ARRAY:
                    stack.append(None)
                    self._run(depth + len(stack))
                    continue
                self.pos += 1
            else:
                self._plain(byte)
            self._close(stack, depth)
            if not stack:
                return

    def _open(self, depth: int) -> None:
        if depth >= NESTING_DEPTH:
            message = f"a container inside {depth} others; at most {NESTING_DEPTH} stand inside each other"
            raise JsonFault(Constraint.NESTING, self.pos, message)
        self.pos += 1

    def _plain(self, byte: int) -> None:
        if byte == QUOTE:
            self.string()
            return
        match = _NUMBER.match(self.data, self.pos)
        if match is not None and not _is_double(match.group()):
            self.first_large = self.first_large if self.large_numbers else self.pos
            self.large_numbers += 1
        match = match or _LITERAL.match(self.data, self.pos)
        if match is None:
            self.fail("a value")
        self.pos = match.end()

    def _run(self, depth: int) -> None:
        """Take what can be taken at once of an array's elements, inside ``depth`` containers."""
        match = (_SCALAR_RUN if depth >= NESTING_DEPTH else _EMPTY_RUN).match(self.data, self.pos)
        if match is not None:
            self.pos = match.end()

    def _close(self, stack: list[Seen | None], depth: int) -> None:
        """After a value: close what closes here, or go on to the next element or member."""
        while stack:
            names = stack[-1]
            byte = self.space()
            if byte == COMMA:
                self.pos += 1
                self.space()
                if names is None:
                    self._run(depth + len(stack))
                else:
                    self.member(names)
                return
            if byte != (CLOSE_ARRAY if names is None else CLOSE_OBJECT):
                self.fail("',' or ']'" if names is None else "',' or '}'")
            self.pos += 1
            stack.pop()


def _is_double(number: bytes) -> bool:
    """Whether a number is finite as a double: JSON allows others, readers refuse them or take them for infinity.

    In linear time, which neither ``int`` nor ``float`` promises for millions of digits.
    """
    number = number.lower()
    if len(number) < _SURE_DIGITS and b"e" not in number:
        return True
    mantissa, _, exponent = number.partition(b"e")
    whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
    digits = (whole + fraction).lstrip(b"0")
    power = int(exponent.lstrip(b"+-0")[:_EXPONENT] or b"0")
    scale = len(digits) - len(fraction) + (-power if exponent.startswith(b"-") else power)
    if not digits or scale != _DOUBLE_DIGITS:
        return not digits or scale < _DOUBLE_DIGITS
    return math.isfinite(float(b"0.%be%d" % (digits[:_LEADING], scale)))


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
