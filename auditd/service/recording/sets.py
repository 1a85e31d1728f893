"""Sets of files in the daemon: a place is judged once nothing in it has moved for a while.

Whoever sees something move in a place marks it: a record that was made, an artifact that is gone, an index or a manifest
that a scan came by. A set that stayed as it was leaves no new record; one that is no more is forgotten, and its alerts
are cleared. A place that cannot be seen, wholly or in part, keeps what is known of it, and so does every place of a
root that is blind or is not mounted.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, NoReturn

import msgspec
import trio
from msgspec.structs import replace

from auditd.errors import InspectionStopped, StoreError
from auditd.evidence.record import Producer, Severity
from auditd.evidence_store.store import EvidenceStore
from auditd.inspection.set_discovery import place_of, sets_of
from auditd.inspection.timestamps import now_text
from auditd.model_sets.composition import compose_set
from auditd.model_sets.facts import SetFacts
from auditd.model_sets.members import MemberFacts
from auditd.model_sets.record import SetEvidence
from auditd.model_stores.files import Unknown, status_if_present
from auditd.model_stores.stores import ModelStores
from auditd.service.bell import Bell
from auditd.service.reading.board import RootBoard
from auditd.service.reading.cancellation import check_cancelled, in_thread
from auditd.service.recording.recorder import FoundSet, Recorder
from auditd.service.watching.scanner import is_below, is_elsewhere

#: Members whose facts are kept between two judgements; a set is judged again while its members come in.
_MEMBERS_KEPT: Final = 512

#: A place is not judged more often, whatever the settings say.
_LEAST_SETTLE_SECONDS: Final = 0.1

#: Before a place that could not be seen is looked at again.
_UNSEEN_SECONDS: Final = 60.0

#: Longest wait for the next place to become due.
_LONGEST_WAIT_SECONDS: Final = 3600.0


class _Found(NamedTuple):
    """The sets of a place; not ``whole`` if there may be others."""

    sets: list[FoundSet]
    whole: bool


class SetKeeper:
    """Judges the sets of the places that are marked. Methods are called in the loop, :meth:`mark_from_thread` apart.

    ``rules`` gives, for a path, who makes its records and with which severities; None if no root covers it.
    """

    def __init__(
        self,
        recorder: Recorder,
        stores: ModelStores,
        settle_seconds: float,
        rules: Callable[[bytes], tuple[Producer, Mapping[str, Severity]] | None],
        roots: Iterable[RootBoard] = (),
    ) -> None:
        self._roots = tuple(roots)
        self._recorder = recorder
        self._stores = stores
        self._settle_seconds = max(_LEAST_SETTLE_SECONDS, settle_seconds)
        self._rules = rules
        #: Places that are to be judged, and when (the loop's clock).
        self._due: dict[bytes, float] = {}
        #: Whether the sets that no root covers were looked for.
        self._begun = False
        self._bell = Bell()
        self._limiter = trio.CapacityLimiter(1)
        self._facts: OrderedDict[str, MemberFacts] = OrderedDict()

    def mark(self, path: bytes) -> None:
        """Something moved at ``path``: its place is judged once it has stood still."""
        self._due[place_of(path)] = trio.current_time() + self._settle_seconds
        self._bell.ring()

    def mark_from_thread(self, paths: Iterable[bytes]) -> None:
        """The same from a worker thread, for places that a scan came by: one that is due anyway keeps its time."""
        places = {place_of(path) for path in paths}
        trio.from_thread.run_sync(self._mark_places, places)

    def _mark_places(self, places: Iterable[bytes]) -> None:
        due_at = trio.current_time() + self._settle_seconds
        for place in places:
            self._due.setdefault(place, due_at)
        self._bell.ring()

    async def keep(self) -> NoReturn:
        """Judge what is due, for ever."""
        while True:
            if not self._begun:
                await self._mark_uncovered()
            now = trio.current_time()
            for place in [place for place, due_at in self._due.items() if due_at <= now]:
                # It may have moved again while another place was judged.
                if self._due[place] <= trio.current_time():
                    del self._due[place]
                    await self._judge(place)
            await self._recorder.write_set_lines()
            next_due = min(self._due.values(), default=now + _LONGEST_WAIT_SECONDS)
            await self._bell.wait(next_due - trio.current_time())

    async def _mark_uncovered(self) -> None:
        """Sets that were judged under other settings, where no root is any more."""
        try:
            places = await in_thread(self._limiter, partial(self._recorder.store.set_places, b"/"))
        except InspectionStopped:
            await trio.sleep_forever()
        except StoreError as error:
            await self._recorder.store_failed(str(error))
            return
        self._begun = True
        for place in places:
            if self._rules(place + b"/") is None:
                self._due[place] = trio.current_time()

    async def _judge(self, place: bytes) -> None:
        rules = self._rules(place + b"/")
        if rules is None:
            await self._recorder.record_sets(place, [], "configuration")
            return
        try:
            found = await in_thread(self._limiter, partial(self._entries, place, *rules))
        except InspectionStopped:
            # A stop is delivered here.
            await trio.sleep_forever()
        except Unknown:
            # Not seen is not gone.
            self._due.setdefault(place, trio.current_time() + _UNSEEN_SECONDS)
            return
        except StoreError as error:
            self._due[place] = trio.current_time() + self._settle_seconds
            await self._recorder.store_failed(str(error))
            return
        if found is None:
            self._due[place] = trio.current_time() + self._settle_seconds
            return
        whole = found.whole and not any(root.state == "blind" for root in self._roots_of(place))
        if not whole:
            self._due.setdefault(place, trio.current_time() + _UNSEEN_SECONDS)
        await self._recorder.record_sets(place, found.sets, "removed" if whole else None)

    def _roots_of(self, place: bytes) -> list[RootBoard]:
        return [root for root in self._roots if is_below(place + b"/", root.path)]

    # --- in the thread -----------------------------------------------------------------------------------

    def _entries(self, place: bytes, producer: Producer, severities: Mapping[str, Severity]) -> _Found | None:
        """The sets of the place; None while it is still moving."""
        if status_if_present(place) is None:
            return _Found([], self._may_be_told_from(place))
        still = self._stands_still(place)
        facts_of = partial(self._facts_of, self._recorder.store)
        sets = sets_of(place, facts_of, self._stores, standing_still=still, checkpoint=check_cancelled)
        entries: list[FoundSet] = []
        whole = True
        try:
            for facts in sets:
                entries.append(self._entry(facts, producer, severities))  # noqa: PERF401 - what came before an end counts
        except Unknown:
            whole = False
        # What may still come is not missing; it is looked at again.
        if not still and any(entry.evidence.verdict == "in_progress" for entry in entries):
            return None
        # After the look: it may have been unmounted meanwhile.
        return _Found(entries, whole and self._may_be_told_from(place))

    def _may_be_told_from(self, place: bytes) -> bool:
        """Whether the roots of a place are there, so that what is not found in it is gone."""
        try:
            return not any(self._is_displaced(root.path) for root in self._roots_of(place))
        except OSError:
            return False

    def _is_displaced(self, root: bytes) -> bool:
        with os.scandir(root) as entries:
            empty = next(entries, None) is None
        return empty and is_elsewhere(self._recorder.store, root)

    def _stands_still(self, place: bytes) -> bool:
        try:
            age = time.time() - os.stat(place).st_mtime
        except OSError as error:
            raise Unknown from error
        # A time in the future says nothing.
        return age < 0 or age >= self._settle_seconds

    def _facts_of(self, store: EvidenceStore, path: bytes) -> MemberFacts | None:
        """What the last complete record of a file says of it."""
        known = store.known(path)
        if known is None or known.evidence_id is None:
            return None
        facts = self._facts.pop(known.evidence_id, None)
        if facts is None:
            evidence = store.evidence(known.evidence_id)
            facts = None if evidence is None else MemberFacts.of(evidence)
        if facts is not None:
            self._facts[known.evidence_id] = facts
            while len(self._facts) > _MEMBERS_KEPT:
                self._facts.popitem(last=False)
        return facts

    def _entry(self, facts: SetFacts, producer: Producer, severities: Mapping[str, Severity]) -> FoundSet:
        evidence = compose_set(
            facts, producer=producer, trigger="change", recorded_at=now_text(), severities=severities
        )
        name = facts.directory + b"/" + facts.name.encode("utf-8", "surrogateescape")
        return FoundSet(name, evidence, _state(evidence))


def _state(evidence: SetEvidence) -> str:
    """What was found, without the time and the numbers of records: the same again needs no new record."""
    members = [replace(member, evidence_id=None) for member in evidence.set.members or ()]
    found = (evidence.verdict, replace(evidence.set, members=members), evidence.findings)
    return sha256(msgspec.json.encode(found)).hexdigest()
