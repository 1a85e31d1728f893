"""One root's eyes: walks it or looks at single paths, and offers what the store does not know in this state.

Blocking; runs in a worker thread and stops by its checkpoint. Holds no list of files: each one is looked up in the
store as it comes by, and what is gone is found by asking the file system for each artifact that the store knows.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from auditd.errors import StoreError
from auditd.evidence.record import Trigger
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint, RequiredWork, required_work
from auditd.evidence_store.entities import ClearedAs
from auditd.evidence_store.store import EvidenceStore
from auditd.inspection.request import Checkpoint, ExpectationSource, HashMode, carry_on, no_expectations
from auditd.inspection.scan import (
    GONE,
    Exclusion,
    Found,
    Gone,
    Other,
    Sighting,
    Unfinished,
    Unseen,
    scan_paths,
    sniff,
    walk,
)
from auditd.inspection.set_discovery import moves_sets, place_of
from auditd.model_sets.names import series_of
from auditd.service.reading.queue import Job, Urgency
from auditd.settings import Root

#: Artifacts that the store is asked for at a time, and offers that are handed over: a hop between threads costs as
#: much as reading a small file.
_BATCH: Final = 100

_ARIA: Final = b".aria2"

_URGENCY: Final = {
    RequiredWork.HEADER: Urgency.HEADER,
    RequiredWork.DIGEST: Urgency.DIGEST,
    RequiredWork.LATER: Urgency.RECHECK,
}


@dataclass(frozen=True, slots=True)
class Offer:
    """A file that the store does not know in this state; with ``retry_at`` (wall clock) not to be read before."""

    job: Job
    retry_at: float | None = None


@dataclass(slots=True)
class Tally:
    """What one scan saw. ``unseen`` counts directories and files that could not be looked at."""

    artifacts: int = 0
    due: int = 0
    unfinished: int = 0
    other_files: int = 0
    special_files: int = 0
    unseen: int = 0
    removed: int = 0
    duration_seconds: float = 0.0
    #: The first path that could not be looked at, and its errno.
    first_unseen: Unseen | None = None

    @property
    def total(self) -> int:
        """All that was met, directories apart."""
        return self.artifacts + self.unfinished + self.other_files + self.special_files + self.unseen


class Displaced(Exception):
    """The root is there and empty, and it is not on the file system that its files were on: nothing was removed."""


@dataclass(frozen=True, slots=True)
class Scanner:
    """Looks below one root. ``offer`` and ``removed`` are called in the scanning thread."""

    index: int
    root: Root
    mode: HashMode
    configuration: str
    store: EvidenceStore
    offer: Callable[[list[Offer]], None]
    removed: Callable[[bytes, ClearedAs], None]
    #: The paths of all roots. What stands below none of them was reached through a link.
    roots: tuple[bytes, ...] = ()
    expectations: ExpectationSource = no_expectations
    #: Called at the begin of a look: what the promises are made from may have changed since the last one.
    refresh: Callable[[], None] = lambda: None
    #: Called in the scanning thread with files that say which others belong together.
    moved: Callable[[Iterable[bytes]], None] = lambda _: None
    path: bytes = field(init=False)
    exclusion: Exclusion = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fsencode(self.root.path))
        object.__setattr__(self, "exclusion", Exclusion.of(self.root.exclude))

    def scan(self, trigger: Trigger, checkpoint: Checkpoint) -> Tally:
        """Walk the whole root, and look for what is gone. :class:`Displaced` instead of a false removal."""
        begun = time.monotonic()
        self.refresh()
        sniffs = _Sniffs(self.store)
        sightings = walk(
            self.path,
            recursive=self.root.recursive,
            follow_links=self.root.follow_links,
            exclude=self.root.exclude,
            checkpoint=checkpoint,
            sniffed=sniffs,
        )
        tally = self._take(sightings, trigger)
        sniffs.flush()
        if tally.first_unseen is None or tally.first_unseen.path != self.path:
            if not tally.total:
                self._check_place()
            tally.removed = self._sweep(checkpoint)
            self._mark_sets(trigger, checkpoint)
        tally.duration_seconds = round(time.monotonic() - begun, 3)
        return tally

    def scan_paths(self, paths: Iterable[bytes], checkpoint: Checkpoint) -> Tally:
        """Look at the paths of an event: a file, a directory that appeared, a name that is gone."""
        self.refresh()
        sniffs = _Sniffs(self.store)
        tally = self._take(chain.from_iterable(self._sightings(path, checkpoint, sniffs) for path in paths), "change")
        sniffs.flush()
        return tally

    def _sightings(self, path: bytes, checkpoint: Checkpoint, sniffs: _Sniffs) -> Iterator[Sighting | Gone]:
        names = [path]
        if path.endswith(_ARIA):
            # Its coming or going tells whether the file beside it is finished.
            names.append(path.removesuffix(_ARIA))
        for name in names:
            if name == self.path or not name.startswith(self.path.rstrip(b"/") + b"/"):
                continue
            yield from scan_paths(
                name,
                self.path,
                recursive=self.root.recursive,
                follow_links=self.root.follow_links,
                exclude=self.root.exclude,
                checkpoint=checkpoint,
                sniffed=sniffs,
            )

    def _take(self, sightings: Iterable[Sighting | Gone], trigger: Trigger) -> Tally:
        tally = Tally()
        artifacts: list[Found] = []
        places: dict[bytes, bytes] = {}
        for sighting in sightings:
            match sighting:
                case Found():
                    tally.artifacts += 1
                    artifacts.append(sighting)
                    if len(artifacts) >= _BATCH:
                        tally.due += self._offer(artifacts, trigger)
                        artifacts = []
                case Unfinished(path):
                    tally.unfinished += 1
                    places.setdefault(place_of(path), path)
                case Unseen():
                    tally.unseen += 1
                    tally.first_unseen = tally.first_unseen or sighting
                case Other(path, special):
                    if moves_sets(path):
                        places.setdefault(place_of(path), path)
                    tally.special_files += special
                    tally.other_files += not special
                case Gone(path):
                    if moves_sets(path):
                        places.setdefault(place_of(path), path)
                    places.update(self._known_sets(path))
                    tally.removed += self._gone(path)
        if artifacts:
            tally.due += self._offer(artifacts, trigger)
        if places:
            self.moved(places.values())
        return tally

    def _offer(self, artifacts: list[Found], trigger: Trigger) -> int:
        """Offer those that are to be read; how many they are."""
        known = self.store.known_of([found.path for found in artifacts])
        now = time.time()
        offers = [self._offer_of(found, known.get(found.path), trigger, now) for found in artifacts]
        batch = [offer for offer in offers if offer is not None]
        if batch:
            self.offer(batch)
        return len(batch)

    def _offer_of(self, found: Found, known: ArtifactState | None, trigger: Trigger, now: float) -> Offer | None:
        path, status = found.path, found.status
        seen = Fingerprint.of_status(status)
        if known is None and is_known_elsewhere(self.store, path, seen):
            return None
        wanted = required_work(
            known,
            seen,
            settings=self.configuration,
            mode=self.mode,
            run=self.store.run,
            now=now,
            expectation=self.expectations(path, path, status, carry_on),
        )
        if wanted is RequiredWork.NOTHING:
            return None
        retry_at = known.retry_at if known is not None and wanted is RequiredWork.LATER else None
        return Offer(Job(path, self.index, seen, trigger, _URGENCY[wanted]), retry_at)

    # --- what is gone ------------------------------------------------------------------------------------

    def _check_place(self) -> None:
        if is_elsewhere(self.store, self.path):
            raise Displaced("empty, and not on the file system that its files were on: is it mounted?")

    def _gone(self, path: bytes) -> int:
        """A name is gone, and with it all that stood below it."""
        count = 0
        for artifact in chain([path], self.store.artifacts(path)):
            if self.store.known(artifact) is not None and self._is_gone(artifact):
                self.removed(artifact, "removed")
                count += 1
        return count

    def _sweep(self, checkpoint: Checkpoint) -> int:
        count = 0
        for path in chain(self.store.artifacts(self.path), self._strays()):
            checkpoint()
            reason = self._reason_to_forget(path)
            if reason is not None:
                self.removed(path, reason)
                count += 1
        gone = (path for path in self.store.sniffed(self.path) if not _is_regular(path))
        self.store.forget_sniffs(gone)
        return count

    def _known_sets(self, directory: bytes) -> dict[bytes, bytes]:
        """The places at and below a directory of which sets are known, each with a path in it."""
        return {place: place + b"/" for place in self.store.set_places(directory)}

    def _mark_sets(self, trigger: Trigger, checkpoint: Checkpoint) -> None:
        """What is known, for its index may be gone. At the start also what an earlier run did not come to judge."""
        places = self._known_sets(self.path)
        for path in self.store.artifacts(self.path) if trigger == "startup" else ():
            checkpoint()
            if series_of(os.path.basename(path)) is not None:
                places.setdefault(place_of(path), path)
        if places:
            self.moved(places.values())

    def _strays(self) -> Iterator[bytes]:
        """Artifacts outside of every root, where links are followed: one of them may lead there."""
        if self.root.follow_links:
            roots = {*self.roots, self.path}
            yield from (path for path in self.store.artifacts(b"/") if not any(is_below(path, root) for root in roots))

    def _reason_to_forget(self, path: bytes) -> ClearedAs | None:
        if self._is_gone(path):
            return "removed"
        if not is_below(path, self.path):
            return None
        return None if self.covers(path) else "configuration"

    def _is_gone(self, path: bytes) -> bool:
        """Whether nothing regular stands at ``path``. Below a root that went meanwhile, nothing is gone."""
        return not _is_regular(path) and os.path.isdir(self.path)

    def covers(self, path: bytes) -> bool:
        """Whether the settings of this root still ask for an artifact at ``path`` below it."""
        if self.root.recursive and not self.exclusion:
            return True
        below_root = os.path.relpath(path, self.path)
        parts = below_root.split(b"/")
        if len(parts) > 1 and not self.root.recursive and not self._is_linked(path):
            return False
        return not any(self.exclusion.matches(part, b"/".join(parts[: place + 1])) for place, part in enumerate(parts))

    def _is_linked(self, path: bytes) -> bool:
        """Whether a link that stands in the root itself leads to ``path``."""
        with suppress(OSError), os.scandir(self.path) as entries:
            return any(entry.is_symlink() and os.path.realpath(entry.path) == path for entry in entries)
        return False


def is_known_elsewhere(store: EvidenceStore, path: bytes, seen: Fingerprint) -> bool:
    """Whether the file is an artifact under another name already: a hard link, a bind mount. One file, one evidence."""
    for other in store.same_inode(path, seen):
        with suppress(OSError):
            if Fingerprint.of_status(os.lstat(other)) == seen:
                return True
    return False


def is_elsewhere(store: EvidenceStore, root: bytes) -> bool:
    """Whether the file system of the directory ``root`` is not the one that the first artifact below it was on."""
    first = next(store.artifacts(root), None)
    known = None if first is None else store.known(first)
    if known is None or known.fingerprint is None:
        return False
    return known.fingerprint.device != os.stat(root).st_dev


def is_below(path: bytes, root: bytes) -> bool:
    """Whether ``path`` stands below ``root``, by its name."""
    return path.startswith(root.rstrip(b"/") + b"/")


def _is_regular(path: bytes) -> bool:
    """Whether a regular file may stand at ``path``: only "no such file" and another kind of file are a no."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError as error:
        return error.errno not in GONE


class _Sniffs:
    """First looks at files without a model name, each state of a file once."""

    def __init__(self, store: EvidenceStore) -> None:
        self._store = store
        self._fresh: list[tuple[bytes, Fingerprint, bool]] = []

    def __call__(self, path: bytes, status: os.stat_result) -> bool:
        seen = Fingerprint.of_status(status)
        known = self._store.sniff(path, seen)
        if known is None:
            known = sniff(path, status)
            self._fresh.append((path, seen, known))
            if len(self._fresh) >= _BATCH:
                self.flush()
        return known

    def flush(self) -> None:
        """Keep what was learned. A store that does not take it costs another look, no more."""
        fresh, self._fresh = self._fresh, []
        if fresh:
            try:
                self._store.remember_sniffs(fresh)
            except StoreError:
                return
