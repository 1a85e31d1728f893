"""Exported records: bytes to standard output or into a file, and files that are given."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from auditd.cli.output_file import refusal, write
from auditd.cli.terminal import OutputError, Terminal
from auditd.errors import AuditError, UsageError
from auditd.evidence.text import printable, quoted


class FileError(AuditError):
    """A file that cannot be read or written."""


def put(chunks: Iterable[bytes], output: bytes | None, terminal: Terminal) -> None:
    """Write ``chunks`` to standard output, or all of them or nothing into a file."""
    if output is None:
        _put_out(chunks, terminal)
        return
    why_not = refusal(output)
    if why_not is not None:
        raise UsageError(f"evidence: {quoted(output)} {why_not}")
    try:
        write(output, chunks)
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


@contextmanager
def opened(path: bytes) -> Iterator[BinaryIO]:
    """A file that is given; ``-`` is standard input."""
    if path == b"-":
        if sys.stdin is None:
            raise FileError("standard input is closed")
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
