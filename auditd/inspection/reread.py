"""Reading parts of a file again whose header was looked at before: spans, the bytes of long values, their elements.

What is read belongs to the header only while the file is the one that was looked at: its identity is compared before
the first byte and after the last one, and another file raises :class:`ReadAgainError`, as does one that cannot be
read. Blocking; memory is one piece, however long a span is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from auditd.errors import AuditError
from auditd.evidence.observation import Observation
from auditd.evidence.text import printable
from auditd.formats.bounds import CHUNK_BYTES
from auditd.formats.declarations import GgufHeader, MetadataEntry
from auditd.formats.gguf.elements import BrokenElements, Element, ElementWalk, is_whole
from auditd.inspection.descriptor import Descriptor, Unreadable
from auditd.inspection.identity import observe
from auditd.inspection.request import Checkpoint, carry_on

_CHANGED: Final = "the file has changed since its header was read"


class ReadAgainError(AuditError):
    """The file cannot be read again, or is no longer the one that was looked at."""


class Reread:
    """The file of a look, open once more. Made by :func:`reopened`."""

    def __init__(self, observation: Observation, descriptor: Descriptor, checkpoint: Checkpoint) -> None:
        self._look = observation
        self._descriptor = descriptor
        self._checkpoint = checkpoint

    def check(self) -> None:
        """Raise :class:`ReadAgainError` unless descriptor and path are still the file that was looked at."""
        path = self._descriptor.path_status()
        seen = [observe(status) for status in (self._descriptor.status(), path) if status is not None]
        if path is None or any(identity != self._look.before for identity in seen):
            raise ReadAgainError(f"{printable(self._look.path)}: {_CHANGED}")

    def span(self, begin: int, end: int) -> Iterator[bytes]:
        """The bytes from ``begin`` up to ``end``, in pieces; fewer where the file ends before."""
        size = None if self._look.before is None else self._look.before.size
        if size is None or begin >= size:
            return  # a tensor may claim to begin where no file can: past what an offset of the system holds
        self._descriptor.offset = begin
        while self._descriptor.offset < end:
            self._checkpoint()
            piece = self._descriptor.read(min(CHUNK_BYTES, end - self._descriptor.offset))
            if not piece:
                return
            yield piece


@contextmanager
def reopened(observation: Observation, checkpoint: Checkpoint = carry_on) -> Iterator[Reread]:
    """The file that ``look`` saw, closed at the end. Raises :class:`ReadAgainError`, then or while it is read.

    Links on the way, and times of the last access, may have changed; nothing else may.
    """
    try:
        descriptor = Descriptor(observation.path)
        try:
            again = Reread(observation, descriptor, checkpoint)
            again.check()
            yield again
            again.check()
        finally:
            descriptor.close()
    except Unreadable as error:
        raise ReadAgainError(f"{printable(observation.path)}: {error.stop.message}") from None


def array_digests(observation: Observation, checkpoint: Checkpoint = carry_on) -> Observation:
    """``look`` with the SHA-256 of every metadata value that the header keeps only the beginning of."""
    header = observation.header
    long = [entry for entry in header.metadata if not is_whole(entry.value)] if isinstance(header, GgufHeader) else []
    if not long:
        return observation
    digests = {}
    with reopened(observation, checkpoint) as again:
        for entry in long:
            digest = hashlib.sha256()
            for piece in again.span(entry.value_begin, entry.end):
                digest.update(piece)
            digests[entry.index] = digest.hexdigest()
    return replace(observation, array_sha256=digests)


def elements(observation: Observation, entry: MetadataEntry, checkpoint: Checkpoint = carry_on) -> Iterator[Element]:
    """Every element of the array of ``entry``, read from the file, none of them kept."""
    header = observation.header
    order = header.byte_order if isinstance(header, GgufHeader) and header.byte_order else "little"
    walk = ElementWalk(order)
    with reopened(observation, checkpoint) as again:
        try:
            for piece in again.span(entry.value_begin, entry.end):
                yield from walk.feed(piece)
        except BrokenElements:
            raise ReadAgainError(f"{printable(observation.path)}: {_CHANGED}") from None
        if not walk.finished:
            raise ReadAgainError(f"{printable(observation.path)}: {_CHANGED}")


def prefixes(
    observation: Observation, spans: Iterable[tuple[int, int]], checkpoint: Checkpoint = carry_on
) -> list[bytes]:
    """The bytes of each span ``(begin, end)``, which are short; empty behind the end of the file."""
    with reopened(observation, checkpoint) as again:
        return [b"".join(again.span(begin, end)) for begin, end in spans]
