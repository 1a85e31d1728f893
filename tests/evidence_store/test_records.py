"""The bytes of a record: in two pieces, and back; and what is not one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auditd.evidence.record import Evidence
from auditd.evidence.summary import line
from auditd.evidence_store.admission import admit
from auditd.evidence_store.records import RecordError, divide, encoded, join, pack, unpack, verified
from auditd.evidence_store.store import EvidenceStore
from tests.evidence_store.stores import EXTREMES, at, entry, flips, gguf_with, observation, tampered
from tests.support import models

FILES = {
    "gguf": observation(gguf_with(EXTREMES, tensors=3)),
    "many": observation(models.gguf(tensors=8)),
    "safetensors": observation(models.safetensors(), name="model.safetensors"),
    "empty": observation(b""),
    "cut": observation(models.gguf()[:40]),
}


@pytest.mark.parametrize("evidence", FILES.values(), ids=FILES)
def test_divided_and_joined(evidence: Evidence) -> None:
    record = encoded(evidence)
    kept = divide(record)
    assert join(kept) == record
    assert verified(record) == evidence


def test_rows_stand_apart_once_they_are_worth_it() -> None:
    kept = divide(encoded(FILES["many"]))
    assert kept.rows is not None
    assert kept.rows.startswith(b'"metadata":[],"tensors":[{"index":0,')
    assert kept.rows.endswith(b"}]")
    assert divide(encoded(FILES["empty"])).rows is None
    assert divide(b"no record").rows is None


def test_one_header_has_one_set_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "evidence.sqlite"
    content = gguf_with(EXTREMES, tensors=6)
    looks = [observation(content), observation(content, "full"), observation(content + b"tail")]
    with EvidenceStore(str(path), writer=True) as store:
        for number, evidence in enumerate(looks):
            store.record(entry(at(evidence, recorded_at=f"2024-01-0{number + 1}T00:00:00Z"), b"/m"))
        (count,) = store._call(lambda connection: connection.execute("SELECT count(*) FROM declarations").fetchone())
        assert count == 1
        assert [item.evidence.artifact.size for item in store.records()] == [
            len(content),
            len(content),
            len(content) + 4,
        ]


def test_extremes_come_back_as_they_went_in(tmp_path: Path) -> None:
    record = encoded(FILES["gguf"])
    for shown in (b'"-9223372036854775808"', b'"18446744073709551615"', b'"NaN"', b'"+Infinity"', b'"-Infinity"'):
        assert shown in record
    for shown in (b'"value":"-0"', b'"value":5e-324', b'"value":0.10000000149011612'):
        assert shown in record
    with EvidenceStore(str(tmp_path / "evidence.sqlite"), writer=True) as store:
        store.record(entry(FILES["gguf"], b"/m"))
        (item,) = store.records()
    assert encoded(item.evidence) == record


@pytest.mark.parametrize("name", ["gguf", "safetensors"])
def test_no_bit_of_a_record_can_change(name: str) -> None:
    record = encoded(FILES[name])
    for flipped in flips(record)[:: 1 if name == "safetensors" else 5]:
        with pytest.raises(RecordError):
            verified(flipped)
    for cut in range(0, len(record), 3):
        with pytest.raises(RecordError):
            verified(record[:cut])


def test_no_bit_of_a_packed_record_can_change_unseen_by_its_seal() -> None:
    packed = pack(encoded(FILES["safetensors"]))
    unseen = 0
    for flipped in flips(packed):
        try:
            unseen += unpack(flipped) == unpack(packed)
        except RecordError:
            continue
    # A few bits of the compressed form mean nothing. That is why a seal covers the bytes as they stand.
    assert unseen < 16
    with pytest.raises(RecordError, match="not exactly one"):
        unpack(packed + b"\0")


def reordered(record: bytes) -> bytes:
    return msgspec.json.encode(dict(reversed(msgspec.json.decode(record).items())))


def test_members_in_another_order_are_the_same_record() -> None:
    """Such as a record from a version whose fields stood otherwise: its bytes stay, its identifier is the same."""
    record = encoded(FILES["safetensors"])
    other = reordered(record)
    assert other != record
    assert verified(other) == FILES["safetensors"]
    assert join(divide(other)) == other


REFUSED = {
    "white space": (lambda r: r.replace(b',"verdict"', b', "verdict"'), "white space"),
    "a member twice": (lambda r: r.replace(b'{"schema"', b'{"verdict":"sound","schema"', 1), "repeated member"),
    "another spelling": (lambda r: r.replace(b"/model", b"\\u002fmodel", 1), "another spelling"),
    "unknown field": (lambda r: r.replace(b'{"schema"', b'{"more":1,"schema"', 1), "unknown field"),
    "another type": (lambda r: r.replace(b'"bytes_read":', b'"bytes_read":"a","x":', 1), "Expected `int`"),
    "NaN": (lambda r: r.replace(b'"duration_seconds":0', b'"duration_seconds":NaN', 1), "not a record"),
    "another schema": (lambda r: r.replace(b"evidence/1", b"evidence/2", 1), "the schema is"),
    "other content": (lambda r: r.replace(b'"trigger":"command"', b'"trigger":"rescan"', 1), "has the identifier"),
    "nothing": (lambda _: b"", "not a record"),
    "nested": (lambda _: b"[" * 100_000, "not a record"),
}


@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_record(change: object, reason: str) -> None:
    assert callable(change)
    record = encoded(FILES["safetensors"])
    changed = change(record)
    assert changed != record
    with pytest.raises(RecordError, match=reason) as refusal:
        verified(changed)
    assert str(refusal.value).isprintable()


def test_a_summary_proves_nothing() -> None:
    with pytest.raises(RecordError, match="a summary"):
        admit(line(FILES["gguf"]).removesuffix(b"\n"))


def test_damage_in_the_store_is_an_error_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "evidence.sqlite"
    with EvidenceStore(str(path), writer=True) as store:
        store.record(entry(FILES["many"], b"/m"))
    tampered(path, ("DELETE FROM declarations", ()))
    with EvidenceStore(str(path), writer=False) as store, pytest.raises(Exception, match="declarations are missing"):
        list(store.records())
