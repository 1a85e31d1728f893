"""What all stores and sidecars together say: of one file, and of a tree. Blocking; one :class:`ModelStores` for a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from auditd.evidence.expectation import Expectation
from auditd.model_sets.facts import SetFacts
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.files import Checkpoint, Unknown, carry_on, entries_of, link_target, status_of
from auditd.model_stores.merge import merge
from auditd.model_stores.ollama import OllamaStore
from auditd.model_stores.registry import SOURCES, STORES
from auditd.model_stores.status import EntryStatus, ModelStore, Source, entry_status

#: Links after each other, as the kernel follows them.
_LINKS: Final = 40

#: What ``st_blocks`` counts in, whatever the file system's own blocks are.
_BLOCK_BYTES: Final = 512

_ARIA2 = "a download with aria2 that is under way or was left; its size is set aside from the start"
_ARIA2_ALONE = "the control file of a download with aria2, without the file"


class ModelStores:
    """What is known of the stores of this machine: read when first asked for, kept within bounds, and kept current."""

    def __init__(self, trust_seconds: float = 0.0) -> None:
        self.cache = ReadCache(trust_seconds)

    def expectation(
        self,
        path: bytes,
        status: os.stat_result | None = None,
        *,
        given: bytes | None = None,
        checkpoint: Checkpoint = carry_on,
    ) -> Expectation:
        """What is said of the regular file at ``path``, whose lstat is ``status``.

        ``given`` is a link that leads to it: what is said of the names on the way from there counts, too.
        ``checkpoint`` is called while a store is read for the first time or again; what it raises passes through.
        """
        self.cache.checkpoint = checkpoint
        path = _absolute(path)
        status = status_of(path) if status is None else status
        if given is None or given == path:
            return self._of(path, status)
        return merge(self._of(name, status) for name in (path, *_links(_absolute(given), path)))

    def _of(self, path: bytes, status: os.stat_result | None) -> Expectation:
        return merge(source.expectation(path, status) for source in self._sources(os.path.dirname(path)))

    def _sources(self, directory: bytes) -> tuple[Source, ...]:
        """Whoever speaks of files in ``directory``; a look through a tree asks for all of them, one after the other."""
        return self.cache.recall("sources", directory, partial(self._recognised, directory))

    def _recognised(self, directory: bytes, watch: Dependencies) -> tuple[Source, ...]:
        found = (kind.recognise(directory, self.cache, watch) for kind in SOURCES)
        return tuple(source for source in found if source is not None)

    def part(self, path: bytes) -> str:
        """One word for what the file at ``path`` is of its model (``license``), where a store has several parts for one."""
        store = OllamaStore.of_blobs(os.path.dirname(_absolute(path)), self.cache)
        return "" if store is None else store.part(path)

    def survey(self, root: bytes, checkpoint: Checkpoint = carry_on) -> Iterator[EntryStatus]:
        """Yield what is missing, orphaned, unfinished or left over in the stores at and below ``root``, one at a time."""
        for path, kind in _tree(root, checkpoint):
            if kind != stat.S_IFDIR:
                if path.endswith(b".aria2"):
                    yield _by_aria2(path)
                continue
            for store in self._rooted(path):
                yield from store.survey(checkpoint)

    def models(self, root: bytes, checkpoint: Checkpoint = carry_on) -> Iterator[SetFacts]:
        """Yield the models of the stores at and below ``root`` as sets, one at a time.

        What cannot be read or understood is left to :meth:`survey`.
        """
        for path, kind in _tree(root, checkpoint):
            for store in self._rooted(path) if kind == stat.S_IFDIR else ():
                with suppress(Unknown):
                    yield from store.models(checkpoint)

    def rooted_at(self, directory: bytes) -> ModelStore | None:
        """The store that ``directory`` is, None if it is none."""
        return next(self._rooted(directory), None)

    def refresh(self) -> None:
        """Have everything that is kept checked at its next use; for the begin of a scan."""
        self.cache.refresh()

    def _rooted(self, directory: bytes) -> Iterator[ModelStore]:
        for kind in STORES:
            store = kind.rooted(directory, self.cache)
            if store is not None:
                yield store


def _absolute(path: bytes) -> bytes:
    """Structure is told by the directories above, which a relative path does not name."""
    return path if path.startswith(b"/") else os.path.join(os.getcwdb(), path)


def _links(path: bytes, target: bytes) -> Iterator[bytes]:
    """The links from ``path`` on the way to ``target``, without ``target`` itself."""
    for _ in range(_LINKS):
        text = link_target(path) if path != target else None
        if text is None:
            return
        yield path
        path = os.path.normpath(os.path.join(os.path.dirname(path), text))


def _by_aria2(control: bytes) -> EntryStatus:
    """The download that a control file is for; how much of it is there is told by the blocks that it occupies."""
    path = control.removesuffix(b".aria2")
    status = status_of(path)
    if status is None:
        return entry_status("leftover", "aria2", control, _ARIA2_ALONE, status_of(control))
    done = min(status.st_blocks * _BLOCK_BYTES, status.st_size)
    message = f"{_ARIA2}; about {done:,} of {status.st_size:,} bytes are on the disk"
    return entry_status("unfinished", "aria2", path, message, status)


def _tree(root: bytes, checkpoint: Checkpoint) -> Iterator[tuple[bytes, int]]:
    """Yield each directory at and below ``root``, and each name in it with its file type.

    ``root`` may be a link; no other is followed. A directory that cannot be read is left to the scan, which says so.
    """
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        yield directory, stat.S_IFDIR
        try:
            for name, kind in entries_of(directory + b"/" if directory == root else directory, checkpoint):
                path = os.path.join(directory, name)
                if kind == stat.S_IFDIR:
                    waiting.append(path)
                else:
                    yield path, kind
        except Unknown:
            continue
