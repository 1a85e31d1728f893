"""The slow re-hash of everything: each artifact's digest again within the period, the one that waits longest first.

Bytes are spread over the period: a file of a hundredth of all bytes takes a hundredth of the time, most of it waiting.
The deadline goes before the pace: what has waited for the whole period does not wait for its turn, however many files
came meanwhile. Where the byte rate does not allow that, the scrub goes on without waiting and says early that it is
late. What is out of sight, or comes to nothing, is passed over and holds up nobody. What was done is in the store, so a
restart goes on where it was. Held like every long hash while a changed file's header is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, NoReturn, TypeVar

import trio

from auditd.errors import StoreError
from auditd.evidence_store.artifact_state import Fingerprint
from auditd.evidence_store.entities import DueItem
from auditd.service.bell import Bell
from auditd.service.logging import Events
from auditd.service.reading.board import RootBoard
from auditd.service.reading.cancellation import in_thread
from auditd.service.reading.queue import Job, Urgency
from auditd.service.recording.recorder import Recorder
from auditd.settings import ScheduleSettings

_DAY_SECONDS: Final = 86_400.0

#: Between two looks for something to do, when there is nothing, and the longest wait for one file's turn: the plan
#: changes as files come and go.
_IDLE_SECONDS: Final = 60.0
_LONGEST_WAIT_SECONDS: Final = 3600.0

#: What came to nothing is passed over so long, and so many at a time: the files of a mount that has died, say.
_ASIDE_SECONDS: Final = 3600.0
_MOST_ASIDE: Final = 10_000

T = TypeVar("T")


class Amount(NamedTuple):
    """What there is to hash: artifacts, and their bytes."""

    artifacts: int
    size: int


def pause_seconds(size: int, amount: Amount, period_seconds: float, took_seconds: float) -> float:
    """How long to wait after a file of ``size`` bytes, so that all of them take the period together."""
    # A file may have come since they were counted.
    share = min(1.0, (size + 1) / max(1, amount.size + amount.artifacts))
    return max(0.0, share * period_seconds - took_seconds)


def wait_seconds(turn: DueItem, now: float, period_seconds: float) -> float:
    """How long the artifact of ``turn`` has to wait at ``now``: for its turn, but not past its deadline.

    A turn that is further away than the period was set by a clock that has been set back since.
    """
    paced = turn.next_at - now if turn.next_at <= now + period_seconds else 0.0
    left = paced if turn.waits_since is None else turn.waits_since + period_seconds - now
    return max(0.0, min(paced, left))


def needed_seconds(amount: Amount, bytes_per_second: int) -> float:
    """How long a pass takes at the byte rate and without a pause; 0 if there is no rate."""
    return amount.size / bytes_per_second if bytes_per_second else 0.0


class Scrubber:
    """Gives the scheduler one old digest after another to take again."""

    def __init__(
        self,
        schedule: ScheduleSettings,
        recorder: Recorder,
        events: Events,
        put: Callable[[Job], bool],
        is_under_way: Callable[[bytes], bool],
        is_at_rest: Callable[[], bool],
        roots: list[RootBoard],
    ) -> None:
        self._period_seconds = schedule.scrub_days * _DAY_SECONDS
        self._rate = schedule.scrub_bytes_per_second
        self._recorder = recorder
        self._events = events
        self._put = put
        self._is_under_way = is_under_way
        self._is_at_rest = is_at_rest
        self._roots = roots
        self._limiter = trio.CapacityLimiter(1)
        self._bell = Bell()
        self._waits_for: bytes | None = None
        #: Nothing is to be done: the end of any inspection may change that.
        self._idle = False
        self._late = False
        self._amount = Amount(0, 0)
        self._counted_at = -_LONGEST_WAIT_SECONDS
        #: Whose last turn came to nothing, and until when (the loop's clock) they have none.
        self._aside: dict[bytes, float] = {}
        #: Who had the last turn, and what it was counted from.
        self._last: tuple[bytes | None, float | None] = None, None

    def done(self, path: bytes) -> None:
        """The scheduler has come to an end with an artifact, whatever the end was."""
        if path == self._waits_for:
            self._waits_for = None
            self._bell.ring()
        elif self._idle:
            self._bell.ring()

    async def run(self) -> NoReturn:
        """Scrub for ever, if a period is set."""
        if not self._period_seconds:
            await trio.sleep_forever()
        while True:
            try:
                await self._step()
            except StoreError as error:
                await self._recorder.store_failed(str(error))

    async def _ask(self, work: Callable[[], T]) -> T:
        value = await in_thread(self._limiter, work)
        await trio.lowlevel.checkpoint()
        return value

    async def _step(self) -> None:
        store, now = self._recorder.store, time.time()
        if trio.current_time() - self._counted_at >= _LONGEST_WAIT_SECONDS or not self._amount.artifacts:
            await self._count()
        seen = [root.path for root in self._roots if root.state != "blind"]
        # The first look at everything is no pass: it may have hashed nothing.
        turn = await self._ask(partial(store.due_item, now, seen, self._passed_over(), may_begin=self._is_at_rest()))
        self.say_late(turn, now)
        if turn.finished_since is not None:
            await self._finish(turn.finished_since, now)
        elif turn.path is not None and (turn.path, turn.waits_since) == self._last:
            await self._set_aside(turn.path)
        else:
            await self._serve(turn, now)

    async def _serve(self, turn: DueItem, now: float) -> None:
        """Take the artifact whose turn it is, or wait for the turn."""
        job = self._job(turn)
        if job is None:
            await self._rest(_IDLE_SECONDS)
            return
        wait = wait_seconds(turn, now, self._period_seconds)
        if wait > 0:
            await trio.sleep(min(wait, _LONGEST_WAIT_SECONDS))
        elif await self._take(job):
            self._last = job.path, turn.waits_since

    def _passed_over(self) -> tuple[bytes, ...]:
        now = trio.current_time()
        self._aside = {path: until for path, until in self._aside.items() if until > now}
        return tuple(self._aside)

    async def _set_aside(self, path: bytes) -> None:
        """The last turn of an artifact left it as it was: the others are not to wait for it."""
        self._last = None, None
        if len(self._aside) < _MOST_ASIDE:
            self._aside[path] = trio.current_time() + _ASIDE_SECONDS
        else:
            await self._rest(_IDLE_SECONDS)

    async def _finish(self, begun: float, now: float) -> None:
        """Everything was hashed since ``begun``, but for what is out of sight or came to nothing, which is counted."""
        await self._count()
        left = await self._ask(partial(self._recorder.store.scrub_left, begun, self._paths()))
        self._events.info(
            "scrub_finished", artifacts=self._amount.artifacts, bytes=self._amount.size, artifacts_left_out=left
        )
        await self._ask(partial(self._recorder.store.begin_scrub, now))

    def _paths(self) -> list[bytes]:
        return [root.path for root in self._roots]

    async def _count(self) -> None:
        self._amount = Amount(*await self._ask(partial(self._recorder.store.scrub_amount, self._paths())))
        self._counted_at = trio.current_time()

    async def _rest(self, seconds: float) -> None:
        self._idle = True
        await self._bell.wait(seconds)
        self._idle = False

    def _job(self, turn: DueItem) -> Job | None:
        """The inspection of the artifact whose turn it is; None if there is none below the roots."""
        root = None if turn.path is None else root_of(turn.path, self._paths())
        if turn.path is None or turn.identity is None or root is None:
            return None
        return Job(turn.path, root, Fingerprint.parse(turn.identity), "scrub", Urgency.RECHECK)

    async def _take(self, job: Job) -> bool:
        """Have it read and wait for the end; False if there was no room for it."""
        began = trio.current_time()
        self._waits_for = job.path
        if not self._put(job):
            self._waits_for = None
            await self._rest(_IDLE_SECONDS)
            return False
        # It may be removed, or change, and then nobody comes to an end with it.
        while self._waits_for == job.path and self._is_under_way(job.path):
            await self._bell.wait(_IDLE_SECONDS)
        self._waits_for = None
        took = trio.current_time() - began
        pause = pause_seconds(max(0, job.seen.size), self._amount, self._period_seconds, took)
        await self._ask(partial(self._recorder.store.put_scrub_off, time.time() + pause))
        return True

    def say_late(self, turn: DueItem, now: float) -> None:
        """Say once that the period is too short: for the byte rate, or for what was left undone."""
        needed = needed_seconds(self._amount, self._rate)
        waited = 0.0 if turn.waits_since is None else now - turn.waits_since
        late = needed > self._period_seconds or waited > self._period_seconds + needed + _DAY_SECONDS
        if late and not self._late:
            self._events.warning(
                "scrub_late",
                artifacts=self._amount.artifacts,
                bytes=self._amount.size,
                needed_days=round(needed / _DAY_SECONDS, 2),
                scrub_days=self._period_seconds / _DAY_SECONDS,
                oldest_days=round(waited / _DAY_SECONDS, 2),
            )
        # What is passed over for a while is no less late for that.
        self._late = late or (self._late and bool(self._aside))


def root_of(path: bytes, roots: list[bytes]) -> int | None:
    """The index of the root that ``path`` stands below; None if there is none."""
    for index, root in enumerate(roots):
        if path.startswith(root.rstrip(b"/") + b"/"):
            return index
    return None
