"""Which records from elsewhere are taken in, and what each of the others is refused for."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from auditd.evidence import canonical
from auditd.evidence.record import Evidence
from auditd.evidence.totals import declared
from auditd.evidence_store.admission import admit
from auditd.evidence_store.records import RecordError, encoded
from tests.evidence_store.stores import EXTREMES, gguf_with, observation
from tests.support import models

GGUF = observation(gguf_with(EXTREMES, tensors=3))
SAFETENSORS = observation(models.safetensors(b"x"), name="model.safetensors")


def duplicate_key() -> bytes:
    return gguf_with([(b"a", 0, b"\1"), (b"a", 0, b"\2")])


def duplicate_name() -> bytes:
    content = bytearray(models.gguf(tensors=2))
    content[24 + 33 + 8] = ord("a")
    return bytes(content)


TAKEN = {
    "sound": GGUF,
    "safetensors": SAFETENSORS,
    "full": observation(gguf_with(EXTREMES, tensors=3), "full"),
    "empty": observation(b""),
    "foreign": observation(b"<html>" * 10),
    "cut in the head": observation(models.gguf()[:20]),
    "cut in the directory": observation(models.gguf(tensors=4)[:100]),
    "cut in the data": observation(models.gguf(tensors=4, cut=40)),
    "version": observation(models.gguf(version=9)),
    "a key twice": observation(duplicate_key()),
    "a name twice": observation(duplicate_name()),
    "bad JSON": observation(struct.pack("<Q", 8) + b'{"a":1,}', name="model.safetensors"),
    "a name": observation(models.gguf(), name="x\x1b\u202e.gguf"),
}


@pytest.mark.parametrize("evidence", TAKEN.values(), ids=TAKEN)
def test_what_this_program_makes_is_taken_in(evidence: Evidence) -> None:
    assert admit(encoded(evidence)) == evidence


def test_the_duplicates_are_really_there() -> None:
    for name in ("a key twice", "a name twice"):
        evidence = TAKEN[name]
        assert evidence.gguf is not None
        assert evidence.outcome == "refused"
        silenced = canonical.seal(replace(evidence, findings=[]))
        with pytest.raises(RecordError, match="is there twice"):
            admit(encoded(silenced))


def gguf(**changes: Any) -> Evidence:
    assert GGUF.gguf is not None
    return replace(GGUF, gguf=replace(GGUF.gguf, **changes))


def safetensors(**changes: Any) -> Evidence:
    assert SAFETENSORS.safetensors is not None
    return replace(SAFETENSORS, safetensors=replace(SAFETENSORS.safetensors, **changes))


def account(**changes: Any) -> Evidence:
    assert GGUF.accounting is not None
    return replace(GGUF, accounting=replace(GGUF.accounting, **changes))


def artifact(**changes: Any) -> Evidence:
    return replace(GGUF, artifact=replace(GGUF.artifact, **changes))


def part() -> Any:
    return GGUF.gguf


def totals() -> Any:
    return part().totals


def other() -> Any:
    return SAFETENSORS.safetensors


TENSOR = other().tensors[0]
TYPE = totals().by_type[0]
CANDIDATES = GGUF.accounting.candidates if GGUF.accounting else []

REFUSED: dict[str, tuple[Callable[[], Evidence], str]] = {
    "metadata out of order": (
        lambda: gguf(metadata=[part().metadata[1], part().metadata[0], *part().metadata[2:]]),
        r"gguf.metadata\[0\].index is 1",
    ),
    "tensors out of order": (
        lambda: gguf(tensors=list(reversed(part().tensors))),
        r"gguf.tensors\[0\].index is 2",
    ),
    "an index from 1": (
        lambda: gguf(tensors=[replace(row, index=row.index + 1) for row in part().tensors]),
        r"gguf.tensors\[0\].index is 1",
    ),
    "a key twice": (
        lambda: gguf(metadata=[replace(row, key="a", key_base64=None) for row in part().metadata]),
        r"gguf.metadata\[1\].key is there twice",
    ),
    "a name twice": (
        lambda: gguf(tensors=[replace(row, name="a") for row in part().tensors]),
        r"gguf.tensors\[1\].name is there twice",
    ),
    "a metadata row less": (lambda: gguf(metadata=part().metadata[:-1]), "has 8 rows, its count says 9"),
    "a tensor row less": (lambda: gguf(tensors=part().tensors[:-1]), "has 2 rows, its count says 3"),
    "no rows": (lambda: gguf(tensors=None), "rows of a complete record are missing"),
    "a type twice": (
        lambda: gguf(totals=declared([TYPE, TYPE])),
        r"gguf.totals.by_type\[1\].type is there twice",
    ),
    "a type id twice": (
        lambda: gguf(totals=declared([TYPE, replace(TYPE, type="other")])),
        r"gguf.totals.by_type\[1\].type_id is there twice",
    ),
    "totals that are no sum": (
        lambda: gguf(totals=replace(totals(), bytes=1)),
        "gguf.totals.bytes is 1, its parts come to 96",
    ),
    "elements that are no sum": (
        lambda: gguf(totals=replace(totals(), elements="1")),
        "gguf.totals.elements is 1, its parts come to 24",
    ),
    "totals of other tensors": (
        lambda: gguf(totals=declared([replace(TYPE, tensors=4)])),
        "gguf.totals.tensors is 4, the file declares 3",
    ),
    "two formats": (lambda: replace(GGUF, safetensors=SAFETENSORS.safetensors), "both gguf and safetensors"),
    "a residue that is no sum": (lambda: account(residue=1), "accounting.residue is 1, its parts come to 0"),
    "a candidate's residue": (
        lambda: account(candidates=[replace(CANDIDATES[0], residue=5)]),
        r"accounting.candidates\[0\].residue is 5",
    ),
    "an accounted type twice": (lambda: account(by_type=[TYPE, TYPE]), r"accounting.by_type\[1\].type is there twice"),
    "regions": (lambda: account(region_count=1), "accounting.regions has 0 rows, region_count says 1"),
    "another path": (lambda: artifact(path_base64="L2E="), "two different paths"),
    "no base64": (lambda: artifact(path_base64="%"), "artifact.path_base64"),
    "no time": (lambda: replace(GGUF, recorded_at="yesterday"), "no RFC 3339 time in UTC"),
    "a time elsewhere": (lambda: replace(GGUF, recorded_at="2024-01-01T00:00:00+02:00"), "no RFC 3339 time in UTC"),
    "no such day": (lambda: replace(GGUF, recorded_at="2024-02-30T00:00:00Z"), "not an RFC 3339 time"),
    "safetensors names": (
        lambda: safetensors(tensors=[TENSOR, replace(TENSOR, index=1)], tensor_count=2, totals=None),
        r"safetensors.tensors\[1\].name is there twice",
    ),
    "safetensors order": (
        lambda: safetensors(tensors=[TENSOR, replace(TENSOR, index=1, name="a")], tensor_count=2, totals=None),
        "not in name order",
    ),
    "safetensors indices": (
        lambda: safetensors(tensors=[replace(TENSOR, index=1)]),
        r"safetensors.tensors\[0\].index is 1",
    ),
    "safetensors count": (lambda: safetensors(tensor_count=2, totals=None), "has 1 rows, its count says 2"),
}


@pytest.mark.parametrize(("changed", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused_though_its_identifier_is_right(changed: Callable[[], Evidence], reason: str) -> None:
    with pytest.raises(RecordError, match=reason) as refusal:
        admit(encoded(canonical.seal(changed())))
    assert str(refusal.value).isprintable()


def test_the_identifier_comes_first() -> None:
    with pytest.raises(RecordError, match="has the identifier"):
        admit(encoded(gguf(tensors=[])))
