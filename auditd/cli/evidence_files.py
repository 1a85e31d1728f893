"""Exported records: bytes to standard output or into a file, and files that are given."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from auditd.cli.terminal import OutputError, Terminal
from auditd.errors import AuditError
from auditd.evidence.text import printable


class FileError(AuditError):
    """A file that cannot be read or written."""


def put(chunks: Iterable[bytes], output: bytes | None, terminal: Terminal) -> None:
    """Write ``chunks`` to standard output, or all of them or nothing into a file."""
    if output is None:
        _put_out(chunks, terminal)
        return
    try:
        if _is_plain(output):
            _replace(output, chunks)
        else:
            with open(output, "wb") as file:
                file.writelines(chunks)
    except OSError as error:
        raise FileError(f"{printable(output)}: cannot be written: {error.strerror}") from None


def _put_out(chunks: Iterable[bytes], terminal: Terminal) -> None:
    terminal.flush()
    for chunk in chunks:
        try:
            terminal.out.buffer.write(chunk)
        except OSError as error:
            raise OutputError(error) from None
    terminal.flush()


def _is_plain(path: bytes) -> bool:
    """Whether ``path`` is a regular file or not there yet; a pipe or a device must not be replaced by a file."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True


def _replace(path: bytes, chunks: Iterable[bytes]) -> None:
    temporary = b"%b.%d.tmp" % (path, os.getpid())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextmanager
def opened(path: bytes) -> Iterator[BinaryIO]:
    """A file that is given; ``-`` is standard input."""
    if path == b"-":
        yield sys.stdin.buffer
        return
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        raise FileError(f"{printable(path)}: {error.strerror}") from None


def beginning(path: bytes, length: int) -> bytes:
    """The first bytes of a regular file; nothing of anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.read(descriptor, length) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)
