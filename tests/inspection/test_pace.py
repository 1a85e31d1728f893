"""The byte rate, on a clock that only sleeping and reading move."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.record import Producer
from auditd.formats.writer import Tensor, write_gguf
from auditd.inspection.inspector import inspect
from auditd.inspection.pace import Pace
from auditd.inspection.request import Request, carry_on

MIB = 1024 * 1024
PRODUCER = Producer(name="model-auditd", version="0", host="here", configuration="0")


class Clock:
    """Seconds that pass when somebody sleeps, and when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.sleeps.append(seconds)
        self.now += seconds


def pace(clock: Clock, rate: int, checkpoint: Callable[[], None] = carry_on) -> Pace:
    return Pace(rate, checkpoint, clock, clock.sleep)


def test_no_rate_is_no_wait() -> None:
    clock = Clock()
    unlimited = pace(clock, 0)
    for _ in range(100):
        unlimited.after(1 << 40)
    assert clock.sleeps == []
    assert unlimited.piece(4 * MIB) == 4 * MIB


def test_reading_takes_as_long_as_the_rate_says() -> None:
    clock = Clock()
    held = pace(clock, 10 * MIB)
    for _ in range(100):
        held.after(MIB)
    assert clock.now - 1000 == pytest.approx(10)


def test_time_that_reading_takes_is_not_waited_for_again() -> None:
    clock = Clock()
    held = pace(clock, 10 * MIB)
    for _ in range(100):
        clock.now += 0.04
        held.after(MIB)
    assert clock.now - 1000 == pytest.approx(10)


def test_a_disk_that_is_slower_than_the_rate_is_not_waited_for() -> None:
    clock = Clock()
    held = pace(clock, 10 * MIB)
    for _ in range(100):
        clock.now += 0.2
        held.after(MIB)
    assert clock.sleeps == []


def test_a_pause_is_not_made_up_for() -> None:
    clock = Clock()
    held = pace(clock, MIB)
    held.after(MIB)
    clock.now += 3600
    begin = clock.now
    for _ in range(10):
        held.after(MIB)
    assert clock.now - begin == pytest.approx(9)


@pytest.mark.parametrize("number", range(20))
def test_no_span_of_time_has_more_than_its_bytes(number: int) -> None:
    """Whatever reads take and however long they are held up: the rate, and the chunks at both ends of the span."""
    dice = random.Random(number)
    rate, most = 1000, 700
    clock = Clock()
    held = pace(clock, rate)
    reads: list[tuple[float, int]] = []
    for _ in range(100):
        clock.now += dice.choice([0, 0.01, 0.3, 2, 50])
        count = dice.randint(1, most)
        reads.append((clock.now, count))
        held.after(count)
    for first in range(len(reads)):
        total = 0
        for moment, count in reads[first:]:
            total += count
            assert total <= rate * (moment - reads[first][0]) + 2 * most + 1e-6


def test_a_stop_is_answered_while_it_waits() -> None:
    clock = Clock()

    def checkpoint() -> None:
        if clock.now >= 1007:
            raise InspectionStopped("enough")

    held = pace(clock, MIB, checkpoint)
    with pytest.raises(InspectionStopped):
        held.after(3600 * MIB)
    assert clock.now == pytest.approx(1007, abs=0.051)
    assert max(clock.sleeps) <= 0.05


@pytest.mark.parametrize(
    ("rate", "piece"), [(1, 65536), (65536, 65536), (MIB, MIB // 2), (8 * MIB, 4 * MIB), (50 * MIB, 4 * MIB)]
)
def test_pieces_are_half_a_second_of_the_rate_within_bounds(rate: int, piece: int) -> None:
    assert pace(Clock(), rate).piece(4 * MIB) == piece


# --- in an inspection


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(write_gguf((), [Tensor("w", (3 * MIB // 4,), 0, b"\1" * 3 * MIB)], pad_tail=True).data)
    return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("auditd.inspection.inspector.Pace", lambda rate, checkpoint: pace(clock, rate, checkpoint))
    return clock


def request(path: Path) -> Request:
    return Request(os.fsencode(path), PRODUCER, hash_mode="full", bytes_per_second=MIB)


def test_a_whole_file_at_a_rate(model: Path, clock: Clock) -> None:
    seen: list[int] = []
    evidence = inspect(request(model), progress=lambda done, _: seen.append(done))
    assert evidence.artifact.sha256 == hashlib.sha256(model.read_bytes()).hexdigest()
    assert clock.now - 1000 == pytest.approx(model.stat().st_size / MIB)
    assert max(after - before for before, after in itertools.pairwise(seen)) == MIB // 2


def test_an_inspection_that_waits_can_be_stopped(model: Path, clock: Clock) -> None:
    def checkpoint() -> None:
        if clock.now >= 1001:
            raise InspectionStopped("enough")

    evidence = inspect(request(model), checkpoint)
    assert (evidence.outcome, evidence.artifact.sha256) == ("partial", None)
    assert evidence.coverage.header.status == "complete"
    assert MIB <= evidence.read.bytes_read <= 3 * MIB // 2
    assert clock.now == pytest.approx(1001, abs=0.051)
