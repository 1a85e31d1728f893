"""What is read next, when a pass is complete, and when the watchdog is left to starve."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from auditd.archive.state import Fingerprint
from auditd.archive.store import Store
from auditd.errors import StoreError
from auditd.evidence.record import Producer
from auditd.inspection.inspector import inspect
from auditd.service import scheduler as module
from auditd.service.alerts import Policy
from auditd.service.board import Board, RootBoard
from auditd.service.evidence_log import EvidenceLog
from auditd.service.logging import open_events
from auditd.service.queue import Job
from auditd.service.recorder import Recorder
from auditd.service.scanner import Offer
from auditd.service.scheduler import RootRules, Scheduler
from auditd.service.systemd import Notifier
from auditd.settings import InspectSettings, ScheduleSettings
from tests.support.models import gguf


class Fed(Notifier):
    """Counts how often the watchdog is fed."""

    count = 0

    async def alive(self) -> None:
        self.count += 1
        await trio.lowlevel.checkpoint()


class Bench:
    """A scheduler with a real recorder, and one model that is due."""

    def __init__(self, home: Path) -> None:
        self.model = home / "a.gguf"
        self.model.write_bytes(gguf())
        self.store = Store(str(home / "state.sqlite"), writer=True)
        log = EvidenceLog(str(home / "log"))
        self.recorder = Recorder(self.store, log, open_events(io.StringIO(), {}), Policy())
        self.board = Board(time.time(), [RootBoard(os.fsencode(home))])
        rules = RootRules(Producer("model-auditd", "1", "here", "c" * 64), "expected", "auto", {})
        self.scheduler = Scheduler(
            rules=[rules],
            schedule=ScheduleSettings(),
            limits=InspectSettings(stall_seconds=1),
            recorder=self.recorder,
            board=self.board,
            rescan=lambda: None,
        )
        self.fed = Fed({})

    def job(self) -> Job:
        return Job(os.fsencode(self.model), 0, Fingerprint.of_status(self.model.stat()), "startup")

    async def until(self, condition: Any) -> None:
        with trio.fail_after(20):
            while not condition():  # noqa: ASYNC110 - plain values are waited for
                await trio.sleep(0.02)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.recorder.close()
    made.store.close()


async def test_a_store_that_fails_as_a_job_starts_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    known = Store.known

    def fail_once(store: Store, path: bytes) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreError("cannot be read")
        return known(store, path)

    monkeypatch.setattr(Store, "known", fail_once)
    bench.recorder.store_trouble._wait = 0.01
    bench.scheduler.queue.put(bench.job())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        await bench.until(lambda: bench.board.outcomes)
        nursery.cancel_scope.cancel()
    assert bench.board.outcomes == {"complete": 1}
    assert bench.recorder.store_trouble.reason is None


async def test_a_log_that_fails_does_not_starve_the_watchdog(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    bench.scheduler.queue.put(bench.job())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        nursery.start_soon(bench.scheduler.turn, bench.fed, 0.15)
        await bench.until(lambda: bench.recorder.log_trouble.reason)
        await trio.sleep(1.3)
        count = bench.fed.count
        await bench.until(lambda: bench.fed.count > count)
        nursery.cancel_scope.cancel()


async def test_an_inspection_that_is_silent_starves_the_watchdog(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    look = inspect

    def silent(*arguments: Any) -> Any:
        release.wait(20)
        return look(*arguments)

    monkeypatch.setattr(module, "inspect", silent)
    bench.scheduler.queue.put(bench.job())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        nursery.start_soon(bench.scheduler.turn, bench.fed, 0.15)
        await bench.until(bench.scheduler._is_stalled)
        count = bench.fed.count
        await trio.sleep(0.5)
        assert bench.fed.count == count
        release.set()
        await bench.until(lambda: bench.fed.count > count)
        nursery.cancel_scope.cancel()


async def test_a_scan_with_nothing_due_is_a_pass_and_one_with_something_is_not_yet(bench: Bench) -> None:
    root = bench.board.roots[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.turn, bench.fed, None)
        root.scanned_at = 1.0
        bench.scheduler.scanned()
        await bench.until(lambda: root.pass_at == 1.0)
        bench.scheduler.settler.unsettled(bench.job(), trio.current_time())
        root.scanned_at = 2.0
        bench.scheduler.scanned()
        await trio.sleep(0.1)
        assert root.pass_at == 1.0
        bench.scheduler._take_removed(os.fsencode(bench.model), "removed")
        await bench.until(lambda: root.pass_at == 2.0)
        nursery.cancel_scope.cancel()


async def test_what_is_due_keeps_its_place_unless_it_changed(bench: Bench) -> None:
    bench.scheduler.queue.put(bench.job())
    bench.scheduler._take_offers([Offer(bench.job())])
    assert (len(bench.scheduler.queue), len(bench.scheduler.settler)) == (1, 0)
    bench.model.write_bytes(b"changed")
    bench.scheduler._take_offers([Offer(bench.job())])
    assert (len(bench.scheduler.queue), len(bench.scheduler.settler)) == (0, 1)
