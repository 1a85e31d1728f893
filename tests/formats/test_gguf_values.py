"""What stands in a GGUF header comes back as it was written, in both byte orders, with what is notable said."""

from __future__ import annotations

import base64
import hashlib
import math
from pathlib import Path
from typing import Any

import pytest

from auditd.evidence.record import Evidence, GgufTensorRow, MetadataRow
from tests.builders import (
    ARCHITECTURE,
    F16,
    F32,
    PLAIN,
    Q4_K,
    Q8_0,
    Array,
    Entry,
    Tensor,
    codes,
    finding,
    gguf,
    observe_artifact,
    round_up,
    simple,
)


def rows(evidence: Evidence) -> list[MetadataRow]:
    assert evidence.gguf is not None
    assert evidence.gguf.metadata is not None
    return evidence.gguf.metadata


def tensor_rows(evidence: Evidence) -> list[GgufTensorRow]:
    assert evidence.gguf is not None
    assert evidence.gguf.tensors is not None
    return evidence.gguf.tensors


#: kind, what is written, what the record holds. 64-bit integers are decimal strings; f32 the exact double.
SCALARS: list[tuple[str, Any, Any]] = [
    ("u8", 0, 0),
    ("u8", 255, 255),
    ("i8", -128, -128),
    ("u16", 65_535, 65_535),
    ("i16", -32_768, -32_768),
    ("u32", 2**32 - 1, 2**32 - 1),
    ("i32", -(2**31), -(2**31)),
    ("u64", 0, "0"),
    ("u64", 2**53, "9007199254740992"),
    ("u64", 2**64 - 1, "18446744073709551615"),
    ("i64", -1, "-1"),
    ("i64", -(2**63), "-9223372036854775808"),
    ("f32", 1.5, 1.5),
    ("f32", 1e-6, 9.999999974752427e-07),
    ("f64", 0.1, 0.1),
    ("f64", 5e-324, 5e-324),
    ("f32", math.inf, "+Infinity"),
    ("f32", -math.inf, "-Infinity"),
    ("f32", math.nan, "NaN"),
    ("f32", -0.0, "-0"),
    ("f64", math.inf, "+Infinity"),
    ("f64", -math.inf, "-Infinity"),
    ("f64", math.nan, "NaN"),
    ("f64", -0.0, "-0"),
    ("f32", 0.0, 0.0),
    ("bool", 0, False),
    ("bool", 1, True),
    ("string", "", ""),
    ("string", "naïve 模型 🦙", "naïve 模型 🦙"),
]


@pytest.mark.parametrize("endian", ["<", ">"])
def test_every_scalar(tmp_path: Path, endian: str) -> None:
    entries = [Entry(f"k.v{index}", kind, value) for index, (kind, value, _) in enumerate(SCALARS)]
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, *entries], endian=endian).data)
    assert evidence.outcome == "complete"
    for row, (kind, _, expected) in zip(rows(evidence)[1:], SCALARS, strict=True):
        assert row.type == kind
        assert row.value == expected
        assert type(row.value) is type(expected)
        assert (row.element_type, row.count, row.preview, row.preview_complete) == (None, None, None, None)
    assert evidence.gguf is not None
    assert evidence.gguf.byte_order == ("little" if endian == "<" else "big")


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("kind", [*PLAIN, "string"])
@pytest.mark.parametrize("count", [0, 1, 8, 9, 1000])
def test_arrays_of_every_kind(tmp_path: Path, endian: str, kind: str, count: int) -> None:
    if kind == "string":
        items: list[Any] = [f"item {index}" for index in range(count)]
        shown = items[:8]
    elif kind == "bool":
        items = [index % 2 for index in range(count)]
        shown = [bool(item) for item in items[:8]]
    elif kind in {"f32", "f64"}:
        items = [index + 0.5 for index in range(count)]
        shown = items[:8]
    else:
        items = [index % 100 for index in range(count)]
        shown = [str(item) for item in items[:8]] if kind in {"u64", "i64"} else items[:8]
    built = gguf([ARCHITECTURE, Entry("a.b", "array", Array(kind, items)), Entry("c.d", "u8", 7)], endian=endian)
    evidence = observe_artifact(tmp_path, built.data)
    row = rows(evidence)[1]
    assert (row.type, row.element_type, row.count, row.value) == ("array", kind, count, None)
    assert row.preview == shown
    assert row.preview_complete is (count <= 8)
    assert rows(evidence)[2].value == 7
    assert evidence.read.header_length == built.header_end
    assert codes(evidence) == {"no_tensors"} | ({"big_endian"} if endian == ">" else set())


