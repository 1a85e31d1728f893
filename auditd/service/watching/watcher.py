"""One root, kept in sight: armed before it is scanned, scanned again on a period, armed again after any error.

Events are hints about where to look, never the truth. Each directory is watched for itself (:mod:`.directories`), and
what is heard is gathered by :mod:`.listening`. Directories that appear are watched by a second, small watch, made anew
as they come, at most a tenth of the time; once it has grown, all is armed anew. What appears before it is watched
is found by the look that follows the arming.

    10,000 directories   listed in 0.4 s, armed in 0.2 to 1.8 s, 4 MB; idle 0.1 % of a core
    100,000              listed in 3 s, armed in 9 s, 30 MB; past these the root is scanned every ``poll_seconds``

Rejected: one recursive watch of watchfiles, which ends at the first closed directory, goes through links to places
that no scan goes to, and says nothing when a directory that appears is past the limit of watches; and arming everything
anew for each directory that appears: 9 s of work, and twice the watches while both live.

A root that cannot be watched or seen is *blind*: said once, and tried and scanned again every ``poll_seconds``. One
closed directory does not make it so: the others stay watched, it is counted, and the root is scanned every
``poll_seconds``. Nothing is taken for gone because it was not seen: only a directory that can be read says that a file
is not there.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NoReturn, TypeVar

import trio
from watchfiles import Change

from auditd.errors import InspectionStopped, StoreError
from auditd.evidence.record import Trigger
from auditd.evidence.text import printable
from auditd.service.bell import Bell
from auditd.service.logging import Events
from auditd.service.reading.board import RootBoard
from auditd.service.reading.cancellation import check_cancelled, in_thread
from auditd.service.watching.arming import Arming
from auditd.service.watching.listening import Ear, Heard, Listener
from auditd.service.watching.scanner import Displaced, Scanner, Tally
from auditd.service.watching.sight import Sight
from auditd.settings import ScheduleSettings

#: Seconds until all is armed anew; if that goes on, more and more.
_REARM_SECONDS: Final = 0.5

#: The share of the time that arming and scanning may take while a tree changes, or a root is polled.
_SHARE: Final = 10


T = TypeVar("T")

_NO_STORE: Final = "the store cannot be read"


class _Blind(Exception):
    """The root cannot be watched or seen, and why."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What tells that the root's path still leads to the directory that was armed."""

    device: int
    inode: int


