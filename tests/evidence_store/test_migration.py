"""A store of an older version: read as it is, and brought up to date by its writer, all the way or not at all."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from auditd.errors import StoreError
from auditd.evidence.record import Evidence
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint
from auditd.evidence_store.connection import reading
from auditd.evidence_store.entities import Alert
from auditd.evidence_store.records import encoded
from auditd.evidence_store.statements import insert, put_alert
from auditd.evidence_store.store import EvidenceStore
from auditd.evidence_store.tables import VERSION
from tests.evidence_store import version_1
from tests.evidence_store.stores import alert_of, broken, entry, final, gguf_with, observation, tampered
from tests.support import models

PLAIN, BAD, MANY = (
    observation(models.gguf()),
    observation(models.gguf(tail=b"x")),
    observation(gguf_with((), tensors=8)),
)
RECORDS = [
    final(PLAIN, b"/m/a", 0),
    final(BAD, b"/m/a", 1),
    final(MANY, b"/m/b", 2),
    final(MANY, b"/m/b", 3),
    final(PLAIN, b"/m/a", 4),
]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "evidence.sqlite"
    version_1.make(path, RECORDS)
    return path


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        number: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return number


def records(path: Path) -> list[Evidence]:
    with EvidenceStore(str(path), writer=False) as store:
        return [item.evidence for item in store.records()]


def test_brought_up_to_date_by_the_writer(old: Path) -> None:
    with EvidenceStore(str(old), writer=True) as store:
        assert [encoded(item.evidence) for item in store.records()] == [encoded(record) for record in RECORDS]
        assert [item.sequence for item in store.unlogged()] == [1, 2, 3, 4, 5]
        assert store.run == 1
        assert store.record(entry(final(PLAIN, b"/m/c", 5), b"/m/c")) == 6
    assert version(old) == VERSION
    found, tally = broken(old)
    assert (found, tally.records, tally.links) == ([], 6, 6)
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("SELECT count(*) FROM declarations").fetchone() == (1,)
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert not {name for name in names if name.startswith("old_")}


def tables(path: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {
        (name, " ".join("\n".join(line.partition("--")[0] for line in sql.splitlines()).split())) for name, sql in rows
    }


def test_what_was_never_hashed_waits_for_its_scrub_from_now_on(tmp_path: Path) -> None:
    """Schema 3 knew when a state was hashed and nothing of when it came; what was hashed waits since then."""
    path, before = tmp_path / "state.sqlite", int(time.time())
    with EvidenceStore(str(path), writer=True) as store:
        for name, hashed_at in ((b"/m/a", 1234.5), (b"/m/b", None)):
            store.remember(name, ArtifactState(fingerprint=Fingerprint(1, 1, 1, 1, 1), hashed_at=hashed_at))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "DROP INDEX artifacts_by_wait; ALTER TABLE artifacts DROP COLUMN waits_since;"
            "CREATE INDEX artifacts_by_hash ON artifacts (hashed_at); PRAGMA user_version = 3"
        )
    with EvidenceStore(str(path), writer=True) as store:
        hashed, other = store.known(b"/m/a"), store.known(b"/m/b")
    assert hashed is not None
    assert other is not None
    assert (hashed.hashed_at, hashed.waits_since, other.hashed_at) == (1234.5, 1234.5, None)
    assert before <= (other.waits_since or 0.0) <= time.time()


def test_the_tables_are_those_of_a_new_store(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.sqlite"
    for path in (old, new):
        EvidenceStore(str(path), writer=True).close()
    assert tables(old) == tables(new)


def test_read_as_it_is_without_being_changed(old: Path) -> None:
    content = old.read_bytes()
    assert records(old) == RECORDS
    assert broken(old)[0] == []
    assert old.read_bytes() == content
    assert version(old) == 1


def test_all_or_nothing(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def fail_at_the_third(*arguments: object, **named: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise sqlite3.OperationalError("database or disk is full")
        insert(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("auditd.evidence_store.migration.insert", fail_at_the_third)
    with pytest.raises(StoreError, match="disk is full"):
        EvidenceStore(str(old), writer=True)
    assert version(old) == 1
    monkeypatch.undo()
    assert records(old) == RECORDS
    EvidenceStore(str(old), writer=True).close()
    assert broken(old)[0] == []


def test_what_may_have_raised_an_alert_is_kept(old: Path) -> None:
    with closing(sqlite3.connect(old)) as connection:
        alert: Alert = alert_of(RECORDS[0], b"/m/a")
        put_alert(connection, alert)
        connection.commit()
    with EvidenceStore(str(old), writer=True) as store:
        store.mark_logged(9)
        store.prune(4e9)
        # 1 by its alert, 2 by its finding, 4 and 5 as the last ones; nothing needs 3.
        assert [item.sequence for item in store.records()] == [1, 2, 4, 5]


def test_damage_is_carried_over_and_named(old: Path) -> None:
    tampered(
        old,
        ("UPDATE evidence SET record = x'0102' WHERE sequence = 1", ()),
        ("UPDATE evidence SET verdict = 'sound' WHERE sequence = 2", ()),
        ("UPDATE evidence SET evidence_id = CAST(x'ff' AS TEXT) WHERE sequence = 3", ()),
        ("DELETE FROM evidence WHERE sequence = 4", ()),
        ("UPDATE chain SET value = x'00' WHERE sequence = 5", ()),
    )
    EvidenceStore(str(old), writer=True).close()
    found, tally = broken(old)
    assert tally.first_break == 5
    told = {item.sequence: item.problem for item in found}
    assert "cannot be unpacked" in told[1]
    assert told[2] == "column verdict is not what the record says"
    assert told[3] == "column evidence_id is not what the record says"
    assert told[4] == "the record is missing"
    with EvidenceStore(str(old), writer=True) as store:
        store.mark_logged(9)
        store.prune(4e9)
    with reading(str(old)) as connection:
        assert (1,) in connection.execute("SELECT sequence FROM evidence").fetchall()


def test_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "evidence.sqlite"
    version_1.make(path, [])
    with EvidenceStore(str(path), writer=True) as store:
        assert store.record(entry(RECORDS[0], b"/m/a")) == 1
    assert broken(path)[0] == []
