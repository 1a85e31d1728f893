"""The slow re-hash: what waits longest first, spread over the period, and what it finds."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace as changed

from auditd.evidence.canonical import seal
from auditd.evidence.expectation import NOTHING, standing_key
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint
from auditd.evidence_store.entities import DueItem, Entry
from auditd.evidence_store.store import EvidenceStore
from auditd.inspection.inspector import inspect
from auditd.inspection.request import Request
from auditd.service.reading import scrub
from auditd.service.reading.board import RootBoard, RootState
from auditd.service.reading.queue import Job, Urgency
from auditd.service.reading.scrub import Amount, Scrubber, needed_seconds, pause_seconds, root_of, wait_seconds
from auditd.settings import ScheduleSettings
from tests.service.processes import House
from tests.service.test_scheduler import Bench
from tests.service.test_scheduler import bench as bench  # noqa: PLC0414 - the fixture
from tests.support.models import gguf

DAY = 86_400.0
ROOTS = [b"/srv"]


# -- pace ----------------------------------------------------------------------------------------------------


def test_the_pauses_of_all_files_are_the_period() -> None:
    sizes = [0, 1, 10**9, 7 * 10**11, 123_456_789]
    everything = Amount(len(sizes), sum(sizes))
    pauses = [pause_seconds(size, everything, 30 * DAY, 0.0) for size in sizes]
    assert sum(pauses) == pytest.approx(30 * DAY)
    assert pauses[3] > 400 * pauses[2] > 0


def test_time_that_the_reading_took_is_no_pause() -> None:
    everything = Amount(2, 2 * 10**9)
    assert pause_seconds(10**9, everything, 2 * DAY, 3600.0) == pytest.approx(DAY - 3600)
    assert pause_seconds(10**9, everything, 2 * DAY, 2 * DAY) == 0.0


@pytest.mark.parametrize(
    ("waits_since", "next_at", "wait"),
    [
        (950.0, 1040.0, 40.0),  # its turn comes before its deadline
        (930.0, 1090.0, 30.0),  # the deadline comes first
        (900.0, 990.0, 0.0),  # its turn has come
        (899.0, 1090.0, 0.0),  # it has waited for the whole period
        (None, 1040.0, 40.0),  # nobody knows how long it has waited
        (960.0, 1100.5, 0.0),  # no turn is so far away: a clock was set back
    ],
)
def test_a_deadline_goes_before_the_pace(waits_since: float | None, next_at: float, wait: float) -> None:
    """At 1,000 with a period of 100 seconds."""
    assert wait_seconds(DueItem(b"/srv/a", "1 1 1 1 1", waits_since, next_at), 1000.0, 100.0) == wait


def test_how_long_a_pass_needs_at_its_rate() -> None:
    assert needed_seconds(Amount(1, 50 * 2**20 * 3600), 52_428_800) == 3600
    assert needed_seconds(Amount(1, 10**12), 0) == 0.0


def test_the_root_of_a_path() -> None:
    roots = [b"/srv/models", b"/srv/more/"]
    assert (root_of(b"/srv/models/a", roots), root_of(b"/srv/more/a/b", roots)) == (0, 1)
    assert (root_of(b"/srv/models2/a", roots), root_of(b"/srv", roots)) == (None, None)


# -- the plan ------------------------------------------------------------------------------------------------


def known(store: EvidenceStore, name: str, size: int, waits_since: float | None, **more: object) -> None:
    fingerprint = Fingerprint(1, 1, size, 1, 1)
    made = ArtifactState(fingerprint=fingerprint, settings="x", mode="full", run=1, waits_since=waits_since)
    store.remember(f"/srv/{name}".encode(), replace(made, **more))  # type: ignore[arg-type]


def board(path: bytes = b"/srv", state: RootState = "events") -> RootBoard:
    """A root that was looked at."""
    return RootBoard(path, state)


def test_what_waits_longest_comes_first(tmp_path: Path) -> None:
    with EvidenceStore(str(tmp_path / "state.sqlite"), writer=True) as store:
        assert store.due_item(100.0, ROOTS).path is None
        known(store, "a", 10, 50.0)
        known(store, "b", 20, 40.0)
        known(store, "c", 30, 30.0)
        assert store.scrub_amount(ROOTS) == (3, 60)
        assert store.due_item(100.0, ROOTS).path == b"/srv/c"
        assert store.due_item(100.0, ROOTS, [b"/srv/c", b"/srv/b"]).path == b"/srv/a"
        known(store, "c", 30, 101.0)
        assert store.due_item(102.0, ROOTS).path == b"/srv/b"
        known(store, "b", 20, 40.0, failures=1, retry_at=200.0)
        assert store.due_item(103.0, ROOTS).path == b"/srv/a"
        assert store.due_item(201.0, ROOTS).path == b"/srv/b"


def test_a_pass_is_finished_once_everything_was_hashed_since_it_began(tmp_path: Path) -> None:
    path = str(tmp_path / "state.sqlite")
    with EvidenceStore(path, writer=True) as store:
        known(store, "a", 10, 50.0)
        assert store.due_item(100.0, ROOTS).finished_since is None
        known(store, "a", 10, 150.0)
        assert store.due_item(160.0, ROOTS).finished_since == 100.0
        store.begin_scrub(160.0)
        assert store.due_item(161.0, ROOTS).finished_since is None
        store.put_scrub_off(500.5)
    with EvidenceStore(path, writer=True) as store:
        # After a restart it goes on where it was.
        assert (store.due_item(170.0, ROOTS).next_at, store.due_item(170.0, ROOTS).finished_since) == (500.5, None)


def test_a_pass_is_not_finished_in_the_moment_it_begins(tmp_path: Path) -> None:
    """Or the next one would begin, and be finished, in the same moment again."""
    with EvidenceStore(str(tmp_path / "state.sqlite"), writer=True) as store:
        known(store, "a", 10, 100.0)
        store.begin_scrub(100.0)
        assert store.due_item(100.0, ROOTS).finished_since is None


def test_a_clock_that_was_set_back_ends_no_pass(tmp_path: Path) -> None:
    """What was hashed in the future is as good as never hashed, and each has its turn."""
    with EvidenceStore(str(tmp_path / "state.sqlite"), writer=True) as store:
        known(store, "a", 10, 5000.0)
        known(store, "b", 10, 6000.0)
        store.begin_scrub(4000.0)
        for waits_since in (100.0, 101.0):
            turn = store.due_item(waits_since, ROOTS)
            assert (turn.waits_since, turn.finished_since) == (None, None)
            known(store, str(turn.path)[-2], 10, waits_since + 0.5)
        assert store.due_item(102.0, ROOTS).finished_since == 100.0


def test_files_that_keep_coming_keep_no_other_from_its_turn(tmp_path: Path) -> None:
    """Ten files change every hour, an eleventh stays as it is: it is hashed within the ten hours of the period."""
    period, hour = 10 * 3600.0, 3600.0
    with EvidenceStore(str(tmp_path / "state.sqlite"), writer=True) as store:
        known(store, "z", 10, 0.0)
        now, served = 0.0, dict.fromkeys("abcdefghijz", 0)
        while now <= period:
            for name in "abcdefghij":
                known(store, name, 10, now)
            end = now + hour
            while now < end:
                turn = store.due_item(now, ROOTS)
                wait = wait_seconds(turn, now, period)
                now += min(wait, end - now)
                if wait > 0:
                    continue
                name = os.fsdecode(turn.path or b"")[-1]
                served[name] += 1
                known(store, name, 10, now)
                store.put_scrub_off(now + pause_seconds(10, Amount(*store.scrub_amount(ROOTS)), period, 0.0))
        assert served["z"] >= 1


def test_no_pass_begins_before_everything_was_looked_at(tmp_path: Path) -> None:
    """Or it would be finished by the first look, which hashes nothing."""
    with EvidenceStore(str(tmp_path / "state.sqlite"), writer=True) as store:
        store.due_item(100.0, ROOTS, may_begin=False)
        known(store, "a", 10, 150.0)
        assert store.due_item(160.0, ROOTS, may_begin=False).finished_since is None
        assert store.due_item(170.0, ROOTS).finished_since is None
        known(store, "a", 10, 180.0)
        assert store.due_item(190.0, ROOTS).finished_since == 170.0


# -- what it finds -------------------------------------------------------------------------------------------


async def test_another_digest_of_an_unchanged_file_is_silent_corruption(bench: Bench) -> None:
    path = os.fsencode(bench.model)
    rules = bench.scheduler._rules[0]
    good = inspect(Request(path, rules.producer, hash_mode="full"))
    before = seal(changed(good, artifact=changed(good.artifact, sha256="ab" * 32)))
    seen = Fingerprint.of_status(bench.model.stat())
    settled = ArtifactState(
        fingerprint=seen,
        settings=rules.producer.configuration,
        mode="full",
        run=bench.store.run,
        evidence_id=before.evidence_id,
        standing=standing_key(NOTHING),
        hashed_at=1.0,
    )
    bench.store.record(Entry(path, before, settled, ()))
    # An ordinary job finds nothing to do, a scrub reads it all.
    bench.scheduler.queue.put(Job(path, 0, seen, "rescan"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        await bench.until(lambda: not len(bench.scheduler.queue) and not bench.board.in_hand)
        assert not bench.board.outcomes
        bench.scheduler.put(Job(path, 0, seen, "scrub", Urgency.RECHECK))
        bench.scheduler._work.ring()
        await bench.until(lambda: bench.board.outcomes)
        nursery.cancel_scope.cancel()
    evidence = [stored.evidence for stored in bench.store.records()][-1]
    assert (evidence.trigger, evidence.verdict) == ("scrub", "mismatch")
    assert "silent_corruption" in [found.code for found in evidence.findings]
    assert evidence.findings[0].expected == "ab" * 32
    assert "alert_raised" in bench.said()


async def test_corruption_is_not_taken_back_by_a_second_reading(bench: Bench) -> None:
    """The digest that a state had first is what every later reading is held against."""
    path = os.fsencode(bench.model)
    rules = bench.scheduler._rules[0]
    good = inspect(Request(path, rules.producer, hash_mode="full"))
    before = seal(changed(good, artifact=changed(good.artifact, sha256="ab" * 32)))
    seen = Fingerprint.of_status(bench.model.stat())
    settled = ArtifactState(seen, rules.producer.configuration, "full", bench.store.run, before.evidence_id)
    bench.store.record(Entry(path, before, settled, ()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        for turn in (1, 2):
            bench.scheduler.put(Job(path, 0, seen, "scrub", Urgency.RECHECK))
            bench.scheduler._work.ring()
            await bench.until(lambda turn=turn: bench.board.inspections == turn and not bench.board.in_hand)
        nursery.cancel_scope.cancel()
    assert [alert.code for alert in bench.store.open_alerts(path)] == ["silent_corruption"]
    assert bench.said().count("alert_raised") == 1
    assert "alert_cleared" not in bench.said()


async def test_what_comes_to_nothing_holds_up_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue without room is asked again; an artifact that stays as it was is passed over, also the oldest of all."""
    monkeypatch.setattr(scrub, "_IDLE_SECONDS", 0.01)
    for name, waits_since in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        known(bench.store, name, 10, waits_since)
    asked: list[bytes] = []
    answers = iter([False])

    def put(job: Job) -> bool:
        asked.append(job.path)
        return next(answers, True)

    scrubber = Scrubber(
        ScheduleSettings(scrub_days=1),
        bench.recorder,
        bench.recorder._events,
        put,
        lambda _: False,
        lambda: True,
        [board()],
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scrubber.run)
        await bench.until(lambda: len(asked) >= 4)
        nursery.cancel_scope.cancel()
    assert asked == [b"/srv/a", b"/srv/a", b"/srv/b", b"/srv/c"]


