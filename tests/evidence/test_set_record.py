"""The record of a set: verdict, findings and figures from facts, whoever found them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from auditd.model_sets.facts import LISTED, MissingMember, SetFacts, SetFigures, SetLimit, SetMember, SetRemark
from auditd.model_sets.members import MemberFacts, Split
from auditd.model_sets.record import SetEvidence, set_line, set_summary
from auditd.model_sets.schema import set_schema_text
from auditd.rules.set_findings import SET_FINDINGS, SET_VERDICT_MEANINGS, SET_VERDICT_ORDER, worst_set_verdict
from tests.support.records import evidence, gguf
from tests.support.sets import SCHEMA_FILE, composed, told

DIGEST = "sha256:" + "c" * 64
LAYER = SetMember(b"sha256:" + b"a" * 64, b"/models/blobs/sha256-" + b"a" * 64, 384)
OLLAMA = SetFacts(
    kind="ollama_model",
    name="gone:latest",
    directory=b"/models",
    source=b"/models/manifests/registry.ollama.ai/library/gone/latest",
    members=(LAYER,),
    missing=(MissingMember(DIGEST.encode(), 4_683_073_952, DIGEST),),
    declared=SetFigures(members=2, size=4_683_074_336),
    found=SetFigures(members=1, size=384),
)


def test_a_model_with_a_layer_that_is_not_there() -> None:
    record = composed(OLLAMA)
    assert record.verdict == "incomplete"
    (finding,) = record.findings
    assert (finding.code, finding.severity, finding.subject) == ("set_incomplete", "warning", "set.missing[0]")
    assert finding.message == f'1 of 2 members is missing: "{DIGEST}" (4,683,073,952 bytes)'
    assert (record.set.missing or [])[0].digest == DIGEST
    assert record.set.totals.declared.bytes == 4_683_074_336


def test_a_whole_model() -> None:
    record = composed(SetFacts("ollama_model", "good:latest", b"/models", (LAYER,), declared=SetFigures(members=1)))
    assert (record.verdict, record.findings) == ("sound", [])


def test_a_snapshot_with_links_to_nothing() -> None:
    missing = tuple(MissingMember(b"%d.safetensors" % at, dangling=True) for at in range(3))
    record = composed(SetFacts("hf_snapshot", "org/name@main", b"/hub", missing=missing))
    assert (record.verdict, record.findings[0].count) == ("incomplete", 3)
    assert told(record)["missing_target"].startswith("3 of 3 members are links that lead to nothing: ")


def test_links_to_nothing_and_files_that_are_not_there_are_two_findings() -> None:
    missing = (MissingMember(b"a"), MissingMember(b"b", dangling=True))
    record = composed(SetFacts("hf_snapshot", "n", b"/hub", missing=missing))
    assert [(one.code, one.subject, one.count) for one in record.findings] == [
        ("set_incomplete", "set.missing[0]", 1),
        ("missing_target", "set.missing[1]", 1),
    ]


def test_a_reason_of_the_store() -> None:
    remark = SetRemark("set_incomplete", "nothing was downloaded")
    record = composed(SetFacts("hf_snapshot", "org/name", b"/hub", remarks=(remark,)))
    assert (record.verdict, told(record)) == ("incomplete", {"set_incomplete": "nothing was downloaded"})


def test_in_progress_stands_alone() -> None:
    facts = SetFacts(
        "ollama_model",
        "m",
        b"/",
        missing=(MissingMember(b"a"),),
        stray=(b"x",),
        unfinished=(b"a-partial",),
        in_progress=True,
    )
    record = composed(facts)
    assert record.verdict == "in_progress"
    assert told(record) == {"set_unfinished": '0 of 1 members are here; under way: "a-partial"'}


def test_one_finding_a_code() -> None:
    remarks = tuple(SetRemark("set_contradictory", f"reason {at}", count=2) for at in range(5))
    record = composed(SetFacts("gguf_split", "m", b"/", remarks=remarks))
    (finding,) = record.findings
    assert (finding.message, finding.count) == ("reason 0; reason 1; reason 2", 10)


def test_the_worst_comes_first_and_severities_can_be_configured() -> None:
    facts = SetFacts("gguf_split", "m", b"/", missing=(MissingMember(b"a"),), stray=(b"x",), stale=(b"y",))
    assert [one.severity for one in composed(facts).findings] == ["warning", "notice", "notice"]
    record = composed(facts, set_stray="critical", set_incomplete="info")
    assert {one.code: one.severity for one in record.findings} == {
        "set_incomplete": "info",
        "set_stale": "notice",
        "set_stray": "critical",
    }
    assert record.verdict == "incomplete"


def test_integers_that_not_every_reader_takes() -> None:
    facts = SetFacts(
        "gguf_split",
        "m",
        b"/",
        declared=SetFigures(size=2**53),
        found=SetFigures(size=2**53 - 1),
        remarks=(SetRemark("set_total_differs", "so", expected=2**53, actual=2**53 - 1),),
    )
    record = composed(facts)
    assert (record.set.totals.declared.bytes, record.set.totals.found.bytes) == (None, 2**53 - 1)
    assert (record.findings[0].expected, record.findings[0].actual) == (str(2**53), 2**53 - 1)


def test_lists_are_cut_and_say_so() -> None:
    many = tuple(b"%d" % at for at in range(LISTED + 5))
    record = composed(SetFacts("gguf_split", "m", b"/", stray=many, missing_count=7, missing=(MissingMember(b"a"),)))
    assert (len(record.set.stray or []), record.set.stray_count) == (LISTED, LISTED + 5)
    assert record.set.missing_count == 7
    assert [limit.code for limit in record.limitations] == ["lists_cut"]
    assert "and 6 more" in told(record)["set_incomplete"]


@pytest.mark.parametrize("letter", [b"\x01", b"\xff", b"\\", "\U0001f999".encode(), b"\x7f", b'"'])
def test_a_line_is_one_line_whatever_the_names(letter: bytes) -> None:
    name = letter * (250 // len(letter))
    facts = SetFacts(
        "gguf_split",
        name.decode("utf-8", "backslashreplace"),
        b"/" + b"/".join([name] * 15),
        members=(SetMember(name, b"/" + name),) * 50,
        missing=(MissingMember(name),) * 50,
        stray=(name,) * 50,
        source=b"/" + b"/".join([name] * 15),
        remarks=tuple(SetRemark(code, "m" * 2000) for code in SET_FINDINGS if code != "set_unfinished"),
        limits=(SetLimit("member_not_inspected", "so", (name,) * 50, 50),),
    )
    record = composed(facts)
    told = json.loads(set_line(record))
    assert told["evidence_id"] == record.evidence_id
    assert (told["set"]["members"], told["set"]["missing_count"]) == (None, 50)


def test_a_summary_keeps_the_counts() -> None:
    short = set_summary(composed(OLLAMA))
    assert (short.detail, short.set.members, short.set.missing) == ("summary", None, None)
    assert (short.set.missing_count, short.set.totals.found.members) == (1, 1)


def test_a_record_that_was_changed_does_not_validate() -> None:
    record = json.loads(set_line(composed(OLLAMA)))
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    validator.validate(record)
    changes: list[dict[str, Any]] = [{"verdict": "fine"}, {"set": None}, {"surprise": 1}]
    for change in changes:
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**record, **change})


def test_the_schema_file_is_the_generated_one() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == set_schema_text()
    jsonschema.Draft202012Validator.check_schema(json.loads(set_schema_text()))


def test_the_table_of_findings() -> None:
    assert SET_VERDICT_ORDER == ("incomplete", "notice", "sound")
    assert set(SET_VERDICT_MEANINGS) == {*SET_VERDICT_ORDER, "in_progress"}
    contract = {"set_incomplete": ("warning", "incomplete"), "missing_target": ("warning", "incomplete")}
    contract["set_stale"] = ("notice", "notice")
    for code, (severity, verdict) in contract.items():
        assert (SET_FINDINGS[code].severity, SET_FINDINGS[code].verdict) == (severity, verdict)
    assert worst_set_verdict([]) == "sound"
    assert worst_set_verdict(["set_stale", "set_incomplete"]) == "incomplete"
    assert worst_set_verdict(["set_incomplete", "set_unfinished"]) == "in_progress"


# --- facts of a member


def rows(**values: Any) -> list[Any]:
    from auditd.evidence.record import MetadataRow

    return [
        MetadataRow(index=at, key=key.replace("_", "."), type=kind, value=value)
        for at, (key, (kind, value)) in enumerate(values.items())
    ]


def member(metadata: list[Any], **changes: Any) -> MemberFacts:
    return MemberFacts.of(evidence(gguf=gguf(metadata=metadata, metadata_count=len(metadata), **changes)))


def test_the_keys_of_a_split() -> None:
    facts = member(rows(split_no=("u16", 1), split_count=("u16", 3), split_tensors_count=("i32", 5)))
    assert facts.split == Split(1, 3, 5)
    assert facts.architecture is False
    assert not facts.split.alone


@pytest.mark.parametrize(
    ("kind", "value", "right"),
    [
        ("u64", "3", 3),
        ("i8", -1, None),
        ("string", "3", None),
        ("bool", True, None),
        ("f32", 3.0, None),
        ("u64", str(2**64 - 1), None),
        ("array", None, None),
    ],
)
def test_a_count_of_another_type(kind: str, value: Any, right: int | None) -> None:
    assert member(rows(split_count=(kind, value))).split == Split(None, right, None)


def test_a_summary_says_nothing_of_the_split() -> None:
    short = MemberFacts.of(evidence(gguf=gguf(metadata=None, tensors=None, metadata_count=3)))
    assert (short.split, short.architecture, short.names, short.tensors) == (None, None, None, 1)
    cut = MemberFacts.of(evidence(gguf=gguf(metadata=rows(split_no=("u16", 0)), metadata_count=3)))
    assert cut.split is None


def test_a_record_without_a_header() -> None:
    facts = MemberFacts.of(evidence(gguf=None, accounting=None, verdict="foreign"))
    assert facts.foreign
    assert (facts.split, facts.names, facts.tensors) == (None, None, None)


def test_a_set_evidence_is_frozen() -> None:
    record = composed(OLLAMA)
    with pytest.raises(AttributeError):
        record.verdict = "sound"  # type: ignore[misc]
    assert isinstance(record, SetEvidence)
