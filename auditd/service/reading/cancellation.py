"""Where cancellation meets blocking reads.

Two kinds of work block in worker threads. A *look* at directories calls :func:`check_cancelled` and is waited for to its
end, whatever happens. An *inspection* has a :class:`Watch`: the loop stops it, holds it while something more urgent is
read, and, should a read never return, lets go of it (:func:`watched`). Each of them stops before a read by
:class:`InspectionStopped`; the thread then closes its descriptor and returns what it knows, which reaches the caller
even in a cancelled scope, and whose own next checkpoint is cancelled as usual.

Rejected: ``abandon_on_cancel`` for every inspection. It throws away what a stopped one knows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import trio

from auditd.errors import InspectionStopped

T = TypeVar("T")

CANCELLED: Final = "cancelled by the daemon, which stops or reads a new configuration"


#: Between two looks at a thread that is silent and may not be let go of.
_LEAST_SLEEP_SECONDS: Final = 0.25


def check_cancelled() -> None:
    """The checkpoint of a worker thread: raises ``InspectionStopped`` once whoever waits for it is cancelled."""
    with suppress(trio.Cancelled):
        trio.from_thread.check_cancelled()
        return
    raise InspectionStopped(CANCELLED)


class Watch:
    """One inspection as the loop sees it: its checkpoint, its progress, and the reins.

    :meth:`checkpoint` and :meth:`progress` are called in the thread; all else in the loop.
    """

    def __init__(self, limit_seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes_read = 0
        self.bytes_wanted = 0
        #: The daemon's end stopped it, not the file and not a limit.
        self.interrupted = False
        self._clock = clock
        self.begun_at = self.alive_at = clock()
        self._limit_seconds = limit_seconds
        self._reins = threading.Condition()
        self._stopped = False
        self._held_by: Callable[[], None] | None = None
        self._waiting = False

    # --- in the thread -----------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Stop if the daemon does, or if the inspection has taken longer than it may; wait here while it is held."""
        self.alive_at = self._clock()
        if self._held_by is not None:
            self._wait()
        if self._stopped:
            self.interrupted = True
            raise InspectionStopped(CANCELLED)
        if self._limit_seconds and self.alive_at - self.begun_at > self._limit_seconds:
            raise InspectionStopped(f"timed out after {self._limit_seconds:g} s")

    def _wait(self) -> None:
        began = self.alive_at
        told = None
        with self._reins:
            self._waiting = True
            while self._held_by is not None and not self._stopped:
                # Released and held again before this thread woke: whoever holds it now has not been told.
                if self._held_by is not told:
                    told = self._held_by
                    told()
                self._reins.wait()
            self._waiting = False
        self.alive_at = self._clock()
        # Time that others took is not its own.
        self.begun_at += self.alive_at - began

    def progress(self, bytes_read: int, bytes_wanted: int) -> None:
        """Take down how far it is."""
        self.alive_at = self._clock()
        self.bytes_read = bytes_read
        self.bytes_wanted = bytes_wanted

    # --- in the loop -------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Have it end at its next checkpoint."""
        with self._reins:
            self._stopped = True
            self._reins.notify_all()

    def hold(self, waits: Callable[[], None]) -> None:
        """Have it wait at its next checkpoint, which calls ``waits`` in the thread once it is there."""
        with self._reins:
            self._held_by = waits
            self._reins.notify_all()

    def release(self) -> None:
        """Let it go on."""
        with self._reins:
            self._held_by = None
            self._reins.notify_all()

    def silent_seconds(self) -> float:
        """How long no read has come back; nothing is expected of one that is held."""
        return 0.0 if self._waiting else self._clock() - self.alive_at


async def in_thread(limiter: trio.CapacityLimiter, work: Callable[[], T]) -> T:
    """Run ``work`` in a worker thread and wait for it to the end: it stops by its own checkpoints, not by ours."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=False, limiter=limiter)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A read that did not come back within ``seconds``: its thread and its descriptor are lost until it does."""

    seconds: float


@dataclass(slots=True)
class _Outcome(Generic[T]):
    """What the thread came back with: a value or an error, taken out of the nursery unwrapped."""

    value: list[T]
    error: Exception | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the thread was let go of."""
        return not self.value and self.error is None

    def result(self, seconds: float) -> T | Abandoned:
        if self.error is not None:
            raise self.error
        return self.value[0] if self.value else Abandoned(seconds)


async def watched(
    work: Callable[[], T], watch: Watch, stall_seconds: float, may_abandon: Callable[[], bool]
) -> T | Abandoned:
    """Run ``work``, which calls the checkpoint of ``watch``, in a thread.

    Cancelled, it stops ``watch`` and waits for what the thread still says. A thread that is silent for longer than
    ``stall_seconds`` is let go of, if ``may_abandon`` says so then.
    """
    outcome: _Outcome[T] = _Outcome([])
    reading = trio.CancelScope(shield=True)
    guarding = trio.CancelScope(shield=True)

    async def guard() -> None:
        with guarding:
            while watch.silent_seconds() <= stall_seconds or not may_abandon():  # noqa: ASYNC110 - a clock is read
                await trio.sleep(max(_LEAST_SLEEP_SECONDS, stall_seconds - watch.silent_seconds()))
            reading.cancel()

    async def pass_on() -> None:
        try:
            await trio.sleep_forever()
        finally:
            watch.stop()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(guard)
            nursery.start_soon(pass_on)
            with reading:
                try:
                    # A limiter of its own: one that was let go of keeps its place for ever.
                    outcome.value.append(
                        await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
                    )
                except Exception as error:  # noqa: BLE001 - raised again below, outside of the nursery
                    outcome.error = error
            guarding.cancel()
            nursery.cancel_scope.cancel()
    # What the thread still says reaches the caller, and so does the cancellation: at the caller's next checkpoint.
    except* trio.Cancelled:  # noqa: ASYNC103
        if outcome.is_empty:
            raise
    return outcome.result(stall_seconds)
