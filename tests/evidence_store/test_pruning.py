"""What is kept, what goes, and that the chain holds afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from auditd.evidence.history import Earlier
from auditd.evidence.record import Evidence
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint
from auditd.evidence_store.connection import reading
from auditd.evidence_store.entities import Entry
from auditd.evidence_store.pruning import unneeded
from auditd.evidence_store.store import EvidenceStore
from auditd.inspection.inspector import inspect
from auditd.inspection.request import HashMode, Request
from tests.evidence_store.stores import PRODUCER, alert_of, at, broken, entry, final, gguf_with, observation, tampered
from tests.support import models

PLAIN = observation(models.gguf())
MANY = observation(gguf_with((), tensors=8))
A, B = b"/m/a.gguf", b"/m/b.gguf"


def day(number: int) -> float:
    return datetime(2024, 1 + number // 28, 1 + number % 28, tzinfo=UTC).timestamp()


class Kept:
    """A store that is pruned, and what is left in it: sequence numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path / "evidence.sqlite"
        self.store = EvidenceStore(str(self.path), writer=True)

    def add(self, evidence: Evidence, *, alerted: bool = False) -> None:
        path = evidence.artifact.path.encode()
        self.store.record(entry(evidence, path, (alert_of(evidence, path),) if alerted else ()))

    def prune(self, before: float) -> int:
        self.store.mark_logged(10_000)
        after, done, gone = 0, False, 0
        while not done:
            batch = self.store.prune(before, after)
            after, done, gone = batch.last, batch.done, gone + batch.records
        found, tally = broken(self.path)
        assert found == []
        assert tally.records == len(self.left)
        return gone

    @property
    def left(self) -> list[int]:
        return [item.sequence for item in self.store.records()]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    kept.store.close()


def test_the_last_of_each_artifact_stays(kept: Kept) -> None:
    for number in range(4):
        kept.add(final(PLAIN, A, number))
        kept.add(final(PLAIN, B, number))
    assert kept.prune(day(300)) == 6
    assert kept.left == [7, 8]
    assert kept.prune(day(300)) == 0


def test_young_ones_stay_to_the_microsecond(kept: Kept) -> None:
    for number in range(4):
        kept.add(final(PLAIN, A, number))
    assert kept.prune(day(2)) == 2  # what is exactly as old as the retention stays
    assert kept.left == [3, 4]
    assert kept.prune(day(2) + 2e-6) == 1
    assert kept.left == [4]


def test_what_settled_nothing_does_not_count_as_the_last(kept: Kept) -> None:
    kept.add(final(PLAIN, A, 0))
    for number in (1, 2):
        kept.add(at(final(PLAIN, A, number), outcome="partial"))
    assert kept.prune(day(300)) == 2
    assert kept.left == [1]


def test_the_last_digest_stays_behind_later_headers(kept: Kept) -> None:
    hashed = replace(PLAIN, artifact=replace(PLAIN.artifact, sha256="a" * 64))
    for number, evidence in enumerate((hashed, hashed, PLAIN, PLAIN)):
        kept.add(final(evidence, A, number))
    assert kept.prune(day(300)) == 2
    assert kept.left == [2, 4]
    kept.add(final(hashed, A, 5))
    assert kept.prune(day(300)) == 2
    assert kept.left == [5]


def test_alerts_and_what_is_known_by_stay(kept: Kept) -> None:
    known = final(PLAIN, A, 1)
    kept.add(final(PLAIN, A, 0), alerted=True)
    kept.add(known)
    kept.add(final(PLAIN, A, 2))
    kept.add(final(PLAIN, A, 3))
    kept.store.remember(A, ArtifactState(evidence_id=known.evidence_id))
    assert kept.prune(day(300)) == 1
    assert kept.left == [1, 2, 4]
    with kept.store:
        kept.store.forget(A)
        kept.store._change(lambda connection: connection.execute("DELETE FROM alerts"))
        assert kept.prune(day(300)) == 1
        assert kept.left == [1, 4]  # it raised an alert, whatever became of that


class Changing:
    """A file whose weights change, and its records in a store, one a day."""

    def __init__(self, kept: Kept, path: Path) -> None:
        self.path = os.fsencode(path)
        self._kept = kept
        self._count = 0

    @property
    def state(self) -> Fingerprint:
        return Fingerprint.of_status(os.stat(self.path))

    def write(self, weights: bytes) -> None:
        """Another state: the modification time says so, however coarse the clock is."""
        with open(self.path, "wb") as file:
            file.write(models.gguf()[:-32] + weights)
        os.utime(self.path, (self._count, self._count))

    def observation(self, mode: HashMode, earlier: Earlier | None = None) -> Evidence:
        return inspect(Request(self.path, PRODUCER, hash_mode=mode, earlier=earlier))

    def record(self, *modes: HashMode) -> None:
        for mode in modes:
            self._count += 1
            made = at(self.observation(mode), recorded_at=f"2024-01-{self._count:02}T00:00:00Z")
            known = ArtifactState(fingerprint=self.state, evidence_id=made.evidence_id)
            self._kept.store.record(Entry(self.path, made, known, ()))


