"""The store: what goes in comes out, in one piece or not at all."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as rebuilt

from auditd.errors import StoreError
from auditd.evidence import canonical
from auditd.evidence.record import Evidence
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint
from auditd.evidence_store.chain import GENESIS, first_break, link
from auditd.evidence_store.entities import Alert, Entry
from auditd.evidence_store.store import EvidenceStore, below
from auditd.evidence_store.tables import APPLICATION_ID, VERSION
from tests.support.records import evidence

SEEN = Fingerprint(1, 2**64 - 1, 3, 4, 5)
NAME = b"/models/\xff\n.gguf"


def record(number: int, path: bytes = NAME) -> Evidence:
    made = evidence(path, recorded_at=f"2024-01-01T00:00:{number:02}Z")
    return rebuilt(made, evidence_id=canonical.evidence_id(made))


def entry(number: int = 0, path: bytes = NAME, alerts: tuple[Alert, ...] = (), **known: Any) -> Entry:
    made = record(number, path)
    fields = {"fingerprint": SEEN, "settings": "s", "mode": "expected", "run": 1, "evidence_id": made.evidence_id}
    return Entry(path, made, ArtifactState(**{**fields, **known}), alerts)


def alert(path: bytes = NAME, **changes: Any) -> Alert:
    made = Alert(
        path=path,
        code="unowned_bytes",
        rule="",
        scope="header",
        severity="critical",
        figures="[100]",
        facts={"residue": 100, "message": "100 bytes"},
        evidence_id="ev_0",
        raised_at=10.0,
        told_at=10.0,
        untold="alert_raised",
    )
    return replace(made, **changes)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "evidence.sqlite")


def test_a_record_and_what_it_changes(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        stored = entry(alerts=(alert(),))
        sequence = store.record(stored)
        assert store.known(NAME) == stored.known
        assert store.evidence(stored.evidence.evidence_id) == stored.evidence
        assert [(item.sequence, item.path, item.evidence) for item in store.records()] == [
            (sequence, NAME, stored.evidence)
        ]
        (open_alert,) = store.open_alerts(NAME)
        assert replace(open_alert, alert_id=None) == alert()
        assert store.count_open_alerts() == {("unowned_bytes", "critical"): 1}


def test_all_or_nothing(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        broken = entry(alerts=(alert(severity=None),))
        with pytest.raises(StoreError):
            store.record(broken)
        assert list(store.records()) == []
        assert store.known(NAME) is None
        assert list(store.links()) == []
        store.record(entry())  # and it works again
        assert len(list(store.records())) == 1


def test_the_same_record_twice_is_stored_once(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        assert store.record(entry()) == store.record(entry())
        assert len(list(store.links())) == 1


def test_the_chain(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        for number in range(5):
            store.record(entry(number))
        links = list(store.links())
        ids = [item.evidence.evidence_id for item in store.records()]
    assert [evidence_id for _, evidence_id, _ in links] == ids
    assert links[0][2] == link(GENESIS, ids[0])
    assert first_break(GENESIS, links) is None
    assert first_break(links[1][2], links[2:]) is None
    assert first_break(GENESIS, links[:1] + links[2:]) == 3
    swapped = [links[0], (links[1][0], links[2][1], links[1][2]), *links[2:]]
    assert first_break(GENESIS, swapped) == 2


def test_lines_that_were_not_written(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        sequences = [store.record(entry(number)) for number in range(3)]
        assert [item.sequence for item in store.unlogged()] == sequences
        assert [item.sequence for item in store.unlogged(sequences[0])] == sequences[1:]
        store.mark_logged(sequences[1])
        assert [item.sequence for item in store.unlogged()] == sequences[2:]
    with EvidenceStore(path, writer=True) as store:
        assert [item.sequence for item in store.unlogged()] == sequences[2:]


def test_a_damaged_record_keeps_no_other_from_its_line(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        ids = [item.evidence.evidence_id for item in map(entry, range(3)) if store.record(item)]
        store._change(lambda c: c.execute("UPDATE evidence SET record = x'00' WHERE sequence = 2"))
        found = [(item.sequence, item.evidence and item.evidence.evidence_id) for item in store.unlogged()]
    assert found == [(1, ids[0]), (2, None), (3, ids[2])]


def test_an_alert_from_raised_to_cleared(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        store.put_alerts([alert(), alert(b"/other", told_at=99.0)])
        untold = store.untold_alerts()
        assert [item.path for item in untold] == [NAME, b"/other"]
        store.mark_told(untold)
        assert store.untold_alerts() == []
        assert [item.path for item in store.alerts_told_before(50.0)] == [NAME]
        assert [item.path for item in store.all_open_alerts()] == [NAME, b"/other"]
        (first,) = store.open_alerts(NAME)
        store.forget(NAME, [replace(first, cleared_at=20.0, cleared_as="removed", untold="alert_cleared")])
        assert store.open_alerts(NAME) == []
        assert [(item.cleared_as, item.untold) for item in store.untold_alerts()] == [("removed", "alert_cleared")]
        store.put_alerts([alert()])  # raised again: another alert, and the old one stays on record
        assert len(store.open_alerts(NAME)) == 1


def test_what_is_below_a_directory(path: str) -> None:
    names = [b"/m/a", b"/m/sub/b", b"/m-other/c", b"/m0", b"/m/\xff"]
    with EvidenceStore(path, writer=True) as store:
        for number, name in enumerate(names):
            store.record(entry(number, name))
        assert list(store.artifacts(b"/m")) == [b"/m/a", b"/m/sub/b", b"/m/\xff"]
        assert list(store.artifacts(b"/m/sub")) == [b"/m/sub/b"]
        assert sorted(store.artifacts(b"/")) == sorted(names)
        store.forget(b"/m/a")
        assert store.known(b"/m/a") is None
        assert len(list(store.records(b"/m/a"))) == 1
    assert below(b"/") == (b"/", b"0")


def test_more_rows_than_a_page(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        store.remember_sniffs((b"/m/%05d" % number, SEEN, False) for number in range(1234))
        assert len(list(store.sniffed(b"/m"))) == 1234
        store.forget_sniffs([b"/m/00000"])
        assert len(list(store.sniffed(b"/m"))) == 1233


def test_many_artifacts_in_one_question(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        for number in range(300):
            store.remember(
                b"/m/%d" % number, ArtifactState(fingerprint=Fingerprint(1, number, 1, 1, 1), failures=number)
            )
        asked = [b"/m/%d" % number for number in range(200, 400)]
        found = store.known_of(asked)
        assert found == {name: store.known(name) for name in asked[:100]}
        assert found[b"/m/250"].failures == 250
        assert store.known_of([]) == {}


def test_first_bytes_are_known_for_one_state_and_an_artifact_stays_one(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        assert store.sniff(NAME, SEEN) is None
        store.remember_sniffs([(NAME, SEEN, False)])
        assert store.sniff(NAME, SEEN) is False
        assert store.sniff(NAME, SEEN._replace(ctime_ns=6)) is None
        store.record(entry())
        assert store.sniff(NAME, SEEN) is True


def test_one_writer(path: str) -> None:
    with EvidenceStore(path, writer=True), pytest.raises(StoreError, match="another process writes"):
        EvidenceStore(path, writer=True)
    with EvidenceStore(path, writer=True) as store:
        assert store.run == 2


def test_readers_beside_the_writer(path: str) -> None:
    with EvidenceStore(path, writer=True) as writer:
        writer.record(entry())
        with EvidenceStore(path, writer=False) as reader:
            assert len(list(reader.records())) == 1
            with pytest.raises(StoreError, match="readonly"):
                reader.record(entry(1))
            writer.record(entry(2))
            assert len(list(reader.records())) == 2


def test_a_reader_makes_nothing(path: str) -> None:
    with pytest.raises(StoreError):
        EvidenceStore(path, writer=False)
    assert not Path(path).parent.exists()


def test_a_newer_store_is_refused(path: str) -> None:
    EvidenceStore(path, writer=True).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    for writer in (True, False):
        with pytest.raises(StoreError, match="newer version"):
            EvidenceStore(path, writer=writer)


def test_another_programs_database_is_left_alone(path: str) -> None:
    Path(path).parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        EvidenceStore(path, writer=True)
    Path(path).write_bytes(b"not a database at all, but a text that is long enough to be looked at" * 20)
    with pytest.raises(StoreError):
        EvidenceStore(path, writer=True)


def test_files_are_private(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        store.record(entry())
        directory = Path(path).parent
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        for file in directory.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_damaged_record_is_an_error_of_the_store(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:
        store.record(entry())
        store._change(lambda connection: connection.execute("UPDATE evidence SET record = x'00'"))
        with pytest.raises(StoreError, match="damaged"):
            list(store.records())


def test_pragmas(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:

        def pragma(name: str) -> Any:
            return store._call(lambda connection: connection.execute(f"PRAGMA {name}").fetchone()[0])

        assert (pragma("journal_mode"), pragma("synchronous")) == ("wal", 2)
        assert (pragma("application_id"), pragma("user_version")) == (APPLICATION_ID, VERSION)


def test_calls_from_many_threads_exclude_each_other(path: str) -> None:
    with EvidenceStore(path, writer=True) as store:

        def work(first: int) -> None:
            for number in range(first, first + 10):
                store.record(entry(number, b"/m/%d" % number))
                assert store.known(b"/m/%d" % number) is not None

        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 10, 20, 30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(list(store.artifacts(b"/m"))) == 40
        assert first_break(GENESIS, store.links()) is None


def test_no_descriptor_stays_open(path: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with EvidenceStore(path, writer=True) as store:
        store.record(entry())
    assert len(os.listdir("/proc/self/fd")) == before
