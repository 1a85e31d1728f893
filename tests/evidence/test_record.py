"""The record from outside: its identifier can be checked, its schema holds, its numbers and texts are exact."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from auditd.errors import InspectionStopped
from auditd.evidence.record import Evidence
from auditd.formats.faults import Constraint
from auditd.inspection.request import Request, unwatched
from auditd.rules.findings import CONSTRAINTS, FINDINGS, SEVERITY_ORDER, VERDICT_MEANINGS, VERDICT_ORDER, worst_verdict
from tests.builders import (
    ARCHITECTURE,
    PRODUCER,
    Q4_K,
    Q8_1,
    Array,
    Entry,
    Tensor,
    aligned,
    gguf,
    observation,
    observe_artifact,
    property_test,
    safetensors,
    simple,
    sketch,
    st_entry,
)
from tests.test_properties import MUTATIONS, SEEDS, mutated

ROOT = Path(__file__).resolve().parents[2]
SCHEMA_FILE = ROOT / "config" / "evidence.schema.json"


@cache
def validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def as_json(evidence: Evidence) -> dict[str, Any]:
    value = json.loads(msgspec.json.encode(evidence))
    assert isinstance(value, dict)
    return value


def numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def check(evidence: Evidence) -> None:
    """What a reader with other tools can check of any record."""
    record = as_json(evidence)
    validator().validate(record)
    claimed = record.pop("evidence_id")
    assert claimed == "ev_" + hashlib.sha256(rfc8785.dumps(record)).hexdigest()
    assert record["schema"] == "model-auditd/evidence/1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", record["recorded_at"])
    for number in numbers(record):
        assert -(2**53 - 1) <= number <= 2**53 - 1 or isinstance(number, float)
        assert not isinstance(number, float) or math.isfinite(number)
    for item in record["findings"]:
        assert item["code"] in FINDINGS
        assert item["constraint"] is None or item["constraint"] in set(Constraint)
        assert item["count"] >= 1
        assert item["advice"]
        assert "\n" not in item["message"]
        assert "\x1b" not in item["message"]
    for item in record["limitations"]:
        assert item["count"] >= 1
        assert item["message"]
        assert len(item["subjects"]) <= 1000
    decoded = msgspec.json.decode(msgspec.json.encode(evidence), type=Evidence)
    assert decoded == evidence or "NaN" in str(evidence)


FILES: dict[str, bytes] = {
    "sketch": sketch().data,
    "empty": b"",
    "magic": b"GGUF",
    "cut": sketch().data[:200],
    "short": sketch().data[:390],
    "trailing": sketch().data + b"x" * 99,
    "version 1": b"GGUF\x01\x00\x00\x00" + bytes(20),
    "alignment 0": gguf([ARCHITECTURE, aligned(0)], [Tensor("w", [8])]).data,
    "unknown type": simple(Tensor("w", [8], 999, length=32)).data,
    "two layouts": simple(Tensor("w", [32, 8], Q8_1), Tensor("v", [256], Q4_K)).data,
    "shifted id": simple(Tensor("w", [256], 16, length=66)).data,
    "nothing fits": simple(Tensor("a", [1024], Q4_K, 0), Tensor("b", [1024], Q4_K, 2048), data_length=9000).data,
    "overflow": simple(Tensor("w", [2**63, 4, 0], length=0), data_length=0).data,
    "far away": simple(Tensor("w", [8], offset=2**64 - 32), data_length=32).data,
    "huge": simple(Tensor("w", [2**30, 2**30]), data_length=0).data,
    "bad text": gguf(
        [Entry(b"\xff\xfe", "string", b"\x80\x1b[31m"), Entry("k\0a", "u8"), Entry("k", "u8")], [Tensor(b"\xff", [8])]
    ).data,
    "numbers": gguf(
        [
            Entry("n.a", "f64", math.nan),
            Entry("n.b", "f64", -math.inf),
            Entry("n.c", "f32", -0.0),
            Entry("n.d", "u64", 2**64 - 1),
            Entry("n.e", "i64", -(2**63)),
            Entry("n.f", "array", Array("f64", [math.nan, math.inf, -0.0, 1e300, 5e-324, 1e21, 1e-7])),
            Entry("n.g", "array", Array("array", [Array("u64", [2**64 - 1]), Array("string", [b"\xff"])])),
            Entry("n.h", "f32", 3.4028234663852886e38),
        ]
    ).data,
    "safetensors": safetensors(
        {"__metadata__": {"\U0001f999": "a", "\uffee": "b", "": "c"}, "a": st_entry("F32", [2], 0, 8)}, bytes(8)
    ),
    "safetensors cut": safetensors({"a": st_entry("F32", [2], 0, 8)}, bytes(3)),
    "safetensors odd": safetensors({"a": st_entry("X", [2], 0, 8), "b": st_entry("F32", [9], 8, 9)}, bytes(20)),
    "safetensors far": safetensors({"a": st_entry("U8", [2**64 - 1], 0, 2**64 - 1)}, bytes(20)),
    "safetensors bad": safetensors(b'{"a":{"a":1,"a":2}}'),
    "text": b"<!DOCTYPE html><html></html>",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mode", ["header", "full"])
def test_records_of_all_kinds(tmp_path: Path, name: str, mode: str) -> None:
    check(observe_artifact(tmp_path, FILES[name], hash_mode=mode))


@pytest.mark.parametrize("layout", ["strict", "ggml-current", "k64"])
@pytest.mark.parametrize("name", ["sketch", "two layouts", "shifted id", "unknown type", "nothing fits"])
def test_records_under_a_chosen_layout(tmp_path: Path, name: str, layout: str) -> None:
    check(observe_artifact(tmp_path, FILES[name], layout=layout))


def test_records_of_what_could_not_be_looked_at(tmp_path: Path) -> None:
    check(observation(tmp_path / "absent"))
    check(observation(tmp_path))
    path = tmp_path / "model.gguf.part"
    path.write_bytes(b"GGUF")
    check(observation(path))
    raw = bytes(tmp_path) + b"/\xff\x1b.gguf"
    with open(raw, "wb") as file:
        file.write(sketch().data)
    check(observation(raw))


def test_a_record_of_a_stopped_inspection(tmp_path: Path) -> None:
    from auditd.inspection.inspector import inspect

    path = tmp_path / "model.gguf"
    path.write_bytes(gguf([ARCHITECTURE, Entry("a.b", "array", Array("u8", bytes(600_000)))]).data)
    for at in (1, 2, 3):
        calls = 0

        def checkpoint(at: int = at) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                raise InspectionStopped("now")

        check(inspect(Request(path=bytes(path), producer=PRODUCER), checkpoint, unwatched))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@property_test(150)
@given(st.sampled_from(SEEDS), MUTATIONS)
def test_records_of_damaged_files(place: Path, seed: bytes, mutations: list[tuple[str, int, int]]) -> None:
    check(observe_artifact(place, mutated(seed, mutations)))


@property_test(80)
@given(st.lists(st.floats(width=64), min_size=1, max_size=8), st.lists(st.floats(width=32), max_size=8))
def test_every_float_is_exact_or_named(place: Path, doubles: list[float], singles: list[float]) -> None:
    entries = [Entry(f"d.{n}", "f64", value) for n, value in enumerate(doubles)]
    entries += [Entry(f"s.{n}", "f32", value) for n, value in enumerate(singles)]
    evidence = observe_artifact(place, gguf(entries).data)
    check(evidence)
    assert evidence.gguf is not None
    assert evidence.gguf.metadata is not None
    for row, value in zip(evidence.gguf.metadata, doubles + singles, strict=True):
        if math.isnan(value):
            assert row.value == "NaN"
        elif math.isinf(value):
            assert row.value == ("+Infinity" if value > 0 else "-Infinity")
        elif value == 0 and math.copysign(1, value) < 0:
            assert row.value == "-0"
        else:
            assert row.value == value
            assert isinstance(row.value, float)


@property_test(50)
@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=5),
)
def test_every_long_integer_is_a_decimal_string(place: Path, drawn: list[tuple[int, int]]) -> None:
    entries = []
    for n, (unsigned, signed) in enumerate(drawn):
        entries += [Entry(f"u.{n}", "u64", unsigned), Entry(f"i.{n}", "i64", signed)]
    evidence = observe_artifact(place, gguf(entries).data)
    check(evidence)
    assert evidence.gguf is not None
    values = [row.value for row in evidence.gguf.metadata or []]
    assert values == [str(number) for pair in drawn for number in pair]


@property_test(60)
@given(st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=6), st.binary(max_size=12))
def test_texts_of_all_kinds(place: Path, metadata: dict[str, str], raw: bytes) -> None:
    clean = {k: v for k, v in metadata.items() if not any(0xD800 <= ord(c) < 0xE000 for c in k + v)}
    first = observe_artifact(place, safetensors({"__metadata__": clean}))
    check(first)
    assert first.safetensors is not None
    assert first.safetensors.metadata == clean
    second = observe_artifact(place, gguf([Entry(raw, "string", raw)], [Tensor(raw, [1])]).data)
    check(second)
    assert second.gguf is not None
    row = (second.gguf.metadata or [])[0]
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        assert row.key_base64 is not None
        assert row.value_base64 is not None
    else:
        assert (row.key, row.value, row.key_base64, row.value_base64) == (text, text, None, None)


def test_the_identifier_covers_every_field(tmp_path: Path) -> None:
    record = as_json(observe_artifact(tmp_path, FILES["sketch"]))
    claimed = record.pop("evidence_id")
    record["read"]["bytes_read"] += 1
    assert claimed != "ev_" + hashlib.sha256(rfc8785.dumps(record)).hexdigest()


def test_a_record_that_was_changed_does_not_validate(tmp_path: Path) -> None:
    record = as_json(observe_artifact(tmp_path, FILES["sketch"]))
    changes: list[dict[str, object]] = [{"verdict": "fine"}, {"outcome": None}, {"surprise": 1}, {"read": {}}]
    for change in changes:
        with pytest.raises(jsonschema.ValidationError):
            validator().validate({**record, **change})


# --- the schema file and the tables


def test_the_schema_file_is_the_generated_one() -> None:
    from auditd.evidence.schema import schema_text

    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def test_verdicts_come_worst_first() -> None:
    assert list(VERDICT_ORDER) == [
        "mismatch",
        "malformed",
        "truncated",
        "residue",
        "unsupported",
        "foreign",
        "unknown",
        "undetermined",
        "notice",
        "sound",
    ]
    assert set(VERDICT_MEANINGS) == {*VERDICT_ORDER, "in_progress"}
    assert worst_verdict([]) == "sound"
    assert worst_verdict(["notice", "truncated", "residue"]) == "truncated"
    assert worst_verdict(["undetermined", "unknown"]) == "unknown"
    assert worst_verdict(["in_progress", "mismatch"]) == "in_progress"


#: Severity and verdict of the codes as the contract has them.
CONTRACT = """
digest_mismatch silent_corruption: critical mismatch
size_mismatch: critical mismatch
header_malformed tensor_overlap extent_out_of_range: critical malformed
offset_misaligned: warning malformed
header_truncated tensor_bytes_missing: critical truncated
unowned_bytes residue_under_every_layout: critical residue
unstable_read: critical unknown
unsupported_version: warning unsupported
not_a_model: warning foreign
resource_limit: warning undetermined
size_unestablished: notice undetermined
read_failed read_abandoned path_unavailable identity_changed: warning unknown
template_changed weights_changed block_count_mismatch blocks_incomplete padding_nonzero name_alias: warning notice
header_changed layout_derived removed_type directory_order empty_tensor_offset zero_run: notice notice
alignment_not_multiple_of_8 alignment_not_power_of_two key_spelling key_too_long name_too_long: notice notice
nested_array bool_value vocabulary_mismatch width_mismatch token_id_out_of_range orphan leftover set_stale: notice notice
self_hash_differs big_endian name_not_utf8 unknown_type dimension_beyond_int64: notice notice
text_not_utf8 data_unaligned no_tensors architecture_absent touched json_white_space: info sound
unfinished: info in_progress
"""


def contract_rows() -> list[tuple[str, str, str]]:
    rows = []
    for line in CONTRACT.strip().splitlines():
        names, _, kinds = line.partition(": ")
        severity, verdict = kinds.split()
        rows += [(code, severity, verdict) for code in names.split()]
    return rows


@pytest.mark.parametrize(("code", "severity", "verdict"), contract_rows())
def test_a_finding_is_what_the_contract_says(code: str, severity: str, verdict: str) -> None:
    if code not in FINDINGS:
        pytest.skip("not a finding of a single file yet")
    assert (FINDINGS[code].severity, FINDINGS[code].verdict) == (severity, verdict)
    assert FINDINGS[code].meaning
    assert FINDINGS[code].advice


#: Codes that came after the contract, which allows them.
ADDED = {"empty_tensor_row", "json_number"}


def test_no_finding_without_a_contract() -> None:
    assert set(FINDINGS) == ({code for code, _, _ in contract_rows()} & set(FINDINGS)) | ADDED


def test_every_constraint_is_explained() -> None:
    assert set(CONSTRAINTS) == set(Constraint)
    assert SEVERITY_ORDER == ("info", "notice", "warning", "critical")


# --- the short form


def test_the_summary_keeps_the_counts_and_fits_a_line(tmp_path: Path) -> None:
    from auditd.evidence.summary import line, summary

    names = "".join(chr(0x4E00 + n) for n in range(200))
    tensors = [Tensor(f"{n}{names}", [8], offset=64 * n) for n in range(1500)]
    built = gguf([ARCHITECTURE, *[Entry(f"Bad Key {n}", "string", names * 9) for n in range(300)]], tensors)
    evidence = observe_artifact(tmp_path, built.data)
    short = summary(evidence)
    assert short.detail == "summary"
    assert short.evidence_id == evidence.evidence_id
    assert short.gguf is not None
    assert (short.gguf.metadata, short.gguf.tensors) == (None, None)
    assert (short.gguf.metadata_count, short.gguf.tensor_count) == (301, 1500)
    assert short.accounting is not None
    assert evidence.accounting is not None
    assert short.accounting.regions is None
    assert short.accounting.region_count == evidence.accounting.region_count == 1499
    assert short.accounting.residue == evidence.accounting.residue
    assert short.verdict == evidence.verdict
    validator().validate(as_json(short))
    written = line(evidence)
    assert len(written) <= 16 * 1024
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    told = json.loads(written)
    assert (told["evidence_id"], told["verdict"]) == (evidence.evidence_id, "residue")
    assert told["accounting"]["residue"] == evidence.accounting.residue
    assert told["artifact"]["size"] == len(built.data)


@pytest.mark.parametrize("letter", [b"\x01", b"\xff", b"\\", "\U0001f999".encode(), b"\x7f"])
def test_a_line_is_one_line_whatever_the_path(tmp_path: Path, letter: bytes) -> None:
    from auditd.evidence.summary import line

    here = os.fsencode(tmp_path)
    while len(here) + 260 < 4000:
        here += b"/" + letter * (250 // len(letter))
        os.mkdir(here)
    path = here + b"/" + letter * (200 // len(letter)) + b".gguf"
    key = letter * (60_000 // len(letter))
    tensors = [Tensor(letter * 300 + b"%d" % n, [8], offset=68 * n) for n in range(90)]
    data = gguf([Entry(key, "string", letter * 60_000), Entry(key + b"\0", "bool", 7)], tensors).data
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
    evidence = observation(path)
    check(evidence)
    written = line(evidence)
    assert len(written) <= 16 * 1024
    assert written.count(b"\n") == 1
    told = json.loads(written)
    assert told["evidence_id"] == evidence.evidence_id
    assert told["artifact"]["size"] == len(data)
    assert told["verdict"] == evidence.verdict
