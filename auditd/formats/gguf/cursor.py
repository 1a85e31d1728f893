"""Reading fields one after the other, and reporting what is wrong with them."""

from __future__ import annotations

from collections.abc import Generator

from auditd.formats.bounds import HEADER_BYTES, STRING_BYTES, TENSOR_COUNT
from auditd.formats.declarations import ByteOrder
from auditd.formats.faults import Constraint, Fault, FaultKind, Notice, Tally
from auditd.formats.quoting import counted
from auditd.formats.window import Stopped, Window, header_bound


class Cursor:
    """A window with a byte order, and the standing faults and notices so far.

    Its generators yield while they wait for bytes and raise :class:`Stopped` for a stopping fault.
    """

    def __init__(self, file_size: int) -> None:
        self.window = Window(file_size)
        self.order: ByteOrder = "little"
        self.faults: Tally[Fault] = Tally()
        self.notices: Tally[Notice] = Tally()

    @property
    def offset(self) -> int:
        """The file offset of the next field."""
        return self.window.offset

    def unsigned(self, size: int, subject: str) -> Generator[None, None, int]:
        """An unsigned integer of ``size`` bytes."""
        window = self.window
        if window.end - window.pos < size:
            yield from window.more(size, subject)
        value = int.from_bytes(window.data[window.pos : window.pos + size], self.order)
        window.pos += size
        return value

    def string(self, subject: str) -> Generator[None, None, bytes]:
        """A string's bytes; a fault of its length is a fault of the field ``<subject>.length``."""
        window = self.window
        at = window.offset
        length = yield from self.unsigned(8, f"{subject}.length")
        if length > window.end - window.pos:
            self._check_length(f"{subject}.length", at, length)
            yield from window.more(length, subject)
        elif length > STRING_BYTES:
            self._check_length(f"{subject}.length", at, length)
        raw = window.data[window.pos : window.pos + length]
        window.pos += length
        return raw

    def _check_length(self, subject: str, at: int, length: int) -> None:
        """A string's length against its bound, the file and the header's bound, in this order."""
        end = at + 8 + length
        past_end = end > self.window.file_size
        if length > STRING_BYTES:
            kind = FaultKind.MALFORMED if past_end else FaultKind.BOUND
            message = f"a string of {length:,} bytes; no string is longer than {STRING_BYTES:,}"
            raise Stopped(Fault(Constraint.STRING_LENGTH, kind, subject, at, message, STRING_BYTES, length))
        if past_end:
            left = max(0, self.window.file_size - at - 8)
            kind = FaultKind.MALFORMED if end > HEADER_BYTES else FaultKind.TRUNCATED
            message = f"{counted(length, 'byte')} declared, {left:,} left in the file"
            raise Stopped(Fault(Constraint.LENGTH_PAST_END, kind, subject, at, message, left, length))
        if end > HEADER_BYTES:
            raise Stopped(header_bound(subject, at, end))

    def check_count(self, subject: str, at: int, count: int, least: int, items_at: int) -> None:
        """``count`` items of at least ``least`` bytes each, the first at ``items_at``, against file and bound."""
        end = items_at + count * least
        if end > self.window.file_size:
            left = self.window.file_size - items_at
            over = end > HEADER_BYTES or (subject == "header.tensor_count" and count > TENSOR_COUNT)
            kind = FaultKind.MALFORMED if over else FaultKind.TRUNCATED
            items = f"{counted(count, 'item')} of at least {counted(least, 'byte')}"
            message = f"{items} declared, {counted(left, 'byte')} left in the file"
            raise Stopped(Fault(Constraint.COUNT_PAST_END, kind, subject, at, message, left // least, count))
        if end > HEADER_BYTES and subject != "header.tensor_count":
            raise Stopped(header_bound(subject, at, end))

    def fault(
        self,
        constraint: Constraint,
        subject: str,
        offset: int,
        message: str,
        expected: int | str | None = None,
        actual: int | str | None = None,
    ) -> None:
        """Report a standing fault."""
        self.faults.add(constraint, Fault(constraint, FaultKind.MALFORMED, subject, offset, message, expected, actual))

    def notice(
        self,
        code: str,
        subject: str,
        offset: int | None,
        message: str,
        expected: int | str | None = None,
        actual: int | str | None = None,
    ) -> None:
        """Report something notable."""
        self.notices.add(code, Notice(code, subject, offset, message, expected, actual))
