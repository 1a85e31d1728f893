"""The JSON Lines log: the summary of every record, one a line, in the order of the store.

Blocking; ``OSError`` when the disk does not take a line. A line stands in the file whole or not at all, unless the
machine stops in between: then the next writer ends the torn line before it adds its own.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Final

#: Whoever ships the log reads it by its group; the umask has no say.
_MODE: Final = 0o640

_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def _sync(descriptor: int) -> None:
    """What cannot be synchronized, a device say, is no disk that failed."""
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _write_whole(descriptor: int, line: bytes) -> None:
    """One write, so that lines of two writers would not mix; a disk that takes a part of it is full."""
    if os.write(descriptor, line) != len(line):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class EvidenceLog:
    """The open log file. After a rotation by rename, or :meth:`reopen`, the next line goes to a new file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._size = 0
        #: Why lines that were written before the file was closed may not have reached the disk.
        self._lost: OSError | None = None

    def write(self, line: bytes) -> None:
        """Append one line. On an error nothing of it stays in the file."""
        descriptor = self._current()
        try:
            _write_whole(descriptor, line)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._size)
            self.reopen()
            raise
        self._size += len(line)

    def sync(self) -> None:
        """The lines are on the disk when this returns; after an error those since the last time may be lost for good.

        The kernel tells of a failed write back once: that the next call succeeds says nothing of these lines.
        """
        lost, self._lost = self._lost, None
        if lost is not None:
            raise lost
        if self._descriptor is not None:
            _sync(self._descriptor)

    def reopen(self) -> None:
        """Close the file; the next line opens whatever has its name then."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            # A close that fails has closed all the same on Linux, and a second one may hit somebody else's file.
            try:
                _sync(descriptor)
            except OSError as error:
                self._lost = error
            with suppress(OSError):
                os.close(descriptor)

    def _current(self) -> int:
        if self._descriptor is not None and not self._is_in_place(self._descriptor):
            self.reopen()
        if self._descriptor is None:
            self._descriptor = self._open()
        return self._descriptor

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        mine = os.fstat(descriptor)
        # A file that became shorter was truncated in place by whoever rotates it.
        self._size = mine.st_size
        return (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)

    def _open(self) -> int:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        descriptor = self._open_or_make()
        try:
            self._size = os.fstat(descriptor).st_size
            if self._size and os.pread(descriptor, 1, self._size - 1) != b"\n":
                self._size += os.write(descriptor, b"\n")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _open_or_make(self) -> int:
        """A file that is there keeps its mode: whoever rotates may have given it another."""
        with suppress(FileNotFoundError):
            return os.open(self.path, _FLAGS)
        descriptor = os.open(self.path, _FLAGS | os.O_CREAT, 0o600)
        with suppress(OSError):
            os.fchmod(descriptor, _MODE)
        return descriptor
