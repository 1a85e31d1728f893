"""One root, kept in sight: armed before it is scanned, scanned again on a period, armed again after any error.

Events are hints about where to look, never the truth. They come from watchfiles' own core, called in a thread: it
watches from the moment it is constructed (which walks the tree), and returns within 50 ms once its stop event is set.
The asynchronous front of watchfiles hides errors and takes seconds to leave, hence not that one.

A root that cannot be watched or seen is *blind*: said once, and tried again every ``poll_seconds``. Nothing is taken
for gone because it was not seen: only a directory that can be read says that a file is not there.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn, TypeVar

import trio
from watchfiles import Change
from watchfiles._rust_notify import RustNotify

from auditd.errors import InspectionStopped, StoreError
from auditd.evidence.record import Trigger
from auditd.evidence.text import printable
from auditd.service import mounts
from auditd.service.bell import Bell
from auditd.service.board import RootBoard
from auditd.service.cancellation import check_cancelled, in_thread
from auditd.service.logging import Events, path_fields
from auditd.service.scanner import Displaced, Scanner, Tally
from auditd.settings import ScheduleSettings

#: Milliseconds: how long a burst may be gathered, and how often the stop event is looked at.
_DEBOUNCE_MS: Final = 200
_STEP_MS: Final = 50

#: After lost events the watch is made anew at once; if that goes on, more and more slowly.
_REARM_SECONDS: Final = 0.5


T = TypeVar("T")

_NO_STORE: Final = "the store cannot be read"


class _Blind(Exception):
    """The root cannot be watched or seen, and why."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What tells that the root's path still leads to the directory that was armed."""

    device: int
    inode: int


class _Stop:
    """The watch's stop event: the loop asks for it, or cancels whoever waits for the thread."""

    def __init__(self) -> None:
        self.wanted = threading.Event()

    def is_set(self) -> bool:
        if self.wanted.is_set():
            return True
        try:
            check_cancelled()
        except InspectionStopped:
            return True
        return False


