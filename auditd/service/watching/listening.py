"""Events of a list of directories: watchfiles' own core, called in a thread, and what it does not tell.

An :class:`Ear` watches from the moment it is constructed; a :class:`Listener` follows a few of them and gathers what
they hear until somebody takes it.

A queue that overflows is silent: the kernel says so, and watchfiles drops that event, which has no path. Its thread
does nothing but empty the queue, so the queue fills while the whole process stands still: stopped, frozen or starved.
Hence a long silence of the thread that is followed by a large part of a full queue is taken for an overflow; a long
silence alone, or a burst alone, costs one scan. What all of this misses, a queue filled by events of few files or
before anybody followed the watch, the scan on the period finds.

Rejected: counting what is queued (``FIONREAD`` on the descriptor: watchfiles has emptied it before anybody can ask),
``/proc/self/fdinfo`` (it lists watches, not events), and a file that is touched to see whether its event comes (it
comes, as the queue has room again). The asynchronous front of watchfiles hides errors and takes seconds to leave.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio
from watchfiles._rust_notify import RustNotify

from auditd.errors import InspectionStopped
from auditd.evidence.text import printable
from auditd.service.bell import Bell
from auditd.service.reading.cancellation import check_cancelled, in_thread

#: Milliseconds: how long a burst may be gathered, and how often the stop event is looked at. Ten looks a second are
#: 0.1 % of a core, and a stop waits for one of them.
_DEBOUNCE_MS: Final = 200
_STEP_MS: Final = 100

#: Milliseconds after which a thread that heard nothing comes back: how it slept before says nothing of what comes.
_TIMEOUT_MS: Final = 10_000

#: A thread that looks every 100 ms and did not for so long stood still.
_STILL_SECONDS: Final = 1.0

#: What waited in the queue meanwhile comes within so long after it.
_EMPTYING_SECONDS: Final = 3.0

#: A file that is made is at most eight events and at least one change.
_EVENTS_A_CHANGE: Final = 8

#: Linux's own default, where the setting cannot be read: the unit's ``ProcSubset=pid`` hides it.
_QUEUED_EVENTS: Final = 16_384

#: Changes that are gathered at most; past them a scan is cheaper than a look at each.
_MOST_CHANGES: Final = 10_000

Changes = set[tuple[int, str]]


def queued_events() -> int:
    """How many events the kernel keeps for one watch before it drops them."""
    try:
        return int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return _QUEUED_EVENTS


class _Pulse:
    """The stop event of a watch: asked every :data:`_STEP_MS`, it also tells how long it was not asked."""

    def __init__(self) -> None:
        self.wanted = threading.Event()
        self.longest_seconds = 0.0
        self._asked_at: float | None = None

    def begin(self) -> None:
        """Once more: what lies between two watches counts, too."""
        self.longest_seconds = 0.0
        self.beat()

    def is_set(self) -> bool:
        self.beat()
        if self.wanted.is_set():
            return True
        try:
            check_cancelled()
        except InspectionStopped:
            return True
        return False

    def beat(self) -> None:
        now = time.monotonic()
        if self._asked_at is not None:
            self.longest_seconds = max(self.longest_seconds, now - self._asked_at)
        self._asked_at = now


class Ear:
    """One watch over ``paths``, which begins as this returns and holds one thread while it is followed.

    Blocking: to be made in a thread. ``FileNotFoundError`` or ``PermissionError`` if one of the paths is gone or closed
    by now; another ``OSError`` or a ``RuntimeError`` past the limits of watches or instances.
    """

    def __init__(self, paths: list[str]) -> None:
        # Permission errors are told: where they are passed over, so are all others.
        self._notify = RustNotify(paths, False, False, 0, False, False)
        self._pulse = _Pulse()

    def next(self) -> tuple[Changes, float]:
        """In a thread: the next changes, none once it is to end, and for how many seconds the thread stood still.

        ``RuntimeError`` once an event had a name that is not UTF-8, now and ever after.
        """
        self._pulse.begin()
        changes = self._notify.watch(_DEBOUNCE_MS, _STEP_MS, _TIMEOUT_MS, self._pulse)
        self._pulse.beat()
        return (set() if isinstance(changes, str) else changes), self._pulse.longest_seconds

    def rest(self) -> Changes:
        """In a thread: what was heard and not yet given out."""
        changes = self._notify.watch(1, 1, 1, None)
        return set() if isinstance(changes, str) else changes

    @property
    def is_ending(self) -> bool:
        """Whether :meth:`end` was called."""
        return self._pulse.wanted.is_set()

    def end(self) -> None:
        """Have whoever follows it take the rest and let go of it."""
        self._pulse.wanted.set()

    def close(self) -> None:
        """Give the watches back. A second time does nothing."""
        self._notify.close()


@dataclass(slots=True)
class Heard:
    """What was gathered since the last time."""

    changes: Changes = field(default_factory=set)
    #: Events are missing, and why; nothing more is gathered.
    lost: str | None = None
    #: There were too many to keep.
    crowded: bool = False
    #: The process stood still, and events may be missing.
    stood_still: bool = False


@dataclass(slots=True)
class _Stillness:
    """The last time that the process stood still; ``until`` (monotonic) its queue is being emptied."""

    seconds: float = 0.0
    until: float = float("-inf")
    #: Changes that waited.
    waited: int = 0

    @property
    def reason(self) -> str:
        return f"stood still for {self.seconds:.1f} s, and {self.waited:,} changes waited at its end"


class Listener:
    """Gathers what ears hear, and rings ``bell``. All but the waiting happens in the loop's thread."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._heard = Heard()
        self._stillness = _Stillness()
        self._suspicious = max(1, queued_events() // _EVENTS_A_CHANGE)

    def take(self) -> Heard:
        """What was gathered since the last time."""
        heard, self._heard = self._heard, Heard()
        return heard

    async def follow(self, ear: Ear) -> None:
        """Listen until the ear is ended, or is no good any more; closes it."""
        limiter = trio.CapacityLimiter(1)
        try:
            while not ear.is_ending and self._heard.lost is None:
                changes, still_seconds = await in_thread(limiter, ear.next)
                self._gather(changes, still_seconds)
                await trio.lowlevel.checkpoint()
            self._gather(await in_thread(limiter, ear.rest), 0.0)
        except (OSError, RuntimeError, ValueError) as error:
            self._lose(printable(str(error), 300))
        finally:
            ear.close()

    def _gather(self, changes: Changes, still_seconds: float) -> None:
        now = time.monotonic()
        if still_seconds > _STILL_SECONDS:
            self._stillness = _Stillness(still_seconds, now + _EMPTYING_SECONDS)
        if not changes:
            return
        heard = self._heard
        if now < self._stillness.until:
            heard.stood_still = True
            self._stillness.waited += len(changes)
            if self._stillness.waited >= self._suspicious:
                self._lose(self._stillness.reason)
                return
        heard.changes |= changes
        if heard.crowded or len(heard.changes) > _MOST_CHANGES:
            heard.crowded = True
            heard.changes.clear()
        self._bell.ring()

    def _lose(self, reason: str) -> None:
        self._heard.lost = reason
        self._bell.ring()
