"""A file's identity: what the file system says of it, and whether two looks saw the same file."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Final, Literal

from auditd.evidence.exactness import exact_int
from auditd.evidence.record import FileIdentity, IdentityStatus

#: How many user or group numbers there are: the last one, 2**32 - 1, means none.
_EVERY_NUMBER: Final = 2**32 - 1

#: What the kernel says of an owner that the user namespace has no number for, unless it was told otherwise.
_OVERFLOW: Final = 65534

_Kind = Literal["uid", "gid"]


def observe(status: os.stat_result) -> FileIdentity:
    """The identity in a ``stat_result``, as a record has it."""
    return FileIdentity(
        device=exact_int(status.st_dev),
        inode=exact_int(status.st_ino),
        size=exact_int(status.st_size),
        mtime_ns=str(status.st_mtime_ns),
        ctime_ns=str(status.st_ctime_ns),
        links=status.st_nlink,
        mode=status.st_mode,
        uid=_owner("uid", status.st_uid),
        gid=_owner("gid", status.st_gid),
    )


def _owner(kind: _Kind, number: int) -> int | None:
    """The number; None if it may stand for an owner that the user namespace of this process has no number for."""
    return None if number == _stand_in(kind) else number


@cache
def _stand_in(kind: _Kind) -> int | None:
    """The number that may stand for any other; None where each owner has its own.

    A process cannot change its map, and joins no other user namespace: once is enough.
    """
    if maps_every_number(_content(f"/proc/self/{kind}_map")):
        return None
    try:
        return int(_content(f"/proc/sys/kernel/overflow{kind}"))
    except ValueError:
        return _OVERFLOW


def _content(path: str) -> bytes:
    """What stands in a file of ``/proc``; empty where it is hidden."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def maps_every_number(table: bytes) -> bool:
    """Whether a ``uid_map`` or ``gid_map`` has a number for every owner (user_namespaces(7): the third column counts)."""
    return sum(int(line.split()[2]) for line in table.splitlines()) == _EVERY_NUMBER


def compare(before: os.stat_result, descriptor: os.stat_result, path: os.stat_result | None) -> IdentityStatus:
    """Before against after, where after is what the descriptor and the path (None: gone) say.

    The times decide with the size: a rewrite of the same size with its mtime put back still moves the ctime.
    """
    if path is None or (path.st_dev, path.st_ino) != (before.st_dev, before.st_ino):
        return "replaced"
    same = all(_state(before) == _state(after) for after in (descriptor, path))
    return "unchanged" if same else "modified"


def _state(status: os.stat_result) -> tuple[int, int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
