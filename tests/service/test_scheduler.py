"""What is read next, when a pass is complete, and when the watchdog is left to starve."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from auditd.errors import InspectionStopped, StoreError
from auditd.evidence.record import Producer
from auditd.evidence_store.artifact_state import Fingerprint
from auditd.evidence_store.store import EvidenceStore
from auditd.inspection.inspector import inspect
from auditd.service.logging import open_events
from auditd.service.reading import scheduler as module
from auditd.service.reading.board import Board, RootBoard
from auditd.service.reading.cancellation import CANCELLED, Watch, watched
from auditd.service.reading.queue import Job, Urgency
from auditd.service.reading.scheduler import RootRules, Scheduler
from auditd.service.recording.alerts import Policy
from auditd.service.recording.evidence_log import EvidenceLog
from auditd.service.recording.recorder import Recorder
from auditd.service.systemd import Notifier
from auditd.service.watching.scanner import Offer
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
        self.store = EvidenceStore(str(home / "state.sqlite"), writer=True)
        log = EvidenceLog(str(home / "log"))
        self.output = io.StringIO()
        self.recorder = Recorder(self.store, log, open_events(self.output, {}), Policy())
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

    def said(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.output.getvalue().splitlines()]

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
    known = EvidenceStore.known

    def fail_once(store: EvidenceStore, path: bytes) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreError("cannot be read")
        return known(store, path)

    monkeypatch.setattr(EvidenceStore, "known", fail_once)
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


class Silent:
    """An inspector whose reads do not come back before :attr:`release` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, names: str = "a.gguf") -> None:
        self.release = threading.Event()
        self.entered = threading.Event()
        self._names = names.encode()
        monkeypatch.setattr(module, "inspect", self.inspect)

    def inspect(self, request: Any, checkpoint: Any, progress: Any) -> Any:
        if request.path.endswith(self._names):
            self.entered.set()
            assert self.release.wait(20)
        return inspect(request, checkpoint, progress)


async def test_a_read_that_never_returns_is_let_go_of(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Silent(monkeypatch)
    other = bench.model.with_name("b.gguf")
    other.write_bytes(gguf())
    bench.scheduler.queue.put(bench.job())
    bench.scheduler.queue.put(Job(os.fsencode(other), 0, Fingerprint.of_status(other.stat()), "startup"))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.scheduler.work)
            await bench.until(lambda: bench.board.outcomes == {"failed": 1, "complete": 1})
            nursery.cancel_scope.cancel()
        assert len(bench.board.lost_devices) == 1
        lost, found = [stored.evidence for stored in bench.store.records()]
        assert (lost.verdict, [finding.code for finding in lost.findings]) == ("unknown", ["read_abandoned"])
        assert found.verdict == "sound"
        known = bench.store.known(os.fsencode(bench.model))
        assert known is not None
        assert known.retry_at is not None
        assert "read_abandoned" in bench.said()
    finally:
        silent.release.set()
    await bench.until(lambda: not bench.board.threads)
    assert bench.board.abandoned == 1
    assert len(list(bench.store.records())) == 2