def test_values_inside_arrays_are_written_like_scalars(tmp_path: Path) -> None:
    entries = [
        Entry("a.f", "array", Array("f64", [math.nan, math.inf, -math.inf, -0.0, 1.25])),
        Entry("a.u", "array", Array("u64", [2**64 - 1, 1])),
    ]
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, *entries]).data)
    assert rows(evidence)[1].preview == ["NaN", "+Infinity", "-Infinity", "-0", 1.25]
    assert rows(evidence)[2].preview == ["18446744073709551615", "1"]


@pytest.mark.parametrize("endian", ["<", ">"])
def test_nested_arrays(tmp_path: Path, endian: str) -> None:
    value = Array("array", [Array("i32", [1, 2, 3]), Array("string", ["a"]), Array("u8", range(20))])
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, Entry("m.m", "array", value)], endian=endian).data)
    row = rows(evidence)[1]
    assert (row.element_type, row.count, row.preview_complete) == ("array", 3, True)
    assert row.preview is not None
    inner = [(item.element_type, item.count, item.preview, item.preview_complete) for item in row.preview]  # type: ignore[union-attr]
    assert inner == [
        ("i32", 3, [1, 2, 3], True),
        ("string", 1, ["a"], True),
        ("u8", 20, list(range(8)), False),
    ]
    assert "nested_array" in codes(evidence)
    assert evidence.verdict == "notice"


def test_bools_that_are_neither_keep_their_byte(tmp_path: Path) -> None:
    entries = [Entry("a.b", "bool", 2), Entry("a.c", "array", Array("bool", [0, 1, 255]))]
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, *entries]).data)
    assert rows(evidence)[1].value == 2
    assert type(rows(evidence)[1].value) is int
    preview = rows(evidence)[2].preview
    assert preview == [False, True, 255]
    assert [type(item) for item in preview or []] == [bool, bool, int]
    assert finding(evidence, "bool_value").count == 2
    assert evidence.verdict == "notice"


def test_a_bool_far_behind_in_an_array_is_seen(tmp_path: Path) -> None:
    entry = Entry("a.c", "array", Array("bool", [1] * 5000 + [3] + [0] * 5000))
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, entry]).data)
    assert finding(evidence, "bool_value").count == 1


@pytest.mark.parametrize("endian", ["<", ">"])
def test_tensors_in_both_byte_orders(tmp_path: Path, endian: str) -> None:
    tensors = [Tensor("a", [32, 2], Q8_0), Tensor("b", [5], F16), Tensor("c", [2, 3, 4, 5])]
    built = simple(*tensors, endian=endian)
    evidence = observe_artifact(tmp_path, built.data)
    assert [(r.index, r.name, r.type_id, r.type, r.shape, r.elements) for r in tensor_rows(evidence)] == [
        (0, "a", 8, "Q8_0", ["32", "2"], "64"),
        (1, "b", 1, "F16", ["5"], "5"),
        (2, "c", 0, "F32", ["2", "3", "4", "5"], "120"),
    ]
    assert [(r.offset, r.file_offset, r.byte_length) for r in tensor_rows(evidence)] == [
        (0, built.data_offset, 68),
        (96, built.data_offset + 96, 10),
        (128, built.data_offset + 128, 480),
    ]
    assert evidence.accounting is not None
    assert evidence.accounting.tensor_bytes == 558
    assert evidence.accounting.alignment_padding == 28 + 22
    assert evidence.accounting.residue == 0
    assert evidence.verdict == ("sound" if endian == "<" else "notice")
    assert ("big_endian" in codes(evidence)) is (endian == ">")


def test_version_2_reads_like_version_3(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("a", [8]), version=2).data)
    assert evidence.verdict == "sound"
    assert evidence.gguf is not None
    assert evidence.gguf.version == 2


# --- text that is not exact


def test_text_that_is_not_utf8_keeps_its_bytes(tmp_path: Path) -> None:
    raw = b"caf\xe9 \xff"
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, Entry("a.b", "string", raw)]).data)
    row = rows(evidence)[1]
    assert row.value_base64 is not None
    assert base64.b64decode(row.value_base64) == raw
    assert isinstance(row.value, str)
    assert row.value.startswith("caf")
    assert finding(evidence, "text_not_utf8").severity == "info"
    assert evidence.verdict == "sound"


