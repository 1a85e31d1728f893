"""A file's identity: what the file system says of it, and whether two looks saw the same file."""

from __future__ import annotations

import os

from auditd.evidence.record import FileIdentity, IdentityStatus


def observe(status: os.stat_result) -> FileIdentity:
    """The identity in a ``stat_result``."""
    return FileIdentity(
        device=status.st_dev,
        inode=status.st_ino,
        size=status.st_size,
        mtime_ns=str(status.st_mtime_ns),
        ctime_ns=str(status.st_ctime_ns),
        links=status.st_nlink,
        mode=status.st_mode,
        uid=status.st_uid,
        gid=status.st_gid,
    )


def compare(before: FileIdentity, descriptor: FileIdentity, path: FileIdentity | None) -> IdentityStatus:
    """Before against after, where after is what the descriptor and the path (None: gone) say.

    The times decide with the size: a rewrite of the same size with its mtime put back still moves the ctime.
    """
    if path is None or (path.device, path.inode) != (before.device, before.inode):
        return "replaced"
    same = all(_state(before) == _state(after) for after in (descriptor, path))
    return "unchanged" if same else "modified"


def _state(identity: FileIdentity) -> tuple[int, int, int, str, str]:
    return identity.device, identity.inode, identity.size, identity.mtime_ns, identity.ctime_ns
