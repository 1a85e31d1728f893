"""Every way in which a safetensors header is refused, and everything that it may hold."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from auditd.evidence.record import Evidence
from tests.builders import codes, finding, look_at_sparse, observe_artifact, safetensors, st_entry

HEADER_BOUND = 100_000_000


def see(directory: Path, header: dict[str, Any] | bytes | str, data: bytes = b"", **options: Any) -> Evidence:
    return observe_artifact(directory, safetensors(header, data, **options), "model.safetensors")


def refused(evidence: Evidence, verdict: str, constraint: str, code: str = "header_malformed") -> None:
    assert evidence.outcome == "refused"
    assert evidence.verdict == verdict
    assert evidence.error is not None
    assert evidence.error.constraint == constraint
    assert (evidence.error.code, evidence.error.category) == ("file_format_rejected", "content")
    hit = finding(evidence, code, constraint)
    assert hit.severity == "critical"
    assert hit.message
    assert "\n" not in hit.message


def unread(evidence: Evidence, size: int, header: int) -> None:
    """A refused JSON keeps 8 + N and the data start, and shows no row."""
    assert evidence.read.header_length == header
    assert evidence.safetensors is None or evidence.safetensors.tensors is None
    account = evidence.accounting
    assert account is not None
    assert account.file_size == size
    assert account.data_offset == header
    assert (account.tensor_bytes, account.residue) == (None, None)


# --- the prefix


@pytest.mark.parametrize("length", [11, 4096, HEADER_BOUND])
def test_a_header_past_the_end(tmp_path: Path, length: int) -> None:
    evidence = see(tmp_path, b"{         ", length=length)
    refused(evidence, "truncated", "length_past_end", "header_truncated")
    assert evidence.error is not None
    assert (evidence.error.subject, evidence.error.offset) == ("safetensors.header_length", 0)
    assert evidence.accounting is not None
    assert evidence.accounting.residue is None
    assert evidence.read.header_sha256 is None


@pytest.mark.parametrize("length", [HEADER_BOUND + 1, 2**40, 2**63, 2**64 - 1])
def test_a_header_over_its_bound_and_past_the_end(tmp_path: Path, length: int) -> None:
    evidence = see(tmp_path, b'{"a":{}}  ', length=length)
    refused(evidence, "malformed", "header_length")
    assert evidence.error is not None
    assert (evidence.error.subject, evidence.error.offset) == ("safetensors.header_length", 0)
    hit = finding(evidence, "header_malformed")
    assert hit.actual == (length if length < 2**53 else str(length))


def test_a_header_over_its_bound_with_the_bytes_there(tmp_path: Path) -> None:
    head = safetensors(b'{"a"', length=HEADER_BOUND + 1)
    evidence = look_at_sparse(tmp_path, head, HEADER_BOUND + 9, "model.safetensors")
    assert (evidence.outcome, evidence.verdict) == ("refused", "undetermined")
    assert evidence.error is not None
    assert (evidence.error.code, evidence.error.constraint) == ("resource_limit", "header_length")
    assert evidence.read.bytes_read < 1024 * 1024


def test_a_prefix_in_the_wrong_byte_order(tmp_path: Path) -> None:
    header = json.dumps({"a": st_entry("F32", [4], 0, 16)}).encode()
    data = struct.pack(">Q", len(header)) + header + bytes(16)
    evidence = observe_artifact(tmp_path, data, "model.safetensors")
    assert evidence.verdict == "malformed"
    assert evidence.error is not None
    assert evidence.error.subject == "safetensors.header_length"


@pytest.mark.parametrize(
    "data",
    [b"\x00" * 8, b"\x00" * 100, b"{}", b"", b"\x05\0\0\0", b"\x04\0\0\0\0\0\0\0nope", b"version https://git-lfs"],
)
def test_what_is_no_frame(tmp_path: Path, data: bytes) -> None:
    evidence = observe_artifact(tmp_path, data, "model.safetensors")
    assert (evidence.outcome, evidence.verdict) == ("refused", "foreign")
    assert evidence.artifact.format is None
    hit = finding(evidence, "not_a_model")
    assert (hit.subject, hit.offset, hit.constraint) == ("header.magic", 0, "magic")
    assert isinstance(hit.actual, str)


def test_eight_bytes_alone_are_a_cut_file(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, struct.pack("<Q", 100), "model.safetensors")
    refused(evidence, "truncated", "length_past_end", "header_truncated")


# --- JSON


GOOD = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'


@pytest.mark.parametrize(
    "header",
    [
        "{",
        "{" + GOOD,
        "{" + GOOD + ",}",
        "{" + GOOD + "}x",
        "{" + GOOD + "}{}",
        "{" + GOOD + "}\0\0",
        "{" + GOOD + "}\x0b",
        "{,}",
        "{" + GOOD[:-1] + ',"x":NaN}}',
        "{" + GOOD[:-1] + ',"x":Infinity}}',
        "{" + GOOD[:-1] + ',"x":-Infinity}}',
        "{" + GOOD[:-1] + ',"x":01}}',
        "{" + GOOD[:-1] + ',"x":1.}}',
        "{" + GOOD[:-1] + ',"x":+1}}',
        "{" + GOOD[:-1] + ',"x":.5}}',
        "{" + GOOD[:-1] + ',"x":tru}}',
        "{" + GOOD[:-1] + ',"x":[1,]}}',
        "{" + GOOD[:-1] + ',"x":"\t"}}',
        "{" + GOOD[:-1] + ',"x":"\\x41"}}',
        "{" + GOOD[:-1] + ',"x":"\\u12g4"}}',
        "{'a':1}",
        "{/* */" + GOOD + "}",
        "{a:1}",
        "{" + GOOD.replace(":", "=", 1) + "}",
    ],
)
def test_json_that_is_not_strict(tmp_path: Path, header: str) -> None:
    evidence = see(tmp_path, header, b"x")
    refused(evidence, "malformed", "json")
    raw = safetensors(header, b"x")
    unread(evidence, len(raw), len(raw) - 1)
    assert evidence.read.header_sha256 == hashlib.sha256(raw[:-1]).hexdigest()


def test_a_root_that_is_no_object(tmp_path: Path) -> None:
    # a frame because of the brace among its first bytes... which an array alone has not
    evidence = see(tmp_path, "  {}  1", b"")
    refused(evidence, "malformed", "json")


@pytest.mark.parametrize(
    "header",
    [
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
        '{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        '{"a":{"dtype":"U8","d\\u0074ype":"U8","shape":[1],"data_offsets":[0,1]}}',
        '{"__metadata__":{"k":"v","k":"v"}}',
        '{"__metadata__":{},"__metadata__":{}}',
        '{"a":{"x":{"y":1,"y":1},"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        '{"a":{"x":[[{"y":1,"y":1}]],"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        '{"a":{"x":1,"dtype":"U8","x":1,"shape":[1],"data_offsets":[0,1]}}',
    ],
)
def test_a_name_twice_in_an_object(tmp_path: Path, header: str) -> None:
    evidence = see(tmp_path, header, b"xy")
    refused(evidence, "malformed", "json_duplicate")
    unread(evidence, 8 + len(header) + 2, 8 + len(header))


def test_a_duplicate_is_told_by_the_second_quote(tmp_path: Path) -> None:
    header = '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
    error = see(tmp_path, header, b"xy").error
    assert error is not None
    assert error.offset == 8 + header.rindex('"a"')


@pytest.mark.parametrize(
    "header",
    [
        b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":"\xc0\x80"}}',
        b'{"__metadata__":{"k":"\xed\xa0\x80"}}',
        b"{} \xff",
        b'{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        b'{"__metadata__":{"k":"\\udc00"}}',
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":["\\ud83d"]}}',
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":"\\ud83dx"}}',
    ],
)
def test_text_that_is_no_text(tmp_path: Path, header: bytes) -> None:
    refused(see(tmp_path, header, b"x"), "malformed", "json_encoding")


def test_a_pair_of_surrogates_is_a_character(tmp_path: Path) -> None:
    evidence = see(tmp_path, '{"\\ud83e\\udd99":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
    assert evidence.verdict == "sound"
    assert evidence.safetensors is not None
    assert evidence.safetensors.tensors is not None
    assert evidence.safetensors.tensors[0].name == "🦙"


def test_encoding_is_judged_before_syntax(tmp_path: Path) -> None:
    refused(see(tmp_path, b'{"a":nope,"\xff":1}'), "malformed", "json_encoding")


def ignored(levels: int) -> str:
    """An entry (two objects deep) with an ignored field of ``levels`` arrays."""
    return "{" + GOOD[:-1] + ',"x":' + "[" * levels + "]" * levels + "}}"


@pytest.mark.parametrize("levels", [1, 29, 30])
def test_nesting_within_the_bound(tmp_path: Path, levels: int) -> None:
    assert see(tmp_path, ignored(levels), b"x").verdict == "sound"


@pytest.mark.parametrize("levels", [31, 32, 1000, 200_000])
def test_nesting_over_the_bound(tmp_path: Path, levels: int) -> None:
    evidence = see(tmp_path, ignored(levels), b"x")
    refused(evidence, "malformed", "nesting")


def test_nested_objects_over_the_bound(tmp_path: Path) -> None:
    header = '{"a":' * 5000 + "1" + "}" * 5000
    refused(see(tmp_path, header), "malformed", "nesting")


# --- entries


def entry(**changes: str | None) -> str:
    fields: dict[str, str | None] = {"dtype": '"U8"', "shape": "[4]", "data_offsets": "[0,4]", **changes}
    inside = ",".join(f'"{name}":{value}' for name, value in fields.items() if value is not None)
    return '{"w":{' + inside + "}}"


@pytest.mark.parametrize(
    "header",
    [
        entry(dtype=None),
        entry(shape=None),
        entry(data_offsets=None),
        entry(dtype="5"),
        entry(dtype="null"),
        entry(dtype='["U8"]'),
        entry(shape="4"),
        entry(shape="null"),
        entry(shape='"4"'),
        entry(shape="[-4]"),
        entry(shape="[-0]"),
        entry(shape="[4.0]"),
        entry(shape="[4e0]"),
        entry(shape='["4"]'),
        entry(shape="[true]"),
        entry(shape="[null]"),
        entry(shape="[[4]]"),
        entry(shape="[18446744073709551616,0]"),
        entry(data_offsets="[0]"),
        entry(data_offsets="[0,4,4]"),
        entry(data_offsets="[]"),
        entry(data_offsets="null"),
        entry(data_offsets="[0.0,4.0]"),
        entry(data_offsets="[0,4e0]"),
        entry(data_offsets="[-4,0]"),
        entry(data_offsets='["0","4"]'),
        entry(data_offsets="[false,4]"),
        entry(data_offsets="[0,18446744073709551616]"),
        '{"w":5}',
        '{"w":null}',
        '{"w":"U8"}',
        '{"w":["U8",[4],[0,4]]}',
        '{"w":{}}',
    ],
)
def test_entries_with_the_wrong_fields(tmp_path: Path, header: str) -> None:
    evidence = see(tmp_path, header, bytes(4))
    refused(evidence, "malformed", "entry_fields")
    unread(evidence, 8 + len(header) + 4, 8 + len(header))
    assert evidence.error is not None
    quotes = {8 + position for position, letter in enumerate(header) if letter == '"'}
    assert evidence.error.offset in quotes


@pytest.mark.parametrize(
    "metadata", ["1", '"x"', "[]", "true", '{"k":1}', '{"k":null}', '{"k":{}}', '{"k":["v"]}', '{"a":"b","k":false}']
)
def test_metadata_that_is_no_object_of_strings(tmp_path: Path, metadata: str) -> None:
    header = '{"__metadata__":' + metadata + "," + GOOD + "}"
    evidence = see(tmp_path, header, b"x")
    refused(evidence, "malformed", "metadata_values")
    assert evidence.error is not None
    bad_member = header.find('"k"')
    assert evidence.error.offset in {9, 8 + bad_member}


def test_a_tensor_under_the_reserved_name(tmp_path: Path) -> None:
    header = {"__metadata__": st_entry("F32", [2], 0, 8)}
    evidence = see(tmp_path, header, bytes(8))
    refused(evidence, "malformed", "metadata_values")
    assert evidence.error is not None
    assert evidence.error.offset == 8 + json.dumps(header, separators=(",", ":")).index('"shape"')


@pytest.mark.parametrize(
    "shape", [[2**32, 2**32], [2**63, 2], [2**63, 4, 0], [2**64 - 1, 2**64 - 1], [2, 2**63, 0], [2**62, 2, 2, 0]]
)
def test_a_product_that_overflows_in_order(tmp_path: Path, shape: list[int]) -> None:
    evidence = see(tmp_path, {"w": st_entry("U8", shape, 0, 0)})
    refused(evidence, "malformed", "shape_overflow")
    assert evidence.error is not None
    assert evidence.error.offset == 9


@pytest.mark.parametrize("shape", [[0, 2**32, 2**32], [0, 2**64 - 1, 2], [2**63, 0, 2**63], [0, 2**53 + 1]])
def test_an_earlier_zero_helps(tmp_path: Path, shape: list[int]) -> None:
    evidence = see(tmp_path, {"w": st_entry("F32", shape, 0, 0)})
    assert evidence.outcome == "complete"
    assert evidence.safetensors is not None
    assert evidence.safetensors.tensors is not None
    assert evidence.safetensors.tensors[0].shape == [str(dim) for dim in shape]


def test_a_byte_length_that_overflows(tmp_path: Path) -> None:
    evidence = see(tmp_path, {"w": st_entry("F64", [2**62], 0, 16)}, bytes(16))
    assert (evidence.outcome, evidence.verdict) == ("refused", "malformed")
    assert evidence.error is not None
    assert evidence.error.constraint in {"range_size", "shape_overflow"}


# --- ranges: they stand, so the rows are there


def rows_of(evidence: Evidence) -> Any:
    assert evidence.safetensors is not None
    assert evidence.safetensors.tensors is not None
    return evidence.safetensors.tensors


def test_a_range_that_ends_before_it_begins(tmp_path: Path) -> None:
    evidence = see(tmp_path, {"x": st_entry("F32", [4], 16, 0)}, bytes(16))
    refused(evidence, "malformed", "range_order")
    assert evidence.error is not None
    assert evidence.error.offset == 9


@pytest.mark.parametrize(
    ("dtype", "shape", "size"),
    [
        ("F32", [3], 8),
        ("F32", [2], 9),
        ("U8", [], 0),
        ("F32", [0], 4),
        ("BF16", [2, 2], 4),
        ("F4", [9], 5),
        ("F4", [9], 4),
        ("F4", [1], 1),
        ("F6_E2M3", [3], 3),
        ("F6_E3M2", [3], 2),
        ("C64", [1], 4),
    ],
)
def test_a_shape_that_contradicts_the_range(tmp_path: Path, dtype: str, shape: list[int], size: int) -> None:
    evidence = see(tmp_path, {"w": st_entry(dtype, shape, 0, size)}, bytes(size))
    refused(evidence, "malformed", "range_size")
    assert evidence.error is not None
    assert evidence.error.offset == 9
    assert rows_of(evidence)[0].storage_validation == "contradicted"


def test_a_gap(tmp_path: Path) -> None:
    header = {"a": st_entry("U8", [16], 0, 16), "b": st_entry("U8", [16], 80, 96)}
    evidence = see(tmp_path, header, bytes(96))
    refused(evidence, "residue", "range_gap", "unowned_bytes")
    start = evidence.read.header_length
    assert start is not None
    assert evidence.accounting is not None
    assert (evidence.accounting.surplus, evidence.accounting.residue) == (64, 64)
    assert evidence.accounting.regions is not None
    (region,) = evidence.accounting.regions
    assert (region.kind, region.begin, region.length, region.after, region.before) == ("gap", start + 16, 64, 0, 1)
    hit = finding(evidence, "unowned_bytes")
    assert (hit.subject, hit.offset) == ("accounting.regions[0]", start + 16)
    assert len(rows_of(evidence)) == 2


def test_the_first_tensor_not_at_zero(tmp_path: Path) -> None:
    evidence = see(tmp_path, {"a": st_entry("U8", [4], 4, 8)}, bytes(8))
    refused(evidence, "residue", "range_gap", "unowned_bytes")
    assert finding(evidence, "unowned_bytes").offset == evidence.read.header_length


@pytest.mark.parametrize("extra", [1, 6, 4096])
def test_trailing_bytes(tmp_path: Path, extra: int) -> None:
    evidence = see(tmp_path, {"a": st_entry("U8", [4], 0, 4)}, bytes(4 + extra))
    refused(evidence, "residue", "range_trailing", "unowned_bytes")
    assert evidence.accounting is not None
    assert evidence.accounting.residue == extra
    assert finding(evidence, "unowned_bytes").offset == (evidence.read.header_length or 0) + 4


def test_no_tensor_and_data(tmp_path: Path) -> None:
    evidence = see(tmp_path, {}, bytes(3))
    refused(evidence, "residue", "range_trailing", "unowned_bytes")


def test_a_range_past_the_data(tmp_path: Path) -> None:
    header = {"a": st_entry("U8", [16], 0, 16), "b": st_entry("U8", [8], 16, 24)}
    evidence = see(tmp_path, header, bytes(14))
    refused(evidence, "truncated", "range_past_end", "tensor_bytes_missing")
    account = evidence.accounting
    assert account is not None
    assert (account.missing, account.residue) == (10, -10)
    assert (account.tensors_cut, account.tensors_gone) == (1, 1)
    assert finding(evidence, "tensor_bytes_missing").offset == (evidence.read.header_length or 0) + 14


def test_an_overlap(tmp_path: Path) -> None:
    header = {"a": st_entry("U8", [16], 0, 16), "b": st_entry("U8", [16], 8, 24)}
    evidence = see(tmp_path, header, bytes(24))
    refused(evidence, "malformed", "range_overlap", "tensor_overlap")
    account = evidence.accounting
    assert account is not None
    assert (account.overlap, account.residue) == (8, -8)


def test_the_same_range_for_many(tmp_path: Path) -> None:
    header = {f"w{index}": st_entry("U8", [4], 0, 4) for index in range(10)}
    evidence = see(tmp_path, header, bytes(4))
    refused(evidence, "malformed", "range_overlap", "tensor_overlap")
    assert evidence.accounting is not None
    assert evidence.accounting.overlap == 36


@pytest.mark.parametrize("place", [1, 15, 17, 4096])
def test_an_empty_tensor_inside_another_or_past_the_data(tmp_path: Path, place: int) -> None:
    header = {"a": st_entry("U8", [16], 0, 16), "e": st_entry("U8", [0], place, place)}
    evidence = see(tmp_path, header, bytes(16))
    assert (evidence.outcome, evidence.verdict) == ("refused", "malformed")
    assert evidence.error is not None
    assert evidence.error.constraint in {"range_overlap", "range_past_end"}
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0


@pytest.mark.parametrize("places", [(0,), (16,), (0, 16), (0, 0, 8, 16, 16)])
def test_empty_tensors_at_an_end_or_between(tmp_path: Path, places: tuple[int, ...]) -> None:
    header = {"a": st_entry("U8", [8], 0, 8), "b": st_entry("U8", [8], 8, 16)}
    header |= {f"e{index}": st_entry("F64", [0, 3], place, place) for index, place in enumerate(places)}
    evidence = see(tmp_path, header, bytes(16))
    assert evidence.outcome == "complete"
    assert evidence.verdict == "sound"


@pytest.mark.parametrize("end", [2**53, 2**53 + 1, 2**63, 2**64 - 1])
def test_ranges_past_exact_integers(tmp_path: Path, end: int) -> None:
    evidence = see(tmp_path, {"w": st_entry("U8", [end], 0, end)}, bytes(16))
    assert evidence.outcome == "refused"
    assert evidence.verdict in {"malformed", "truncated"}
    assert "extent_out_of_range" in codes(evidence)
    account = evidence.accounting
    assert account is not None
    assert account.file_size == (evidence.read.header_length or 0) + 16
    # each figure is judged for itself
    assert account.tensor_bytes is None
    short = end - 16
    expected = (short, -short) if short < 2**53 else (None, None)
    assert (account.missing, account.residue) == expected


# --- what may be


DTYPES = [
    ("BOOL", 8),
    ("U8", 8),
    ("I8", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("I16", 16),
    ("U16", 16),
    ("F16", 16),
    ("BF16", 16),
    ("I32", 32),
    ("U32", 32),
    ("F32", 32),
    ("I64", 64),
    ("U64", 64),
    ("F64", 64),
    ("C64", 64),
    ("F4", 4),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
]


@pytest.mark.parametrize(("dtype", "bits"), DTYPES)
def test_every_dtype(tmp_path: Path, dtype: str, bits: int) -> None:
    size = 3 * 8 * bits // 8
    evidence = see(tmp_path, {"w": st_entry(dtype, [3, 8], 0, size)}, bytes(size))
    assert (evidence.outcome, evidence.verdict) == ("complete", "sound")
    (row,) = rows_of(evidence)
    assert (row.dtype, row.shape, row.elements, row.data_offsets) == (dtype, ["3", "8"], "24", [0, size])
    assert (row.byte_length, row.storage_validation) == (size, "consistent")
    assert row.file_offset == evidence.read.header_length
    account = evidence.accounting
    assert account is not None
    assert [(t.type, t.type_id, t.tensors, t.elements, t.bytes) for t in account.by_type] == [
        (dtype, None, 1, "24", size)
    ]
    assert (account.tensor_bytes, account.alignment_padding, account.residue) == (size, 0, 0)
    assert account.parameters == "24"


@pytest.mark.parametrize("dtype", ["Q4_0", "F128", "", "f32", "F32 "])
def test_an_unknown_dtype_takes_its_range(tmp_path: Path, dtype: str) -> None:
    evidence = see(tmp_path, {"w": st_entry(dtype, [3], 0, 20)}, bytes(20))
    assert evidence.outcome == "complete"
    assert evidence.verdict not in {"sound", "malformed"}  # the reference reader refuses it
    (row,) = rows_of(evidence)
    assert (row.byte_length, row.storage_validation) == (20, "unknown")
    assert evidence.limitations
    assert evidence.coverage.storage_sizes.status == "partial"
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0


def test_rows_stand_in_name_order(tmp_path: Path) -> None:
    names = ["z", "a", "Z", "é", "\U0001f999", "\uffee", "", "a.10", "a.9"]
    header = {name: st_entry("U8", [1], index, index + 1) for index, name in enumerate(names)}
    evidence = see(tmp_path, header, bytes(len(names)))
    assert evidence.verdict == "sound"
    assert [row.name for row in rows_of(evidence)] == sorted(names)
    assert [row.index for row in rows_of(evidence)] == list(range(len(names)))


@pytest.mark.parametrize(
    "header",
    [
        {"a": st_entry("F32", [], 0, 4)},
        {"": st_entry("F32", [1], 0, 4)},
        {"a\x1b[2J\n": st_entry("F32", [1], 0, 4)},
        {"__metadata__": None, "a": st_entry("F32", [1], 0, 4)},
        {"__metadata__": {}, "a": st_entry("F32", [1], 0, 4)},
        {"a": st_entry("F32", [1] * 1000, 0, 4)},
        {"__proto__": st_entry("F32", [1], 0, 4)},
        {"a": {**st_entry("F32", [1], 0, 4), "extra": {"deep": [1, 2.5, None, "x", True, 10**300]}}},
    ],
)
def test_what_is_accepted(tmp_path: Path, header: dict[str, Any]) -> None:
    evidence = see(tmp_path, header, bytes(4))
    assert evidence.outcome == "complete"
    assert evidence.verdict == "sound"
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0


@pytest.mark.parametrize("header", ["{}", "{}   ", '{"__metadata__":{"format":"pt"}}'])
def test_no_tensors(tmp_path: Path, header: str) -> None:
    evidence = see(tmp_path, header)
    assert evidence.verdict == "sound"
    assert "no_tensors" in codes(evidence)


def test_metadata_comes_back_exactly(tmp_path: Path) -> None:
    metadata = {"format": "pt", "é": '\u0000\n"', "": "", "n": "1"}
    evidence = see(tmp_path, {"__metadata__": metadata, "a": st_entry("U8", [1], 0, 1)}, b"x")
    assert evidence.safetensors is not None
    assert evidence.safetensors.metadata == metadata


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("", "", False),
        ("", "   ", False),
        (" ", "", True),
        ("\n\t ", "", True),
        ("", "\n", True),
        ("", " \t\r\n ", True),
    ],
)
def test_white_space_around_the_object(tmp_path: Path, before: str, after: str, said: bool) -> None:
    evidence = see(tmp_path, before + "{" + GOOD + "}" + after, b"x")
    assert evidence.verdict == "sound"
    assert ("json_white_space" in codes(evidence)) is said


def test_white_space_inside_is_ordinary(tmp_path: Path) -> None:
    text = json.dumps({"a": st_entry("F32", [2], 0, 8), "b": st_entry("F32", [2], 8, 16)}, indent=2)
    evidence = see(tmp_path, text, bytes(16))
    assert evidence.verdict == "sound"
    assert "json_white_space" not in codes(evidence)


@pytest.mark.parametrize("spaces", range(8))
def test_unaligned_data_is_said(tmp_path: Path, spaces: int) -> None:
    header = "{" + GOOD + "}" + " " * spaces
    evidence = see(tmp_path, header, b"x")
    assert ("data_unaligned" in codes(evidence)) is bool((8 + len(header)) % 8)
    assert evidence.verdict == "sound"


def test_a_tensor_that_is_unaligned_for_its_type(tmp_path: Path) -> None:
    header = json.dumps({"b": st_entry("U8", [3], 0, 3), "f": st_entry("F32", [1], 3, 7)})
    header += " " * (-(8 + len(header)) % 8)
    evidence = see(tmp_path, header, bytes(7))
    assert finding(evidence, "data_unaligned").severity == "info"
    assert evidence.verdict == "sound"


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    data = safetensors({"a": st_entry("U8", [1], 0, 1)}, b"x")
    evidence = observe_artifact(tmp_path, data, "model.gguf")
    assert evidence.artifact.format == "safetensors"
    assert evidence.gguf is None
    assert evidence.verdict == "sound"


def test_the_header_and_its_digest(tmp_path: Path) -> None:
    data = safetensors({"a": st_entry("U8", [4], 0, 4)}, bytes(4))
    evidence = observe_artifact(tmp_path, data, "model.safetensors")
    header = len(data) - 4
    assert evidence.read.header_length == header
    assert evidence.read.header_sha256 == hashlib.sha256(data[:header]).hexdigest()
    assert evidence.safetensors is not None
    assert evidence.safetensors.header_length in {header, header - 8}


def test_many_tensors(tmp_path: Path) -> None:
    count = 20_000
    header = {f"layer.{index}.w": st_entry("F32", [2, 2], index * 16, index * 16 + 16) for index in range(count)}
    evidence = see(tmp_path, header, bytes(16 * count))
    assert evidence.verdict == "sound"
    assert evidence.safetensors is not None
    assert evidence.safetensors.tensor_count == count
    assert evidence.accounting is not None
    assert evidence.accounting.tensor_bytes == 16 * count
    assert evidence.accounting.contiguous is not None
    assert evidence.accounting.contiguous.yes == count
