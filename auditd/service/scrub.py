"""The slow re-hash of everything: each artifact's digest again within the period, the one that waits longest first.

Bytes are spread over the period: a file of a hundredth of all bytes takes a hundredth of the time, most of it waiting.
Where the byte rate does not allow that, the scrub goes on without waiting and says early that it is late. What was done
is in the store, so a restart goes on where it was. Held like every long hash while a changed file's header is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

import trio

from auditd.archive.rows import ScrubPlan
from auditd.archive.state import Fingerprint
from auditd.errors import StoreError
from auditd.service.bell import Bell
from auditd.service.cancellation import in_thread
from auditd.service.logging import Events
from auditd.service.queue import Job, Urgency
from auditd.service.recorder import Recorder
from auditd.settings import ScheduleSettings

_DAY_SECONDS: Final = 86_400.0

#: Between two looks for something to do, when there is nothing, and the longest wait for one file's turn: the plan
#: changes as files come and go.
_IDLE_SECONDS: Final = 60.0
_LONGEST_WAIT_SECONDS: Final = 3600.0


def pause_seconds(size: int, plan: ScrubPlan, period_seconds: float, took_seconds: float) -> float:
    """How long to wait after a file of ``size`` bytes, so that all of them take the period together."""
    share = (size + 1) / (plan.total_bytes + plan.artifacts)
    return max(0.0, share * period_seconds - took_seconds)


def needed_seconds(plan: ScrubPlan, bytes_per_second: int) -> float:
    """How long a pass takes at the byte rate and without a pause; 0 if there is no rate."""
    return plan.total_bytes / bytes_per_second if bytes_per_second else 0.0


@dataclass(frozen=True, slots=True)
class _Turn:
    """The artifact whose turn it is."""

    job: Job
    size: int


class Scrubber:
    """Gives the scheduler one old digest after another to take again."""

    def __init__(
        self,
        schedule: ScheduleSettings,
        recorder: Recorder,
        events: Events,
        put: Callable[[Job], None],
        root_of: Callable[[bytes], int | None],
    ) -> None:
        self._period_seconds = schedule.scrub_days * _DAY_SECONDS
        self._rate = schedule.scrub_bytes_per_second
        self._recorder = recorder
        self._events = events
        self._put = put
        self._root_of = root_of
        self._limiter = trio.CapacityLimiter(1)
        self._done = Bell()
        self._waits_for: bytes | None = None
        self._late = False

    def done(self, path: bytes) -> None:
        """The scheduler has come to an end with an artifact, whatever the end was."""
        if path == self._waits_for:
            self._waits_for = None
            self._done.ring()

    async def run(self) -> NoReturn:
        """Scrub for ever, if a period is set."""
        if not self._period_seconds:
            await trio.sleep_forever()
        while True:
            try:
                await self._step()
            except StoreError as error:
                await self._recorder.store_failed(str(error))

    async def _step(self) -> None:
        plan = await in_thread(self._limiter, partial(self._recorder.store.scrub_plan, time.time()))
        await trio.lowlevel.checkpoint()
        self._say_late(plan)
        if plan.finished_since is not None:
            self._events.info("scrub_finished", artifacts=plan.artifacts, bytes=plan.total_bytes)
            await in_thread(self._limiter, partial(self._recorder.store.begin_scrub, time.time()))
            return
        turn = self._turn(plan)
        wait = max(0.0, plan.next_at - time.time()) if plan.next_at <= time.time() + self._period_seconds else 0.0
        if turn is None or wait:
            await trio.sleep(min(wait or _IDLE_SECONDS, _LONGEST_WAIT_SECONDS))
            return
        await self._take(turn, plan)

    def _turn(self, plan: ScrubPlan) -> _Turn | None:
        if plan.path is None or plan.identity is None:
            return None
        root = self._root_of(plan.path)
        if root is None:
            return None
        seen = Fingerprint.parse(plan.identity)
        return _Turn(Job(plan.path, root, seen, "scrub", Urgency.RECHECK), max(0, seen.size))

    async def _take(self, turn: _Turn, plan: ScrubPlan) -> None:
        began = trio.current_time()
        self._waits_for = turn.job.path
        self._put(turn.job)
        while self._waits_for is not None:
            await self._done.wait(_LONGEST_WAIT_SECONDS)
        pause = pause_seconds(turn.size, plan, self._period_seconds, trio.current_time() - began)
        await in_thread(self._limiter, partial(self._recorder.store.put_scrub_off, time.time() + pause))
        await trio.lowlevel.checkpoint()

    def _say_late(self, plan: ScrubPlan) -> None:
        """Say once that the period is too short: for the byte rate, or for what was left undone."""
        needed = needed_seconds(plan, self._rate)
        waited = 0.0 if plan.hashed_at is None else time.time() - plan.hashed_at
        late = needed > self._period_seconds or waited > self._period_seconds + needed + _DAY_SECONDS
        if late and not self._late:
            self._events.warning(
                "scrub_late",
                artifacts=plan.artifacts,
                bytes=plan.total_bytes,
                needed_days=round(needed / _DAY_SECONDS, 2),
                scrub_days=self._period_seconds / _DAY_SECONDS,
                oldest_days=round(waited / _DAY_SECONDS, 2),
            )
        self._late = late


def root_of(path: bytes, roots: list[bytes]) -> int | None:
    """The index of the root that ``path`` stands below; None if there is none."""
    for index, root in enumerate(roots):
        if path.startswith(root.rstrip(b"/") + b"/"):
            return index
    return None
