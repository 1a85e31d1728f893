"""One file for a person."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from auditd.evidence.record import (
    Cover,
    Coverage,
    Evidence,
    Expected,
    GgufTensorRow,
    Limitation,
    MetadataRow,
    Region,
    SelectedLayout,
)
from auditd.report.columns import width
from auditd.report.summary import short_head, summary
from auditd.rules.findings import FINDINGS
from tests.support.lines import harmless
from tests.support.records import accounting, error, evidence, finding, gguf


def test_a_sound_file_adds_up() -> None:
    assert summary(evidence(), 80) == [
        "sound: everything that was looked at is as it should be",
        "",
        "file        /srv/models/a.gguf",
        "size        96 B (96 bytes)",
        "",
        "format      GGUF 3, little-endian, alignment 32",
        "declares    1 tensor, 0 metadata entries",
        "header      57 bytes, sha256",
        "            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "",
        "bytes       header                   57",
        "            padding before the data   7",
        "            tensors                  32",
        "            padding between tensors   0",
        "            owned                    96",
        "            file size                96",
        "            residue                   0",
        "            = surplus 0 - missing 0 - overlap 0",
        "types       F32 1 (32 B)",
        "layout      ggml-current: every released layout gives these sizes",
        "",
        "looked at   header, metadata, tensors, storage sizes, ranges, padding, identity",
        "but         digest: not requested",
    ]


def test_a_finding_says_what_where_and_what_to_do() -> None:
    found = finding(
        "unowned_bytes",
        "96 bytes belong to nothing",
        constraint="range_gap",
        subject="accounting.regions[0]",
        offset=4096,
        expected=0,
        actual="96",
        count=3,
    )
    lines = summary(evidence(verdict="residue", findings=[found]), 80)
    assert lines[lines.index("critical: unowned_bytes (range_gap)") + 1 :][:3] == [
        "  96 bytes belong to nothing",
        "  byte 4,096, 3 times in all",
        "  allowed 0, found 96",
    ]
    assert "-> " + FINDINGS["unowned_bytes"].advice in " ".join(line.strip() for line in lines)


def test_regions_are_shown_and_the_rest_counted() -> None:
    regions = [
        Region(kind="padding_nonzero", begin=7, length=1, after=None, before=0, content="nonzero"),
        *(Region(kind="gap", begin=b, length=2, after=b, before=b + 1, content="unread") for b in range(20)),
    ]
    lines = summary(evidence(accounting=accounting(regions=regions, region_count=2000)), 80)
    assert "regions     padding nonzero: 1 byte at 7, before tensor 0, nonzero" in lines
    assert "            gap: 2 bytes at 0, after tensor 0, before tensor 1, unread" in lines
    assert "            and 1,992 more" in lines


def test_unknown_figures_are_question_marks() -> None:
    blank = accounting(tensor_bytes=None, residue=None, surplus=None, alignment_padding=None, layout=None)
    lines = summary(evidence(verdict="undetermined", accounting=blank), 80)
    assert "            residue                   ?" in lines
    assert "            owned                     ?" in lines


def test_layouts_that_fit_as_well_are_named() -> None:
    chosen = SelectedLayout(name="ggml-current", basis="default")
    account = accounting(layout=chosen, consistent_with=["ggml-current", "b1500"])
    assert "            the sum comes out under b1500, too" in summary(evidence(accounting=account), 80)
    many = accounting(layout=chosen, consistent_with=["ggml-current", *(f"b{number}" for number in range(10))])
    assert "            the sum comes out under 10 older or other layouts, too" in summary(
        evidence(accounting=many), 80
    )


def test_sizes_of_very_old_builds_are_one_line_where_all_comes_out() -> None:
    chosen = SelectedLayout(name="ggml-current", basis="default")
    old = [Limitation(code="ambiguous_size", message="Q4_K has had two", subjects=["tensors[0]"], count=12)]
    sound = evidence(accounting=accounting(layout=chosen, consistent_with=["ggml-current"]), limitations=old)
    lines = summary(sound, 80)
    assert "sizes       12 tensors would have another size in some builds of before 2024-06" in lines
    assert not any("Q4_K has had two" in line or "storage sizes" in line for line in lines)
    doubtful = evidence(verdict="residue", accounting=accounting(layout=chosen, residue=7, surplus=7), limitations=old)
    assert any("Q4_K has had two" in line for line in summary(doubtful, 80))


def test_what_could_not_be_looked_at() -> None:
    lost = evidence(verdict="unknown", outcome="unavailable", gguf=None, accounting=None, error=error())
    assert "unavailable no such file" in summary(lost, 80)


def test_what_was_not_looked_at_for_one_reason_is_said_once() -> None:
    nothing = Coverage(**dict.fromkeys(Coverage.__struct_fields__, Cover(status="none", reason="no such file")))
    lines = summary(evidence(coverage=nothing), 80)
    assert lines[-3:] == [
        "",
        "but         header, metadata, tensors, storage sizes, ranges, padding, digest,",
        "            identity: not at all (no such file)",
    ]


SHA256 = "ab" * 32
IN_OLLAMA = "/srv/ollama/blobs/sha256-" + SHA256


def _in_store(path: str = IN_OLLAMA, store: str = "ollama", **changes: Any) -> Evidence:
    """The record of a file that its store promises a digest for."""
    record = evidence(path, **changes)
    expected = [Expected(algorithm="sha256", value=SHA256, source="blob name")]
    names = ["good:latest", path, "/srv/link"]
    return replace(record, artifact=replace(record.artifact, store=store, expected=expected, names=names))


def test_a_published_digest_that_was_not_compared_says_so_and_what_does() -> None:
    lines = summary(_in_store(), 100)
    at = lines.index(
        "published   sha256 (blob name), not compared: inspect --hash expected reads all of the file and does"
    )
    assert lines[at + 1] == "            " + SHA256
    known = lines.index("known as    good:latest")
    assert lines[known + 1] == "            /srv/link"


@pytest.mark.parametrize(
    ("actual", "words"), [(SHA256, "and the content has it"), ("c" * 64, "and the content has another")]
)
def test_a_published_digest_that_was_compared(actual: str, words: str) -> None:
    record = _in_store()
    record = replace(record, read=replace(record.read, scope="full"), artifact=replace(record.artifact, sha256=actual))
    assert f"published   sha256 (blob name), {words}" in summary(record, 80)


def test_a_published_digest_that_a_full_reading_did_not_reach() -> None:
    record = _in_store()
    assert "published   sha256 (blob name), not compared" in summary(
        replace(record, read=replace(record.read, scope="full")), 80
    )


@pytest.mark.parametrize(
    ("path", "store", "words"),
    [
        (IN_OLLAMA, "ollama", "only this layer was looked at; model-auditd audit /srv/ollama looks at every layer"),
        ("/hub/models--a--b/blobs/" + SHA256, "huggingface", "audit /hub/models--a--b looks at every file"),
    ],
)
def test_a_part_of_a_store_says_how_all_of_it_is_looked_at(path: str, store: str, words: str) -> None:
    assert any(line.startswith("part of ") and line.endswith(words) for line in summary(_in_store(path, store), 200))
    assert not any(line.startswith("part of") for line in summary(evidence(), 200))


def _split(number: int | None, count: int) -> Evidence:
    rows = [("split.no", number), ("split.count", count)]
    metadata = [
        MetadataRow(index=index, key=key, type="u16", value=value)
        for index, (key, value) in enumerate(rows)
        if value is not None
    ]
    return evidence("/srv/m-00001-of-00009.gguf", gguf=gguf(metadata=metadata, metadata_count=len(metadata)))


def test_a_file_of_a_set_says_which_one_it_is() -> None:
    words = "model-auditd audit /srv judges the set"
    assert f"part of     a set, number 2 of 3; {words}" in summary(_split(1, 3), 80)
    assert f"part of     a set, one of 3; {words}" in summary(_split(None, 3), 80)
    # The header says that it stands alone, and it knows better than the name.
    assert not any(line.startswith("part of") for line in summary(_split(0, 1), 80))
    named = evidence("m-00002-of-00004.safetensors", gguf=None)
    assert "part of     a set, number 2 of 4; model-auditd audit . judges the set" in summary(named, 80)


def test_one_sentence_is_said_once() -> None:
    message = "1 byte is left in the file"
    cover = dict.fromkeys(Coverage.__struct_fields__, Cover(status="none", reason=message))
    cover["metadata"] = Cover(status="partial", reason=f"1 of 3: {message}")
    record = evidence(
        outcome="refused",
        coverage=Coverage(**cover),
        findings=[finding("header_truncated", message)],
        error=error(message=message),
    )
    text = "\n".join(summary(record, 200))
    assert text.count(message) == 1
    assert "outcome     refused" in text
    assert "metadata: in part (1 of 3: see above)" in text
    assert "not at all (see above)" in text


@pytest.mark.parametrize(
    ("code", "changes", "words"),
    [
        ("tensor_bytes_missing", {"expected": 160, "actual": 120}, "needs 160, has 120"),
        ("header_truncated", {"constraint": "count_past_end", "expected": 0, "actual": 1}, "room for 0, declared 1"),
        ("unowned_bytes", {"expected": 0, "actual": 7}, "allowed 0, found 7"),
        ("header_changed", {"expected": "aa", "actual": "bb"}, "before aa, now bb"),
        ("digest_mismatch", {"expected": "aa", "actual": "bb"}, "published aa, found bb"),
    ],
)
def test_figures_are_called_what_they_are(code: str, changes: dict[str, Any], words: str) -> None:
    assert f"  {words}" in summary(evidence(findings=[finding(code, **changes)]), 80)


def test_neighbours_of_a_region_have_names_where_the_record_knows_them() -> None:
    row = GgufTensorRow(
        index=0,
        name="blk.0.\x1b",
        type_id=0,
        type="F32",
        shape=["8"],
        elements="8",
        offset=0,
        file_offset=64,
        byte_length=32,
        storage_validation="consistent",
    )
    region = Region(kind="gap", begin=96, length=1, after=0, before=1, content="unread")
    record = evidence(gguf=gguf(tensors=[row]), accounting=accounting(regions=[region], region_count=1))
    assert 'regions     gap: 1 byte at 96, after tensor 0 ("blk.0.\\x1b"), before tensor 1, unread' in summary(
        record, 120
    )


def test_a_short_head_has_the_verdict_and_the_codes() -> None:
    found = [finding("unowned_bytes"), finding("no_tensors")]
    assert short_head(evidence(verdict="residue", findings=found)) == [
        "residue: bytes in the file that belong to nothing",
        "critical: unowned_bytes",
    ]


HOSTILE = "\x1b]0;pwned\x07\n\u202e" + "長" * 200


@pytest.mark.parametrize("columns", [40, 80])
def test_nothing_from_outside_leaves_its_place(columns: int) -> None:
    record = evidence(
        f"/srv/{HOSTILE}.gguf",
        gguf=gguf(headline={HOSTILE: HOSTILE, "general.name": "a\\b"}),
        limitations=[Limitation(code="x", message=HOSTILE, subjects=[], count=2)],
        findings=[finding("header_malformed", HOSTILE, subject=HOSTILE, actual=HOSTILE)],
        error=error(message=HOSTILE),
    )
    expected = Expected(algorithm=HOSTILE, value=HOSTILE, source=HOSTILE)
    lines = summary(record, columns) + summary(_with_expected(record, expected), columns)
    assert all(harmless(line) for line in lines)
    assert all(width(line) <= max(columns, 60) for line in lines)


def _with_expected(record: Evidence, expected: Expected) -> Evidence:
    names = [HOSTILE, record.artifact.path]
    return replace(record, artifact=replace(record.artifact, expected=[expected], names=names, store="ollama"))