async def test_a_root_that_is_not_seen_holds_up_nobody(bench: Bench) -> None:
    known(bench.store, "gone/a", 10, 1.0)
    known(bench.store, "here/b", 10, 2.0)
    asked: list[bytes] = []

    def put(job: Job) -> bool:
        asked.append(job.path)
        return True

    roots = [board(b"/srv/gone", "blind"), board(b"/srv/here")]
    schedule = ScheduleSettings(scrub_days=1)
    scrubber = Scrubber(schedule, bench.recorder, bench.recorder._events, put, lambda _: False, lambda: True, roots)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scrubber.run)
        await bench.until(lambda: asked)
        nursery.cancel_scope.cancel()
    assert asked == [b"/srv/here/b"]


async def test_everything_was_inspected_once_nothing_is_due(bench: Bench) -> None:
    """What came to nothing and waits for its second look does not count."""
    scheduler = bench.scheduler
    assert scheduler.is_at_rest()
    scheduler.queue.put(bench.job())
    assert not scheduler.is_at_rest()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scheduler.work)
        await bench.until(scheduler.is_at_rest)
        nursery.cancel_scope.cancel()
    scheduler.settler.later(replace(bench.job(), urgency=Urgency.RECHECK), trio.current_time() + 1000)
    assert scheduler.is_at_rest()
    scheduler.settler.unsettled(bench.job(), trio.current_time())
    assert not scheduler.is_at_rest()


