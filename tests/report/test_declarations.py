"""The rows of a header, one line each."""

from __future__ import annotations

from auditd.evidence.record import ArrayPreview, GgufTensorRow, MetadataRow
from auditd.report.declarations import declarations, shown_value
from tests.support.lines import harmless
from tests.support.records import evidence, gguf

HOSTILE = "\x1b[2J\n\u202e"


def _array(preview: list[bool | int | float | str | ArrayPreview], *, complete: bool) -> MetadataRow:
    return MetadataRow(
        index=1,
        key="list",
        type="array",
        value=None,
        element_type="i32",
        count=2000,
        preview=preview,
        preview_complete=complete,
    )


def test_metadata_and_tensors() -> None:
    tensor = GgufTensorRow(
        index=0,
        name="a",
        type_id=12,
        type="Q4_K",
        shape=["256", "2"],
        elements="512",
        offset=0,
        file_offset=64,
        byte_length=None,
        storage_validation="unknown",
    )
    scalar = MetadataRow(index=0, key="flag", type="bool", value=True)
    record = evidence(gguf=gguf(metadata=[scalar, _array([1, 2], complete=False)], tensors=[tensor]))
    assert list(declarations(record)) == [
        "",
        "metadata",
        "  0 flag (bool) = true",
        "  1 list (2,000 i32) = [1, 2, …]",
        "",
        "tensors",
        "  0 a (Q4_K) 256 x 2, ? bytes at 64",
    ]


def test_nothing_declared_nothing_said() -> None:
    assert list(declarations(evidence())) == []
    assert list(declarations(evidence(gguf=None))) == []


def test_hostile_rows_stay_on_their_line() -> None:
    inner = ArrayPreview(element_type="string", count=1, preview=[HOSTILE], preview_complete=True)
    scalar = MetadataRow(index=0, key=HOSTILE, type="string", value=HOSTILE)
    record = evidence(gguf=gguf(metadata=[scalar, _array([HOSTILE, inner], complete=True)]))
    assert all(map(harmless, declarations(record)))


def test_values() -> None:
    inner = ArrayPreview(element_type="i8", count=3, preview=[1, 2], preview_complete=False)
    assert shown_value(inner) == "[1, 2, …]"
    assert [shown_value(value) for value in (False, 7, 1.5, 'a"b', "-0")] == ["false", "7", "1.5", '"a\\"b"', '"-0"']
