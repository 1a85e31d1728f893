"""What only the content tells, seen while a file streams by: space never written, a second model behind the first.

A download that sets its space aside first has the right size and a sound header long before it has its bytes.
:class:`ZeroScan` measures the zeros at either end of what it is fed; a common piece costs it one look at its last
byte. :class:`AppendedScan` looks for headers in the bytes that belong to nothing. Both are fed in file order,
in pieces of any size, and raise nothing for any bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from auditd.formats.detection import HEAD_BYTES, Format, detect
from auditd.formats.gguf.wire import MAGIC, VERSIONS

#: What pieces are compared with; longer ones are compared in several steps.
_ZEROS: Final = memoryview(bytes(1 << 20))

#: The first comparison at an edge; each one after it is four times as long.
_FIRST_BYTES: Final = 64
_GROWTH: Final = 4

#: Zeros below this are a small tensor: biases and scales are often zero.
_LEAST_BYTES: Final = 1024
#: Zeros of this length are worth a word whatever the file's size.
_LONG_BYTES: Final = 1024 * 1024
#: Shorter ones are if they make up so much: one part in four.
_SHARE: Final = 4


@dataclass(frozen=True, slots=True)
class ZeroRuns:
    """The zeros at the begin and at the end of the half-open range [``begin``, ``end``) of a file, in bytes."""

    begin: int
    end: int
    head: int
    tail: int

    @property
    def is_all_zero(self) -> bool:
        """Whether there are bytes, and all of them are zero."""
        return self.begin < self.end and self.head == self.end - self.begin

    @property
    def offset(self) -> int | None:
        """Where the run begins that :attr:`words` speak of; None if it is not worth a word."""
        if not self.words:
            return None
        return self.begin if self.is_all_zero or not self._counts(self.tail) else self.end - self.tail

    @property
    def words(self) -> str:
        """What a person should know; empty for zeros such as any model has."""
        length = self.end - self.begin
        if self.is_all_zero and (self._counts(self.head) or not self.begin):
            what = (
                "all of it is zero" if not self.begin else f"all {length:,} bytes from byte {self.begin:,} on are zero"
            )
            return f"{what}: space was set aside and never written"
        if self._counts(self.tail):
            return (
                f"the last {self.tail:,} bytes ({self._percent(self.tail)}) are zero from byte "
                f"{self.end - self.tail:,} on: perhaps a download that set its space aside and did not finish"
            )
        if self._counts(self.head):
            return (
                f"{self.head:,} bytes ({self._percent(self.head)}) are zero from byte {self.begin:,} on: "
                "perhaps they were never written"
            )
        return ""

    def _counts(self, run: int) -> bool:
        return run >= _LEAST_BYTES and (run >= _LONG_BYTES or run * _SHARE >= self.end - self.begin)

    def _percent(self, run: int) -> str:
        """With one decimal, cut and not rounded: what is not all of it is never called 100."""
        tenths = run * 1000 // (self.end - self.begin)
        return f"{tenths // 10}.{tenths % 10} percent of what follows byte {self.begin:,}"


class ZeroScan:
    """Fed consecutive pieces of a file, the first of them from byte ``begin`` on."""

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._end = begin
        #: Where the first byte that is not zero is, and where the last one ends.
        self._first: int | None = None
        self._last_end = begin

    def feed(self, begin: int, data: bytes | bytearray, size: int) -> None:
        """The file's bytes from ``begin`` on: the first ``size`` of ``data``. What was fed before is passed over."""
        skip = self._end - begin
        if not 0 <= skip < size:
            return
        self._end = begin + size
        if data[size - 1] and self._first is not None:
            self._last_end = self._end
            return
        zeros = _zeros_at_end(data, skip, size)
        if zeros == size - skip:
            return
        self._last_end = self._end - zeros
        if self._first is None:
            self._first = begin + skip + _zeros_at_begin(data, skip, size)

    def result(self) -> ZeroRuns:
        """What is known of the pieces so far."""
        first = self._end if self._first is None else self._first
        return ZeroRuns(self._begin, self._end, first - self._begin, self._end - self._last_end)


