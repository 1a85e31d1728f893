"""Records in files: not one bit of them may change, and they come in all or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path

import pytest

from auditd.errors import StoreError
from auditd.evidence_store.bundle import SCHEMA, lines, manifest
from auditd.evidence_store.connection import reading
from auditd.evidence_store.importing import Imported, import_records
from auditd.evidence_store.listing import in_order, load
from auditd.evidence_store.records import RecordError, divide, encoded
from auditd.evidence_store.store import EvidenceStore
from tests.evidence_store.stores import at, broken, entry, final, flips, gguf_with, observation, small_store
from tests.support import models

RECORD = encoded(observation(models.safetensors(), name="model.safetensors"))
OTHER = encoded(observation(b"<html>"))


def bundle(*records: bytes) -> bytes:
    return manifest(records) + b"".join(record + b"\n" for record in records)


def problems(content: bytes, *, as_bundle: bool) -> list[str]:
    return [line.problem for line in lines(io.BytesIO(content), bundle=as_bundle) if line.problem is not None]


def test_the_manifest() -> None:
    first, _, behind = bundle(RECORD, OTHER).partition(b"\n")
    assert json.loads(first) == {
        "schema": SCHEMA,
        "records": 2,
        "sha256": hashlib.sha256(behind).hexdigest(),
        "records_sha256": [hashlib.sha256(RECORD).hexdigest(), hashlib.sha256(OTHER).hexdigest()],
    }
    assert problems(bundle(RECORD, OTHER), as_bundle=True) == []
    assert problems(bundle(), as_bundle=True) == []
    assert [line.record for line in lines(io.BytesIO(bundle(RECORD, OTHER)), bundle=True)] == [RECORD, OTHER]


def test_every_bit_of_one_record() -> None:
    assert problems(RECORD + b"\n", as_bundle=False) == []
    for flipped in flips(RECORD + b"\n"):
        assert problems(flipped, as_bundle=False)


@pytest.mark.system
def test_every_bit_of_a_bundle() -> None:
    content = bundle(OTHER, RECORD)
    for flipped in flips(content):
        assert problems(flipped, as_bundle=True)


def test_every_cut_of_a_bundle() -> None:
    content = bundle(OTHER, RECORD)
    for length in range(len(content)):
        assert problems(content[:length], as_bundle=True)


LONG, _, BEHIND = bundle(RECORD, OTHER).partition(b"\n")
WRONG = {
    "a record": (RECORD + b"\n", True, "no bundle"),
    "a bundle": (bundle(RECORD), False, "a bundle, and one record is wanted"),
    "nothing as a record": (b"", False, "not a record"),
    "nothing as a bundle": (b"", True, "the file is empty"),
    "two records": (RECORD + b"\n" + OTHER + b"\n", False, "more than one line"),
    "a line more": (bundle(RECORD) + OTHER + b"\n", True, "more lines than the manifest has records"),
    "a line less": (manifest([RECORD, OTHER]) + RECORD + b"\n", True, "ends after 1 of 2 records"),
    "another order": (LONG + b"\n" + OTHER + b"\n" + RECORD + b"\n", True, "not the record that the manifest has"),
    "a wrong count": (LONG.replace(b'"records":2', b'"records":3') + b"\n" + BEHIND, True, "2 digests for 3 records"),
    "a later schema": (LONG.replace(b"bundle/1", b"bundle/2") + b"\n" + BEHIND, True, "no bundle"),
    "an unknown member": (LONG[:-1] + b',"more":1}\n' + BEHIND, True, "unknown field"),
    "white space": (LONG[:-1] + b" }\n" + BEHIND, True, "not written as manifests are"),
    "no line feed at the end": (bundle(RECORD)[:-1], True, "not those that it has the SHA-256 of"),
}


@pytest.mark.parametrize(("content", "as_bundle", "reason"), WRONG.values(), ids=WRONG)
def test_refused_and_why(content: bytes, as_bundle: bool, reason: str, tmp_path: Path) -> None:
    told = problems(content, as_bundle=as_bundle)
    assert reason in told[0]
    store = tmp_path / "state" / "evidence.sqlite"
    with pytest.raises(RecordError, match=r"given: line \d+: .*"):
        import_records(str(store), [("given", io.BytesIO(content))], bundle=as_bundle)
    assert not store.parent.exists()


# --- import ----------------------------------------------------------------------------------------------


def exported(path: Path) -> list[bytes]:
    with reading(str(path)) as connection:
        return [load(connection, sequence) for sequence in in_order(connection)]


def test_out_of_one_store_and_into_another(tmp_path: Path) -> None:
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    small_store(one)
    records = exported(one)
    assert import_records(str(other), [("b", io.BytesIO(bundle(*records)))], bundle=True) == Imported(3, 0)
    assert exported(other) == records
    assert bundle(*exported(other)) == bundle(*records)
    assert import_records(str(other), [("b", io.BytesIO(bundle(*records)))], bundle=True) == Imported(0, 3)
    found, tally = broken(other)
    assert (found, tally.records) == ([], 3)


def test_bytes_of_another_version_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "evidence.sqlite"
    members = json.loads(RECORD)
    reordered = json.dumps(dict(reversed(members.items())), separators=(",", ":")).encode()
    import_records(str(path), [("r", io.BytesIO(reordered))], bundle=False)
    assert exported(path) == [reordered]
    assert broken(path)[0] == []


def test_all_of_all_files_or_none(tmp_path: Path) -> None:
    path = tmp_path / "evidence.sqlite"
    small_store(path)
    before = exported(path)
    sources = [("good", io.BytesIO(OTHER)), ("bad", io.BytesIO(RECORD[:-1]))]
    with pytest.raises(RecordError, match=r"^bad: line 1"):
        import_records(str(path), sources, bundle=False)
    assert exported(path) == before


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "evidence.sqlite"
    small_store(path)
    before = exported(path)

    def fail(record: bytes) -> object:
        if record == OTHER:
            raise OSError(28, os.strerror(28))
        return divide(record)

    monkeypatch.setattr("auditd.evidence_store.importing.divide", fail)
    with pytest.raises(StoreError, match="No space left"):
        import_records(str(path), [("b", io.BytesIO(bundle(RECORD, OTHER)))], bundle=True)
    assert exported(path) == before
    assert broken(path)[0] == []


def test_under_the_daemons_lock(tmp_path: Path) -> None:
    path = tmp_path / "evidence.sqlite"
    with EvidenceStore(str(path), writer=True), pytest.raises(StoreError, match="another process writes"):
        import_records(str(path), [("r", io.BytesIO(RECORD))], bundle=False)


def test_the_store_goes_on_as_if_nothing_had_come(tmp_path: Path) -> None:
    """No line for the log, no state of an artifact, no part in what is kept of the artifacts here."""
    path = tmp_path / "evidence.sqlite"
    here = [final(observation(models.gguf()), b"/m/a", day) for day in (1, 2)]
    there = [final(observation(gguf_with((), tensors=2)), b"/m/a", day) for day in (3, 4)]
    with EvidenceStore(str(path), writer=True) as store:
        for evidence in here:
            store.record(entry(evidence, b"/m/a"))
        store.mark_logged(9)
    for evidence in there:
        import_records(str(path), [("r", io.BytesIO(encoded(evidence)))], bundle=False)
    bad = at(observation(models.gguf(tail=b"x")), b"/m/b", "2024-01-01T00:00:00Z", outcome="partial")
    import_records(str(path), [("r", io.BytesIO(encoded(bad)))], bundle=False)
    with EvidenceStore(str(path), writer=True) as store:
        assert list(store.unlogged()) == []
        assert list(store.artifacts(b"/m")) == [b"/m/a"]
        assert list(store.open_alerts(b"/m/b")) == []
        store.prune(4e9)
        # The last one made here, the last one made elsewhere, and what may have been an alert there.
        assert [item.evidence for item in store.records()] == [here[1], there[1], bad]
