"""Sets of files in a walk: each place is judged when the walk leaves it, from the records that were made there.

A *place* is what the files of one set stand in: a directory, or a model of a Hugging Face cache, whose snapshots name
files that stand in another directory. Only records of files that a set of the place wants are remembered, and only
until the next place. Blocking; raises nothing for any content.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from auditd.evidence.record import Evidence
from auditd.inspection.request import Checkpoint, carry_on
from auditd.inspection.scan import GONE
from auditd.inspection.set_candidates import candidates, lone
from auditd.model_sets.assess import assess
from auditd.model_sets.candidate import Candidate
from auditd.model_sets.facts import SetFacts
from auditd.model_sets.members import MemberFacts
from auditd.model_stores.blob_names import is_blob
from auditd.model_stores.files import Unknown, status_if_present
from auditd.model_stores.stores import ModelStores

#: What the index of a set of safetensors files ends with.
INDEX_SUFFIX: Final = b".safetensors.index.json"
_REPOSITORY: Final = b"models--"
#: The directories that a store is told by.
_STORE_PARTS: Final = (b"manifests", b"blobs", b"refs", b"snapshots")


def place_of(path: bytes) -> bytes:
    """The place that a file belongs to: its store, or the model of a Hugging Face cache, else its directory."""
    for mark in (b"/blobs/", b"/snapshots/", b"/refs/"):
        home, found, _ = path.partition(mark)
        if found and home.rpartition(b"/")[2].startswith(_REPOSITORY):
            return home
    for mark in (b"/manifests/", b"/blobs/"):
        home, found, _ = path.partition(mark)
        if found and (mark == b"/manifests/" or is_blob(path)):
            return home
    return os.path.dirname(path)


def moves_sets(path: bytes) -> bool:
    """Whether a file that is no artifact says which files belong together: an index, a manifest, a ref, a link."""
    return path.endswith(INDEX_SUFFIX) or any(mark in path for mark in (b"/manifests/", b"/refs/", b"/snapshots/"))


def sets_of(
    place: bytes,
    facts_of: Callable[[bytes], MemberFacts | None],
    stores: ModelStores,
    *,
    standing_still: bool,
    checkpoint: Checkpoint = carry_on,
) -> Iterator[SetFacts]:
    """Yield the sets of a place as it is now; ``facts_of`` gives what is known of a file.

    Raises ``Unknown``, after those that were found, if there may be others.
    """

    def by_names() -> Iterator[SetFacts]:
        for directory in directories_of(place, checkpoint):
            for candidate in candidates(directory, checkpoint=checkpoint):
                members = {entry.name: facts_of(entry.path) for entry in candidate.entries}
                known = {name: facts for name, facts in members.items() if facts is not None}
                facts = assess(candidate, known, standing_still=standing_still, pause=checkpoint)
                if facts is not None:
                    yield facts

    unknown: Unknown | None = None
    for sets in (by_names(), _models_at(place, stores, checkpoint)):
        try:
            yield from sets
        except Unknown as error:
            unknown = error
    if unknown is not None:
        raise unknown


def _models_at(place: bytes, stores: ModelStores, checkpoint: Checkpoint) -> Iterator[SetFacts]:
    store = stores.rooted_at(place)
    if store is not None:
        yield from store.models(checkpoint)
        return
    for part in _STORE_PARTS:
        path = os.path.join(place, part)
        status = status_if_present(path)
        # A store whose blobs are on a disk that is not mounted is still a store.
        if status is not None and stat.S_ISLNK(status.st_mode) and not os.path.isdir(path):
            raise Unknown("a part of a store is a link to nothing that can be seen")


def directories_of(place: bytes, checkpoint: Checkpoint = carry_on) -> Iterator[bytes]:
    """Yield the directories whose names make the sets of a place; raises ``Unknown`` after them if there may be others."""
    if not place.rpartition(b"/")[2].startswith(_REPOSITORY):
        yield place
        return
    unseen: list[OSError] = []
    for directory, _, _ in os.walk(os.path.join(place, b"snapshots"), onerror=unseen.append):
        checkpoint()
        yield directory
    for error in unseen:
        if error.errno not in GONE:
            raise Unknown(str(error)) from error


class SetsOnTheWay:
    """Told of every file of a walk in its order; :meth:`leave` judges the sets of the place that is left."""

    def __init__(self, checkpoint: Checkpoint = carry_on) -> None:
        self._checkpoint = checkpoint
        self._place: bytes | None = None
        self._candidates: list[Candidate] = []
        self._wanted: set[bytes] = set()
        self._members: dict[bytes, MemberFacts] = {}
        self._lone: list[Candidate] = []

    def enter(self, path: bytes) -> Iterator[SetFacts]:
        """The walk comes to ``path``: yield the sets of the place before it, if this is another."""
        place = place_of(os.path.abspath(path))
        if place != self._place:
            yield from self.leave()
            self._place = place

    def take(self, path: bytes, evidence: Evidence) -> None:
        """A record of the place that was entered."""
        self._look()
        path = os.path.abspath(path)
        if path in self._wanted:
            self._members[path] = MemberFacts.of(evidence)
        elif evidence.artifact.format == "gguf":
            facts = MemberFacts.of(evidence)
            if facts.split is not None and not facts.split.alone:
                self._members[path] = facts
                self._lone.append(lone(path, evidence.artifact.size))

    def _look(self) -> None:
        """Find out which sets stand in the place, once."""
        if self._candidates or self._place is None or self._wanted:
            return
        # The walk says what could not be seen.
        with suppress(Unknown):
            for directory in directories_of(self._place, self._checkpoint):
                with suppress(Unknown):
                    self._candidates += candidates(directory, checkpoint=self._checkpoint)
        self._wanted = {entry.path for candidate in self._candidates for entry in candidate.entries}
        # An empty set is known, too.
        self._wanted.add(b"")

    def leave(self) -> Iterator[SetFacts]:
        """Yield the sets of the place that the walk was in; it is in none then."""
        if self._place is None:
            return
        self._look()
        for candidate in (*self._candidates, *self._lone):
            members = {
                entry.name: self._members[entry.path] for entry in candidate.entries if entry.path in self._members
            }
            facts = assess(candidate, members, standing_still=True, pause=self._checkpoint)
            if facts is not None:
                yield facts
        self._place = None
        self._candidates, self._lone, self._wanted, self._members = [], [], set(), {}