def test_keys_and_names_that_are_not_utf8(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE, Entry(b"a.\xff", "u8", 1)], [Tensor(b"w\xfe", [8])])
    evidence = observe_artifact(tmp_path, built.data)
    assert rows(evidence)[1].key_base64 == base64.b64encode(b"a.\xff").decode()
    assert tensor_rows(evidence)[0].name_base64 == base64.b64encode(b"w\xfe").decode()
    hit = finding(evidence, "name_not_utf8")
    assert (hit.severity, hit.count) == ("notice", 2)
    assert evidence.verdict == "notice"


def test_pieces_of_a_vocabulary_that_are_not_utf8(tmp_path: Path) -> None:
    items = [b"ok", b"\x80", b"fine", b"\xc3\x28"] + [b"x"] * 10 + [b"\xed\xa0\x80"]
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, Entry("t.t", "array", Array("string", items))]).data)
    row = rows(evidence)[1]
    assert row.preview_base64 is not None
    assert [value and base64.b64decode(value) for value in row.preview_base64] == [
        None,
        b"\x80",
        None,
        b"\xc3\x28",
        None,
        None,
        None,
        None,
    ]
    assert finding(evidence, "text_not_utf8").count == 3
    assert evidence.verdict == "sound"


def test_a_utf8_sequence_split_over_two_strings_is_no_utf8(tmp_path: Path) -> None:
    items = [b"a\xc3", b"\xa9b", "é".encode()]
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, Entry("t.t", "array", Array("string", items))]).data)
    assert finding(evidence, "text_not_utf8").count == 2


def test_control_characters_stay_in_the_record_and_out_of_messages(tmp_path: Path) -> None:
    name = "w\x1b[31m\n\u202e"
    evidence = observe_artifact(tmp_path, simple(Tensor(name, [8], offset=32, length=32)).data)
    assert tensor_rows(evidence)[0].name == name
    for item in evidence.findings:
        assert not set(item.message) & {"\x1b", "\n", "\u202e"}


# --- spellings and lengths


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "foo",
        "a.b",
        "a_b.c_d",
        "gpt-oss.context_length",
        "general.base_model.0.name",
        "0.1",
        "x-y_z.9",
        "k" * 65_535,
    ],
)
def test_keys_that_are_spelled_as_usual(tmp_path: Path, key: str) -> None:
    assert observe_artifact(tmp_path, gguf([ARCHITECTURE, Entry(key)]).data).verdict == "sound"


@pytest.mark.parametrize(
    "key",
    ["", ".a.b", "a.b.", "a..b", "-a.b", "_a.b", "a/b", "A.b", "a b", "café.x", "a.\x00b", "a.b\n", "a--b", "a._b"],
)
def test_keys_that_are_not(tmp_path: Path, key: str) -> None:
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, Entry(key)]).data)
    assert evidence.outcome == "complete"
    assert evidence.verdict == "notice"
    hit = finding(evidence, "key_spelling")
    assert (hit.subject, hit.severity) == ("metadata[1].key", "notice")
    assert rows(evidence)[1].key == key


def test_a_key_that_is_too_long(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, Entry("k" * 65_536)]).data)
    assert codes(evidence) == {"key_too_long", "no_tensors"}
    assert evidence.verdict == "notice"


@pytest.mark.parametrize(("length", "too_long"), [(0, False), (1, False), (63, False), (64, True), (300, True)])
def test_the_length_of_a_name(tmp_path: Path, length: int, too_long: bool) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("n" * length, [8])).data)
    assert evidence.outcome == "complete"
    assert ("name_too_long" in codes(evidence)) is too_long
    assert evidence.verdict == ("notice" if too_long else "sound")


@pytest.mark.parametrize(
    "pair",
    [
        ("general.alignment\0evil", "general.alignment"),
        ("general.alignment", "general.alignment\0evil"),
        ("tokenizer.chat_template\0a", "tokenizer.chat_template\0b"),
    ],
)
def test_a_key_that_hides_another(tmp_path: Path, pair: tuple[str, str]) -> None:
    entries = [Entry(key, "u32", 64) if key == "general.alignment" else Entry(key, "u32", 32) for key in pair]
    alignment = 64 if "general.alignment" in pair else 32
    built = gguf([ARCHITECTURE, *entries], [Tensor("w", [16])], alignment=alignment)
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.outcome == "complete"
    assert evidence.verdict == "notice"
    hit = finding(evidence, "name_alias")
    assert (hit.severity, hit.subject) == ("warning", "metadata[2].key")
    # the exact key counts, whatever a C string would be
    assert evidence.gguf is not None
    assert evidence.gguf.alignment == alignment
    assert evidence.accounting is not None
    assert evidence.accounting.data_offset == built.data_offset