def _probe(path: bytes) -> _Place:
    """In the thread: the directory at ``path``, which can be listed. ``OSError`` if not."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    os.scandir(path).close()
    return _Place(status.st_dev, status.st_ino)


@dataclass(slots=True)
class _Young:
    """The second watch, and what is to be in the next one."""

    ear: Ear | None = None
    waiting: set[str] = field(default_factory=set)
    #: When the next one may be made, in the loop's clock.
    due_at: float = 0.0

    def replace(self, ear: Ear) -> None:
        """Another one has begun; what the former one heard until then is still taken."""
        if self.ear is not None:
            self.ear.end()
        self.ear = ear


def _cannot_be_watched(error: BaseException) -> str:
    return f"cannot be watched: {_reason(error)}"


def _reason(error: BaseException) -> str:
    strerror = error.strerror if isinstance(error, OSError) else None
    # watchfiles puts the path behind it, which is the first past a limit by chance.
    return printable(strerror or str(error).partition(" about [")[0], 300)


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
        self._scanner = scanner
        self._schedule = schedule
        self._sight = Sight(board, events, changed, schedule.poll_seconds)
        self._store_failed = store_failed
        self._after_scan = after_scan
        self._stall_seconds = stall_seconds
        #: When the looking thread last gave a sign of life; None while it does not look.
        self._alive_at: float | None = None
        self._looking = Bell()
        self._limiter = trio.CapacityLimiter(1)
        self._bell = Bell()
        self._scan_wanted = False
        self._trigger: Trigger = "startup"
        self._rearm_seconds = _REARM_SECONDS
        #: When events were lost of late, in the loop's clock.
        self._lost_at: list[float] = []
        #: How long the last arming of all and the scan after it took.
        self._arming_seconds = 0.0

    @property
    def initial_scan_done(self) -> trio.Event:
        """Set once the root was looked at, or is blind."""
        return self._sight.initial_scan_done

    def covers(self, path: bytes) -> bool:
        """Whether the settings of this root ask for an artifact at ``path`` below it."""
        return self._scanner.covers(path)

    def rescan(self) -> None:
        """Scan again soon: something was offered and had to be forgotten."""
        self._scan_wanted = True
        self._bell.ring()

    async def run(self) -> NoReturn:
        """Live for ever: one watch after another."""
        while True:
            begun = trio.current_time()
            try:
                await self._one_watch()
            except _Blind as blind:
                self._sight.go_blind(str(blind))
                await self._bell.wait(self._poll_seconds())
            else:
                await self._pause(trio.current_time() - begun)

    async def _pause(self, lived_seconds: float) -> None:
        """Wait before all is armed anew: the longer, the shorter the watches live."""
        if lived_seconds > self._schedule.poll_seconds:
            self._rearm_seconds = _REARM_SECONDS
        await trio.sleep(self._rearm_seconds)
        self._rearm_seconds = min(2 * self._rearm_seconds, max(_REARM_SECONDS, self._schedule.poll_seconds))

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
                self._sight.go_blind(f"no answer for {self._stall_seconds:g} s")
                # Should it answer one day, the next thing is a scan, which sees the root again.
                self.rescan()
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
        except InspectionStopped:
            # Nothing but cancellation stops it, and here it is delivered.
            return await trio.sleep_forever()
        finally:
            self._alive_at = None

    # --- one watch ---------------------------------------------------------------------------------------

    async def _one_watch(self) -> None:
        """Arm, scan, listen; return when all of this is to be done again."""
        begun = trio.current_time()
        place = await self._place()
        arming = Arming(self._scanner.root, self._scanner.exclusion, self._alive, any_names=not self._is_breaking())
        ear, why_not = await self._arm(arming)
        try:
            self._scan_wanted = False
            await self._scan()
            self._arming_seconds = trio.current_time() - begun
            if why_not is not None:
                raise _Blind(why_not)
            self._sight.see("events" if ear else "poll", arming.survey)
            if ear is None:
                await self._poll(arming, place)
            else:
                await self._listen(arming, ear, place)
        finally:
            if ear is not None:
                ear.close()

    async def _place(self) -> _Place:
        try:
            return await self._ask(partial(_probe, self._scanner.path))
        except OSError as error:
            raise _Blind(_reason(error)) from None

    async def _arm(self, arming: Arming) -> tuple[Ear | None, str | None]:
        """The watch of all directories, or None where the root is polled; else why there is none."""
        if self._scanner.root.watch == "poll":
            return None, None
        try:
            return await self._ask(arming.begin), None
        except (OSError, RuntimeError, ValueError) as error:
            return None, _cannot_be_watched(error)

    async def _poll(self, arming: Arming, place: _Place) -> None:
        """Scan on the shorter period, until the path leads elsewhere, or it is time to see whether events would do."""
        again_at = trio.current_time() + self._schedule.rescan_seconds
        while self._scanner.root.watch == "poll" or trio.current_time() < again_at:
            await self._bell.wait(self._poll_seconds())
            if await self._place() != place:
                return
            await self._scan()
            self._sight.see("poll", arming.survey)

    def _poll_seconds(self) -> float:
        """The shorter period, where events are not enough or there are none: longer if arming and scanning take long."""
        longest = max(self._schedule.poll_seconds, self._schedule.rescan_seconds)
        return min(max(self._schedule.poll_seconds, _SHARE * self._arming_seconds), longest)

    def _period(self, arming: Arming) -> float:
        """Seconds from one scan to the next while events come."""
        return self._poll_seconds() if arming.survey.unwatched else self._schedule.rescan_seconds

    def _is_breaking(self) -> bool:
        """Whether events were lost twice within a period: once is forgiven, a name that is not UTF-8 may stand still."""
        since = trio.current_time() - self._schedule.rescan_seconds
        self._lost_at = [at for at in self._lost_at if at > since][-2:]
        return len(self._lost_at) > 1

    async def _listen(self, arming: Arming, ear: Ear, place: _Place) -> None:
        """Follow events and scan on the period, until all is to be armed anew."""
        blind: _Blind | None = None
        async with trio.open_nursery() as nursery:
            listener = Listener(self._bell)
            nursery.start_soon(listener.follow, ear)
            try:
                await self._attend(arming, listener, nursery, place)
            except _Blind as reason:
                # Out of a nursery it would come in a group.
                blind = reason
            nursery.cancel_scope.cancel()
        if blind is not None:
            raise blind

    async def _attend(self, arming: Arming, listener: Listener, nursery: trio.Nursery, place: _Place) -> None:
        young = _Young()
        due_at = trio.current_time() + self._period(arming)
        while True:
            await self._bell.wait(self._wait(young, due_at))
            if await self._place() != place:
                return
            heard = listener.take()
            if self._is_void(heard):
                return
            await self._look_at(arming, heard, young)
            scan = self._scan_wanted or heard.stood_still or trio.current_time() >= due_at
            if scan and not await self._catch_up(arming, young):
                return
            if scan and not arming.any_names and not self._is_breaking():
                return
            if not await self._extend(arming, listener, nursery, young):
                return
            if scan:
                self._scan_wanted = False
                await self._scan()
                self._sight.see("events", arming.survey)
                due_at = trio.current_time() + self._period(arming)

    def _wait(self, young: _Young, due_at: float) -> float:
        """Seconds to the next thing to do; a mount that comes over the root sends no event, and is looked for."""
        until = min(due_at, young.due_at) if young.waiting else due_at
        return min(until - trio.current_time(), self._schedule.poll_seconds)

    def _is_void(self, heard: Heard) -> bool:
        """Whether this watch is no good any more."""
        if heard.lost is not None:
            self._lost_at.append(trio.current_time())
            self._sight.lose(heard.lost)
        # Another directory may have the root's name by now, and even its inode number.
        return heard.lost is not None or heard.crowded or (Change.deleted, self._scanner.root.path) in heard.changes

    async def _look_at(self, arming: Arming, heard: Heard, young: _Young) -> None:
        if heard.changes:
            paths = arming.with_aliases(path for _, path in heard.changes)
            await self._look(sorted(map(os.fsencode, paths)))
            young.waiting.update(await self._ask(partial(arming.appeared, heard.changes)))

    async def _catch_up(self, arming: Arming, young: _Young) -> bool:
        """Before a scan, find the directories that no event told of; False if all is to be armed anew."""
        missed = await self._ask(arming.missed)
        young.waiting.update(missed or ())
        if missed:
            young.due_at = 0.0
        return missed is not None

    async def _extend(self, arming: Arming, listener: Listener, nursery: trio.Nursery, young: _Young) -> bool:
        """Watch the directories that appeared, if it is time to, and look at them; False if all is to be armed anew."""
        begun = trio.current_time()
        if not young.waiting or begun < young.due_at:
            return True
        try:
            extension = await self._ask(partial(arming.extend, young.waiting))
        except (OSError, RuntimeError, ValueError) as error:
            raise _Blind(_cannot_be_watched(error)) from None
        if extension is None:
            return False
        if extension.ear is not None:
            nursery.start_soon(listener.follow, extension.ear)
            young.replace(extension.ear)
        young.waiting = set()
        await self._look([os.fsencode(top) for top in extension.tops])
        now = trio.current_time()
        young.due_at = now + max(_REARM_SECONDS, _SHARE * (now - begun))
        return True

    # --- looking -----------------------------------------------------------------------------------------

    async def _look(self, paths: Iterable[bytes]) -> None:
        if await self._in_thread(partial(self._scanner.scan_paths, paths, self._alive)) is None:
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
        self._sight.board.scanned_at = time.time() if not tally.unseen else self._sight.board.scanned_at
        self._sight.say_scanned(tally, trigger)
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