async def test_when_too_many_reads_are_lost_the_watchdog_starves(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Silent(monkeypatch)
    bench.board.threads.update({Watch(): -number for number in range(1, 5)})
    bench.scheduler.queue.put(bench.job())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        nursery.start_soon(bench.scheduler.turn, bench.fed, 0.15)
        await bench.until(bench.scheduler._is_stalled)
        count = bench.fed.count
        await trio.sleep(0.5)
        assert bench.fed.count == count
        silent.release.set()
        await bench.until(lambda: bench.fed.count > count)
        nursery.cancel_scope.cancel()


async def test_a_long_hash_gives_way_to_the_header_of_a_changed_file(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash is held at a chunk, its descriptor open, while the other file is read and recorded; then it goes on."""
    other = bench.model.with_name("b.gguf")
    other.write_bytes(gguf())
    begun, go = threading.Event(), threading.Event()
    real = inspect

    def slow(request: Any, checkpoint: Any, progress: Any) -> Any:
        if not request.path.endswith(b"a.gguf"):
            return real(request, checkpoint, progress)

        def at_a_chunk() -> None:
            begun.set()
            assert go.wait(20)
            checkpoint()

        return real(request, at_a_chunk, progress)

    monkeypatch.setattr(module, "inspect", slow)
    bench.scheduler.queue.put(replace(bench.job(), urgency=Urgency.DIGEST))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.turn, bench.fed, None)
        nursery.start_soon(bench.scheduler.work)
        await bench.until(begun.is_set)
        watch = bench.board.reading[0][1]
        bench.scheduler.queue.put(Job(os.fsencode(other), 0, Fingerprint.of_status(other.stat()), "change"))
        bench.scheduler.scanned()
        await bench.until(lambda: watch._held_by is not None)
        third = bench.model.with_name("c.gguf")
        third.write_bytes(gguf(tensors=2))
        bench.scheduler.queue.put(Job(os.fsencode(third), 0, Fingerprint.of_status(third.stat()), "change"))
        go.set()
        await bench.until(lambda: bench.board.inspections == 3)
        nursery.cancel_scope.cancel()
    names = [Path(os.fsdecode(stored.path)).name for stored in bench.store.records()]
    assert names == ["b.gguf", "c.gguf", "a.gguf"]
    assert {stored.evidence.outcome for stored in bench.store.records()} == {"complete"}


async def test_held_again_before_it_woke(bench: Bench) -> None:
    """Whoever holds it is told that it waits, even if it was released in between and never noticed."""
    watch = Watch()
    told: list[str] = []
    waits = threading.Event()

    def first() -> None:
        told.append("first")
        waits.set()

    watch.hold(first)
    thread = threading.Thread(target=watch.checkpoint)
    thread.start()
    assert waits.wait(20)
    again = threading.Event()

    def second() -> None:
        told.append("second")
        again.set()

    watch.release()
    watch.hold(second)
    assert again.wait(20)
    watch.release()
    thread.join(20)
    assert not thread.is_alive()
    assert told == ["first", "second"]


async def test_a_stop_while_the_store_fails_leaves_nothing_in_hand(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(store: EvidenceStore, path: bytes) -> Any:
        raise StoreError("cannot be read")

    ended: list[bytes] = []
    bench.scheduler._ended = ended.append
    monkeypatch.setattr(EvidenceStore, "known", fail)
    bench.recorder.store_trouble._wait = 60.0
    bench.scheduler.queue.put(bench.job())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        await bench.until(lambda: bench.recorder.store_trouble.reason)
        nursery.cancel_scope.cancel()
    assert (bench.board.in_hand, ended) == ([], [])
    assert bench.scheduler.is_under_way(os.fsencode(bench.model))


async def test_a_mount_that_swallowed_two_threads_is_left_alone(bench: Bench) -> None:
    lost = Watch()
    bench.board.threads.update({lost: bench.job().seen.device, Watch(): bench.job().seen.device})
    bench.scheduler.queue.put(bench.job())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        await bench.until(lambda: not bench.scheduler.is_under_way(os.fsencode(bench.model)))
        assert bench.board.inspections == 0
        del bench.board.threads[lost]
        bench.scheduler.queue.put(bench.job())
        bench.scheduler._work.ring()
        await bench.until(lambda: bench.board.inspections == 1)
        nursery.cancel_scope.cancel()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may see into every directory")
async def test_a_file_that_cannot_be_seen_is_not_removed(bench: Bench) -> None:
    job = bench.job()
    closed = bench.model.parent
    closed.chmod(0)
    try:
        assert bench.scheduler._status_of(job) is None
    finally:
        closed.chmod(0o700)


async def test_a_file_that_cannot_be_asked_about_is_not_removed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.lstat

    def lstat(path: Any, **more: Any) -> os.stat_result:
        if os.fsencode(path) == os.fsencode(bench.model):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, **more)

    job = bench.job()
    bench.scheduler.queue.put(job)
    monkeypatch.setattr(os, "lstat", lstat)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        await bench.until(lambda: bench.board.outcomes)
        nursery.cancel_scope.cancel()
    assert bench.board.outcomes == {"unavailable": 1}
    assert bench.store.known(job.path) is not None


async def test_a_second_look_gives_way_to_a_digest_and_that_to_a_header(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {name: bench.model.with_name(f"{name}.gguf") for name in ("a", "b", "c")}
    for path in paths.values():
        path.write_bytes(gguf())
    jobs = {
        name: Job(os.fsencode(path), 0, Fingerprint.of_status(path.stat()), "change", urgency)
        for (name, path), urgency in zip(paths.items(), (Urgency.RECHECK, Urgency.DIGEST, Urgency.HEADER), strict=True)
    }
    order: list[str] = []
    real = inspect

    def slow(request: Any, checkpoint: Any, progress: Any) -> Any:
        name = Path(os.fsdecode(request.path)).stem
        later = {"a": "b", "b": "c"}.get(name)
        asked = False

        def at_a_chunk() -> None:
            nonlocal asked
            if later is not None and not asked:
                asked = True
                trio.from_thread.run_sync(bench.scheduler.queue.put, jobs[later])
                trio.from_thread.run_sync(bench.scheduler.scanned)
                watch = bench.board.reading[-1][1]
                for _ in range(2000):
                    if watch._held_by is not None:
                        break
                    time.sleep(0.005)
            checkpoint()

        evidence = real(request, at_a_chunk, progress)
        order.append(name)
        return evidence

    monkeypatch.setattr(module, "inspect", slow)
    bench.scheduler.queue.put(jobs["a"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.turn, bench.fed, None)
        nursery.start_soon(bench.scheduler.work)
        await bench.until(lambda: bench.board.inspections == 3)
        nursery.cancel_scope.cancel()
    assert order == ["c", "b", "a"]


async def test_a_stop_reaches_an_inspection_that_is_held(bench: Bench) -> None:
    watch = Watch()
    waits = trio.Event()
    token = trio.lowlevel.current_trio_token()
    watch.hold(lambda: token.run_sync_soon(waits.set))

    def read() -> str:
        try:
            watch.checkpoint()
        except InspectionStopped as stopped:
            return stopped.reason
        return "went on"

    said: list[object] = []
    async with trio.open_nursery() as nursery:

        async def look() -> None:
            said.append(await watched(read, watch, 60, lambda: True))

        nursery.start_soon(look)
        with trio.fail_after(20):
            await waits.wait()
        nursery.cancel_scope.cancel()
    assert said == [CANCELLED]
    assert watch.interrupted


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
