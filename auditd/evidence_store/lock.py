"""The guard that only one process writes a store: ``flock`` on a file beside it.

SQLite's own locks last for one transaction; this one lasts as long as the writer lives, is released by the kernel
when it dies, and is seen before anything is changed.
"""

from __future__ import annotations

import fcntl
import os
from types import TracebackType
from typing import Final, NamedTuple, Self

from auditd.errors import StoreError
from auditd.evidence.text import printable

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class FileNumber(NamedTuple):
    """What tells one file from another that has its name."""

    device: int
    inode: int


def file_number(path: str) -> FileNumber | None:
    """The file that has the name now; None if none has."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileNumber(status.st_dev, status.st_ino)


class WriterLock:
    """Held from construction to :meth:`close`. :class:`StoreError` if another process holds it."""

    def __init__(self, store_path: str) -> None:
        self._store_path = store_path
        self._path = store_path + ".lock"
        self._descriptor: int | None = self._take()

    def _take(self) -> int:
        directory = os.path.dirname(self._path) or "."
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{printable(directory)}: {error.strerror}") from error
        try:
            descriptor = os.open(self._path, _FLAGS, 0o600)
        except OSError as error:
            raise StoreError(f"{printable(self._path)}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise StoreError(f"{printable(self._store_path)}: another process writes this store") from error
        return descriptor

    def keep(self) -> None:
        """Take it again if its file was removed: the next process would lock a new one, and both would write."""
        if self._descriptor is not None:
            status = os.fstat(self._descriptor)
            if file_number(self._path) == (status.st_dev, status.st_ino):
                return
        self.close()
        self._descriptor = self._take()

    def close(self) -> None:
        """Release it. The file stays: removing it would let two processes lock two files of one name."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
