"""When a file counts as standing still."""

from __future__ import annotations

from auditd.evidence_store.artifact_state import Fingerprint
from auditd.service.reading.queue import Job
from auditd.service.reading.settle import Settler, first_wait

SECOND = 1_000_000_000
WALL = 1_700_000_000.0


def seen(size: int = 1, age: float = 0.0, change_age: float | None = None) -> Fingerprint:
    """A file last written ``age`` seconds ago."""
    modified = int((WALL - age) * SECOND)
    changed = modified if change_age is None else int((WALL - change_age) * SECOND)
    return Fingerprint(1, 2, size, modified, changed)


def job(state: Fingerprint, path: bytes = b"/m") -> Job:
    return Job(path, 0, state, "change")


def due(settler: Settler, now: float) -> list[bytes]:
    return [item.path for item in settler.due(now)]


def test_first_wait() -> None:
    assert first_wait(seen(age=3), WALL, 10) == 7
    assert first_wait(seen(age=60), WALL, 10) == 0
    assert first_wait(seen(age=60, change_age=4), WALL, 10) == 6
    # A time in the future neither delays it nor says that it is old.
    assert first_wait(seen(age=-3600, change_age=60), WALL, 10) == 0
    assert first_wait(seen(age=-3600), WALL, 10) == 10


def test_an_old_file_is_due_at_once() -> None:
    settler = Settler(10, 100)
    settler.observe(job(seen(age=60)), 5.0, WALL)
    assert due(settler, 5.0) == [b"/m"]
    assert settler.next_due() is None


def test_a_growing_file_waits_from_its_last_change_on() -> None:
    settler = Settler(10, 100)
    for moment in range(5):
        settler.observe(job(seen(size=moment)), float(moment), WALL)
        assert due(settler, float(moment)) == []
    assert settler.next_due() == 14.0
    assert due(settler, 13.9) == []
    assert due(settler, 14.0) == [b"/m"]
    assert len(settler) == 0


def test_seen_again_unchanged_it_goes_on_waiting() -> None:
    settler = Settler(10, 100)
    settler.observe(job(seen()), 0.0, WALL)
    settler.observe(job(seen()), 9.0, WALL)
    assert due(settler, 10.0) == [b"/m"]


def test_another_clock_on_the_file_server_does_not_cut_the_waiting_short() -> None:
    settler = Settler(10, 100)
    settler.observe(job(seen(size=1)), 0.0, WALL)
    settler.observe(job(seen(size=2, age=3600)), 1.0, WALL)
    assert due(settler, 10.9) == []
    assert due(settler, 11.0) == [b"/m"]


def test_a_due_file_that_had_changed_waits_again() -> None:
    settler = Settler(10, 100)
    settler.unsettled(job(seen(age=3600)), 5.0)
    assert due(settler, 14.9) == []
    assert due(settler, 15.0) == [b"/m"]


def test_another_try_comes_later_and_a_change_brings_it_forward() -> None:
    settler = Settler(10, 100)
    settler.later(job(seen(size=1)), 60.0)
    settler.observe(job(seen(size=1)), 1.0, WALL)
    assert due(settler, 59.0) == []
    settler.observe(job(seen(size=2)), 20.0, WALL)
    assert due(settler, 30.0) == [b"/m"]
    assert due(settler, 60.0) == []


def test_a_full_settler_remembers_that_it_forgot() -> None:
    settler = Settler(10, 1)
    settler.observe(job(seen(), b"/a"), 0.0, WALL)
    assert not settler.overflowed
    settler.observe(job(seen(), b"/b"), 0.0, WALL)
    assert settler.overflowed
    assert b"/b" not in settler


def test_files_that_are_tried_later_leave_room_for_others() -> None:
    settler = Settler(10, 4)
    for number in range(4):
        settler.later(job(seen(), b"/bad%d" % number), 60.0)
    assert len(settler) == 2
    settler.observe(job(seen(), b"/good"), 0.0, WALL)
    assert b"/good" in settler
    assert not settler.overflowed


def test_a_file_that_is_gone_is_not_due() -> None:
    settler = Settler(10, 100)
    settler.observe(job(seen()), 0.0, WALL)
    settler.discard(b"/m")
    assert settler.next_due() is None
    assert due(settler, 100.0) == []


def test_a_file_that_never_stands_still_takes_no_more_room() -> None:
    settler = Settler(10, 100)
    for moment in range(10_000):
        settler.observe(job(seen(size=moment)), moment / 1000, WALL)
    assert len(settler._heap) < 200
