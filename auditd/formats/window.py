"""The bytes that a reader can see: a window that slides forward over a file and never back.

Returns and raises: :meth:`Window.feed` only collects. A walk that needs ``n`` bytes and does not see them
yields from :meth:`Window.more`, which either comes back with the bytes in sight or raises :class:`Stopped`
with the fault: the file ends there, or the header's bound does.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from auditd.formats.bounds import HEADER_BYTES
from auditd.formats.faults import Constraint, Fault, FaultKind
from auditd.formats.quoting import counted

#: A walk: yields whenever it can only go on with more bytes (or after a stretch of work), returns at its end.
Walk: TypeAlias = Generator[None, None, None]


class Stopped(Exception):
    """A stopping fault; caught by the reader that owns the walk."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.message)


class Window:
    """A view of ``data[pos:end]``; ``base`` is the file offset of ``data[0]``.

    ``end`` never reaches past the file or the header's bound, so a walk cannot interpret a byte beyond them.
    """

    __slots__ = ("_limit", "_pieces", "_pieces_bytes", "_wanted", "base", "data", "end", "file_size", "pos")

    def __init__(self, file_size: int) -> None:
        self.file_size = file_size
        self._limit = min(file_size, HEADER_BYTES)
        self.data = b""
        self.base = 0
        self.pos = 0
        self.end = 0
        self._wanted = 0
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0

    @property
    def offset(self) -> int:
        """The file offset of the next byte."""
        return self.base + self.pos

    def feed(self, piece: bytes) -> bool:
        """Take the next bytes of the file; whether what the walk waits for is now in sight.

        Pieces are joined only then: a string of many pieces is copied once, not once for each.
        """
        self._pieces.append(piece)
        self._pieces_bytes += len(piece)
        if len(self.data) - self.pos + self._pieces_bytes < self._wanted:
            return False
        self.base += self.pos
        self.data = b"".join((self.data[self.pos :], *self._pieces))
        self.pos = 0
        self.end = max(0, min(len(self.data), self._limit - self.base))
        self._pieces.clear()
        self._pieces_bytes = 0
        return True

    def more(self, size: int, subject: str) -> Walk:
        """Wait until ``size`` bytes from the current position are in sight; ``subject`` is the field there."""
        last = self.offset + size
        if last > self.file_size:
            raise Stopped(
                Fault(
                    Constraint.END_OF_FILE,
                    FaultKind.TRUNCATED,
                    subject,
                    self.offset,
                    f"the file ends after {self.file_size - self.offset:,} of its {counted(size, 'byte')}",
                    size,
                    self.file_size - self.offset,
                )
            )
        if last > self._limit:
            raise Stopped(header_bound(subject, self.offset, last))
        self._wanted = size
        while self.end - self.pos < size:
            yield
        self._wanted = 0


def header_bound(subject: str, offset: int, header_end: int) -> Fault:
    """The fault of a header that goes past its bound with the bytes there."""
    return Fault(
        Constraint.HEADER_LENGTH,
        FaultKind.BOUND,
        subject,
        offset,
        f"the header reaches at least byte {header_end:,}; it is read up to {HEADER_BYTES:,}",
        HEADER_BYTES,
        header_end,
    )
