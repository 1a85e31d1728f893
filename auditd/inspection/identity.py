"""A file's identity: what the file system says of it, and whether two looks saw the same file."""

from __future__ import annotations

import os

from auditd.evidence.exactness import exact_int
from auditd.evidence.record import FileIdentity, IdentityStatus


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
        uid=status.st_uid,
        gid=status.st_gid,
    )


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
