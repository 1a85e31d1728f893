"""A list of paths in a file or on standard input, read as it comes: it may be long, and it may never end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol, cast

from auditd.errors import UsageError
from auditd.evidence.text import printable

#: No kernel takes a longer path. A list that gives none in so many bytes is no list.
PATH_BYTES: Final = 64 * 1024


class _Source(Protocol):
    def read1(self, size: int, /) -> bytes:
        """Some bytes as soon as there are some; none at the end."""


@contextmanager
def opened(name: bytes | None) -> Iterator[Iterator[bytes]]:
    """The paths in the file ``name`` (``-``: standard input; None: none), without empty ones.

    They are separated by NUL if one stands in the first :data:`PATH_BYTES`, where it would have to be, else by
    lines: a name may hold a line feed. ``UsageError``, also on the way, if it cannot be read or is no list.
    """
    if name is None:
        yield iter(())
        return
    shown = f"--files-from {printable(name)}"
    if name == b"-":
        if sys.stdin is None:
            raise UsageError(f"{shown}: standard input is closed")
        yield _List(cast("_Source", sys.stdin.buffer), shown).paths()
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - what its readers raise is none of this try's
    except OSError as error:
        raise UsageError(f"{shown}: {error.strerror}") from None
    with file:
        yield _List(file, shown).paths()


class _List:
    def __init__(self, source: _Source, shown: str) -> None:
        self._source = source
        self._shown = shown

    def paths(self) -> Iterator[bytes]:
        """Read the beginning at once, so that what is no list is refused before anything else is done."""
        head = piece = self._read()
        while piece and b"\0" not in head and len(head) <= PATH_BYTES:
            piece = self._read()
            head += piece
        return self._split(head, b"\0" if b"\0" in head else b"\n")

    def _split(self, piece: bytes, separator: bytes) -> Iterator[bytes]:
        rest = b""
        barren = 0
        while piece:
            *paths, rest = (rest + piece).split(separator)
            for path in paths:
                barren = 0 if path else barren + 1
                if max(len(path), barren) > PATH_BYTES:
                    raise self._no_list()
                if path:
                    yield path
            if len(rest) > PATH_BYTES:
                raise self._no_list()
            piece = self._read()
        if rest:
            yield rest

    def _no_list(self) -> UsageError:
        return UsageError(f"{self._shown}: no list of paths: more than {PATH_BYTES:,} bytes without one")

    def _read(self) -> bytes:
        try:
            return self._source.read1(PATH_BYTES)
        except OSError as error:
            raise UsageError(f"{self._shown}: {error.strerror}") from None