def _zeros_at_end(data: bytes | bytearray, begin: int, end: int) -> int:
    """How many zeros ``data[begin:end]`` ends with. Compared in place: a piece without any costs one comparison."""
    found, step = 0, _FIRST_BYTES
    while (left := end - begin - found) > 0:
        step = min(step, left, len(_ZEROS))
        if not data.endswith(_ZEROS[:step], begin, end - found):
            tail = bytes(data[end - found - step : end - found])
            return found + step - len(tail.rstrip(b"\0"))
        found += step
        step *= _GROWTH
    return found


def _zeros_at_begin(data: bytes | bytearray, begin: int, end: int) -> int:
    """How many zeros ``data[begin:end]`` begins with."""
    found, step = 0, _FIRST_BYTES
    while (left := end - begin - found) > 0:
        step = min(step, left, len(_ZEROS))
        if not data.startswith(_ZEROS[:step], begin + found, end):
            head = bytes(data[begin + found : begin + found + step])
            return found + step - len(head.lstrip(b"\0"))
        found += step
        step *= _GROWTH
    return found


# -- a second header --------------------------------------------------------------------------------

#: A mark alone is four letters of anything; with a version behind it, it is a header.
_GGUF: Final = re.compile(re.escape(MAGIC) + b"(?:" + b"|".join(map(re.escape, VERSIONS)) + b")")
_GGUF_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Appended:
    """A header where no header belongs: its format and the file offset of its first byte."""

    form: Format
    offset: int

    @property
    def words(self) -> str:
        """What a person should know."""
        name = "GGUF" if self.form == "gguf" else "safetensors"
        return f"a second {name} file seems to begin at byte {self.offset:,}, behind the data of the first"


class AppendedScan:
    """Looks for the first header in [``begin``, ``end``): GGUF's anywhere, safetensors' at ``begin`` only.

    A range that begins where the last tensor ends sees more than one that begins behind its padding: what was
    appended to a file without padding at its end begins inside of it.
    """

    def __init__(self, begin: int, end: int) -> None:
        self._begin = begin
        self._end = end
        self._position = begin
        #: The first bytes of the range, as long as they are collected.
        self._head = b""
        #: The last bytes of the piece before: a mark may lie across two.
        self._carry = b""
        self._found: Appended | None = None

    def feed(self, begin: int, data: bytes | bytearray, size: int) -> None:
        """The file's bytes from ``begin`` on: the first ``size`` of ``data``; none may be left out inside the range."""
        low, high = max(begin, self._position), min(begin + size, self._end)
        if low >= high or self._found is not None:
            return
        self._position = high
        low, high = low - begin, high - begin
        if len(self._head) < HEAD_BYTES:
            self._head += bytes(data[low : min(high, low + HEAD_BYTES - len(self._head))])
        self._found = self._across(data, low, high, begin) or self._within(data, low, high, begin)
        self._carry = (self._carry + bytes(data[max(low, high - _GGUF_BYTES + 1) : high]))[1 - _GGUF_BYTES :]

    def _across(self, data: bytes | bytearray, low: int, high: int, begin: int) -> Appended | None:
        seam = self._carry + bytes(data[low : min(high, low + _GGUF_BYTES - 1)])
        match = _GGUF.search(seam)
        return None if match is None else Appended("gguf", begin + low - len(self._carry) + match.start())

    @staticmethod
    def _within(data: bytes | bytearray, low: int, high: int, begin: int) -> Appended | None:
        match = _GGUF.search(data, low, high)
        return None if match is None else Appended("gguf", begin + match.start())

    def result(self) -> Appended | None:
        """The first header in what was fed so far, None if there is none."""
        if len(self._head) == HEAD_BYTES and detect(self._head, self._end - self._begin) == "safetensors":
            return Appended("safetensors", self._begin)
        return self._found