async def test_what_a_pass_left_out_is_counted(bench: Bench) -> None:
    """A pass is finished without what cannot be seen, and says so."""
    now = time.time()
    bench.store.begin_scrub(now - 100)
    known(bench.store, "gone/a", 10, 1.0)
    known(bench.store, "here/b", 10, now)
    roots = [board(b"/srv/gone", "blind"), board(b"/srv/here")]
    schedule = ScheduleSettings(scrub_days=1)
    scrubber = Scrubber(
        schedule, bench.recorder, bench.recorder._events, lambda _: True, lambda _: False, lambda: True, roots
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(scrubber.run)
        await bench.until(lambda: "scrub_finished" in bench.said())
        nursery.cancel_scope.cancel()
    (event,) = (
        event for event in map(json.loads, bench.output.getvalue().splitlines()) if event["event"] == "scrub_finished"
    )
    assert (event["artifacts"], event["artifacts_left_out"]) == (2, 1)


def test_what_stands_below_no_root_has_no_turn(tmp_path: Path) -> None:
    with EvidenceStore(str(tmp_path / "state.sqlite"), writer=True) as store:
        known(store, "a", 10, 1.0)
        store.remember(b"/else/b", ArtifactState(fingerprint=Fingerprint(1, 1, 5, 1, 1)))
        assert store.scrub_amount(ROOTS) == (1, 10)
        assert store.due_item(10.0, ROOTS).path == b"/srv/a"
        assert store.due_item(10.0, [*ROOTS, b"/else/"]).path == b"/else/b"
        assert store.due_item(10.0, []).path is None


async def test_a_period_that_cannot_be_kept_is_said_once(bench: Bench) -> None:
    now = time.time()
    known(bench.store, "large", 10**15, now)
    bench.store.put_scrub_off(now + 1000)
    schedule = ScheduleSettings(scrub_days=1, scrub_bytes_per_second=65_536)
    scrubber = Scrubber(
        schedule, bench.recorder, bench.recorder._events, lambda _: True, lambda _: True, lambda: True, [board()]
    )
    scrubber._amount = Amount(*bench.store.scrub_amount(ROOTS))
    for _ in range(2):
        scrubber.say_late(bench.store.due_item(now, ROOTS), now)
    assert bench.said().count("scrub_late") == 1


def test_everything_is_hashed_again_and_again(house: House) -> None:
    """A period of a second: both files are hashed, a pass is finished, and nothing is said of sound ones."""
    for name in ("a.gguf", "b.gguf"):
        (house.models / name).write_bytes(gguf())
    house.configure(schedule="scrub_days = 0.00001")
    daemon = house.start()
    for name in ("a.gguf", "b.gguf"):
        event = daemon.wait_for("inspection_finished", path=str(house.models / name), trigger="scrub")
        assert (event["scope"], event["verdict"]) == ("full", "sound")
    daemon.wait_for("scrub_finished", artifacts=2, bytes=2 * len(gguf()))
    assert daemon.stop() == 0
    assert not daemon.named("alert_raised")
