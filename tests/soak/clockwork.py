"""Time that passes only when nobody works: the clock of the loop and the clocks of the wall, moved together.

trio's own way of jumping to the next deadline takes a loop that waits for a thread for an idle one. Here the calls into
threads are counted, and the clock is moved only when none is under way and every task is blocked.

Files keep the times that the file system gives them. Whoever writes one says so (:meth:`Clockwork.moment`), and the age
of a file is counted from the virtual time of that moment.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from unittest.mock import patch

import trio
import trio.testing

from auditd.evidence_store.artifact_state import Fingerprint
from auditd.inspection import timestamps
from auditd.service.reading import settle

_NANOSECONDS: Final = 1_000_000_000

#: Real seconds before each moment: the times of two of them differ on any file system.
_APART_SECONDS: Final = 0.005

#: More virtual seconds than anything in the daemon waits for.
_LONGEST_JUMP_SECONDS: Final = 3600.0


class Clockwork:
    """The clocks of one soak. ``clock`` is for ``trio.run``; all else is used inside of it and of :meth:`installed`."""

    def __init__(self) -> None:
        self.clock = trio.testing.MockClock()
        self._began = time.time()
        self._loop_began = self.clock.current_time()
        self._busy = 0
        self._all_back = trio.Event()
        self._run_sync = trio.to_thread.run_sync
        #: The moments at which files were written: real nanoseconds, and the virtual time of each.
        self._moments: list[int] = []
        self._virtual: list[float] = []
        self.jumps = 0

    @property
    def elapsed(self) -> float:
        """Virtual seconds since the begin."""
        return self.clock.current_time() - self._loop_began

    def now(self) -> float:
        """The virtual wall clock, in seconds."""
        return self._began + self.elapsed

    def moment(self) -> None:
        """Something is about to be written."""
        time.sleep(_APART_SECONDS)
        self._moments.append(time.time_ns() - int(_APART_SECONDS * _NANOSECONDS))
        self._virtual.append(self.now())

    def virtual(self, real_ns: int) -> float:
        """The virtual time of a file's time: that of the last moment before it."""
        place = bisect_right(self._moments, real_ns)
        return self._virtual[place - 1] if place else self._began

    # --- seams -------------------------------------------------------------------------------------------

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Let the daemon see the virtual time."""
        clockwork = self

        class _Moment(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.fromtimestamp(clockwork.now(), tz or UTC)

        with ExitStack() as stack:
            for where, name, value in (
                (time, "time", self.now),
                (time, "monotonic", self.clock.current_time),
                (timestamps, "datetime", _Moment),
                (settle, "first_wait", self._first_wait),
                (trio.to_thread, "run_sync", self._counted),
            ):
                stack.enter_context(patch.object(where, name, value))
            yield

    def _first_wait(self, seen: Fingerprint, wall: float, settle_seconds: float) -> float:
        """What the settler asks at first sight, with the times of files as the virtual clock would have given them."""
        age = wall - max(self.virtual(ns) for ns in (seen.mtime_ns, seen.ctime_ns))
        return max(0.0, settle_seconds - age)

    async def _counted(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        self._busy += 1
        try:
            return await self._run_sync(work, *arguments, **options)
        finally:
            self._busy -= 1
            if not self._busy:
                self._all_back.set()

    # --- driving -----------------------------------------------------------------------------------------

    async def idle(self) -> None:
        """Wait until every thread is back and every other task waits for time to pass."""
        await trio.testing.wait_all_tasks_blocked()
        while self._busy:
            self._all_back = trio.Event()
            await self._all_back.wait()
            await trio.testing.wait_all_tasks_blocked()

    async def pass_until(self, elapsed: float) -> None:
        """Let the time pass from deadline to deadline until so many virtual seconds have elapsed."""
        while True:
            await self.idle()
            left = elapsed - self.elapsed
            if left <= 0:
                return
            to_deadline = trio.lowlevel.current_statistics().seconds_to_next_deadline
            self.clock.jump(max(0.0, min(left, to_deadline, _LONGEST_JUMP_SECONDS)))
            self.jumps += 1
