"""The one loop that decides what is read next, and the one task that reads: one inspection at a time.

Files are offered by the scanners, wait in the settler until they stand still, then in the queue until it is their
turn. Whatever had to be forgotten because one of the two was full is found again by a scan, once there is room.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NoReturn, TypeAlias

import trio

from auditd.archive.rows import ClearedAs
from auditd.archive.state import RETRY_LONGEST_SECONDS, Fingerprint, Need, need
from auditd.errors import StoreError
from auditd.evidence.record import Evidence, Producer, Severity
from auditd.inspection.inspector import inspect
from auditd.inspection.request import HashMode, Request
from auditd.inspection.scan import GONE
from auditd.service.bell import Bell
from auditd.service.board import Board
from auditd.service.cancellation import Watch, in_thread
from auditd.service.queue import Job, Urgency, WorkQueue
from auditd.service.recorder import Recorder, Result
from auditd.service.scanner import Offer
from auditd.service.settle import Settler
from auditd.service.systemd import Notifier
from auditd.settings import InspectSettings, ScheduleSettings

#: What may pass between two turns of the loop when nothing happens and no watchdog asks for more.
_LONGEST_TURN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class RootRules:
    """How the files of one root are inspected; ``producer.configuration`` is the digest of these settings."""

    producer: Producer
    hash: HashMode
    layout: str
    severities: Mapping[str, Severity]


@dataclass(frozen=True, slots=True)
class _Unsettled:
    """The file had changed again when its turn came."""

    job: Job


@dataclass(frozen=True, slots=True)
class _Failed:
    """The inspector itself gave up: a fault of this program, which must not take the daemon down."""

    reason: str


_Attempt: TypeAlias = Result | _Unsettled | _Failed | Literal[Need.LATER] | None


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
    ) -> None:
        self.settler = Settler(schedule.settle_seconds, schedule.queue)
        self.queue = WorkQueue(schedule.queue)
        self._rules = rules
        self._limits = limits
        self._recorder = recorder
        self._board = board
        self._rescan = rescan
        self._turn = Bell()
        self._work = Bell()
        self._limiter = trio.CapacityLimiter(1)

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
        if self.queue.overflowed or self.settler.overflowed:
            return
        current = None if self._board.current is None else self._board.current[0]
        busy = {job.root for job in (current, self._board.keeping) if job is not None}
        for index, root in enumerate(self._board.roots):
            if root.pass_at == root.scanned_at or index in busy:
                continue
            if not self.queue.holds(index) and not self.settler.holds(index):
                root.pass_at = root.scanned_at

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
        """Once there is room again, look for what had to be forgotten."""
        overflowed = self.queue.overflowed or self.settler.overflowed
        idle = self._board.current is None and self._board.keeping is None and not len(self.queue)
        if overflowed and idle and self.settler.has_room:
            self.queue.overflowed = self.settler.overflowed = False
            self._rescan()

    # --- the work ----------------------------------------------------------------------------------------

    async def work(self) -> NoReturn:
        """Inspect what is due, one file at a time, for ever."""
        await self._recorder.catch_up()
        while True:
            job = self.queue.take()
            if job is None:
                await self._idle()
                continue
            await self._inspect(job)
            self._turn.ring()

    async def _idle(self) -> None:
        await self._recorder.settle_log()
        if not len(self.queue):
            await self._work.wait()

    async def _inspect(self, job: Job) -> None:
        self._board.keeping = job
        try:
            await self._keep(job, await self._attempted(job))
        except StoreError as error:
            # Before the wait: should the file go meanwhile, it is known where to take it from.
            self.queue.put(job)
            self._board.keeping = None
            await self._recorder.store_failed(str(error))
        finally:
            self._board.keeping = None

    async def _attempted(self, job: Job) -> _Attempt:
        watch = Watch(self._limits.inspection_seconds)
        self._board.current = (job, watch)
        try:
            return await in_thread(self._limiter, partial(self._attempt, job, watch))
        finally:
            self._board.current = None

    async def _keep(self, job: Job, attempt: _Attempt) -> None:
        match attempt:
            case Result():
                await self._keep_result(attempt)
            case _Unsettled(again):
                self.settler.unsettled(again, trio.current_time())
            case _Failed(reason):
                await self._recorder.remember_failure(job, reason)
                await self._again_later(job)
            case Need.LATER:
                await self._again_later(job)
            case None:
                await trio.lowlevel.checkpoint()

    def _attempt(self, job: Job, watch: Watch) -> _Attempt:
        """In the thread: look whether the file is still as it was and still needed, then inspect it."""
        try:
            status = os.lstat(job.path)
        except OSError as error:
            if error.errno in GONE:
                self.removed(job.path, "removed")
                return None
        else:
            if not stat.S_ISREG(status.st_mode):
                self.removed(job.path, "removed")
                return None
            seen = Fingerprint.of_status(status)
            if seen != job.seen:
                return _Unsettled(Job(job.path, job.root, seen, job.trigger, job.urgency))
        rules = self._rules[job.root]
        store = self._recorder.store
        wanted = need(
            store.known(job.path),
            job.seen,
            settings=rules.producer.configuration,
            mode=rules.hash,
            run=store.run,
            now=time.time(),
        )
        if wanted is Need.NOTHING:
            return None
        if wanted is Need.LATER:
            return wanted
        asked: HashMode = "header" if rules.hash == "full" and wanted is Need.HEADER else rules.hash
        evidence = self._look(job, rules, asked, watch)
        if isinstance(evidence, _Failed):
            return evidence
        if evidence.outcome == "unavailable" and not os.path.lexists(job.path):
            self.removed(job.path, "removed")
            return None
        return Result(job, evidence, asked, rules.hash, watch.interrupted)

    def _look(self, job: Job, rules: RootRules, asked: HashMode, watch: Watch) -> Evidence | _Failed:
        request = Request(
            path=job.path,
            producer=rules.producer,
            trigger=job.trigger,
            hash_mode=asked,
            layout=rules.layout,
            bytes_per_second=self._limits.read_bytes_per_second,
            severities=rules.severities,
        )
        try:
            return inspect(request, watch.checkpoint, watch.progress)
        except Exception as error:  # noqa: BLE001 (the inspector promises not to raise; one file must not stop all)
            return _Failed(f"{type(error).__name__}: {error}")

    async def _keep_result(self, result: Result) -> None:
        evidence = result.evidence
        self._board.inspections += 1
        self._board.outcomes[evidence.outcome] = self._board.outcomes.get(evidence.outcome, 0) + 1
        job = result.job
        following = await self._recorder.record(result)
        if following is Need.DIGEST:
            self.queue.put(Job(job.path, job.root, job.seen, job.trigger, Urgency.DIGEST))
        elif following is Need.LATER:
            await self._again_later(job)

    async def _again_later(self, job: Job) -> None:
        retry_at = await self._recorder.retry_at(job.path)
        if retry_at is not None:
            again = Job(job.path, job.root, job.seen, job.trigger, Urgency.RECHECK)
            self.settler.later(again, _due_at(retry_at, trio.current_time(), time.time()))
