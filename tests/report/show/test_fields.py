"""``show fields``: every field where it was written, with its own bytes, and never a byte twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from auditd.errors import InspectionStopped, UsageError
from auditd.evidence.observation import Observation
from auditd.header_dump import codec as dump
from auditd.inspection.reread import prefixes
from auditd.report.columns import width
from auditd.report.show.field_list import fields
from auditd.report.show.fields import Choice, FieldsSheet, lines, sheet
from auditd.report.style import plain
from tests.builders import ARCHITECTURE, Array, Entry, Tensor, gguf, safetensors, simple, sketch, st_entry
from tests.models import hero
from tests.support.looks import looked_at, twin_at
from tests.test_sketch import FIELDS

#: The small known file as it was published: offset, length, name.
PUBLISHED = [
    (0, 4, "magic: the four bytes GGUF"),
    (4, 4, "version, a u32"),
    (8, 8, "how many tensors, a u64"),
    (16, 8, "how many metadata entries, a u64"),
    (24, 46, "metadata: general.architecture (string)"),
    (70, 55, "metadata: general.name (string)"),
    (125, 33, "metadata: general.alignment (u32)"),
    (158, 34, "metadata: counts.block_count (u32)"),
    (192, 76, "metadata: counts.tokens (array)"),
    (268, 59, "tensor entry: blk.0.counts.weight"),
    (327, 57, "padding up to the declared alignment of 64"),
    (384, 24, "tensor data: blk.0.counts.weight, 6 F32 weights"),
]

#: The first twelve bytes of each, as published.
PUBLISHED_BYTES = [
    "47 47 55 46",
    "03 00 00 00",
    "01 00 00 00 00 00 00 00",
    "05 00 00 00 00 00 00 00",
    "14 00 00 00 00 00 00 00 67 65 6e 65",
    "0c 00 00 00 00 00 00 00 67 65 6e 65",
    "11 00 00 00 00 00 00 00 67 65 6e 65",
    "12 00 00 00 00 00 00 00 63 6f 75 6e",
    "0d 00 00 00 00 00 00 00 63 6f 75 6e",
    "13 00 00 00 00 00 00 00 62 6c 6b 2e",
    "00 00 00 00 00 00 00 00 00 00 00 00",
    "00 00 00 3f 00 00 c0 3f 00 00 20 40",
]


def shown(observation: Observation, **choice: object) -> FieldsSheet:
    return sheet(observation, Choice(**choice), lambda spans: prefixes(observation, spans))  # type: ignore[arg-type]


def text(shown_sheet: FieldsSheet, columns: int = 80) -> list[str]:
    return list(lines(shown_sheet, columns, plain))


@pytest.fixture
def small(tmp_path: Path) -> Observation:
    return looked_at(tmp_path, sketch().data)


def test_the_small_known_file_as_published(small: Observation) -> None:
    rows = shown(small).fields
    assert [(row.offset, row.length, row.name) for row in rows] == PUBLISHED
    assert [row.first_bytes for row in rows] == PUBLISHED_BYTES


def test_the_published_lines_where_there_is_room(small: Observation) -> None:
    told = [line.split() for line in text(shown(small), 120)]
    for (offset, length, name), raw in zip(PUBLISHED, PUBLISHED_BYTES, strict=True):
        more = ["..."] if length > 12 else []
        assert [str(offset), str(length), *raw.split(), *more, *name.split()] in told
    assert any(line.startswith("12 fields, 408 bytes of 408") for line in text(shown(small)))


def test_each_field_inside_the_entries(small: Observation) -> None:
    found = [(row.field, row.offset, (row.offset or 0) + (row.length or 0)) for row in shown(small, fine=True).fields]
    assert found[:-2] == FIELDS
    assert found[-2:] == [("header.padding", 327, 384), ("tensors[0].data", 384, 408)]


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_lines_fit(small: Observation, columns: int) -> None:
    for fine in (False, True):
        assert all(width(line) <= max(columns, 60) for line in text(shown(small, fine=fine), columns))


def test_a_range_and_a_tensor_and_a_limit(small: Observation) -> None:
    rows = shown(small, within=(70, 126)).fields
    assert [row.offset for row in rows] == [70, 125]
    assert [row.offset for row in shown(small, within=(69, 70)).fields] == [24]
    assert [row.offset for row in shown(small, tensor=b"blk.0.counts.weight").fields] == [268, 384]
    limited = shown(small, limit=3)
    assert (len(limited.fields), limited.matching, limited.bytes) == (3, 12, 408)
    assert "9 of them not shown" in " ".join(text(limited))


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"tensor": b"counts.weight"}, "blk.0.counts.weight"),
        ({"tensor": b"\x1b[2J"}, "there is no tensor"),
        ({"limit": 0}, "--limit"),
        ({"within": (5, 5)}, "--range"),
    ],
)
def test_what_is_not_there(small: Observation, choice: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        shown(small, **choice)
    assert "\x1b" not in str(caught.value)


def test_a_large_file_is_bounded(tmp_path: Path) -> None:
    observation = twin_at(tmp_path, hero())
    found = shown(observation, limit=50)
    # four fields in front, the entries, the tensor entries, one padding, the tensors
    assert found.matching == 4 + 34 + 339 + 1 + 339
    assert found.bytes == hero().file_size
    assert len(text(found)) < 60
    found = shown(observation, tensor=b"output_norm.weight")
    assert [(row.offset, row.length) for row in found.fields][1] == (4_683_059_616, 14_336)


def test_from_a_dump_all_but_the_bytes(small: Observation) -> None:
    back = dump.decode(dump.encode(small))
    dumped, read = sheet(back), shown(small)
    assert [(row.offset, row.length, row.name) for row in dumped.fields] == PUBLISHED
    assert {row.first_bytes for row in dumped.fields} == {None}
    assert dumped.first_bytes_from is None
    assert (dumped.matching, dumped.bytes) == (read.matching, read.bytes)
    assert "first bytes" not in " ".join(text(dumped))


BROKEN = {
    "cut in an entry": sketch().data[:200],
    "cut in the head": sketch().data[:10],
    "cut in the magic": b"GG",
    "cut in the data": sketch().data[:390],
    "version 9": gguf(version=9).data,
    "foreign": b"hello",
    "empty": b"",
    "gap, trail, overlap": simple(
        Tensor("a", [8]), Tensor("b", [8], offset=96), Tensor("c", [8], offset=112), data_length=300
    ).data,
    "unknown size": simple(Tensor("a", [8], 144, 0), data_length=64).data,
    "nested": gguf([Entry("n", "array", Array("array", [Array("string", ["x"] * 9)] * 2))], [Tensor("w", [4])]).data,
    "odd alignment": gguf([Entry("general.alignment", "u32", 0)], [Tensor("w", [4])]).data,
    "st": safetensors({"w": st_entry("F32", [1], 4, 8)}, bytes(12)),
    "st cut": safetensors("{}", length=100),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("fine", [False, True])
def test_every_byte_once_whatever_is_wrong(tmp_path: Path, name: str, fine: bool) -> None:
    data = BROKEN[name]
    observation = looked_at(tmp_path, data)
    at = 0
    for field in fields(observation, fine=fine):
        if field.begin >= len(data):
            assert field.kind == "missing"
            continue
        assert field.begin == at
        at = field.end
    assert at == len(data)
    assert text(shown(observation, fine=fine))


@pytest.mark.parametrize("columns", [40, 80])
def test_the_fields_of_one_tensor_have_their_names_whole(tmp_path: Path, columns: int) -> None:
    name = "blk.0." + "attention_output_of_a_long_name." * 3 + "weight"
    observation = looked_at(tmp_path, simple(Tensor(name, [8]), *[Tensor(f"t{at}", [8]) for at in range(20)]).data)
    page = text(shown(observation, tensor=name.encode()), columns)
    assert "".join("".join(page).split()).count(name) == 2
    assert not any("…" in line for line in page)
    assert all(width(line) <= columns for line in page)


def test_a_pulse_ends_it(tmp_path: Path) -> None:
    def stop() -> None:
        raise InspectionStopped("enough")

    data = safetensors({"w": st_entry("F32", [1], 0, 4)}, bytes(4))
    for observation in (looked_at(tmp_path, sketch().data), looked_at(tmp_path, data, "m.safetensors")):
        with pytest.raises(InspectionStopped, match="enough"):
            sheet(observation, Choice(), None, stop)


def test_where_it_stopped_is_said(tmp_path: Path) -> None:
    data = bytearray(sketch().data)
    data[24] = 64
    found = shown(looked_at(tmp_path, bytes(data)))
    assert found.ending is not None
    assert (found.ending.field, found.ending.offset) == ("metadata[1].key.length", 101)
    assert "101" in " ".join(text(found))


def test_bytes_past_the_end_are_missing(tmp_path: Path) -> None:
    found = shown(looked_at(tmp_path, sketch().data[:390]))
    assert [(row.kind, row.offset, row.length) for row in found.fields[-2:]] == [
        ("tensor", 384, 6),
        ("missing", 390, 18),
    ]
    assert found.fields[-1].first_bytes is None
    assert found.bytes == 390


def test_names_do_not_reach_the_terminal_as_they_are(tmp_path: Path) -> None:
    data = gguf([ARCHITECTURE, Entry(b"k\x1b[2J\xff", "u8", 1)], [Tensor("\u202ew", [8])], data_length=32).data
    found = shown(looked_at(tmp_path, data))
    assert not set("".join(text(found, 200))) & set("\x1b\u202e")
    (key,) = [row for row in found.fields if row.label_base64]
    assert key.label_base64 == "axtbMkr/"


def test_a_file_that_changed_is_not_mixed_with_its_header(small: Observation) -> None:
    from auditd.inspection.reread import ReadAgainError

    with open(small.path, "ab") as file:
        file.write(b"x")
    with pytest.raises(ReadAgainError, match="has changed"):
        shown(small)
    with pytest.raises(ReadAgainError, match="cannot be opened"):
        shown(replace(small, path=small.path + b".gone"))
