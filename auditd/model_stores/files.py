"""Small files and directories that others wrote: read within a bound, never blocking, never through a link.

Nothing here raises for what a path holds or for a path that is not there: None, an empty result, or nothing yielded.
``InspectionStopped`` of a checkpoint passes through.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

#: A name may turn into a FIFO or a terminal between the look and the open: neither may block or adopt us.
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NOCTTY

#: "No such thing", which is an answer; every other error means that it is not known.
_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR})
#: The same for a link that is followed: a loop leads to nothing.
_NOWHERE: Final = _GONE | {errno.ELOOP}

#: Called before every piece of work, from the thread that does it; raises ``InspectionStopped`` to end it.
Checkpoint: TypeAlias = Callable[[], None]

#: What changes whenever a file or a directory's entries do: device, inode, size, mtime_ns, ctime_ns.
Signature: TypeAlias = tuple[int, int, int, int, int]


class Unknown(Exception):
    """A file or directory is there, or may be, and cannot be read, or is past its bound."""


def carry_on() -> None:
    """The checkpoint of a caller that never stops."""


def status_of(path: bytes) -> os.stat_result | None:
    """What the path itself names, not what a link there points to; None if nothing, or if it cannot be seen."""
    try:
        return os.lstat(path)
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return None


def status_if_present(path: bytes) -> os.stat_result | None:
    """What the path itself names, None if nothing; raises :class:`Unknown` if it cannot be seen."""
    try:
        return os.lstat(path)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _GONE:
            return None
        raise Unknown(str(error)) from error


def file_at(path: bytes) -> os.stat_result | None:
    """The regular file that the path leads to, links followed; None if there is none; raises :class:`Unknown`."""
    status = status_if_present(path)
    if status is not None and stat.S_ISLNK(status.st_mode):
        try:
            status = os.stat(path)
        except OSError as error:
            if error.errno in _NOWHERE:
                return None
            raise Unknown(str(error)) from error
    return status if status is not None and stat.S_ISREG(status.st_mode) else None


def leads_nowhere(path: bytes) -> bool:
    """Whether nothing is there, links followed; what cannot be seen may be something."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno in _NOWHERE
    return False


def is_directory(path: bytes) -> bool:
    """Whether a directory stands there, and not a link to one."""
    status = status_of(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def is_file(path: bytes) -> bool:
    """Whether a regular file stands there, and not a link to one."""
    status = status_of(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def signature_of(status: os.stat_result | None) -> Signature | None:
    """The signature in a status; None stands for what is not there."""
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_small(path: bytes, limit: int) -> bytes:
    """All of a regular file of at most ``limit`` bytes; raises :class:`Unknown`."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except (OSError, ValueError) as error:
        raise Unknown(str(error)) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            raise Unknown("no regular file within the bound")
        return _read_all(descriptor, limit)
    except OSError as error:
        raise Unknown(str(error)) from error
    finally:
        os.close(descriptor)


def small_at(path: bytes, limit: int) -> bytes | None:
    """As :func:`read_small`, and None for what it refuses; costs one look where there is nothing, as beside most files."""
    if status_of(path) is None:
        return None
    try:
        return read_small(path, limit)
    except Unknown:
        return None


def _read_all(descriptor: int, limit: int) -> bytes:
    """A file may grow while it is read: what came past the bound is refused, not cut."""
    pieces: list[bytes] = []
    length = 0
    while piece := os.pread(descriptor, limit + 1 - length, length):
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            raise Unknown("longer than its bound")
    return b"".join(pieces)


def head_of(path: bytes, length: int) -> bytes:
    """The first bytes of a regular file, fewer or none if it is shorter or cannot be read."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except (OSError, ValueError):
        return b""
    try:
        return os.pread(descriptor, length, 0) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def entries_of(directory: bytes, checkpoint: Checkpoint = carry_on) -> Iterator[tuple[bytes, int]]:
    """Yield each name in a directory with its file type (``stat.S_IFMT``), in no order, one at a time.

    Nothing for a directory that is not there; raises :class:`Unknown` for one that cannot be read, a link to one
    included: it is there, and what is behind it is not looked at. With a slash at its end a link is followed, as
    everywhere.
    """
    try:
        descriptor = os.open(directory, _DIRECTORY_FLAGS)
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            return
        raise Unknown(str(error)) from error
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                checkpoint()
                yield os.fsencode(entry.name), _type_of(entry)
    except OSError as error:
        raise Unknown(str(error)) from error
    finally:
        os.close(descriptor)


def _type_of(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0


def upwards(directory: bytes, levels: int) -> Iterator[bytes]:
    """``directory`` and the directories above it, ``levels`` of them at most."""
    for _ in range(levels):
        yield directory
        above = os.path.dirname(directory)
        if above == directory:
            return
        directory = above


def link_target(path: bytes) -> bytes | None:
    """The text of a symbolic link, None where there is none."""
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None


def is_plain(name: bytes) -> bool:
    """Whether a name is one path component that stays where it is put: no slash, no NUL, not ``.`` or ``..``."""
    return bool(name) and name not in {b".", b".."} and b"/" not in name and b"\0" not in name


def plain_parts(path: bytes) -> list[bytes] | None:
    """The components of a relative path that leads nowhere but down, a leading ``./`` left out; None for any other."""
    parts = path.removeprefix(b"./").split(b"/")
    return parts if all(is_plain(part) for part in parts) else None
