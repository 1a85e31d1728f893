"""One open file, read forward (and here and there), and every way in which that can fail.

Opening never blocks (a FIFO, a device), never follows a link at the end of the path, never takes a terminal,
and is refused unless a regular file comes out. Raises :class:`Unreadable`, classed by errno: the path, or the
host.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from auditd.evidence.observation import Stop
from auditd.inspection.page_cache import PageCache, Treatment

_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

#: Errors that are about the path that was selected; all others are about the host.
_PATH_ERRNOS: Final = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EACCES,
        errno.EPERM,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EISDIR,
        errno.ENXIO,
        errno.ENODEV,
        errno.EINVAL,
    }
)

#: No file has a byte here or behind it, and the system refuses to read past it.
_LAST_OFFSET: Final = 2**63 - 1

_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISLNK, "a symbolic link"),
)


class Unreadable(Exception):
    """The file cannot be opened or read on."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        super().__init__(stop.message)


def stop_of(error: OSError, doing: str, offset: int | None = None) -> Stop:
    """The stop that an ``OSError`` means."""
    reason = f"{doing}: {os.strerror(error.errno) if error.errno else error}"
    if error.errno in _PATH_ERRNOS and offset is None:
        return Stop("target_unavailable", "path", reason, error.errno)
    return Stop("execution_failure", "host", reason, error.errno, offset)


def _within(offset: int, size: int) -> int:
    """How many of ``size`` bytes at ``offset`` a file can have."""
    return max(0, min(size, _LAST_OFFSET - offset))


class Descriptor:
    """An open regular file. ``close()`` is called once, whatever happened before."""

    def __init__(self, path: bytes) -> None:
        try:
            self._refuse_irregular(os.lstat(path))
            self._fd = os.open(path, _OPEN_FLAGS)
        except OSError as error:
            raise Unreadable(stop_of(error, "the file cannot be opened")) from error
        self.path = path
        self.offset = 0
        self._cache: PageCache | None = None
        self._reads_ahead = True

    @staticmethod
    def _refuse_irregular(status: os.stat_result) -> None:
        """Devices are not even opened: that alone can have an effect."""
        if stat.S_ISREG(status.st_mode):
            return
        kind = next((words for test, words in _KINDS if test(status.st_mode)), "no regular file")
        number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else None
        raise Unreadable(Stop("target_unavailable", "path", f"the path is {kind}, not a regular file", number))

    def status(self) -> os.stat_result:
        """What the descriptor says now; refused if the path was exchanged for something irregular."""
        try:
            status = os.fstat(self._fd)
        except OSError as error:
            raise Unreadable(stop_of(error, "the open file has no status", self.offset)) from error
        self._refuse_irregular(status)
        return status

    def path_status(self) -> os.stat_result | None:
        """What the path names now, None if nothing."""
        try:
            return os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unreadable(stop_of(error, "the path has no status", self.offset)) from error

    def prepare(self, size: int | None) -> None:
        """A header is read next, and after it the rest of the file of ``size`` bytes; None: nothing but a header.

        Around the pieces of a header the kernel would read ahead by megabytes, which nobody is going to read.
        """
        self._read_ahead(False)
        self._cache = None if size is None else PageCache(self._fd, size)

    @property
    def treatment(self) -> Treatment:
        """How the pages of the file are treated."""
        return "left" if self._cache is None else self._cache.treatment

    def _read_ahead(self, wanted: bool) -> None:
        """Tell the kernel; a file system that takes no advice does without."""
        if self._reads_ahead != wanted:
            with suppress(OSError):
                os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_NORMAL if wanted else os.POSIX_FADV_RANDOM)
        self._reads_ahead = wanted

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes from here on, fewer at the end of the file only."""
        size = _within(self.offset, size)
        if not size:
            return b""
        try:
            data = self._read(size)
        except OSError as error:
            raise Unreadable(stop_of(error, f"reading failed at byte {self.offset}", self.offset)) from error
        self.offset += len(data)
        return data

    def _read(self, size: int) -> bytes:
        if self._cache is None:
            return os.pread(self._fd, size, self.offset)
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self._cache.read_into(buffer, self.offset)])

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``offset``, wherever the reading is; it stays there."""
        size = _within(offset, size)
        if not size:
            return b""
        try:
            return self._read_at(offset, size)
        except OSError as error:
            raise Unreadable(stop_of(error, f"reading failed at byte {offset}", offset)) from error

    def _read_at(self, offset: int, size: int) -> bytes:
        if self._cache is None:
            return os.pread(self._fd, size, offset)
        buffer = bytearray(size)
        return bytes(memoryview(buffer)[: self._cache.read_apart(buffer, offset)])

    def read_into(self, buffer: bytearray | memoryview) -> int:
        """Fill ``buffer`` from here on, piece after piece; how many bytes came."""
        buffer = memoryview(buffer)[: _within(self.offset, len(buffer))]
        if not buffer:
            return 0
        self._read_ahead(True)
        try:
            count = self._read_into(buffer)
        except OSError as error:
            raise Unreadable(stop_of(error, f"reading failed at byte {self.offset}", self.offset)) from error
        self.offset += count
        return count

    def _read_into(self, buffer: bytearray | memoryview) -> int:
        if self._cache is None:
            return os.preadv(self._fd, [buffer], self.offset)
        return self._cache.read_into(buffer, self.offset)

    def close(self) -> int | None:
        """Close; the errno if that failed.

        Never tried again: on Linux the descriptor is gone either way, and a second close could hit one that
        another thread has just been given.
        """
        if self._cache is not None:
            self._cache.finish()
        try:
            os.close(self._fd)
        except OSError as error:
            return error.errno
        return None
