"""The page cache left as it was found: the bytes of a whole file come in, and nobody's pages go out.

Programs that serve models live off pages that are in memory. Reading a whole file fills the cache with pages that nobody
wants and pushes theirs out; telling the kernel afterwards to drop the file's pages drops theirs, too. So pages that were
in memory before stay, and pages that the reading brought in go. :data:`TREATMENTS` names the ways, and ``read.cache``
in the evidence says which it was.

Raises ``OSError`` where a read does. What another program brings in while its 8 MiB are being read cannot be told from
our own, and goes with ours. Of a reading that is stopped, what the kernel was reading ahead just then may stay.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from auditd.inspection.residency import Run

Treatment: TypeAlias = Literal["left", "uncached", "memory", "dropped", "filled"]

#: What the words in ``read.cache`` mean. Those after ``left`` are tried in this order, also in the middle of a file; the
#: last one that was needed is told.
TREATMENTS: Final[Mapping[Treatment, str]] = MappingProxyType(
    {
        "left": "not all of the file was to be read: pages that were read stay, none beyond them were read ahead",
        "uncached": "the kernel dropped what it had to bring in, and only that (Linux 6.14, ext4 and xfs among others)",
        "memory": "the file system is memory itself (tmpfs): its pages are the file, there is nothing to drop",
        "dropped": "pages that were not in memory before were dropped, every 8 MiB and at the end, however it came",
        "filled": "pages that were read stay: the kernel does not say which of another's file were there before",
    }
)

#: Uncached buffered reads, ``RWF_DONTCACHE``; the standard library has no name for it yet.
_DONTCACHE: Final = 0x80
#: How kernels and file systems say that they do not know the flag.
_UNKNOWN_FLAG: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})

#: Pages are dropped by so many bytes, a multiple of every page size: a large page that is only partly told to go stays,
#: so with windows of 1 MiB next to nothing goes.
WINDOW_BYTES: Final = 8 * 1024 * 1024


class PageCache:
    """Reads of one open file of ``size`` bytes, all of which is going to be read."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._size = size
        self._windows: _Windows | None = None
        self.treatment: Treatment = "uncached"

    def read_into(self, buffer: bytearray | memoryview, offset: int) -> int:
        """Fill ``buffer`` from ``offset`` on, on the way forward through the file; how many bytes came."""
        if self.treatment == "uncached" and (count := self._uncached(buffer, offset)) is not None:
            return count
        if self._windows is None:
            return os.preadv(self._descriptor, [buffer], offset)
        self._windows.before(offset, offset + len(buffer))
        count = os.preadv(self._descriptor, [buffer], offset)
        self._windows.after(offset + count)
        return count

    def read_apart(self, buffer: bytearray, offset: int) -> int:
        """The same for a look aside, after which the way forward goes on where it was.

        Where pages have to be dropped, those of a look aside stay: such looks are few and small.
        """
        if self.treatment == "uncached" and (count := self._uncached(buffer, offset)) is not None:
            return count
        return os.preadv(self._descriptor, [buffer], offset)

    def finish(self) -> None:
        """Drop what is left to drop; before the descriptor is closed, wherever the reading ended. Raises nothing."""
        if self._windows is not None:
            self._windows.finish()

    def _uncached(self, buffer: bytearray | memoryview, offset: int) -> int | None:
        """One uncached read; None if there are none here, and what to do instead is settled."""
        try:
            return os.preadv(self._descriptor, [buffer], offset, _DONTCACHE)
        except NotImplementedError:  # an interpreter that was built for older kernels
            pass
        except OSError as error:
            if error.errno not in _UNKNOWN_FLAG:
                raise
        self._do_without()
        return None

    def _do_without(self) -> None:
        from auditd.inspection import residency  # noqa: PLC0415 - loads ctypes, which is rarely needed

        if residency.is_memory(self._descriptor):
            self.treatment = "memory"
        elif residency.tells_the_truth(self._descriptor, self._size):
            self.treatment = "dropped"
            self._windows = _Windows(self._descriptor, self._size)
        else:
            self.treatment = "filled"


class _Windows:
    """What was not in memory before its window was read, for the windows that are being read and the one after them.

    One window ahead, because the kernel reads ahead, too: asked later, its pages would pass for somebody's. It reads
    ahead by less than a window, unless somebody has set it to more; then what is further ahead stays.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        from auditd.inspection import residency  # noqa: PLC0415 - as above

        self._residency = residency
        self._descriptor = descriptor
        self._size = size
        #: By the window's number: few, whatever the size of the file.
        self._absent: dict[int, list[Run]] = {}

    def before(self, begin: int, end: int) -> None:
        """[begin, end) is read next."""
        for number in range(begin // WINDOW_BYTES, (end - 1) // WINDOW_BYTES + 2):
            if number not in self._absent:
                self._absent[number] = self._ask(number)

    def _ask(self, number: int) -> list[Run]:
        begin = number * WINDOW_BYTES
        # None, should the kernel have changed its mind, drops nothing.
        return self._residency.absent(self._descriptor, begin, min(begin + WINDOW_BYTES, self._size)) or []

    def after(self, end: int) -> None:
        """All up to ``end`` was read: windows that lie before it are through."""
        through = [number for number in self._absent if (number + 1) * WINDOW_BYTES <= end or end >= self._size]
        for number in through:
            self._drop(number)

    def finish(self) -> None:
        """Nothing more is read."""
        for number in list(self._absent):
            self._drop(number)

    def _drop(self, number: int) -> None:
        with suppress(OSError):
            self._residency.drop(self._descriptor, self._absent.pop(number))
