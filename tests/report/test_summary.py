"""One file for a person."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from auditd.evidence.findings import FINDINGS
from auditd.evidence.record import Cover, Coverage, Evidence, Expected, Limitation, Region, SelectedLayout
from auditd.report.columns import width
from auditd.report.summary import summary
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
        "header      aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
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
    assert FINDINGS["unowned_bytes"].advice in " ".join(line.strip() for line in lines)


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
    return replace(record, artifact=replace(record.artifact, expected=[expected]))
