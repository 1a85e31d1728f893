"""Where cancellation meets blocking reads.

An inspection, and a scan, blocks in a worker thread that is never abandoned. It calls a checkpoint before every read;
here is the one that turns trio's cancellation, or a time limit, into :class:`InspectionStopped`. The thread then
closes its descriptor and returns what it knows, which reaches the caller even in a cancelled scope: the caller keeps
it under a shield, and its next own checkpoint is cancelled as usual.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

import trio

from auditd.errors import InspectionStopped

T = TypeVar("T")

CANCELLED: Final = "cancelled by the daemon, which stops or reads a new configuration"


def check_cancelled() -> None:
    """The checkpoint of a worker thread: raises ``InspectionStopped`` once whoever waits for it is cancelled."""
    with suppress(trio.Cancelled):
        trio.from_thread.check_cancelled()
        return
    raise InspectionStopped(CANCELLED)


class Watch:
    """The checkpoint and progress of one inspection; its figures may be read from the loop at any time."""

    def __init__(self, limit_seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.bytes_read = 0
        self.bytes_wanted = 0
        #: The daemon's end stopped it, not the file and not a limit.
        self.interrupted = False
        self._clock = clock
        self.begun_at = self.alive_at = clock()
        self._limit_seconds = limit_seconds

    def checkpoint(self) -> None:
        """Stop if the daemon does, or if the inspection has taken longer than it may."""
        self.alive_at = self._clock()
        try:
            check_cancelled()
        except InspectionStopped:
            self.interrupted = True
            raise
        if self._limit_seconds and self.alive_at - self.begun_at > self._limit_seconds:
            raise InspectionStopped(f"timed out after {self._limit_seconds:g} s")

    def progress(self, bytes_read: int, bytes_wanted: int) -> None:
        """Take down how far it is."""
        self.alive_at = self._clock()
        self.bytes_read = bytes_read
        self.bytes_wanted = bytes_wanted

    def silent_seconds(self) -> float:
        """How long no read has come back."""
        return self._clock() - self.alive_at


async def in_thread(limiter: trio.CapacityLimiter, work: Callable[[], T]) -> T:
    """Run ``work`` in a worker thread and wait for it to the end: it stops by its own checkpoints, not by ours."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=False, limiter=limiter)
