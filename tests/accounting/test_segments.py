"""Segments against an owner written beside every byte: each byte of a file once, and the account's own sums."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.accounting.account import Account, account_gguf, account_safetensors
from auditd.accounting.segments import Segment, segments
from auditd.formats.declarations import GgufHeader
from auditd.formats.gguf.reader import GgufReader
from auditd.formats.safetensors.reader import SafetensorsReader
from tests import brute
from tests.builders import (
    F16,
    F32,
    Q4_K,
    Array,
    Entry,
    Tensor,
    aligned,
    gguf,
    property_test,
    safetensors,
    sketch,
    st_entry,
)
from tests.models import hero


def of_gguf(data: bytes, size: int, choice: str = "auto") -> tuple[list[Segment], GgufHeader, Account | None]:
    reader = GgufReader(size)
    reader.feed(data[:size])
    header = reader.result()
    account = account_gguf(header, choice) if header.complete else None
    return list(segments(header, account, size)), header, account


def of_safetensors(data: bytes, size: int) -> tuple[list[Segment], Account | None]:
    reader = SafetensorsReader(size)
    reader.feed(data[:size])
    while not reader.done and not reader.needs_bytes:
        reader.feed(b"")
    header = reader.result()
    account = account_safetensors(header) if header.complete else None
    return list(segments(header, account, size)), account


def assert_covers(found: list[Segment], size: int) -> None:
    """Ascending, nothing empty, and in the file no byte left out or told twice."""
    inside = [s for s in found if s.begin < size]
    assert [s.begin for s in inside] == [0, *(s.end for s in inside)][: len(inside)]
    assert (inside[-1].end if inside else 0) == size
    assert all(s.begin < s.end for s in found)
    assert all(a.end <= b.begin for a, b in pairwise(found))
    assert {s.kind for s in found if s.begin >= size} <= {"missing"}


def sums(found: list[Segment]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for s in found:
        totals[s.kind] = totals.get(s.kind, 0) + s.length
    return totals


LENGTHS = st.integers(0, 24).map(lambda n: (F32, n, 4 * n)) | st.integers(0, 24).map(lambda n: (F16, n, 2 * n))


def expected_kinds(size: int, built: Any, alignment: int, extents: list[brute.Extent]) -> dict[int, str]:
    """What each byte behind the header is, from the brute account's own runs."""
    counted = brute.count(size, built.data_offset, alignment, extents)
    kinds: dict[int, str] = dict.fromkeys(range(built.header_end, min(built.data_offset, size)), "header_padding")
    kinds |= dict.fromkeys(range(built.data_offset, size), "tensor")
    for begin, end in counted.padding_runs:
        kinds |= dict.fromkeys(range(begin, end), "padding")
    for run in sorted(counted.runs, key=lambda item: item.kind != "overlap"):  # missing wins over claimed twice
        if run.kind == "overlap":
            kinds |= dict.fromkeys(range(run.begin, min(run.begin + run.length, size)), "overlap")
        else:
            kinds |= dict.fromkeys(range(run.begin, run.begin + run.length), run.kind)
    return kinds


@property_test(120)
@given(
    st.sampled_from([1, 2, 3, 8, 24, 32]),
    st.lists(st.tuples(LENGTHS, st.integers(0, 160)), min_size=1, max_size=9),
    st.integers(-260, 130),
)
def test_every_byte_is_what_the_count_of_every_byte_says(
    alignment: int, drawn: list[tuple[tuple[int, int, int], int]], slack: int
) -> None:
    tensors = [Tensor(f"t{i}", [n], type_id, offset) for i, ((type_id, n, _), offset) in enumerate(drawn)]
    built = gguf([aligned(alignment)], tensors, alignment=alignment, data=b"")
    extents = [brute.Extent(i, offset, length) for i, ((_, _, length), offset) in enumerate(drawn)]
    last = max((e.offset + e.length for e in extents if e.length), default=0)
    size = max(built.header_end, built.data_offset + last + slack)
    found, _, account = of_gguf(built.data, size)
    assert_covers(found, size)
    behind = [s for s in found if s.begin >= built.header_end]
    assert {at: s.kind for s in behind for at in range(s.begin, s.end)} == expected_kinds(
        size, built, alignment, extents
    )
    for s in behind:
        if s.kind == "tensor":
            assert s.owner is not None
            owner = extents[s.owner]
            assert (
                built.data_offset + owner.offset <= s.begin < s.end <= built.data_offset + owner.offset + owner.length
            )
            assert (s.type, s.label) == ("F32" if drawn[s.owner][0][0] == F32 else "F16", b"t%d" % s.owner)
    assert account is not None
    total = sums(found)
    figures = account.figures
    assert total.get("missing", 0) == figures.missing
    assert total.get("padding", 0) == figures.alignment_padding
    assert sum(total.get(kind, 0) for kind in ("gap", "trailing", "padding_partial")) == figures.surplus