def test_a_tensor_name_that_hides_another(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [8]), Tensor("w\0x", [8])).data)
    assert finding(evidence, "name_alias").subject == "tensors[1].name"
    assert evidence.verdict == "notice"


def test_a_nul_alone_is_no_alias(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w\0x", [8]), Tensor("v\0x", [8])).data)
    assert "name_alias" not in codes(evidence)


# --- offsets, order, emptiness


def test_an_offset_that_is_no_multiple(tmp_path: Path) -> None:
    built = simple(Tensor("a", [8], offset=0), Tensor("b", [8], offset=36))
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.outcome == "complete"
    assert evidence.verdict == "malformed"
    hit = finding(evidence, "offset_misaligned")
    assert (hit.severity, hit.subject, hit.offset) == ("warning", "tensors[1].offset", built.at("tensors[1].offset"))
    assert hit.actual == 36


def test_tensors_in_another_order(tmp_path: Path) -> None:
    evidence = observe_artifact(
        tmp_path, simple(Tensor("a", [8], offset=32), Tensor("b", [8], offset=0), data_length=64).data
    )
    assert codes(evidence) == {"directory_order"}
    assert evidence.verdict == "notice"
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0
    assert evidence.accounting.contiguous is not None
    assert (evidence.accounting.contiguous.yes, evidence.accounting.contiguous.no) == (2, 0)
    assert finding(evidence, "directory_order").subject == "tensors[1].offset"


@pytest.mark.parametrize(
    ("offset", "expected"), [(32, set()), (0, {"empty_tensor_offset"}), (10**9, {"empty_tensor_offset"})]
)
def test_an_empty_tensor_is_expected_at_the_running_sum(tmp_path: Path, offset: int, expected: set[str]) -> None:
    built = simple(
        Tensor("a", [7]), Tensor("e", [0, 3], offset=offset, length=0), Tensor("b", [8], offset=32), data_length=64
    )
    evidence = observe_artifact(tmp_path, built.data)
    assert codes(evidence) == expected
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0
    assert evidence.accounting.missing == 0
    assert evidence.accounting.contiguous is not None
    assert (evidence.accounting.contiguous.yes, evidence.accounting.contiguous.no) == (2, 0)


@pytest.mark.parametrize(
    ("dims", "type_id", "verdict"),
    [
        ([64, 0], Q4_K, "notice"),
        ([256, 0], Q4_K, "sound"),
        ([0, 3], Q4_K, "sound"),
        ([3, 0], 16, "notice"),
        ([3, 0], F32, "sound"),
    ],
)
def test_an_empty_tensor_with_broken_rows(tmp_path: Path, dims: list[int], type_id: int, verdict: str) -> None:
    """ggml asks for whole blocks of today before it counts elements."""
    built = simple(Tensor("e", dims, type_id, 0, 0), Tensor("w", [8], F32, 0), data=bytes(32))
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.verdict == verdict
    assert ("empty_tensor_row" in codes(evidence)) is (verdict == "notice")
    if verdict == "notice":
        assert finding(evidence, "empty_tensor_row").offset == built.at("tensors[0].dims")


def test_an_empty_tensor_of_an_unknown_type(tmp_path: Path) -> None:
    built = simple(Tensor("a", [8]), Tensor("e", [0], 999, offset=32, length=0))
    evidence = observe_artifact(tmp_path, built.data)
    assert codes(evidence) == {"unknown_type"}
    assert evidence.verdict == "notice"
    assert tensor_rows(evidence)[1].byte_length == 0
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0


@pytest.mark.parametrize("dim", [2**63, 2**64 - 1])
def test_a_dimension_that_no_signed_integer_holds(tmp_path: Path, dim: int) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("a", [0, dim], length=0), data_length=32).data)
    assert "dimension_beyond_int64" in codes(evidence)
    assert tensor_rows(evidence)[0].shape == ["0", str(dim)]


