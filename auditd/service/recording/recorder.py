"""What is known becomes durable, then public: the store first, the log line second, the events last.

A store or a log that fails is said once, holds every further inspection up and is tried again until it works: the
daemon lives, and nothing is lost. Lines of the log are marked in the store in groups once they are on the disk; a
crash before that repeats them, and the ``evidence_id`` tells a repeat.

Several threads decide by what the store says: the one that records, and one scanner for each root. Whoever reads, decides
and writes does all of it under one lock, or an alert that one of them cleared is put back by another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import trio

from auditd.errors import StoreError
from auditd.evidence.expectation import NOTHING, Expectation
from auditd.evidence.record import Evidence
from auditd.evidence.summary import line
from auditd.evidence.text import printable
from auditd.evidence_store.artifact_state import ArtifactState, RequiredWork, failed, next_state, required_work
from auditd.evidence_store.entities import Alert, ClearedAs, Entry, SetEntry
from auditd.evidence_store.store import EvidenceStore
from auditd.inspection.request import HashMode
from auditd.model_sets.record import SetEvidence, set_line
from auditd.service.bell import Bell
from auditd.service.logging import Events, path_fields
from auditd.service.reading.queue import Job
from auditd.service.recording import alerts, mount_alerts
from auditd.service.recording.evidence_log import EvidenceLog

#: First and longest wait in seconds before a store or log that failed is tried again.
_RETRY_FIRST_SECONDS: Final = 1.0
_RETRY_LONGEST_SECONDS: Final = 60.0

#: How long the last record may take when the daemon is stopping; systemd's own limit is longer.
LAST_WORD_SECONDS: Final = 5.0

#: How often old records that nothing needs are let go.
_DAY_SECONDS: Final = 86_400.0

#: Lines that may stand in the log without being marked.
_MARK_EVERY: Final = 100

T = TypeVar("T")

#: Events that need a person; the others are information.
_LOUD: Final = frozenset({"alert_raised", "alert_changed", "alert_repeated"})


@dataclass(frozen=True, slots=True)
class Result:
    """An inspection that came back: what it was asked for, and what the settings want of files like this one.

    ``promise`` is what its store said when the inspection began.
    """

    job: Job
    evidence: Evidence
    asked: HashMode
    wanted: HashMode
    interrupted: bool
    expectation: Expectation = NOTHING


class Counts(NamedTuple):
    """Open alerts by code and severity, and sets by verdict."""

    open_alerts: dict[tuple[str, str], int]
    sets: dict[str, int]


class FoundSet(NamedTuple):
    """A set as it was just judged; ``state`` is the same for as long as nothing about it changes."""

    name: bytes
    evidence: SetEvidence
    state: str


class Trouble:
    """A store or a log that fails: said once when it begins and once when it ends."""

    def __init__(self, what: str, events: Events) -> None:
        self.reason: str | None = None
        self._what = what
        self._events = events
        self._wait = _RETRY_FIRST_SECONDS
        self._begun = Bell()

    def begin(self, reason: str) -> None:
        """It failed."""
        if self.reason is None:
            self._events.error(f"{self._what}_failed", reason=reason)
        self.reason = reason
        self._begun.ring()

    def end(self) -> None:
        """It works."""
        if self.reason is not None:
            self._events.info(f"{self._what}_recovered")
        self.reason = None
        self._wait = _RETRY_FIRST_SECONDS

    async def begun(self) -> None:
        """Wait until it fails."""
        while self.reason is None:
            await self._begun.wait()

    async def wait(self) -> None:
        """Wait before the next try, longer each time."""
        await trio.sleep(self._wait)
        self._wait = min(2 * self._wait, _RETRY_LONGEST_SECONDS)


class Recorder:
    """The one writer of store, log and events about artifacts. Its methods are called from the loop.

    Store, and its trouble, may be another recorder's before and after: it is not closed here.
    """

    def __init__(
        self,
        store: EvidenceStore,
        log: EvidenceLog,
        events: Events,
        policy: alerts.Policy,
        store_trouble: Trouble | None = None,
    ) -> None:
        self.store = store
        self.store_trouble = store_trouble or Trouble("store", events)
        self.log_trouble = Trouble("log", events)
        self._log = log
        self._events = events
        self._policy = policy
        #: The last record whose line was written, and the last whose line is marked.
        self._written = 0
        self._marked = 0
        self._begun_anew = store.generation
        self._reopen_wanted = False
        self._unmarked = 0
        self._pruned_at: float | None = None
        self._limiter = trio.CapacityLimiter(1)
        self._telling = trio.Lock()
        #: Held, in threads only, from reading what a decision rests on until it is stored.
        self._deciding = threading.Lock()
        #: Changes that the store did not take and that are waiting for their next try.
        self._refused = 0
        #: How many alert events and judged sets were said, and whom to call after each.
        self.said = 0
        self.after_saying: Callable[[], None] = lambda: None

    @property
    def log_path(self) -> str:
        """Where the log is."""
        return self._log.path

    async def record(self, result: Result) -> RequiredWork:
        """Make a result durable and public; what its artifact needs next. Cancelled, it does so within a bound."""
        known = await self._until_stored(lambda: self._store(result))
        written = await self._with_last_word(self._write_lines)
        # A log that fails holds up the next inspection, not the alarm about this one.
        self._say_inspected(result)
        await self._with_last_word(self.tell_alerts)
        if not written:
            await self.catch_up()
        return self._following(known, result)

    def _following(self, known: ArtifactState, result: Result) -> RequiredWork:
        """What the artifact needs once ``known`` is stored."""
        return required_work(
            known,
            result.job.seen,
            settings=result.evidence.producer.configuration,
            mode=result.wanted,
            run=self.store.run,
            now=time.time(),
            expectation=result.expectation,
        )

    async def remember_failure(self, job: Job, reason: str) -> ArtifactState:
        """An inspection came back with nothing at all: no record, but another try later."""
        self._events.error("inspection_failed", **path_fields(job.path), reason=printable(reason, 500))

        def remember() -> ArtifactState:
            with self._deciding:
                known = failed(self.store.known(job.path), job.seen, time.time())
                self.store.remember(job.path, known)
            return known

        return await self._until_stored(remember)

    async def retry_at(self, path: bytes) -> float | None:
        """When an artifact that came to nothing may be tried again (wall-clock seconds)."""
        known = await self._until_stored(partial(self.store.known, path), commits=False)
        return None if known is None else known.retry_at

    def _store(self, result: Result) -> ArtifactState:
        """In the thread: everything that the result changes, in one transaction."""
        with self._deciding:
            return self._decide(result)

    def _decide(self, result: Result) -> ArtifactState:
        job, evidence, now = result.job, result.evidence, time.time()
        known = next_state(
            self.store.known(job.path),
            evidence,
            job.seen,
            mode=result.asked,
            run=self.store.run,
            now=now,
            interrupted=result.interrupted,
            expectation=result.expectation,
        )
        changes: list[Alert] = []
        if not result.interrupted:
            # What an interrupted look found is found again by the next one, to its end.
            changes = alerts.next_alerts(
                job.path,
                self.store.open_alerts(job.path),
                evidence,
                self._policy,
                now,
                deeper_look_follows=evidence.read.scope != "full"
                and self._following(known, result) is RequiredWork.DIGEST,
                deeper_look_stands=known.mode == "full" or known.hashed_at is not None,
            )
            changes = self._fold(job.path, changes, now)
        self.store.record(Entry(job.path, evidence, known, tuple(changes)))
        return known

    def _fold(self, path: bytes, changes: list[Alert], now: float) -> list[Alert]:
        """Many files of one mount that are not what they were make one alert."""
        for code in sorted({alert.code for alert in changes} & mount_alerts.CODES):
            place = mount_alerts.mount_point(path)
            below = [alert for alert in self.store.alerts_below(place, code) if alert.path != path]
            others = [alert for alert in below if alert.rule != mount_alerts.RULE]
            standing = [alert for alert in self.store.open_alerts(place) if alert.rule == mount_alerts.RULE]
            of_code = next((alert for alert in standing if alert.code == code), None)
            # What the file has and does not change counts as well.
            unchanged = [
                alert
                for alert in self.store.open_alerts(path)
                if alert.code == code and alert.alert_id not in {change.alert_id for change in changes}
            ]
            changes = mount_alerts.fold(changes, [*others, *unchanged], of_code, place, code, now)
        return changes

    # --- the ways to fail --------------------------------------------------------------------------------

    async def _until_stored(self, work: Callable[[], T], *, commits: bool = True) -> T:
        """Do ``work`` on the store until it succeeds. A stop waits for the try under way, and not for another.

        Reading works on a disk that is full: only work that ``commits`` ends the trouble, and only if no other change
        is still refused, for a small one may find room where a large one does not.
        """
        try:
            value = await self._try_stored(work)
        except StoreError as error:
            self.store_trouble.begin(str(error))
        else:
            if commits and not self._refused:
                self.store_trouble.end()
            return value
        self._refused += commits
        try:
            value = await self._try_stored_again(work)
        finally:
            self._refused -= commits
        if commits and not self._refused:
            self.store_trouble.end()
        return value

    async def _try_stored(self, work: Callable[[], T]) -> T:
        with trio.CancelScope(shield=True):
            value = await trio.to_thread.run_sync(work, limiter=self._limiter)
        return value  # noqa: RET504 - inside, mypy takes the scope for one that may swallow an error

    async def _try_stored_again(self, work: Callable[[], T]) -> T:
        while True:
            await self.store_trouble.wait()
            try:
                return await self._try_stored(work)
            except StoreError as error:
                self.store_trouble.begin(str(error))

    async def store_failed(self, reason: str) -> None:
        """Somebody else's work on the store failed: say so, and wait before it is tried again."""
        self.store_trouble.begin(reason)
        await self.store_trouble.wait()

    async def mend(self) -> NoReturn:
        """For ever: where the store failed and nobody has anything to write, find out when it takes changes again."""
        while True:
            await self.store_trouble.begun()
            await self.store_trouble.wait()
            if self._refused or self.store_trouble.reason is None:
                continue
            try:
                await self._try_stored(self.store.prove)
            except StoreError as error:
                self.store_trouble.begin(str(error))
            else:
                if not self._refused:
                    self.store_trouble.end()
            await trio.lowlevel.checkpoint()

    async def catch_up(self) -> None:
        """Write every line that is committed and not written, however long the log fails."""
        while not await self._with_last_word(self._write_lines):
            await self.log_trouble.wait()

    async def _with_last_word(self, work: Callable[[], Any]) -> Any:
        """Do a short piece of work even when the daemon is stopping, within a bound."""
        with trio.move_on_after(LAST_WORD_SECONDS, shield=True):
            return await work()
        return None

    async def _write_lines(self) -> bool:
        try:
            await trio.to_thread.run_sync(self._drain, limiter=self._limiter)
        except StoreError as error:
            self.store_trouble.begin(str(error))
        except OSError as error:
            self.log_trouble.begin(f"{printable(self._log.path)}: {error.strerror or error}")
        else:
            self.log_trouble.end()
            return True
        return False

    def _follow_store(self) -> None:
        """A store that was begun anew counts its records anew, too: nothing of it is written or marked."""
        if self._begun_anew != self.store.generation:
            self._begun_anew = self.store.generation
            self._written = self._marked = self._unmarked = 0

    def _drain(self) -> None:
        self._follow_store()
        if self._reopen_wanted:
            self._log.reopen()
            self._reopen_wanted = False
        for unlogged in self.store.unlogged(self._written):
            # A damaged record is passed over, and marked like a line: it will never have one.
            if unlogged.evidence is not None:
                self._log.write(line(unlogged.evidence))
            self._written = unlogged.sequence
            self._unmarked += 1
            if self._unmarked >= _MARK_EVERY:
                self._mark()
        self._drain_sets()
        if self.log_trouble.reason is not None:
            # Only what is on the disk shows that the log works again.
            self._mark()

    def _sync(self) -> None:
        try:
            self._log.sync()
        except OSError:
            # The kernel says it once. What was written since the last time may be lost, and is written again.
            self._written, self._unmarked = self._marked, 0
            raise

    def _mark(self) -> None:
        self._follow_store()
        self._sync()
        if self._written > self._marked:
            self.store.mark_logged(self._written)
        self._marked = self._written
        self._unmarked = 0

    async def settle_log(self) -> None:
        """Mark the lines that were written; called when there is nothing else to do, and at the end."""
        if self.log_trouble.reason is not None and not await self._write_lines():
            return
        if not self._unmarked:
            return
        try:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._mark, limiter=self._limiter)
        except StoreError as error:
            self.store_trouble.begin(str(error))
        except OSError as error:
            # Tried again a minute later, or with the next line; at worst some lines are written twice.
            self.log_trouble.begin(f"{printable(self._log.path)}: {error.strerror or error}")

    async def prune_daily(self, retention_days: float) -> None:
        """Once a day: let go of records older than the retention that nothing needs, a few at a time."""
        now = time.monotonic()
        if self._pruned_at is not None and now - self._pruned_at < _DAY_SECONDS:
            return
        self._pruned_at = now
        before = time.time() - retention_days * _DAY_SECONDS
        records, next_state, done = 0, 0, False
        while not done:
            batch = await self._until_stored(partial(self.store.prune, before, next_state))
            records, next_state, done = records + batch.records, batch.last, batch.done
        if records:
            self._events.info("evidence_pruned", records=records)

    async def counts(self) -> Counts | None:
        """What the store counts; None while it fails."""

        def count() -> Counts:
            return Counts(self.store.count_open_alerts(), self.store.count_sets())

        try:
            return await trio.to_thread.run_sync(count, limiter=self._limiter)
        except StoreError as error:
            self.store_trouble.begin(str(error))
            return None

    def close(self) -> None:
        """Close the log."""
        self._log.reopen()

    def reopen_log(self) -> None:
        """The log was rotated: the next line goes to a new file."""
        self._reopen_wanted = True

    # --- sets --------------------------------------------------------------------------------------------

    async def record_sets(self, place: bytes, found: Sequence[FoundSet], others: ClearedAs | None = "removed") -> None:
        """Make what changed about the sets of a place durable and public.

        Its other sets are no more, and their alerts are cleared as ``others`` says; with None they stay as they are.
        """
        changed: dict[bytes, SetEvidence] = {}
        await self._until_stored(partial(self._store_sets, place, found, others, changed))
        for evidence in changed.values():
            self._say_set(evidence)
        if changed:
            await self.write_set_lines()
        await self.tell_alerts()

    def _store_sets(
        self, place: bytes, found: Sequence[FoundSet], others: ClearedAs | None, changed: dict[bytes, SetEvidence]
    ) -> None:
        """``changed`` outlives a try that fails: what it stored is no change to the next one."""
        now = time.time()
        with self._deciding:
            for name, evidence, state in found:
                if self.store.set_state(name) != state:
                    standing = self.store.open_alerts(name)
                    told = alerts.next_alerts(name, standing, evidence, self._policy, now, deeper_look_follows=False)
                    # Before: a commit that failed may have reached the disk all the same.
                    changed[name] = evidence
                    self.store.record_set(SetEntry(name, place, evidence, state, tuple(told)))
            if others is None:
                return
            for name in set(self.store.sets_at(place)).difference(each.name for each in found):
                standing = self.store.open_alerts(name)
                self.store.forget_set(name, [alerts.clear(alert, others, now) for alert in standing])

    async def write_set_lines(self) -> None:
        """Write the lines of sets that are committed and not written; what fails is said, and tried again later."""
        await self._with_last_word(self._write_lines)

    def _drain_sets(self) -> None:
        unwritten = self.store.unlogged_sets()
        for evidence in unwritten:
            self._log.write(set_line(evidence))
        if unwritten:
            self._sync()
            self.store.mark_sets_logged([evidence.evidence_id for evidence in unwritten])

    def _count_said(self) -> None:
        self.said += 1
        self.after_saying()

    def _say_set(self, evidence: SetEvidence) -> None:
        self._count_said()
        part = evidence.set
        self._events.info(
            "set_judged",
            set=printable(f"{part.directory}/{part.name}", 1000),
            kind=part.kind,
            verdict=evidence.verdict,
            missing=part.missing_count,
            evidence_id=evidence.evidence_id,
        )

    # --- what is said ------------------------------------------------------------------------------------

    def _say_inspected(self, result: Result) -> None:
        evidence = result.evidence
        self._events.info(
            "inspection_finished",
            **path_fields(result.job.path),
            **alerts.facts_of(evidence),
            outcome=evidence.outcome,
            trigger=evidence.trigger,
            scope=evidence.read.scope,
            bytes_read=evidence.read.bytes_read,
            duration_seconds=evidence.read.duration_seconds,
        )

    async def tell_alerts(self) -> None:
        """Say the alert events that were committed and not said, those of an earlier run too."""
        raised: set[int | None] = set()
        async with self._telling:
            while untold := await self._until_stored(self.store.untold_alerts, commits=False):
                for alert in untold:
                    self._say_alert(alert, raised)
                await self._until_stored(partial(self.store.mark_told, untold))

    def _say_alert(self, alert: Alert, raised: set[int | None]) -> None:
        """Say what is left to be said; of those ``raised`` a moment ago, which may have ended since, not that again."""
        for event in (alert.untold or "alert_raised").split():
            if event != "alert_raised" or alert.untold == event or alert.alert_id not in raised:
                self._say_alert_event(alert, event)
            if event == "alert_raised":
                raised.add(alert.alert_id)

    def _say_alert_event(self, alert: Alert, event: str) -> None:
        self._count_said()
        loud = self._events.error if alert.severity == "critical" else self._events.warning
        say = loud if event in _LOUD else self._events.info
        cleared = {"cleared_as": alert.cleared_as} if event == "alert_cleared" else {}
        say(
            event,
            **path_fields(alert.path),
            **{"evidence_id": alert.evidence_id, **alert.facts},
            code=alert.code,
            constraint=alert.rule or None,
            severity=alert.severity,
            **cleared,
        )

    # --- alerts without a new record ---------------------------------------------------------------------

    def forget(self, path: bytes, cleared_as: ClearedAs) -> bool:
        """Blocking, from any thread: an artifact is gone; its alerts are cleared, to be told. Whether it was known."""
        with self._deciding:
            if self.store.known(path) is None:
                return False
            now = time.time()
            changes = [alerts.clear(alert, cleared_as, now) for alert in self.store.open_alerts(path)]
            self.store.forget(path, self._fold(path, changes, now))
        return True

    def say_abandoned(self, path: bytes, seconds: float) -> None:
        """Say that a read did not come back."""
        self._events.error("read_abandoned", **path_fields(path), silent_seconds=seconds)

    def say_removed(self, path: bytes, cleared_as: ClearedAs) -> None:
        """Say that an artifact is gone."""
        self._events.info("artifact_removed", **path_fields(path), reason=cleared_as)

    async def review(self, change: Callable[[Alert], Alert | None]) -> None:
        """Let ``change`` decide on every open alert, and tell what it changed."""

        def go_through() -> None:
            with self._deciding:
                for alert in self.store.all_open_alerts():
                    changed = change(alert)
                    if changed is not None:
                        if changed.cleared_as == "configuration":
                            self._look_again(alert.path)
                        self.store.put_alerts([changed])
                self._review_mounts()

        await self._until_stored(go_through)
        await self.tell_alerts()

    def _review_mounts(self) -> None:
        """Alerts on mounts, once those of their files were reviewed."""
        for alert in self.store.all_open_alerts():
            if alert.rule == mount_alerts.RULE:
                below = [
                    each for each in self.store.alerts_below(alert.path, alert.code) if each.rule != mount_alerts.RULE
                ]
                if len(below) < mount_alerts.MANY:
                    ended = mount_alerts.cleared(alert, "configuration", time.time())
                    self.store.put_alerts([ended, *mount_alerts.speak_up(below)])

    def _look_again(self, path: bytes) -> None:
        """What its file shows is an alert no more; should the settings make it one again, that is found by a look."""
        known = self.store.known(path)
        if known is not None and known.settings is not None:
            # Which file it is stays known: it may have other names.
            self.store.remember(path, replace(known, settings=None))

    async def begin_settings(self, mark: int) -> None:
        """Delays of tries that failed under other settings are over. A store that fails costs only the haste."""
        try:
            await self._try_stored(partial(self.store.begin_settings, mark))
        except StoreError as error:
            self.store_trouble.begin(str(error))

    async def repeat_alerts(self) -> None:
        """Say again what has been open for long enough since it was last told."""
        if not self._policy.repeat_seconds:
            return
        now = time.time()

        def repeat() -> int:
            with self._deciding:
                due = self.store.alerts_told_before(now - self._policy.repeat_seconds, now)
                if due:
                    self.store.put_alerts(alerts.repeat(alert, now) for alert in due)
            return len(due)

        if await self._until_stored(repeat):
            await self.tell_alerts()