@property_test(60)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 90)), max_size=8), st.integers(-120, 60))
def test_safetensors_ranges_likewise(drawn: list[tuple[int, int]], slack: int) -> None:
    header = {f"t{i}": st_entry("U8", [length], begin, begin + length) for i, (length, begin) in enumerate(drawn)}
    data = safetensors(header)
    last = max((begin + length for length, begin in drawn if length), default=0)
    size = max(len(data), len(data) + last + slack)
    found, account = of_safetensors(data, size)
    assert_covers(found, size)
    assert [(s.begin, s.end, s.kind) for s in found[:2]] == [(0, 8, "head"), (8, len(data), "json")]
    if account is None:
        return
    counted = brute.count(size, len(data), 1, [brute.Extent(i, begin, n) for i, (n, begin) in enumerate(drawn)])
    total = sums(found)
    assert total.get("missing", 0) == counted.missing
    assert sum(total.get(kind, 0) for kind in ("gap", "trailing")) == counted.surplus
    assert {s.type for s in found if s.kind == "tensor"} <= {"U8"}
    assert "padding" not in total


def test_the_small_known_file_field_by_field() -> None:
    built = sketch()
    found, _, _ = of_gguf(built.data, 408)
    assert [(s.begin, s.length, s.kind, s.label) for s in found] == [
        (0, 24, "head", b""),
        (24, 46, "metadata", b"general.architecture"),
        (70, 55, "metadata", b"general.name"),
        (125, 33, "metadata", b"general.alignment"),
        (158, 34, "metadata", b"counts.block_count"),
        (192, 76, "metadata", b"counts.tokens"),
        (268, 59, "directory", b""),
        (327, 57, "header_padding", b""),
        (384, 24, "tensor", b"blk.0.counts.weight"),
    ]


def test_cut_anywhere_every_byte_is_still_told_once() -> None:
    data = sketch().data
    for size in range(1, len(data), 3):
        found, _, _ = of_gguf(data, size)
        assert_covers(found, size)
        if size < 327:
            assert found[-1].kind == "unread" or found[-1].end in {24, 70, 125, 158, 192, 268}, size
        else:
            assert sums(found)["missing"] == 408 - size


def test_a_published_model_adds_up() -> None:
    twin = hero()
    found, _, _ = of_gguf(twin.header, twin.file_size)
    assert_covers(found, twin.file_size)
    total = sums(found)
    assert total == {
        "head": 24,
        "metadata": 5_934_607,
        "directory": 19_304,
        "header_padding": 17,
        "tensor": 4_677_120_000,
    }
    assert sum(s.length for s in found if s.type == "Q4_K") == 3_427_909_632
    assert sum(s.length for s in found if s.type == "Q6_K") == 1_247_877_120
    assert sum(1 for s in found if s.kind == "tensor") == 339


def test_what_an_unsized_tensor_may_own_is_not_called_a_gap() -> None:
    tensors = [Tensor("a", [8], F32, 0), Tensor("x", [8], 4, 64, length=32), Tensor("b", [8], F32, 128)]
    built = gguf([], tensors, data=bytes(192))
    found, _, account = of_gguf(built.data, len(built.data))
    assert account is not None
    assert account.figures.residue is None
    data = built.data_offset
    assert [(s.begin - data, s.end - data, s.kind, s.owner) for s in found if s.begin >= data] == [
        (0, 32, "tensor", 0),
        (32, 64, "gap", None),
        (64, 128, "unknown", 1),
        (128, 160, "tensor", 2),
        (160, 192, "unknown", 1),
    ]


def test_with_no_valid_alignment_nobody_knows_what_stands_behind_the_header() -> None:
    built = gguf([aligned(0)], [Tensor("a", [8], F32, 0)], alignment=0, data=bytes(40))
    found, _, _ = of_gguf(built.data, len(built.data))
    assert_covers(found, len(built.data))
    assert found[-1][:3] == (built.header_end, len(built.data), "unknown")


@pytest.mark.parametrize("data", [b"", b"x", b"not a model at all", struct.pack("<Q", 400) + b"{"])
def test_without_a_header_all_is_unread(data: bytes) -> None:
    assert list(segments(None, None, len(data))) == ([Segment(0, len(data), "unread")] if data else [])


def test_a_refused_json_keeps_its_place() -> None:
    data = safetensors("{]") + bytes(9)
    found, _ = of_safetensors(data, len(data))
    assert [s[:3] for s in found] == [(0, 8, "head"), (8, 10, "json"), (10, 19, "unread")]


def test_sizes_follow_the_layout_of_the_figures() -> None:
    """Q4_K of 64-element blocks: the same declaration is 144 bytes today and 152 there."""
    built = gguf([], [Tensor("a", [256], Q4_K, 0)], data=bytes(152))
    derived, _, account = of_gguf(built.data, len(built.data))
    assert account is not None
    assert account.layout != "ggml-current"
    assert [s.length for s in derived if s.kind == "tensor"] == [152]
    named, _, _ = of_gguf(built.data, len(built.data), "ggml-current")
    assert [(s.kind, s.length) for s in named][-2:] == [("tensor", 144), ("padding_partial", 8)]
    strict, _, _ = of_gguf(built.data, len(built.data), "strict")
    assert strict[-1].kind == "unknown"


def test_five_hundred_claims_on_the_same_bytes_are_a_few_segments() -> None:
    tensors = [Tensor(f"t{i}", [64], F32, 0) for i in range(500)]
    built = gguf([Entry("k", "array", Array("u8", b"\0" * 100))], tensors, data=bytes(256))
    found, _, _ = of_gguf(built.data, len(built.data))
    assert [(s.kind, s.length) for s in found][-1] == ("overlap", 256)
