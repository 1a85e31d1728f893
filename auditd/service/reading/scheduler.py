"""The one loop that decides what is read next, and the one task that reads: one inspection at a time.

Files are offered by the scanners, wait in the settler until they stand still, then in the queue until it is their
turn. Whatever had to be forgotten because one of the two was full is found again by a scan, once there is room.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, NoReturn, TypeAlias

import trio

from auditd.errors import InspectionStopped, StoreError
from auditd.evidence.expectation import NOTHING, Expectation
from auditd.evidence.record import Evidence, Producer, Severity
from auditd.evidence_store.artifact_state import RETRY_LONGEST_SECONDS, Fingerprint, RequiredWork, required_work
from auditd.evidence_store.entities import ClearedAs
from auditd.inspection.inspector import given_up, inspect
from auditd.inspection.parts import Parts
from auditd.inspection.request import ExpectationSource, HashMode, Request, no_expectations
from auditd.inspection.scan import GONE
from auditd.service.bell import Bell
from auditd.service.reading.board import Board
from auditd.service.reading.cancellation import Abandoned, Watch, watched
from auditd.service.reading.queue import Job, Urgency, WorkQueue
from auditd.service.reading.settle import Settler
from auditd.service.recording.recorder import Recorder, Result
from auditd.service.systemd import Notifier
from auditd.service.watching.scanner import Offer, is_known_elsewhere
from auditd.settings import InspectSettings, ScheduleSettings

#: What may pass between two turns of the loop when nothing happens and no watchdog asks for more.
_LONGEST_TURN_SECONDS: Final = 60.0

#: Reads that may be lost at one time: each costs a thread and a descriptor until its mount comes back.
_MOST_LOST_THREADS: Final = 4

#: One may be the file's fault; a second one says that the mount is dead, and its files are left alone.
_MOST_LOST_ON_A_DEVICE: Final = 2


@dataclass(frozen=True, slots=True)
class RootRules:
    """How the files of one root are inspected; ``producer.configuration`` is the digest of these settings."""

    producer: Producer
    hash: HashMode
    layout: str
    severities: Mapping[str, Severity]
    digests: Parts = "none"


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """The file had changed again when its turn came."""

    job: Job


@dataclass(frozen=True, slots=True)
class _Demoted:
    """Its header is known: it waits for its turn among the digests."""

    job: Job


@dataclass(frozen=True, slots=True)
class _Failed:
    """The inspector itself gave up: a fault of this program, which must not take the daemon down."""

    reason: str


_Attempt: TypeAlias = Result | _Unsettled | _Demoted | _Failed | Literal[RequiredWork.LATER] | None


def _due_at(retry_at: float, now: float, wall: float) -> float:
    """A wall-clock time in the monotonic clock: not in the past, and not further away than any delay is."""
    return now + min(max(0.0, retry_at - wall), RETRY_LONGEST_SECONDS)


class Scheduler:
    """Owns settler and queue. All methods are called in the loop's thread, :meth:`removed` and :meth:`offer` apart."""

    def __init__(
        self,
        *,
        rules: list[RootRules],
        schedule: ScheduleSettings,
        limits: InspectSettings,
        recorder: Recorder,
        board: Board,
        rescan: Callable[[], None],
        new_expectations: Callable[[], ExpectationSource] = lambda: no_expectations,
        moved: Callable[[bytes], None] = lambda _: None,
        ended: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self.settler = Settler(schedule.settle_seconds, schedule.queue)
        self.queue = WorkQueue(schedule.queue)
        self._rules = rules
        self._limits = limits
        self._schedule = schedule
        self._recorder = recorder
        self._board = board
        self._rescan = rescan
        self._new_expectations = new_expectations
        self._expectations = new_expectations()
        self._moved = moved
        self._ended = ended
        self._begun_anew = recorder.store.generation
        self._turn = Bell()
        self._work = Bell()

    # --- what the scanners' threads call -------------------------------------------------------------------

    def offer(self, offers: list[Offer]) -> None:
        """From a scanner's thread: files that may have to be read."""
        trio.from_thread.run_sync(self._take_offers, offers)

    def removed(self, path: bytes, cleared_as: ClearedAs) -> None:
        """From a scanner's thread: an artifact is gone."""
        if self._recorder.forget(path, cleared_as):
            trio.from_thread.run_sync(self._take_removed, path, cleared_as)

    def _take_offers(self, offers: Iterable[Offer]) -> None:
        now, wall = trio.current_time(), time.time()
        for offer in offers:
            if offer.retry_at is not None:
                self.settler.later(offer.job, _due_at(offer.retry_at, now, wall))
            elif not self.queue.has(offer.job):
                # One that changed while it was due has to stand still again and has lost its turn.
                self.queue.discard(offer.job.path)
                self.settler.observe(offer.job, now, wall)
        self._turn.ring()

    def _take_removed(self, path: bytes, cleared_as: ClearedAs) -> None:
        self.settler.discard(path)
        self.queue.discard(path)
        self._recorder.say_removed(path, cleared_as)
        self._moved(path)
        self._turn.ring()

    # --- the loop ----------------------------------------------------------------------------------------

    async def turn(self, notifier: Notifier, watchdog_seconds: float | None) -> NoReturn:
        """Move what is due into the queue and feed the watchdog, for ever."""
        longest = min(_LONGEST_TURN_SECONDS, (watchdog_seconds or float("inf")) / 3)
        while True:
            self._decide_passes()
            for job in self.settler.due(trio.current_time()):
                self.queue.put(job)
            if len(self.queue):
                self._work.ring()
            self._recover_forgotten()
            if watchdog_seconds is not None and not self._is_stalled():
                await notifier.alive()
            next_due = self.settler.next_due()
            wait = longest if next_due is None else min(longest, next_due - trio.current_time())
            await self._turn.wait(wait)

    def _decide_passes(self) -> None:
        """A scan is a pass over its root once nothing that has to be read there is left."""
        if self._overflowed:
            return
        for index, root in enumerate(self._board.roots):
            if root.pass_at != root.scanned_at and not self._is_busy(index):
                root.pass_at = root.scanned_at

    @property
    def _overflowed(self) -> bool:
        """Whether something had to be forgotten."""
        return self.queue.overflowed or self.settler.overflowed

    def _is_busy(self, root: int) -> bool:
        """Whether a file of a root is left to be inspected; what came to nothing and is tried again does not count."""
        in_hand = any(job.root == root for job in self._board.in_hand)
        return in_hand or self.queue.holds(root) or self.settler.holds(root)

    def put(self, job: Job) -> bool:
        """Have a file inspected when nothing more urgent is due; False if there is no room."""
        taken = self.queue.put(job)
        self._turn.ring()
        return taken

    def is_under_way(self, path: bytes) -> bool:
        """Whether a file is due, settling or in hand."""
        return path in self.queue or path in self.settler or any(job.path == path for job in self._board.in_hand)

    def is_at_rest(self) -> bool:
        """Whether everything that was offered was inspected, but for what came to nothing and is tried again."""
        return not self._overflowed and not any(map(self._is_busy, range(len(self._board.roots))))

    def scanned(self) -> None:
        """A scanner has finished a look, and what it found was offered."""
        self._turn.ring()

    def _is_stalled(self) -> bool:
        """Whether a read has not come back for longer than one may take: then the watchdog is left to starve.

        A store or log that fails is waited for, and is no stall.
        """
        current = self._board.current
        return current is not None and current[1].silent_seconds() > self._limits.stall_seconds

    def _recover_forgotten(self) -> None:
        """Once there is room again, look for what had to be forgotten; what a store that is begun anew lacks, too."""
        if self._begun_anew != self._recorder.store.generation:
            self._begun_anew = self._recorder.store.generation
            self._rescan()
        idle = not self._board.in_hand and not len(self.queue)
        if self._overflowed and idle and self.settler.has_room:
            self.queue.overflowed = self.settler.overflowed = False
            self._rescan()

    # --- the work ----------------------------------------------------------------------------------------

    async def work(self) -> NoReturn:
        """Inspect what is due, one file at a time, for ever."""
        await self._recorder.catch_up()
        while True:
            # What is due and not begun is no job of a daemon that ends: each would leave a record of nothing.
            await trio.lowlevel.checkpoint_if_cancelled()
            job = self.queue.take()
            if job is None:
                await self._idle()
                continue
            await (self._inspect(job) if job.urgency is Urgency.HEADER else self._inspect_at_leisure(job))
            self._turn.ring()

    async def _idle(self) -> None:
        await self._recorder.settle_log()
        if not len(self.queue):
            await self._work.wait()

    async def _inspect_at_leisure(self, job: Job) -> None:
        """Inspect what may take hours; headers of changed files that become due meanwhile come first."""
        watch = Watch(self._limits.inspection_seconds)
        async with trio.open_nursery() as nursery:
            # What is more urgent comes first: headers, and for a mere second look the digests that are wanted, too.
            nursery.start_soon(self._give_way, watch, Urgency(job.urgency - 1))
            await self._inspect(job, watch)
            nursery.cancel_scope.cancel()

    async def _give_way(self, watch: Watch, least: Urgency) -> NoReturn:
        """Hold the long inspection, descriptor and state kept, while others are read: one inspection reads at a time."""
        token = trio.lowlevel.current_trio_token()
        while True:
            await self._work.wait()
            if not self.queue.has_urgent(least):
                continue
            waits = trio.Event()
            watch.hold(partial(token.run_sync_soon, waits.set))
            try:
                await waits.wait()
                while (urgent := self.queue.take_urgent(least)) is not None:
                    await (
                        self._inspect(urgent) if urgent.urgency is Urgency.HEADER else self._inspect_at_leisure(urgent)
                    )
                    self._turn.ring()
                    await trio.lowlevel.checkpoint_if_cancelled()
            finally:
                watch.release()

    async def _inspect(self, job: Job, watch: Watch | None = None) -> None:
        failure = None
        self._board.in_hand.append(job)
        try:
            await self._keep(job, await self._attempted(job, watch or Watch(self._limits.inspection_seconds)))
        except StoreError as error:
            # Before the wait: should the file go meanwhile, it is known where to take it from.
            self.queue.put(job)
            failure = str(error)
        finally:
            self._board.in_hand.remove(job)
        if failure is None:
            self._ended(job.path)
        else:
            await self._recorder.store_failed(failure)

    async def _attempted(self, job: Job, watch: Watch) -> _Attempt:
        if self._board.lost_devices.count(job.seen.device) >= _MOST_LOST_ON_A_DEVICE:
            # Its mount swallows every thread; the next scan offers it again.
            return None
        reading = (job, watch)
        self._board.reading.append(reading)
        try:
            attempt = await watched(
                partial(self._attempt, job, watch), watch, self._limits.stall_seconds, self._may_abandon
            )
        finally:
            self._board.reading.remove(reading)
        return self._let_go(job, attempt.seconds) if isinstance(attempt, Abandoned) else attempt

    def _may_abandon(self) -> bool:
        """A few reads may never return. More of them mean that nothing here works: then the watchdog is left to starve."""
        return len(self._board.lost_devices) < _MOST_LOST_THREADS

    def _let_go(self, job: Job, seconds: float) -> _Attempt:
        """The evidence of a read that never came back: nothing is known, and its path is set aside for a while."""
        self._board.abandoned += 1
        # The thread that is lost may be in the middle of these.
        self._expectations = self._new_expectations()
        self._recorder.say_abandoned(job.path, seconds)
        rules = self._rules[job.root]
        return Result(
            job, given_up(self._request(job, rules, "header"), job.seen.size, seconds), "header", rules.hash, False
        )

    async def _keep(self, job: Job, attempt: _Attempt) -> None:
        match attempt:
            case Result():
                await self._keep_result(attempt)
            case _Unsettled(again):
                self.settler.unsettled(again, trio.current_time())
            case _Demoted(later):
                self.queue.put(later)
            case _Failed(reason):
                await self._recorder.remember_failure(job, reason)
                await self._again_later(job)
            case RequiredWork.LATER:
                await self._again_later(job)
            case None:
                await trio.lowlevel.checkpoint()

    def _attempt(self, job: Job, watch: Watch) -> _Attempt:
        """In the thread, which may be lost in it."""
        self._board.threads[watch] = job.seen.device
        try:
            return self._attempt_found(job, watch)
        finally:
            self._board.threads.pop(watch, None)

    def _attempt_found(self, job: Job, watch: Watch) -> _Attempt:
        """Look whether the file is still as it was and still needed, then inspect it."""
        status = self._status_of(job)
        if status == "gone":
            return None
        if status is not None and Fingerprint.of_status(status) != job.seen:
            return _Unsettled(Job(job.path, job.root, Fingerprint.of_status(status), "change"))
        expectation = NOTHING
        # A stop while a store is read ends the inspection at its own first checkpoint.
        with suppress(InspectionStopped):
            if status is not None:
                expectation = self._expectations(job.path, job.path, status, watch.checkpoint)
        return self._attempt_wanted(job, watch, expectation)

    def _status_of(self, job: Job) -> os.stat_result | Literal["gone"] | None:
        """The file as it is now; None if it cannot be seen, which its inspection will say."""
        try:
            status = os.lstat(job.path)
        except OSError as error:
            if error.errno not in GONE:
                return None
        else:
            if stat.S_ISREG(status.st_mode):
                return status
        self._gone(job)
        return "gone"

    def _gone(self, job: Job) -> None:
        """Where the whole root is gone, it is blind, and nothing in it is known to be removed."""
        if os.path.isdir(self._board.roots[job.root].path):
            self.removed(job.path, "removed")

    def _wanted(self, job: Job, expectation: Expectation) -> RequiredWork:
        """What is to be read of the file now; a scrub wants all of what nothing else wants."""
        store, rules = self._recorder.store, self._rules[job.root]
        known = store.known(job.path)
        if known is None and is_known_elsewhere(store, job.path, job.seen):
            return RequiredWork.NOTHING
        wanted = required_work(
            known,
            job.seen,
            settings=rules.producer.configuration,
            mode=rules.hash,
            run=store.run,
            now=time.time(),
            expectation=expectation,
        )
        return RequiredWork.DIGEST if wanted is RequiredWork.NOTHING and job.trigger == "scrub" else wanted

    def _attempt_wanted(self, job: Job, watch: Watch, expectation: Expectation) -> _Attempt:
        rules = self._rules[job.root]
        wanted = self._wanted(job, expectation)
        if wanted is RequiredWork.NOTHING:
            return None
        if wanted is RequiredWork.LATER:
            return wanted
        if wanted is RequiredWork.DIGEST and job.urgency is Urgency.HEADER:
            # It may take hours, and gives way to headers only in its own place.
            return _Demoted(Job(job.path, job.root, job.seen, job.trigger, Urgency.DIGEST))
        # The header of every file comes before the digest of any.
        asked: HashMode = "full" if wanted is RequiredWork.DIGEST else "header"
        evidence = self._look(job, rules, asked, watch, expectation)
        if isinstance(evidence, _Failed):
            return evidence
        if evidence.outcome == "unavailable" and self._status_of(job) == "gone":
            return None
        return Result(job, evidence, asked, rules.hash, watch.interrupted, expectation)

    def _look(
        self, job: Job, rules: RootRules, asked: HashMode, watch: Watch, expectation: Expectation
    ) -> Evidence | _Failed:
        earlier = self._recorder.store.earlier(job.path, job.seen)
        request = replace(self._request(job, rules, asked), expectations=lambda *_: expectation, earlier=earlier)
        try:
            return inspect(request, watch.checkpoint, watch.progress)
        except Exception as error:  # noqa: BLE001 (the inspector promises not to raise; one file must not stop all)
            return _Failed(f"{type(error).__name__}: {error}")

    def _request(self, job: Job, rules: RootRules, asked: HashMode) -> Request:
        return Request(
            path=job.path,
            producer=rules.producer,
            trigger=job.trigger,
            hash_mode=asked,
            layout=rules.layout,
            bytes_per_second=self._rate(job),
            severities=rules.severities,
            parts=rules.digests,
        )

    def _rate(self, job: Job) -> int:
        """Bytes a second: the slower of the two limits for a scrub; 0 is none."""
        rates = [self._limits.read_bytes_per_second, self._schedule.scrub_bytes_per_second * (job.trigger == "scrub")]
        return min((rate for rate in rates if rate), default=0)

    async def _keep_result(self, result: Result) -> None:
        evidence = result.evidence
        self._board.inspections += 1
        self._board.outcomes[evidence.outcome] = self._board.outcomes.get(evidence.outcome, 0) + 1
        job = result.job
        following = await self._recorder.record(result)
        self._moved(job.path)
        if following is RequiredWork.DIGEST:
            self.queue.put(Job(job.path, job.root, job.seen, job.trigger, Urgency.DIGEST))
        elif following is RequiredWork.LATER:
            await self._again_later(job)

    async def _again_later(self, job: Job) -> None:
        retry_at = await self._recorder.retry_at(job.path)
        if retry_at is not None:
            again = Job(job.path, job.root, job.seen, job.trigger, Urgency.RECHECK)
            self.settler.later(again, _due_at(retry_at, trio.current_time(), time.time()))