def test_what_a_change_is_told_against_stays_as_long_as_the_state(kept: Kept, tmp_path: Path) -> None:
    file = Changing(kept, tmp_path / "changing.gguf")
    file.write(b"\1" * 32)
    file.record("full", "full", "header", "header")
    file.write(b"\2" * 32)
    file.record("full", "full", "header", "header")

    def changes() -> list[str]:
        return [each.code for each in file.observation("full", kept.store.earlier(file.path, file.state)).findings]

    assert "weights_changed" in changes()
    assert kept.prune(day(300)) == 3
    # Of the state before: the last digest and the last look. Of this one: the first digest, the last, the last look.
    assert kept.left == [2, 4, 5, 6, 8]
    assert "weights_changed" in changes()
    file.write(b"\3" * 32)
    file.record("full")
    assert kept.prune(day(300)) == 3
    assert kept.left == [6, 8, 9]  # that state is over, and so is what it was held against


def test_what_is_not_in_the_log_yet_stays(kept: Kept) -> None:
    for number in range(3):
        kept.add(final(PLAIN, A, number))
    assert kept.store.prune(day(300)).records == 0
    kept.store.mark_logged(1)
    assert kept.store.prune(day(300)).records == 1


def test_rows_go_with_the_last_record_that_has_them(kept: Kept) -> None:
    kept.add(final(MANY, A, 0))
    kept.add(final(MANY, B, 1))
    kept.add(final(PLAIN, A, 2))
    kept.prune(day(300))

    def count() -> int:
        number: int = kept.store._call(lambda c: c.execute("SELECT count(*) FROM declarations").fetchone())[0]
        return number

    assert count() == 1
    kept.add(final(PLAIN, B, 3))
    kept.prune(day(300))
    assert count() == 0


def test_the_anchor_moves_and_numbers_are_never_given_twice(kept: Kept) -> None:
    for number in range(5):
        kept.add(final(PLAIN, A, number))
    kept.prune(day(300))
    assert [link[0] for link in kept.store.links()] == [5]
    kept.add(at(final(PLAIN, A, 6), outcome="partial"))
    kept.prune(day(300))  # the newest row goes, and its link stays as the end
    assert kept.left == [5]
    kept.add(final(PLAIN, A, 7))
    assert kept.left == [5, 7]
    kept.prune(day(300))
    assert kept.left == [7]
    assert [link[0] for link in kept.store.links()] == [7]


def test_a_store_of_which_nothing_is_left(kept: Kept) -> None:
    for number in range(3):
        kept.add(at(final(PLAIN, A, number), outcome="failed"))
    assert kept.prune(day(300)) == 3
    assert list(kept.store.links()) == []
    kept.add(final(PLAIN, A, 4))
    assert broken(kept.path)[0] == []
    assert kept.left == [4]


def test_links_between_stay_marked(kept: Kept) -> None:
    kept.add(final(PLAIN, B, 0))
    for number in range(4):
        kept.add(final(PLAIN, A, number + 1))
    kept.prune(day(300))
    found, tally = broken(kept.path)
    assert (found, tally.links, tally.pruned) == ([], 5, 3)
    kept.store.close()
    tampered(kept.path, ("UPDATE chain SET pruned = 0 WHERE sequence = 3", ()))
    assert [(item.sequence, item.problem) for item in broken(kept.path)[0]] == [(3, "the record is missing")]
    tampered(kept.path, ("UPDATE chain SET pruned = 1 WHERE sequence IN (3, 5)", ()))
    assert [(item.sequence, item.problem) for item in broken(kept.path)[0]] == [
        (5, "marked as pruned, and the record is there")
    ]


def test_a_pruned_row_that_is_more_than_was_pruned(kept: Kept) -> None:
    kept.add(final(PLAIN, B, 0))
    for number in range(3):
        kept.add(final(PLAIN, A, number + 1))
    kept.store.close()
    tampered(
        kept.path,
        ("DELETE FROM evidence WHERE sequence = 2", ()),
        ("UPDATE chain SET pruned = 1 WHERE sequence = 2", ()),
    )
    assert [item.problem for item in broken(kept.path)[0]] == ["there are 3 records and there should be 4"]


def test_more_than_a_batch(kept: Kept) -> None:
    for number in range(20):
        kept.add(final(PLAIN, A, number))
    kept.store.mark_logged(100)
    with reading(str(kept.path)) as connection:
        assert len(unneeded(connection, day(300))) == 19
        assert [item.sequence for item in unneeded(connection, day(300), 5, 3)] == [6, 7, 8]
