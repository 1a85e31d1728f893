"""The daemon: the only place that starts tasks, and the order in which everything begins and ends.

    signals           received around everything, so that a second SIGTERM in the last write does no harm
      outer nursery   listens to signals
        generation    log and one nursery with all services under one configuration:
                      a keeper for each root, the scheduler's loop, the one inspecting task, the reporter

SIGTERM and SIGINT cancel the generation: the inspection stops at its next chunk and its partial evidence is recorded.
SIGHUP reads the configuration again: a bad one is refused and the old one stays; a new one begins a new generation;
an unchanged one only opens the log anew.

The store outlives a generation, and another store is open before the generation that uses the present one ends: a
store that fails, or cannot be opened, leaves the daemon with what it has.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Final, NoReturn, TypeAlias

import trio

from auditd import __version__
from auditd.errors import AuditError, SettingsError
from auditd.evidence.record import Producer, Severity
from auditd.evidence_store.entities import Alert
from auditd.evidence_store.store import EvidenceStore
from auditd.inspection.expectations import expectations_of
from auditd.model_stores.stores import ModelStores
from auditd.rules.severities import SEVERITIES, configured_severity
from auditd.service import metrics, places, status
from auditd.service.bell import Bell
from auditd.service.logging import Events, Output, open_events, path_fields
from auditd.service.reading.board import Board, RootBoard
from auditd.service.reading.cancellation import Watch
from auditd.service.reading.scheduler import RootRules, Scheduler
from auditd.service.reading.scrub import Scrubber
from auditd.service.recording import alerts, mount_alerts
from auditd.service.recording.evidence_log import EvidenceLog
from auditd.service.recording.recorder import LAST_WORD_SECONDS, Recorder, Trouble
from auditd.service.recording.sets import SetKeeper
from auditd.service.systemd import Notifier, watchdog_seconds
from auditd.service.watching.scanner import Scanner, is_below
from auditd.service.watching.watcher import RootKeeper
from auditd.settings import Settings, applied, configuration_digest

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

SettingsLoader: TypeAlias = Callable[[], Settings]

#: status.json and STATUS= at most this often, and how often what only passing time changes is looked at.
_REPORT_SECONDS: Final = 2.0
_MINUTE: Final = 60.0

#: How much more time to start is asked for, and how often, while the first scans run.
_MORE_TIME_SECONDS: Final = 60.0

_HOUR: Final = 3600.0

#: A scan asks the stores for every file of a tree: what was checked so lately stands.
_SCAN_TRUST_SECONDS: Final = 1.0


def run(settings_loader: SettingsLoader) -> int:
    """Run until SIGTERM or SIGINT; 0 then. ``SettingsError`` or ``StoreError`` if it cannot begin.

    ``settings_loader`` reads the configuration, now and again at each SIGHUP; it raises ``SettingsError``.
    """
    trio.run(_main, settings_loader, settings_loader())
    return 0


async def _main(load: SettingsLoader, settings: Settings) -> None:
    output = Output()
    events = open_events(output)
    with trio.open_signal_receiver(*_SIGNALS) as signals, Notifier() as notifier:
        # Whoever began this process may have kept them back until somebody listens.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        house = House(events, output, notifier)
        control = _Control(load, settings, house, Generation(settings, house, await _opened(settings, house)))
        async with trio.open_nursery() as listening:
            listening.start_soon(control.listen, signals)
            await control.live()
            listening.cancel_scope.cancel()
    events.info("daemon_stopped")


@dataclass(frozen=True, slots=True)
class House:
    """What lives as long as the daemon."""

    events: Events
    output: Output
    notifier: Notifier
    #: Threads that inspect, and what they read from: one that is lost stays lost under every configuration.
    threads: dict[Watch, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Holding:
    """An open store, and the trouble with it, which a change of the configuration does not end."""

    store: EvidenceStore
    trouble: Trouble


async def _opened(settings: Settings, house: House) -> Holding:
    """The store of ``settings``; bringing an old one up to date may take minutes. ``AuditError`` if it cannot be used."""
    _check(settings)
    async with _more_time(house.notifier):
        opening = partial(EvidenceStore, places.store_path(settings), writer=True)
        store: EvidenceStore | AuditError = await trio.to_thread.run_sync(_outcome, opening)
    if isinstance(store, AuditError):
        raise store
    return Holding(store, Trouble("store", house.events))


def _check(settings: Settings) -> None:
    if settings.log.form != "plain":
        raise SettingsError("configuration", "log.form", f'"{settings.log.form}" is not written by this version yet')


def _outcome(work: Callable[[], EvidenceStore]) -> EvidenceStore | AuditError:
    """An error as a value: out of a nursery it would come wrapped."""
    try:
        return work()
    except AuditError as error:
        return error


@asynccontextmanager
async def _more_time(notifier: Notifier) -> AsyncIterator[None]:
    """Ask systemd for more time to start, as long as the block runs."""

    async def ask() -> NoReturn:
        while True:
            await notifier.more_time(_MORE_TIME_SECONDS)
            await trio.sleep(_MORE_TIME_SECONDS / 3)

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        yield
        asking.cancel_scope.cancel()


class _Control:
    """What signals do: they end the generation, or begin the next one."""

    def __init__(self, load: SettingsLoader, settings: Settings, house: House, first: Generation) -> None:
        self._load = load
        #: Those of the last generation that was made, which may not live yet.
        self._settings = settings
        self._house = house
        self._stopping = False
        self._generation = first
        self._next: Generation | None = None
        #: Every store that is open.
        self._holdings = [first.holding]

    async def live(self) -> None:
        """One generation after another until the end is asked for."""
        events = self._house.events
        events.info("daemon_started", version=__version__, pid=os.getpid(), roots=len(self._settings.roots))
        try:
            while True:
                await self._generation.live()
                if self._stopping or self._next is None:
                    return
                self._generation, self._next = self._next, None
                self._close_stores(but=self._generation.holding)
                events.info("config_reloaded", changed=True, roots=len(self._generation.settings.roots))
        finally:
            self._close_stores(but=None)

    def _close_stores(self, but: Holding | None) -> None:
        for holding in self._holdings:
            if holding is not but:
                holding.store.close()
        self._holdings = [] if but is None else [but]

    async def listen(self, signals: AsyncIterator[int]) -> None:
        """Serve signals one by one."""
        async for number in signals:
            if number == signal.SIGHUP:
                if not self._stopping:
                    await self._reload()
            elif not self._stopping:
                self._stopping = True
                self._house.events.info("daemon_stopping", signal=signal.Signals(number).name)
                self._generation.stop()
                await self._house.notifier.stopping()

    async def _reload(self) -> None:
        """READY follows at once if nothing changes, else once the next generation has looked at its roots."""
        await self._house.notifier.reloading()
        try:
            settings = await trio.to_thread.run_sync(self._load)
            if settings != self._settings:
                self._next = await self._made(settings)
                self._settings = settings
        except AuditError as error:
            self._house.events.error("config_rejected", reason=str(error))
        else:
            if self._next is not None:
                self._generation.end()
                return
            self._generation.reopen_log()
            self._house.events.info("config_reloaded", changed=False, roots=len(settings.roots))
        if self._next is None and self._generation.is_ready:
            await self._house.notifier.ready()

    async def _made(self, settings: Settings) -> Generation:
        """The next generation, with the present store or one that could be opened beside it."""
        _check(settings)
        for holding in self._holdings:
            if holding.store.path == places.store_path(settings):
                return Generation(settings, self._house, holding)
        fresh = await _opened(settings, self._house)
        try:
            made = Generation(settings, self._house, fresh)
        except BaseException:
            fresh.store.close()
            raise
        self._holdings.append(fresh)
        return made


@dataclass(frozen=True, slots=True)
class _Parts:
    """What one configuration is served with."""

    board: Board
    recorder: Recorder
    scheduler: Scheduler
    sets: SetKeeper
    scrubber: Scrubber
    keepers: list[RootKeeper]


class Generation:
    """Everything that lives under one configuration. ``AuditError`` if it cannot be served."""

    def __init__(self, settings: Settings, house: House, holding: Holding) -> None:
        self.settings = settings
        self.holding = holding
        self._house = house
        self._events = house.events
        self._notifier = house.notifier
        self._scope = trio.CancelScope()
        self._changed = Bell()
        self._untold = Bell()
        self._parts = self._build()

    @property
    def is_ready(self) -> bool:
        """Every root was looked at, or is blind."""
        return self._parts.board.ready

    def _build(self) -> _Parts:
        settings, store = self.settings, self.holding.store
        rules = [_rules(settings, index) for index in range(len(settings.roots))]
        board = Board(
            time.time(),
            [RootBoard(os.fsencode(root.path)) for root in settings.roots],
            threads=self._house.threads,
        )
        log = EvidenceLog(places.log_path(settings))
        recorder = Recorder(store, log, self._events, _policy(settings), self.holding.trouble)
        keepers: list[RootKeeper] = []
        recorder.after_saying = self._changed.ring
        sets = SetKeeper(recorder, ModelStores(), settings.schedule.settle_seconds, self._set_rules, board.roots)
        scheduler = Scheduler(
            rules=rules,
            schedule=settings.schedule,
            limits=settings.inspect,
            recorder=recorder,
            board=board,
            rescan=lambda: _rescan(keepers),
            new_expectations=lambda: expectations_of(ModelStores()),
            moved=sets.mark,
            ended=lambda path: scrubber.done(path),  # noqa: PLW0108 - it is made below
        )
        scrubber = Scrubber(
            settings.schedule,
            recorder,
            self._events,
            scheduler.put,
            scheduler.is_under_way,
            scheduler.is_at_rest,
            board.roots,
        )

        async def after_scan() -> None:
            scheduler.scanned()
            self._untold.ring()
            await trio.lowlevel.checkpoint()

        keepers.extend(
            RootKeeper(
                scanner=self._scanner(index, rules[index], scheduler, sets),
                schedule=settings.schedule,
                board=board.roots[index],
                events=self._events,
                store_failed=recorder.store_trouble.begin,
                after_scan=after_scan,
                changed=self._changed.ring,
                stall_seconds=settings.inspect.stall_seconds,
            )
            for index in range(len(settings.roots))
        )
        return _Parts(board, recorder, scheduler, sets, scrubber, keepers)

    def _scanner(self, index: int, rules: RootRules, scheduler: Scheduler, sets: SetKeeper) -> Scanner:
        stores = ModelStores(_SCAN_TRUST_SECONDS)
        return Scanner(
            index=index,
            root=self.settings.roots[index],
            mode=rules.hash,
            configuration=rules.producer.configuration,
            store=self.holding.store,
            offer=scheduler.offer,
            removed=scheduler.removed,
            roots=tuple(os.fsencode(each.path) for each in self.settings.roots),
            expectations=expectations_of(stores),
            refresh=stores.refresh,
            moved=sets.mark_from_thread,
        )

    def _set_rules(self, path: bytes) -> tuple[Producer, Mapping[str, Severity]] | None:
        """Who makes the record of a set at ``path``, and with which severities; None if no root covers it."""
        for index, root in enumerate(self.settings.roots):
            if is_below(path, os.fsencode(root.path)):
                rules = _rules(self.settings, index)
                return rules.producer, rules.severities
        return None

    def stop(self) -> None:
        """End it because the daemon ends."""
        self._parts.board.state = "stopping"
        self._scope.cancel()

    def end(self) -> None:
        """End it because another configuration takes over."""
        self._scope.cancel()

    def reopen_log(self) -> None:
        """The log was rotated."""
        self._parts.recorder.reopen_log()

    async def live(self) -> None:
        """Serve until :meth:`stop` or :meth:`end`."""
        parts = self._parts
        with ExitStack() as stack:
            stack.callback(parts.recorder.close)
            with self._scope:
                async with trio.open_nursery() as services:
                    # What may be tried is decided before anybody looks.
                    await parts.recorder.begin_settings(_mark(self.settings))
                    services.start_soon(self._catch_up)
                    for keeper in parts.keepers:
                        services.start_soon(keeper.run)
                        services.start_soon(keeper.watch_silence)
                    services.start_soon(parts.recorder.mend)
                    services.start_soon(self._tell)
                    services.start_soon(parts.scheduler.turn, self._notifier, watchdog_seconds())
                    services.start_soon(parts.scheduler.work)
                    services.start_soon(parts.sets.keep)
                    services.start_soon(self._scrub)
                    services.start_soon(self._announce_ready)
                    services.start_soon(self._report)
                    services.start_soon(self._each_minute)
            with trio.move_on_after(LAST_WORD_SECONDS, shield=True):
                await parts.recorder.settle_log()
                self._close_board()
                await self._write_report()

    def _close_board(self) -> None:
        """What the status says when nobody is there any more to change it."""
        board = self._parts.board
        board.ready = False
        if board.state == "stopping":
            board.state = "stopped"

    # --- beginning ---------------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        """Say what an earlier run committed and did not say, and clear what is no alert under this configuration."""
        await self._parts.recorder.tell_alerts()
        await self._parts.recorder.review(partial(self._reconsider, now=time.time()))

    async def _tell(self) -> NoReturn:
        """Say what looks at the roots left to be said: a store that fails holds this up, and no look."""
        while True:
            await self._untold.wait()
            await self._parts.recorder.tell_alerts()

    def _reconsider(self, alert: Alert, now: float) -> Alert | None:
        """An open alert under this configuration."""
        return alerts.by_policy(alert, self._severity(alert), _policy(self.settings), now)

    def _severity(self, alert: Alert) -> Severity | None:
        """What the settings call an alert's finding where its artifact is; None if no root covers that any more.

        What stands below no root at all was reached through a link, and is covered by any root that follows them.
        """
        if alert.rule == mount_alerts.RULE:
            # A mount may hold many roots, or be within one.
            return configured_severity(alert.code, self.settings.alert.severities)
        below = [is_below(alert.path, os.fsencode(root.path)) for root in self.settings.roots]
        for index, root in enumerate(self.settings.roots):
            covered = below[index] and self._parts.keepers[index].covers(alert.path)
            if covered or (root.follow_links and not any(below)):
                known = alert.code in SEVERITIES
                overrides = applied(self.settings, root).severities
                return configured_severity(alert.code, overrides) if known else alert.severity
        return None

    async def _scrub(self) -> NoReturn:
        """Re-hash what is old, once every root was looked at."""
        for keeper in self._parts.keepers:
            await keeper.initial_scan_done.wait()
        await self._parts.scrubber.run()

    async def _announce_ready(self) -> None:
        """READY once every root was looked at or is blind; until then ask systemd for time."""
        async with _more_time(self._notifier):
            for keeper in self._parts.keepers:
                await keeper.initial_scan_done.wait()
        board = self._parts.board
        board.ready = True
        board.state = "running"
        blind = sum(root.state == "blind" for root in board.roots)
        self._events.info("daemon_ready", roots=len(board.roots), blind_roots=blind)
        await self._notifier.ready()
        self._changed.ring()

    # --- reporting ---------------------------------------------------------------------------------------

    async def _report(self) -> NoReturn:
        """Keep status file, metrics and systemd's status line up to date, while something changes."""
        last: object = None
        while True:
            state = self._state()
            if state != last:
                await self._write_report()
                await self._notifier.status(status.sentence(self._parts.board, len(self._parts.scheduler.queue)))
            last = state
            await trio.sleep(_REPORT_SECONDS)
            if not self._is_busy():
                await self._changed.wait(_MINUTE)

    def _is_busy(self) -> bool:
        scheduler = self._parts.scheduler
        return self._parts.board.current is not None or bool(len(scheduler.queue) or len(scheduler.settler))

    def _state(self) -> object:
        """Something that differs when there is something new to report; once a minute there always is."""
        board, recorder = self._parts.board, self._parts.recorder
        progress = None if board.current is None else (board.current[0].path, board.current[1].bytes_read)
        return (
            board.ready,
            board.inspections,
            progress,
            len(self._parts.scheduler.queue),
            len(self._parts.scheduler.settler),
            recorder.store_trouble.reason,
            recorder.log_trouble.reason,
            recorder.said,
            [(root.state, root.scanned_at, root.pass_at, root.tally) for root in board.roots],
            int(time.time() / _MINUTE),
        )

    async def _write_report(self) -> None:
        parts = self._parts
        now = time.time()
        counts = await parts.recorder.counts()
        if counts is not None:
            parts.board.open_alerts, parts.board.sets = counts
        parts.board.lost_events, parts.board.lost_reason = self._house.output.lost, self._house.output.reason
        state = status.encode(status.snapshot(parts.board, parts.scheduler, parts.recorder, now))
        gauges = metrics.render(parts.board, parts.scheduler, parts.recorder, now)
        textfile = self.settings.metrics.textfile
        files = [(places.status_path(self.settings), state, 0o640)]
        if textfile:
            # The collector runs as somebody else, and what is in it names no file.
            files.append((textfile, gauges, 0o644))
        await trio.to_thread.run_sync(_write_files, files)

    async def _each_minute(self) -> NoReturn:
        """What becomes due by time alone."""
        while True:
            await trio.sleep(_MINUTE)
            await self._parts.recorder.repeat_alerts()
            await self._parts.recorder.tell_alerts()
            await self._parts.recorder.settle_log()
            await self._parts.recorder.prune_daily(self.settings.store.retention_days)
            self._watch_passes()
            self._changed.ring()

    def _watch_passes(self) -> None:
        """Say once of each root that no complete pass came for too long."""
        longest = self.settings.alert.pass_overdue_hours * _HOUR
        board = self._parts.board
        for root in board.roots:
            overdue = bool(longest) and time.time() - (root.pass_at or board.started_at) > longest
            if overdue and not root.overdue:
                self._events.warning("pass_overdue", **path_fields(root.path, "root"), reason=root.reason)
            root.overdue = overdue


def _rescan(keepers: Iterable[RootKeeper]) -> None:
    for keeper in keepers:
        keeper.rescan()


def _write_files(files: list[tuple[str, bytes, int]]) -> None:
    """Write reports; one that cannot be written costs nothing but itself."""
    for path, content, mode in files:
        try:
            status.write_atomically(path, content, mode)
        except OSError:
            continue


def _policy(settings: Settings) -> alerts.Policy:
    return alerts.Policy(settings.alert.severity, settings.alert.repeat_hours * _HOUR)


def _rules(settings: Settings, index: int) -> RootRules:
    root = settings.roots[index]
    what = applied(settings, root)
    producer = Producer(
        name="model-auditd",
        version=__version__,
        host=platform.node(),
        configuration=configuration_digest(settings, root),
    )
    return RootRules(producer, what.hash, what.layout, what.severities, what.digests)


def _mark(settings: Settings) -> int:
    """A number that differs when an inspection may come to another end, or its findings to another alert."""
    matters = (settings.inspect, settings.roots, settings.alert.severity, sorted(settings.alert.severities.items()))
    return int.from_bytes(sha256(repr(matters).encode()).digest()[:7], "big")
