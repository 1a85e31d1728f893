"""Which file system a path is on, from ``/proc/self/mountinfo``: some send no events. Pure but for :func:`read`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

#: What others change behind the kernel's back: no event is ever sent for it here.
SILENT_TYPES: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "fuse", "fuseblk", "gfs2", "glusterfs", "gpfs", "lustre",
        "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
    }
)  # fmt: skip

_OCTAL: Final = re.compile(rb"\\([0-3][0-7]{2})")


def read() -> bytes:
    """The mount table of this process; empty where there is none."""
    try:
        return Path("/proc/self/mountinfo").read_bytes()
    except OSError:
        return b""


def type_of(path: bytes, mountinfo: bytes) -> str:
    """The type of the file system that the absolute, resolved ``path`` is on; ``""`` if unknown.

    The longest mount point that is a parent decides; of several on one point the last, which hides the others.
    """
    best, found = -1, ""
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(b" - ")
        fields = left.split(b" ")
        if not dash or len(fields) < 5:  # noqa: PLR2004 (proc(5): the mount point is the fifth field)
            continue
        point = _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), fields[4])
        if len(point) >= best and (path == point or path.startswith(point.rstrip(b"/") + b"/")):
            best, found = len(point), right.split(b" ")[0].decode("ascii", "replace")
    return found


def silent_type(path: bytes) -> str:
    """The type of the file system at ``path`` if changes there may come without an event, else ``""``."""
    kind = type_of(os.path.realpath(path), read())
    return kind if kind.partition(".")[0] in SILENT_TYPES else ""
