"""The queue of due files."""

from __future__ import annotations

from dataclasses import replace

from auditd.evidence_store.artifact_state import Fingerprint
from auditd.service.reading.queue import Job, Urgency, WorkQueue

STATE = Fingerprint(1, 2, 3, 4, 5)


def job(path: bytes, urgency: Urgency = Urgency.HEADER) -> Job:
    return Job(path, 0, STATE, "change", urgency)


def drain(queue: WorkQueue) -> list[bytes]:
    taken = []
    while (item := queue.take()) is not None:
        taken.append(item.path)
    return taken


def test_headers_then_digests_then_rechecks_each_in_order() -> None:
    queue = WorkQueue(10)
    for path, urgency in (
        (b"r", Urgency.RECHECK),
        (b"d", Urgency.DIGEST),
        (b"h1", Urgency.HEADER),
        (b"h2", Urgency.HEADER),
    ):
        queue.put(job(path, urgency))
    assert drain(queue) == [b"h1", b"h2", b"d", b"r"]


def test_each_file_once_in_its_newest_state() -> None:
    queue = WorkQueue(10)
    queue.put(job(b"a"))
    queue.put(job(b"b"))
    newer = replace(job(b"a"), seen=STATE._replace(size=9))
    queue.put(newer)
    assert len(queue) == 2
    assert queue.take() == newer
    assert drain(queue) == [b"b"]


def test_a_file_that_becomes_more_urgent_moves_forward_and_never_back() -> None:
    queue = WorkQueue(10)
    queue.put(job(b"other", Urgency.DIGEST))
    queue.put(job(b"a", Urgency.RECHECK))
    queue.put(job(b"a", Urgency.HEADER))
    queue.put(job(b"a", Urgency.RECHECK))
    assert drain(queue) == [b"a", b"other"]


def test_a_full_queue_remembers_that_it_forgot() -> None:
    queue = WorkQueue(2)
    for path in (b"a", b"b", b"a"):
        queue.put(job(path))
    assert not queue.overflowed
    queue.put(job(b"c"))
    assert queue.overflowed
    assert drain(queue) == [b"a", b"b"]


def test_a_file_that_is_gone_is_not_taken() -> None:
    queue = WorkQueue(10)
    queue.put(job(b"a"))
    queue.discard(b"a")
    assert queue.take() is None
    queue.put(job(b"a"))
    assert drain(queue) == [b"a"]
