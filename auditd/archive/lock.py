"""The guard that only one process writes a store: ``flock`` on a file beside it.

SQLite's own locks last for one transaction; this one lasts as long as the writer lives, is released by the kernel
when it dies, and is seen before anything is changed.
"""

from __future__ import annotations

import fcntl
import os
from types import TracebackType
from typing import Final, Self

from auditd.errors import StoreError
from auditd.evidence.text import printable

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class WriterLock:
    """Held from construction to :meth:`close`. :class:`StoreError` if another process holds it."""

    def __init__(self, store_path: str) -> None:
        self._path = store_path + ".lock"
        try:
            self._descriptor = os.open(self._path, _FLAGS, 0o600)
        except OSError as error:
            raise StoreError(f"{printable(self._path)}: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise StoreError(f"{printable(store_path)}: another process writes this store") from error

    def close(self) -> None:
        """Release it. The file stays: removing it would let two processes lock two files of one name."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
