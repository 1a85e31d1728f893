"""One open file, read forward (and here and there), and every way in which that can fail.

Opening never blocks (a FIFO, a device), never follows a link at the end of the path, never takes a terminal,
and is refused unless a regular file comes out. Raises :class:`Unreadable`, classed by errno: the path, or the
host.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from auditd.evidence.look import Stop

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

    @staticmethod
    def _refuse_irregular(status: os.stat_result) -> None:
        """Devices are not even opened: that alone can have an effect."""
        if stat.S_ISREG(status.st_mode):
            return
        kind = next((words for test, words in _KINDS if test(status.st_mode)), "no regular file")
        raise Unreadable(Stop("target_unavailable", "path", f"the path is {kind}, not a regular file"))

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

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes from here on, fewer at the end of the file only."""
        try:
            data = os.pread(self._fd, size, self.offset)
        except OSError as error:
            raise Unreadable(stop_of(error, f"reading failed at byte {self.offset}", self.offset)) from error
        self.offset += len(data)
        return data

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``offset``, wherever the reading is; it stays there."""
        try:
            return os.pread(self._fd, size, offset)
        except OSError as error:
            raise Unreadable(stop_of(error, f"reading failed at byte {offset}", offset)) from error

    def read_into(self, buffer: bytearray) -> int:
        """Fill ``buffer`` from here on; how many bytes came."""
        try:
            count = os.preadv(self._fd, [buffer], self.offset)
        except OSError as error:
            raise Unreadable(stop_of(error, f"reading failed at byte {self.offset}", self.offset)) from error
        self.offset += count
        return count

    def close(self) -> int | None:
        """Close; the errno if that failed.

        Never tried again: on Linux the descriptor is gone either way, and a second close could hit one that
        another thread has just been given.
        """
        try:
            os.close(self._fd)
        except OSError as error:
            return error.errno
        return None
