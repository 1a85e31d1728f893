"""A daemon's life: days of it, with reloads, restarts, faults and roots that go, beside a world that moves.

``trio.run`` with the clock of a :class:`Life`; its daemon is the real one, in this process and without signals.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import trio

from auditd.errors import StoreError
from auditd.evidence.record import Severity
from auditd.evidence_store.store import EvidenceStore
from auditd.evidence_store.verifying import Tally, verify
from auditd.inspection.request import HashMode
from auditd.service import daemon
from auditd.service.daemon import Generation, House
from auditd.service.recording import evidence_log
from auditd.service.systemd import Notifier
from auditd.settings import (
    AlertSettings,
    InspectSettings,
    LogSettings,
    Root,
    ScheduleSettings,
    Settings,
    Severities,
    StoreSettings,
    WatchMode,
)
from tests.soak.clockwork import Clockwork
from tests.soak.kernel import Kernel
from tests.soak.ledger import Ledger, Problems
from tests.soak.oracle import Oracle
from tests.soak.world import World

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR

#: How long everything stands still before it is looked at: one scan, the waits for a store, a log and a first retry.
_STILL_SECONDS: Final = 3000.0

#: Scans and ticks, in seconds: rarer than by default, for a month in minutes.
_RESCAN_SECONDS: Final = 1800
_POLL_SECONDS: Final = 900
_TICK_SECONDS: Final = 900.0

#: Whole life is looked at so often, on average acts come so often, and so often something befalls the daemon.
_CHECK_SECONDS: Final = 8 * HOUR
_ACT_SECONDS: Final = 900.0
_FATE_SECONDS: Final = 5 * HOUR

#: From this day on the memory may not grow any more than so.
WARM_DAYS: Final = 3.0
_MOST_GROWTH_BYTES: Final = 16_000_000
_MOST_THREADS: Final = 12


@dataclass(slots=True)
class Figures:
    """What a soak came to. Resident memory is in bytes, a list of (day, bytes)."""

    checks: int = 0
    acts: int = 0
    restarts: int = 0
    reloads: int = 0
    faults: int = 0
    vanished: int = 0
    records: int = 0
    memory: list[tuple[float, int]] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)


class _Output:
    """Where no event is lost."""

    lost = 0
    reason: str | None = None


@dataclass(slots=True)
class _Faults:
    """What does not work at present."""

    store: bool = False
    log: bool = False


class Life:
    """One soak in the empty directory ``home``."""

    def __init__(self, home: Path, seed: int) -> None:
        self.clockwork = Clockwork()
        self.problems = Problems(lambda: self.clockwork.elapsed)
        self.figures = Figures()
        self._home = home
        self._chance = random.Random(seed)
        self._kernel = Kernel(self._chance)
        roots = [home / "first", home / "second"]
        self.world = World(roots, self._chance, self.clockwork, self._kernel)
        self.ledger = Ledger(self.world, self.clockwork.now, self.problems)
        self._faults = _Faults()
        self._settings = self._drawn()
        self._signals: trio.MemorySendChannel[int]
        self._house = House(self.ledger, _Output(), Notifier({}))  # type: ignore[arg-type]
        self._generation: Generation | None = None
        self._down = trio.Event()

    # --- settings ----------------------------------------------------------------------------------------

    def _drawn(self) -> Settings:
        chance = self._chance
        watches: list[WatchMode] = ["auto", chance.choice(["auto", "auto", "poll"])]
        modes: list[HashMode | None] = ["header", "expected", "full", None]
        first, second = (
            Root(str(root), hash=chance.choice(modes), watch=watch)
            for root, watch in zip(self.world.roots, watches, strict=True)
        )
        severities: list[Severity] = ["warning", "warning", "critical"]
        quiet: list[Severities] = [
            {},
            {"not_a_model": "notice"},
            {"unowned_bytes": "info", "template_changed": "notice"},
        ]
        return Settings(
            roots=(first, second),
            inspect=InspectSettings(hash="expected"),
            schedule=ScheduleSettings(
                scrub_days=2,
                settle_seconds=chance.choice([2, 10, 30]),
                rescan_seconds=_RESCAN_SECONDS,
                poll_seconds=_POLL_SECONDS,
            ),
            alert=AlertSettings(severity=chance.choice(severities), severities=chance.choice(quiet)),
            store=StoreSettings(str(self._home / "state" / "evidence.sqlite")),
            log=LogSettings(str(self._home / "state" / "evidence.jsonl")),
        )

    # --- the daemon --------------------------------------------------------------------------------------

    async def _be(self) -> None:
        """Live from a start to a stop."""
        self._down = trio.Event()
        self._signals, signals = trio.open_memory_channel[int](10)
        generation = Generation(self._settings, self._house, await daemon._opened(self._settings, self._house))
        control = daemon._Control(lambda: self._settings, self._settings, self._house, generation)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(control.listen, signals)
            self._control = control
            await control.live()
            nursery.cancel_scope.cancel()
        self._down.set()

    @property
    def _living(self) -> Generation:
        return self._control._generation

    @contextmanager
    def _faulty(self) -> Iterator[None]:
        """Let store and log fail when they are told to."""
        faults, change, write = self._faults, EvidenceStore._change, evidence_log._write_whole

        def _change(store: EvidenceStore, work: Any) -> Any:
            if faults.store:
                raise StoreError("database or disk is full")
            return change(store, work)

        def _write(descriptor: int, line: bytes) -> None:
            if faults.log:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            write(descriptor, line)

        with (
            patch.object(EvidenceStore, "_change", _change),
            patch.object(evidence_log, "_write_whole", _write),
            patch.object(daemon, "_MINUTE", _TICK_SECONDS),
        ):
            yield

    # --- what befalls it ---------------------------------------------------------------------------------

    async def _reload(self) -> None:
        self.figures.reloads += 1
        self._settings = self._drawn()
        self.ledger.reloaded_at = self.clockwork.now()
        await self._signals.send(signal.SIGHUP)
        await self._pass(1.0)

    async def _restart(self) -> None:
        """Stop it, perhaps in the middle of things; sometimes it stays away for hours while the world goes on."""
        self.figures.restarts += 1
        self._faults.store = self._faults.log = False
        await self._signals.send(signal.SIGTERM)
        await self._down.wait()
        for _ in range(self._chance.choice([0, 0, 5, 40])):
            self.world.act()
            await self._pass(self._chance.expovariate(1 / _ACT_SECONDS))
        self._nursery.start_soon(self._be)
        await self._pass(1.0)

    async def _fail(self) -> None:
        self.figures.faults += 1
        what = self._chance.choice(["store", "log"])
        setattr(self._faults, what, True)
        await self._go_on(self._chance.uniform(1, 2 * HOUR))
        setattr(self._faults, what, False)

    async def _vanish(self) -> None:
        self.figures.vanished += 1
        root = self._chance.choice(self.world.roots)
        self.world.vanish(root)
        await self._go_on(self._chance.uniform(1, 6 * HOUR))
        self.world.come_back(root)

    # --- time --------------------------------------------------------------------------------------------

    async def _pass(self, seconds: float) -> None:
        await self.clockwork.pass_until(self.clockwork.elapsed + seconds)
        self._kernel.deliver_late()

    async def _go_on(self, seconds: float) -> None:
        """Let the world act for so long; some acts come in bursts, and some while threads are at work."""
        end = self.clockwork.elapsed + seconds
        while self.clockwork.elapsed < end:
            wait = self._chance.expovariate(1 / _ACT_SECONDS)
            await self._pass(min(wait, end - self.clockwork.elapsed))
            for _ in range(self._chance.choice([1, 1, 2, 6])):
                self.world.act()
                self._kernel.deliver_late()
                for _ in range(self._chance.choice([0, 1, 3, 10])):
                    await trio.lowlevel.checkpoint()

    async def run(self, days: float) -> None:
        """Live for so many virtual days, and be looked at all along."""
        with ExitStack() as stack:
            for seam in (self.clockwork.installed(), self._kernel.installed(), self._faulty()):
                stack.enter_context(seam)
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._be)
                await self._pass(1.0)
                fates = [self._reload, self._restart, self._fail, self._fail, self._vanish]
                checked_at = 0.0
                while self.clockwork.elapsed < days * DAY:
                    await self._go_on(self._chance.expovariate(1 / _FATE_SECONDS))
                    await self._chance.choice(fates)()
                    if self.clockwork.elapsed - checked_at > _CHECK_SECONDS:
                        await self._check()
                        checked_at = self.clockwork.elapsed
                await self._check()
                await self._signals.send(signal.SIGTERM)
                await self._down.wait()
        self._check_files()
        self._check_growth()
        self.figures.acts = self.world.acts

    # --- being looked at ---------------------------------------------------------------------------------

    async def _check(self) -> None:
        """Stand still for one scan and a little, then see whether everything is as it should be."""
        self.figures.checks += 1
        await self._pass(_STILL_SECONDS)
        generation = self._living
        oracle = Oracle(self.world, generation.holding.store, self._settings, self.ledger)
        for problem in oracle.problems(self.clockwork.now(), self.world.touched):
            self.problems.add(problem)
        scheduler = generation._parts.scheduler
        if len(scheduler.queue) or len(scheduler.settler):
            self.problems.add(f"{len(scheduler.queue)} files are due, {len(scheduler.settler)} settle")
        for trouble in (generation._parts.recorder.store_trouble, generation._parts.recorder.log_trouble):
            if trouble.reason is not None:
                self.problems.add(f"still in trouble: {trouble.reason}")
        self.figures.memory.append((self.clockwork.elapsed / DAY, resident_bytes()))
        self.figures.descriptors.append(len(os.listdir("/proc/self/fd")))
        self.figures.threads.append(threading.active_count())

    def _check_growth(self) -> None:
        """What a month may cost: no descriptor, no thread, and next to no memory."""
        figures = self.figures
        warm = [size for day, size in figures.memory if day >= WARM_DAYS]
        if warm and warm[-1] - warm[0] > _MOST_GROWTH_BYTES:
            self.problems.add(f"memory grew from {warm[0]:,} to {warm[-1]:,} bytes")
        if figures.descriptors[-1] > figures.descriptors[0]:
            self.problems.add(f"descriptors: {figures.descriptors}")
        if max(figures.threads) > _MOST_THREADS:
            self.problems.add(f"threads: {figures.threads}")

    def _check_files(self) -> None:
        """Store and log after the end: the chain is whole, and both have the same records, each once."""
        path = self._settings.store.path
        assert path is not None
        with sqlite3.connect(path) as connection:
            for broken in verify(connection, Tally()):
                self.problems.add(f"verify: {broken}")
            stored = {identifier for (identifier,) in connection.execute("SELECT evidence_id FROM evidence")}
        connection.close()
        lines = [json.loads(line) for line in (self._home / "state" / "evidence.jsonl").read_bytes().splitlines()]
        logged = [line["evidence_id"] for line in lines if line["schema"] == "model-auditd/evidence/1"]
        self.figures.records = len(stored)
        if set(logged) != stored:
            self.problems.add(
                f"records: {len(stored - set(logged))} in the store alone, {len(set(logged) - stored)} in the log"
            )


def resident_bytes() -> int:
    """The memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
