"""The daemon: the only place that starts tasks, and the order in which everything begins and ends.

    signals           received around everything, so that a second SIGTERM in the last write does no harm
      outer nursery   listens to signals
        generation    store, log and one nursery with all services under one configuration:
                      a keeper for each root, the scheduler's loop, the one inspecting task, the reporter

SIGTERM and SIGINT cancel the generation: the inspection stops at its next chunk and its partial evidence is recorded.
SIGHUP reads the configuration again: a bad one is refused and the old one stays; a new one begins a new generation;
an unchanged one only opens the log anew.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn, TypeAlias

import trio

from auditd import __version__
from auditd.archive.rows import Alert
from auditd.archive.store import Store
from auditd.errors import AuditError, SettingsError
from auditd.evidence.findings import FINDINGS, severity_of
from auditd.evidence.record import Producer, Severity
from auditd.service import alerts, metrics, places, status
from auditd.service.bell import Bell
from auditd.service.board import Board, RootBoard
from auditd.service.evidence_log import EvidenceLog
from auditd.service.logging import Events, open_events, path_fields
from auditd.service.recorder import LAST_WORD_SECONDS, Recorder
from auditd.service.scanner import Scanner
from auditd.service.scheduler import RootRules, Scheduler
from auditd.service.systemd import Notifier, watchdog_seconds
from auditd.service.watcher import RootKeeper
from auditd.settings import Settings, applied, configuration_digest

SettingsLoader: TypeAlias = Callable[[], Settings]

#: status.json and STATUS= at most this often, and how often what only passing time changes is looked at.
_REPORT_SECONDS: Final = 2.0
_MINUTE: Final = 60.0

#: How much more time to start is asked for, and how often, while the first scans run.
_MORE_TIME_SECONDS: Final = 60.0

_HOUR: Final = 3600.0


def run(settings_loader: SettingsLoader) -> int:
    """Run until SIGTERM or SIGINT; 0 then. ``SettingsError`` or ``StoreError`` if it cannot begin.

    ``settings_loader`` reads the configuration, now and again at each SIGHUP; it raises ``SettingsError``.
    """
    trio.run(_main, settings_loader, settings_loader())
    return 0


async def _main(load: SettingsLoader, settings: Settings) -> None:
    events = open_events()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals, Notifier() as notifier:
        control = _Control(load, settings, events, notifier)
        async with trio.open_nursery() as listening:
            listening.start_soon(control.listen, signals)
            await control.live()
            listening.cancel_scope.cancel()
    events.info("daemon_stopped")


class _Control:
    """What signals do: they end the generation, or begin the next one."""

    def __init__(self, load: SettingsLoader, settings: Settings, events: Events, notifier: Notifier) -> None:
        self._load = load
        self._settings = settings
        self._events = events
        self._notifier = notifier
        self._stopping = False
        #: The settings of the last generation that came to life.
        self._served = settings
        self._generation = Generation(settings, events, notifier)

    async def live(self) -> None:
        """One generation after another until the end is asked for."""
        self._events.info("daemon_started", version=__version__, pid=os.getpid(), roots=len(self._settings.roots))
        while True:
            await self._generation.live()
            if self._stopping:
                return
            self._generation = self._next_generation()

    def _next_generation(self) -> Generation:
        """Serve the new settings; or the old ones, if the new ones name a store that cannot be used."""
        try:
            generation = Generation(self._settings, self._events, self._notifier)
        except AuditError as error:
            self._events.error("config_rejected", reason=str(error))
            self._settings = self._served
            return Generation(self._settings, self._events, self._notifier)
        self._served = self._settings
        return generation

    async def listen(self, signals: AsyncIterator[int]) -> None:
        """Serve signals one by one."""
        async for number in signals:
            if number == signal.SIGHUP:
                await self._reload()
            elif not self._stopping:
                self._stopping = True
                self._events.info("daemon_stopping", signal=signal.Signals(number).name)
                self._generation.stop()
                await self._notifier.stopping()

    async def _reload(self) -> None:
        await self._notifier.reloading()
        try:
            settings = await trio.to_thread.run_sync(self._load)
        except AuditError as error:
            self._events.error("config_rejected", reason=str(error))
        else:
            self._events.info("config_reloaded", changed=settings != self._settings, roots=len(settings.roots))
            self._adopt(settings)
        await self._notifier.ready()

    def _adopt(self, settings: Settings) -> None:
        changed = settings != self._settings
        self._settings = settings
        if changed:
            self._generation.end()
        else:
            self._generation.reopen_log()


@dataclass(frozen=True, slots=True)
class _Parts:
    """What one configuration is served with."""

    board: Board
    recorder: Recorder
    scheduler: Scheduler
    keepers: list[RootKeeper]


class Generation:
    """Everything that lives under one configuration. Opens the store at once: ``AuditError`` if it cannot be served."""

    def __init__(self, settings: Settings, events: Events, notifier: Notifier) -> None:
        self._settings = settings
        self._events = events
        self._notifier = notifier
        self._scope = trio.CancelScope()
        self._changed = Bell()
        if settings.log.form != "plain":
            raise SettingsError(
                "configuration", "log.form", f'"{settings.log.form}" is not written by this version yet'
            )
        self._parts = self._build(Store(places.store_path(settings), writer=True))

    def _build(self, store: Store) -> _Parts:
        settings = self._settings
        rules = [_rules(settings, index) for index in range(len(settings.roots))]
        board = Board(time.time(), [RootBoard(os.fsencode(root.path)) for root in settings.roots])
        policy = _policy(settings)
        recorder = Recorder(store, EvidenceLog(places.log_path(settings)), self._events, policy)
        keepers: list[RootKeeper] = []
        scheduler = Scheduler(
            rules=rules,
            schedule=settings.schedule,
            limits=settings.inspect,
            recorder=recorder,
            board=board,
            rescan=lambda: _rescan(keepers),
        )
        keepers.extend(
            RootKeeper(
                scanner=Scanner(
                    index=index,
                    root=root,
                    mode=rules[index].hash,
                    configuration=rules[index].producer.configuration,
                    store=store,
                    offer=scheduler.offer,
                    removed=scheduler.removed,
                ),
                schedule=settings.schedule,
                board=board.roots[index],
                events=self._events,
                store_failed=recorder.store_trouble.begin,
                after_scan=recorder.tell_alerts,
                changed=self._changed.ring,
            )
            for index, root in enumerate(settings.roots)
        )
        return _Parts(board, recorder, scheduler, keepers)

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
                    services.start_soon(self._catch_up)
                    for keeper in parts.keepers:
                        services.start_soon(keeper.run)
                    services.start_soon(parts.scheduler.turn, self._notifier, watchdog_seconds())
                    services.start_soon(parts.scheduler.work)
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

    def _reconsider(self, alert: Alert, now: float) -> Alert | None:
        """An open alert under this configuration."""
        return alerts.by_policy(alert, self._severity(alert), _policy(self._settings), now)

    def _severity(self, alert: Alert) -> Severity | None:
        """What the settings call an alert's finding where its artifact is; None if no root covers that any more."""
        for index, root in enumerate(self._settings.roots):
            below = alert.path.startswith(os.fsencode(root.path).rstrip(b"/") + b"/")
            if below and self._parts.keepers[index].covers(alert.path):
                known = alert.code in FINDINGS
                return severity_of(alert.code, applied(self._settings, root).severities) if known else alert.severity
        return None

    async def _announce_ready(self) -> None:
        """READY once every root was looked at or is blind; until then ask systemd for time."""
        async with trio.open_nursery() as waiting:
            waiting.start_soon(self._ask_for_time)
            for keeper in self._parts.keepers:
                await keeper.first_look.wait()
            waiting.cancel_scope.cancel()
        board = self._parts.board
        board.ready = True
        board.state = "running"
        blind = sum(root.state == "blind" for root in board.roots)
        self._events.info("daemon_ready", roots=len(board.roots), blind_roots=blind)
        await self._notifier.ready()
        self._changed.ring()

    async def _ask_for_time(self) -> NoReturn:
        while True:
            await self._notifier.more_time(_MORE_TIME_SECONDS)
            await trio.sleep(_MORE_TIME_SECONDS / 3)

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
            [(root.state, root.scanned_at, root.pass_at) for root in board.roots],
            int(time.time() / _MINUTE),
        )

    async def _write_report(self) -> None:
        parts = self._parts
        now = time.time()
        parts.board.open_alerts = await parts.recorder.count_open_alerts()
        state = status.encode(status.snapshot(parts.board, parts.scheduler, parts.recorder, now))
        gauges = metrics.render(parts.board, parts.scheduler, parts.recorder, now)
        textfile = self._settings.metrics.textfile
        files = [(places.status_path(self._settings), state, 0o640)]
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
            await self._parts.recorder.prune_daily(self._settings.store.retention_days)
            self._watch_passes()
            self._changed.ring()

    def _watch_passes(self) -> None:
        """Say once of each root that no complete pass came for too long."""
        longest = self._settings.alert.pass_overdue_hours * _HOUR
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
    return RootRules(producer, what.hash, what.layout, what.severities)
