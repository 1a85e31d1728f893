"""Which pages of an open file are in memory: what the kernel tells without a single page being touched.

The file is mapped with no access at all (``PROT_NONE``), so that nothing can read through the mapping: a file that is
cut short meanwhile cannot raise SIGBUS, and asking brings nothing in. Raises nothing; None means that the kernel does
not say.

``mincore`` tells the truth to the owner of a file, to who may write it and to root. To all others it says that every page
is in memory (since Linux 5.2); :func:`tells_the_truth` asks it for a page that cannot be. Rejected: ``cachestat``
(Linux 6.5), which refuses others' files and gives sums only, and reads with ``RWF_NOWAIT``, which answer everybody but
fetch what they ask for.

Loads ``ctypes``: to be imported only where pages must be counted.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Final, TypeAlias

#: Half-open, in bytes, whole pages.
Run: TypeAlias = tuple[int, int]

PAGE_BYTES: Final = mmap.PAGESIZE

_PROT_NONE: Final = 0
_MAP_FAILED: Final = ctypes.c_void_p(-1).value

#: No page of a cache is larger, and each lies at a multiple of its size.
_LARGEST_PAGE_BYTES: Final = 1024 * 1024 * 1024

#: The first word of ``struct statfs`` for tmpfs and ramfs.
_MEMORY_MAGICS: Final = frozenset({0x01021994, 0x858458F6})
#: More than the structure takes on any machine.
_STATFS_BYTES: Final = 512

#: Of each page's byte only the lowest bit means something.
_LOWEST_BIT: Final = bytes(byte & 1 for byte in range(256))
_ABSENT: Final = b"\0"
_PRESENT: Final = b"\1"

_libc: Final = ctypes.CDLL(None, use_errno=True)
#: The one that takes 64-bit offsets, where there are two.
_mmap: Final = getattr(_libc, "mmap64", None) or _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.fstatfs.argtypes = (ctypes.c_int, ctypes.c_char_p)


def is_memory(descriptor: int) -> bool:
    """Whether the file is on a file system that is memory itself; False if nobody says."""
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(descriptor, answer):
        return False
    return ctypes.c_ulong.from_buffer(answer).value in _MEMORY_MAGICS


def tells_the_truth(descriptor: int, size: int) -> bool:
    """Whether the kernel says truly which pages of a file of ``size`` bytes are in memory.

    A page past the end of a file is in nobody's memory: so far past it that no large page that has the end reaches
    there. If the file has grown by then, the answer is False at worst.
    """
    past = (size // _LARGEST_PAGE_BYTES + 1) * _LARGEST_PAGE_BYTES
    return absent(descriptor, past, past + PAGE_BYTES) == [(past, past + PAGE_BYTES)]


def absent(descriptor: int, begin: int, end: int) -> list[Run] | None:
    """The runs of pages in [begin, end) that are not in memory, in order; ``begin`` is the first byte of a page."""
    if begin >= end:
        return []
    length = _page_up(end - begin)
    address = _mmap(None, length, _PROT_NONE, mmap.MAP_PRIVATE, descriptor, begin)
    if address is None or address == _MAP_FAILED:
        return None
    pages = ctypes.create_string_buffer(length // PAGE_BYTES)
    refused = _libc.mincore(address, length, pages)
    _libc.munmap(address, length)
    return None if refused else _runs(pages.raw.translate(_LOWEST_BIT), begin)


def _runs(pages: bytes, begin: int) -> list[Run]:
    """The runs of absent pages, one byte a page."""
    runs = []
    first = pages.find(_ABSENT)
    while first >= 0:
        after = pages.find(_PRESENT, first)
        last = len(pages) if after < 0 else after
        runs.append((begin + first * PAGE_BYTES, begin + last * PAGE_BYTES))
        first = pages.find(_ABSENT, last)
    return runs


def drop(descriptor: int, runs: list[Run]) -> None:
    """Have the kernel let go of the pages in ``runs``; those that somebody has mapped or written stay."""
    for begin, end in runs:
        os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)


def _page_up(count: int) -> int:
    return -(-count // PAGE_BYTES) * PAGE_BYTES