@pytest.mark.parametrize("type_id", [31, 32, 33, 37, 38])
def test_removed_types_are_said_and_summed(tmp_path: Path, type_id: int) -> None:
    """Blocks of 32 in 18 bytes before their removal."""
    evidence = observe_artifact(tmp_path, simple(Tensor("a", [64], type_id, length=36)).data)
    assert "removed_type" in codes(evidence)
    assert evidence.verdict == "notice"
    assert tensor_rows(evidence)[0].byte_length is None
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0
    assert evidence.accounting.layout is not None
    assert evidence.accounting.layout.name == "ggml-removed"


@pytest.mark.parametrize("type_id", [4, 5, 36])
def test_removed_types_without_a_size(tmp_path: Path, type_id: int) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("a", [64], type_id, length=100)).data)
    assert "removed_type" in codes(evidence)
    assert evidence.verdict == "undetermined"
    assert evidence.accounting is not None
    assert evidence.accounting.residue is None


def test_no_architecture(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, gguf([Entry("a.b")], [Tensor("w", [8])]).data)
    assert codes(evidence) == {"architecture_absent"}
    assert finding(evidence, "architecture_absent").severity == "info"
    assert evidence.verdict == "sound"


def test_chat_templates_are_told_by_digest(tmp_path: Path) -> None:
    entries = [
        Entry("tokenizer.chat_template", "string", "{{ a }}"),
        Entry("tokenizer.chat_template.tool_use", "string", "{{ b }}"),
        Entry("tokenizer.chat_templates", "array", Array("string", ["tool_use"])),
    ]
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, *entries]).data)
    assert evidence.gguf is not None
    assert {(item.name, item.sha256) for item in evidence.gguf.chat_templates} == {
        ("default", hashlib.sha256(b"{{ a }}").hexdigest()),
        ("tool_use", hashlib.sha256(b"{{ b }}").hexdigest()),
    }


# --- places past what every JSON reader holds


@pytest.mark.parametrize("offset", [2**53, 2**63, 2**64 - 32])
def test_an_offset_past_exact_integers(tmp_path: Path, offset: int) -> None:
    built = simple(Tensor("a", [8]), Tensor("b", [8], offset=offset), data_length=32)
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.outcome == "complete"
    assert evidence.verdict == "malformed"
    hit = finding(evidence, "extent_out_of_range")
    assert hit.severity == "critical"
    assert str(hit.actual).isdigit()
    assert isinstance(hit.actual, str)
    row = tensor_rows(evidence)[1]
    assert row.file_offset is None
    assert row.byte_length == 32
    account = evidence.accounting
    assert account is not None
    assert account.data_offset == built.data_offset
    assert account.tensor_bytes == 64
    assert (account.missing, account.residue, account.tensors_gone) == (32, -32, 1)
    assert evidence.limitations


def test_a_length_past_exact_integers(tmp_path: Path) -> None:
    built = simple(Tensor("a", [2**30, 2**30]), data_length=32)
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.verdict == "malformed"
    assert "extent_out_of_range" in codes(evidence)
    row = tensor_rows(evidence)[0]
    assert (row.elements, row.byte_length) == (str(2**60), None)
    account = evidence.accounting
    assert account is not None
    assert account.data_offset == built.data_offset
    assert (account.tensor_bytes, account.missing, account.residue) == (None, None, None)
    assert (account.surplus, account.overlap) == (0, 0)


def test_a_long_sum_of_exact_lengths(tmp_path: Path) -> None:
    """Two tensors of 2^52 bytes: each is exact, the sum is one too many."""
    built = simple(Tensor("a", [2**50], offset=0), Tensor("b", [2**50], offset=2**52), data_length=32)
    evidence = observe_artifact(tmp_path, built.data)
    account = evidence.accounting
    assert account is not None
    assert account.tensor_bytes is None
    assert [row.byte_length for row in tensor_rows(evidence)] == [2**52, 2**52]


# --- layout of the padding


@pytest.mark.parametrize("alignment", [8, 24, 32, 64, 4096])
def test_padding_between_tensors(tmp_path: Path, alignment: int) -> None:
    built = gguf(
        [ARCHITECTURE, Entry("general.alignment", "u32", alignment)],
        [Tensor("a", [7], F16), Tensor("b", [9], F16), Tensor("c", [1], F16)],
        alignment=alignment,
    )
    evidence = observe_artifact(tmp_path, built.data)
    account = evidence.accounting
    assert account is not None
    assert account.data_offset == built.data_offset
    assert account.tensor_bytes == 34
    assert account.alignment_padding == round_up(14, alignment) - 14 + round_up(18, alignment) - 18
    assert account.residue == 0