def _probe(path: bytes) -> _Place:
    """In the thread: the directory at ``path``, which can be listed. ``OSError`` if not."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    os.scandir(path).close()
    return _Place(status.st_dev, status.st_ino)


def _arm(path: str, *, recursive: bool) -> RustNotify:
    """In the thread: watching has begun when this returns. Permission errors are told, or siblings go unwatched."""
    return RustNotify([path], False, False, 0, recursive, False)


def _reason(error: BaseException) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    return printable(strerror or str(error), 300)


class RootKeeper:
    """Keeps one root in sight.

    ``after_scan`` is awaited after every look, for what it left to be told; ``changed`` is called when the board has.
    """

    def __init__(
        self,
        *,
        scanner: Scanner,
        schedule: ScheduleSettings,
        board: RootBoard,
        events: Events,
        store_failed: Callable[[str], None],
        after_scan: Callable[[], Awaitable[None]],
        changed: Callable[[], None],
        stall_seconds: float = 60.0,
    ) -> None:
        self.first_look = trio.Event()
        self._scanner = scanner
        self._schedule = schedule
        self._board = board
        self._events = events
        self._store_failed = store_failed
        self._after_scan = after_scan
        self._changed = changed
        self._stall_seconds = stall_seconds
        #: When the looking thread last gave a sign of life; None while it does not look.
        self._alive_at: float | None = None
        self._looking = Bell()
        self._limiter = trio.CapacityLimiter(1)
        self._bell = Bell()
        self._stop = _Stop()
        self._trigger: Trigger = "startup"
        self._was_blind = False
        self._rearm_seconds = _REARM_SECONDS

    def covers(self, path: bytes) -> bool:
        """Whether the settings of this root ask for an artifact at ``path`` below it."""
        return self._scanner.covers(path)

    def rescan(self) -> None:
        """Scan again soon: something was offered and had to be forgotten."""
        self._bell.ring()
        self._stop.wanted.set()

    async def run(self) -> NoReturn:
        """Live for ever: one watch after another."""
        while True:
            try:
                await self._one_watch()
            except _Blind as blind:
                self._go_blind(str(blind))
                await self._bell.wait(self._schedule.poll_seconds)

    async def watch_silence(self) -> NoReturn:
        """For ever: a root whose file system does not answer, a dead mount say, is blind until it does.

        The thread that waits for it cannot be taken back, and stays; a stop waits for it, until systemd kills.
        """
        while True:
            alive_at = self._alive_at
            if alive_at is None:
                await self._looking.wait()
                continue
            silent = time.monotonic() - alive_at
            if silent > self._stall_seconds:
                self._go_blind(f"no answer for {self._stall_seconds:g} s")
                # Should it answer one day, the next thing is a scan, which sees the root again.
                self._stop.wanted.set()
                silent = 0.0
            await trio.sleep(max(0.05, self._stall_seconds - silent))

    def _alive(self) -> None:
        """The checkpoint of a look."""
        self._alive_at = time.monotonic()
        check_cancelled()

    async def _ask(self, work: Callable[[], T]) -> T:
        """Do in the thread what a dead file system never answers."""
        self._alive_at = time.monotonic()
        self._looking.ring()
        try:
            return await in_thread(self._limiter, work)
        finally:
            self._alive_at = None

    # --- one watch ---------------------------------------------------------------------------------------

    async def _one_watch(self) -> None:
        """Arm, scan, listen; return when all of this is to be done again."""
        place = await self._place()
        notify, why_not = await self._notify()
        try:
            await self._scan()
            if why_not is not None:
                raise _Blind(why_not)
            self._see("events" if notify else "poll")
            if notify is None:
                await self._poll(place)
            else:
                await self._listen(notify, place)
        finally:
            if notify is not None:
                notify.close()

    async def _place(self) -> _Place:
        try:
            return await self._ask(partial(_probe, self._scanner.path))
        except OSError as error:
            raise _Blind(_reason(error)) from None

    async def _notify(self) -> tuple[RustNotify | None, str | None]:
        """The armed watch, or None where polling was asked for; else why it could not be armed."""
        root = self._scanner.root
        silent = root.watch == "auto" and await self._ask(partial(mounts.is_silent, self._scanner.path))
        if root.watch == "poll" or silent:
            return None, None
        try:
            return await self._ask(partial(_arm, root.path, recursive=root.recursive)), None
        except (OSError, RuntimeError, ValueError) as error:
            return None, f"cannot be watched: {_reason(error)}"

    async def _poll(self, place: _Place) -> None:
        """Scan on the shorter period, until the path leads elsewhere."""
        while True:
            await self._bell.wait(self._schedule.poll_seconds)
            if await self._place() != place:
                return
            await self._scan()
            self._see("poll")

    async def _listen(self, notify: RustNotify, place: _Place) -> None:
        """Follow events and scan on the period, until events were lost or the path leads elsewhere."""
        due_at = trio.current_time() + self._schedule.rescan_seconds
        while True:
            wait = max(0.001, due_at - trio.current_time())
            paths = await self._next_paths(notify, wait)
            if paths is None or await self._place() != place:
                return
            if paths:
                await self._look(paths)
            if self._stop.wanted.is_set() or trio.current_time() >= due_at:
                self._stop.wanted.clear()
                await self._scan()
                self._see("events")
                self._rearm_seconds = _REARM_SECONDS
                due_at = trio.current_time() + self._schedule.rescan_seconds

    async def _next_paths(self, notify: RustNotify, wait: float) -> list[bytes] | None:
        """The paths of the next events, none after ``wait`` seconds or a nudge; None if the watch is no good any more."""
        work = partial(notify.watch, _DEBOUNCE_MS, _STEP_MS, int(wait * 1000) or 1, self._stop)
        try:
            changes = await in_thread(self._limiter, work)
        except (OSError, RuntimeError, ValueError) as error:
            # A name that is not UTF-8 makes this and every later call fail: only a new watch helps.
            self._events.warning("events_lost", **self._named(), reason=_reason(error))
            await self._bell.wait(self._rearm_seconds)
            self._rearm_seconds = min(2 * self._rearm_seconds, self._schedule.poll_seconds)
            return None
        await trio.lowlevel.checkpoint()
        if isinstance(changes, str):
            return []
        if (Change.deleted, self._scanner.root.path) in changes:
            # Another directory may have its name by now, and even its inode number.
            return None
        return sorted({os.fsencode(path) for _, path in changes})

    # --- looking -----------------------------------------------------------------------------------------

    async def _look(self, paths: Iterable[bytes]) -> None:
        if await self._in_thread(partial(self._scanner.look, paths, self._alive)) is None:
            # What these events were about is found by the scan once the store can be read again.
            raise _Blind(_NO_STORE)
        await self._after_scan()

    async def _scan(self) -> None:
        trigger = self._trigger
        tally = await self._in_thread(partial(self._scanner.scan, trigger, self._alive))
        if tally is None:
            raise _Blind(_NO_STORE)
        if tally.first_unseen is not None and tally.first_unseen.path == self._scanner.path:
            raise _Blind(os.strerror(tally.first_unseen.errno))
        self._trigger = "rescan"
        # A directory that is closed to us is not empty: such a scan is no pass over the root.
        self._board.scanned_at = time.time() if not tally.unseen else self._board.scanned_at
        self._say_scanned(tally, trigger)
        await self._after_scan()

    async def _in_thread(self, work: Callable[[], Tally]) -> Tally | None:
        """Run one look in the thread; None if the store failed, which has been said then."""
        with suppress(InspectionStopped):
            try:
                return await self._ask(work)
            except Displaced as displaced:
                raise _Blind(str(displaced)) from None
            except StoreError as error:
                self._store_failed(str(error))
                return None
        # Nothing but cancellation stops a look, and here it is delivered.
        return await trio.sleep_forever()

    # --- what is said ------------------------------------------------------------------------------------

    def _named(self) -> dict[str, str]:
        return path_fields(self._scanner.path, "root")

    def _see(self, state: str) -> None:
        """The root is in sight: said when it was not before."""
        if self._board.state != state:
            event = "root_restored" if self._was_blind else "root_armed"
            self._events.info(event, **self._named(), watch=state)
        self._was_blind = False
        self._board.state = "events" if state == "events" else "poll"
        self._board.reason = None
        self.first_look.set()
        self._changed()

    def _go_blind(self, reason: str) -> None:
        if not self._was_blind:
            self._events.warning("root_blind", **self._named(), reason=reason)
        self._was_blind = True
        self._board.state = "blind"
        self._board.reason = reason
        self.first_look.set()
        self._changed()

    def _say_scanned(self, tally: Tally, trigger: Trigger) -> None:
        self._board.tally = tally
        self._changed()
        unseen = {} if tally.first_unseen is None else path_fields(tally.first_unseen.path, "first_unseen")
        self._events.info(
            "scan_finished",
            **self._named(),
            trigger=trigger,
            artifacts=tally.artifacts,
            due=tally.due,
            unfinished=tally.unfinished,
            other_files=tally.other_files,
            special_files=tally.special_files,
            unseen=tally.unseen,
            removed=tally.removed,
            duration_seconds=tally.duration_seconds,
            **unseen,
        )
