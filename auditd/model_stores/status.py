"""What a source of promises looks like, and how things stand in a store.

Frozen values and two Protocols. A new kind of store or sidecar is a module with a class of one of these shapes and a
row in :mod:`auditd.model_stores.registry`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from auditd.evidence.expectation import Expectation
from auditd.evidence.text import exact
from auditd.model_sets.facts import SetFacts
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.files import Checkpoint

#: ``missing_target``: a store names a file that is not there. ``orphan``: a file that nothing in its store names.
#: ``unfinished``: a download under way or to be resumed. ``leftover``: one that nothing will resume.
#: ``nothing_downloaded``: a model that is known by name alone. ``unreadable``: a part of a store that cannot be read
#: or understood, so what it names is not known.
EntryStatusKind: TypeAlias = Literal[
    "missing_target", "orphan", "unfinished", "leftover", "nothing_downloaded", "unreadable"
]


@dataclass(frozen=True, slots=True)
class EntryStatus:
    """How one thing stands in its store.

    ``path`` is where it is or should be. ``size`` is in bytes: what is on the disk, or for what is missing what its
    store promises; None if unknown. ``mtime_ns``, in nanoseconds since the epoch, is what its age is counted from.
    ``names`` are those that people use for it, and ``message`` says what it means, printable.
    """

    kind: EntryStatusKind
    store: str
    path: bytes
    message: str
    names: tuple[str, ...] = ()
    size: int | None = None
    mtime_ns: int | None = None


class Source(Protocol):
    """Somebody who says what the files of a directory should be."""

    @classmethod
    def recognise(cls, directory: bytes, cache: ReadCache, watch: Dependencies) -> Source | None:
        """Whoever speaks of files in ``directory``, told by the structure around it and not by where people have it.

        ``watch`` is told what the answer depends on beside names; it is kept, and stands for all files there.
        """

    def expectation(self, path: bytes, status: os.stat_result | None) -> Expectation:
        """What is said of the file ``path``, whose lstat is ``status``; ``NOTHING`` if nothing or nonsense."""


class ModelStore(Protocol):
    """A directory that can say how everything in it stands."""

    @property
    def home(self) -> bytes:
        """The directory that the store is."""

    @classmethod
    def rooted(cls, directory: bytes, cache: ReadCache) -> ModelStore | None:
        """The store that ``directory`` is, None if it is none or not the whole of one."""

    def survey(self, checkpoint: Checkpoint) -> Iterator[EntryStatus]:
        """Yield what is missing, orphaned, unfinished or left over."""

    def models(self, checkpoint: Checkpoint) -> Iterator[SetFacts]:
        """Yield each model of the store as a set of files; raises ``Unknown`` after them if there may be others."""


def text_of(raw: bytes) -> str:
    """A name for a record: the exact text, or an escaped form where it is not UTF-8."""
    return exact(raw)[0]


def entry_status(
    kind: EntryStatusKind,
    store: str,
    path: bytes,
    message: str,
    status: os.stat_result | None,
    names: tuple[str, ...] = (),
) -> EntryStatus:
    """The standing of a file that is there, with the size and time of its ``status``; what is no regular file has no size."""
    if status is None:
        return EntryStatus(kind, store, path, message, names)
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return EntryStatus(kind, store, path, message, names, size, status.st_mtime_ns)
