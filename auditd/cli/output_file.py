"""A file that a record is written into: all of it or nothing, never over a model, never waiting for a reader."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from auditd.formats.detection import HEAD_BYTES, is_plausible_head

_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
#: Without O_NONBLOCK a pipe that nobody reads would hold the command up for ever.
_OLD_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def refusal(output: bytes, model: bytes | None = None) -> str | None:
    """Why ``output`` must not be overwritten: it is ``model`` itself, or another one. None if it may be."""
    try:
        status = os.stat(output)
    except (OSError, ValueError):  # nothing there that could be lost
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    try:
        if model is not None and os.path.samefile(model, output):
            return "is the file that is to be inspected"
    except (OSError, ValueError):  # that there is no such model is for the inspection to say
        pass
    try:
        descriptor = os.open(output, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return f"may be a model, and cannot be looked at: {error.strerror}"
    try:
        head = os.pread(descriptor, HEAD_BYTES, 0)
    except OSError as error:
        return f"may be a model, and cannot be looked at: {error.strerror}"
    finally:
        os.close(descriptor)
    return "is a model, and is not overwritten" if is_plausible_head(head, status.st_size) else None


def write(path: bytes, chunks: Iterable[bytes]) -> None:
    """Write ``chunks``; a regular file has all of it or is left alone. ``OSError`` if it cannot be done."""
    if _is_plain(path):
        _replace(path, chunks)
    else:
        _write_through(path, chunks)


def _is_plain(path: bytes) -> bool:
    """Whether ``path`` is a regular file or not there yet; a pipe or a device must not be replaced by a file."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True


def _replace(path: bytes, chunks: Iterable[bytes]) -> None:
    # Not made of the name, which may be as long as names can be.
    temporary = os.path.join(os.path.dirname(path), b".model-auditd-%b.tmp" % os.urandom(6).hex().encode())
    descriptor = os.open(temporary, _NEW_FLAGS, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _write_through(path: bytes, chunks: Iterable[bytes]) -> None:
    try:
        descriptor = os.open(path, _OLD_FLAGS, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(error.errno, "nobody reads this pipe") from None
        raise
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(chunks)
