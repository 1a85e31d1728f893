"""Properties over random files: the byte-by-byte account, the fixed identity, and a record for whatever comes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.evidence.record import Evidence
from auditd.rules.findings import FINDINGS, worst_verdict
from tests import brute
from tests.builders import (
    ARCHITECTURE,
    F16,
    F32,
    Q4_0,
    Q8_0,
    Entry,
    Tensor,
    aligned,
    codes,
    f32_length,
    gguf,
    observe_artifact,
    property_test,
    safetensors,
    simple,
    sketch,
    st_entry,
)

pytestmark = pytest.mark.system

#: An id that no table and no fork here knows.
UNKNOWN = 4_000_000

ALIGNMENTS = [1, 2, 3, 8, 16, 24, 32, 40, 64, 256]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@st.composite
def shapes(draw: st.DrawFn) -> tuple[list[int], int]:
    type_id = draw(st.sampled_from([F32, F32, F16, F16, Q4_0, Q8_0]))
    block = 1 if type_id in {F32, F16} else 32
    first = draw(st.integers(0, 20 if block == 1 else 3)) * block
    rest = draw(st.lists(st.integers(0, 3), max_size=2))
    if block == 1 and draw(st.booleans()) and not rest:
        return ([], type_id) if draw(st.booleans()) else ([first], type_id)
    return [first, *rest], type_id


@st.composite
def layouts(draw: st.DrawFn, unknown: bool = False) -> tuple[int, list[Tensor], int]:
    """``(alignment, tensors, bytes that the file has more or less than the last extent needs)``."""
    alignment = draw(st.sampled_from(ALIGNMENTS))
    drawn = draw(st.lists(shapes(), max_size=6))
    tensors = []
    free = 0
    for index, (dims, type_id) in enumerate(drawn):
        length = f32_length(dims, type_id)
        offset = draw(
            st.one_of(
                st.just(free),
                st.just(free),
                st.just(free),
                st.integers(0, 12).map(lambda n: n * alignment),
                st.integers(0, 400),
            )
        )
        if unknown and draw(st.booleans()):
            tensors.append(Tensor(f"t{index}", dims, UNKNOWN, offset))
        else:
            tensors.append(Tensor(f"t{index}", dims, type_id, offset))
        free = max(free, (offset + length + alignment - 1) // alignment * alignment)
    order = draw(st.permutations(range(len(tensors))))
    slack = draw(st.one_of(st.just(0), st.integers(-40, 40), st.integers(-500, 500)))
    return alignment, [tensors[index] for index in order], slack


def build(alignment: int, tensors: list[Tensor], slack: int) -> tuple[bytes, int, list[brute.Extent]]:
    """File bytes (zeros after the header), data offset, and the extents of the tensors that have a size."""
    extents = [
        brute.Extent(index, tensor.offset or 0, f32_length(tensor.dims, tensor.type_id))
        for index, tensor in enumerate(tensors)
        if tensor.type_id != UNKNOWN
    ]
    built = gguf([ARCHITECTURE, aligned(alignment)], tensors, alignment=alignment, data=b"")
    last = max((extent.offset + extent.length for extent in extents if extent.length), default=0)
    size = max(built.header_end, built.data_offset + last + slack)
    header = built.data[: built.header_end]
    return header + bytes(size - len(header)), built.data_offset, extents


def figures(evidence: Evidence) -> Any:
    assert evidence.accounting is not None
    return evidence.accounting


def compare_regions(evidence: Evidence, expected: brute.Account, kinds: set[str]) -> None:
    regions = sorted(
        (item for item in figures(evidence).regions if item.kind in kinds), key=lambda item: (item.begin, item.kind)
    )
    runs = [run for run in expected.runs if run.kind in kinds]
    assert [(item.kind, item.begin, item.length, item.before) for item in regions] == [
        (run.kind, run.begin, run.length, run.before) for run in runs
    ]
    for region, run in zip(regions, runs, strict=True):
        assert region.after in run.after


@property_test(400)
@given(layouts())
def test_the_account_is_that_of_every_single_byte(place: Path, drawn: tuple[int, list[Tensor], int]) -> None:
    alignment, tensors, slack = drawn
    if not tensors:
        return
    data, data_offset, extents = build(alignment, tensors, slack)
    expected = brute.count(len(data), data_offset, alignment, extents)
    evidence = observe_artifact(place, data)
    assert evidence.outcome == "complete"
    account = figures(evidence)
    assert account.data_offset == data_offset
    for name in ("tensor_bytes", "alignment_padding", "surplus", "missing", "overlap", "residue", "remainder"):
        assert getattr(account, name) == getattr(expected, name), name
    assert (account.contiguous.yes, account.contiguous.no) == (expected.contiguous, expected.broken)
    assert (account.tensors_cut, account.tensors_gone) == (expected.cut, expected.gone)
    assert account.region_count == len(account.regions)
    compare_regions(evidence, expected, {"gap", "trailing", "padding_partial", "missing", "overlap"})
    assert ("unowned_bytes" in codes(evidence)) == (expected.surplus > 0)
    assert ("tensor_bytes_missing" in codes(evidence)) == (expected.missing > 0)
    assert ("tensor_overlap" in codes(evidence)) == (expected.overlap > 0)


@property_test(150)
@given(layouts(), st.randoms(use_true_random=False))
def test_full_mode_says_what_is_in_the_regions(place: Path, drawn: tuple[int, list[Tensor], int], dice: Any) -> None:
    alignment, tensors, slack = drawn
    if not tensors:
        return
    zeros, data_offset, extents = build(alignment, tensors, slack)
    data = bytearray(zeros)
    header_end = gguf([ARCHITECTURE, aligned(alignment)], tensors, alignment=alignment, data=b"").header_end
    for _ in range(dice.randrange(4)):
        if len(data) > header_end:
            data[dice.randrange(header_end, len(data))] = 0xA5
    expected = brute.count(len(data), data_offset, alignment, extents)
    evidence = observe_artifact(place, bytes(data), hash_mode="full")
    regions = figures(evidence).regions
    for region in regions:
        if region.kind in {"gap", "trailing", "padding_partial"}:
            content = data[region.begin : region.begin + region.length]
            assert region.content == ("nonzero" if any(content) else "zero")
        if region.kind == "missing":
            assert region.content == "unread"
    padding = set(range(header_end, min(data_offset, len(data))))
    for begin, end in expected.padding_runs:
        padding.update(range(begin, end))
    dirty = {position for position in padding if data[position]}
    marked: set[int] = set()
    for region in regions:
        if region.kind == "padding_nonzero":
            marked.update(range(region.begin, region.begin + region.length))
            assert region.content == "nonzero"
    assert dirty <= marked <= padding
    assert bool(marked) == bool(dirty) == ("padding_nonzero" in codes(evidence))


@property_test(150)
@given(layouts(unknown=True))
def test_what_has_no_size_makes_the_sum_unknown(place: Path, drawn: tuple[int, list[Tensor], int]) -> None:
    alignment, tensors, slack = drawn
    sizeless = [t for t in tensors if t.type_id == UNKNOWN and all(t.dims)]
    if not sizeless:
        return
    data, data_offset, extents = build(alignment, tensors, slack)
    expected = brute.count(len(data), data_offset, alignment, extents)
    evidence = observe_artifact(place, data)
    account = figures(evidence)
    assert account.data_offset == data_offset
    nulls = (account.tensor_bytes, account.alignment_padding, account.remainder, account.surplus, account.residue)
    assert nulls == (None,) * 5
    assert account.missing == expected.missing
    assert account.overlap == expected.overlap
    gone = sum(1 for t in sizeless if data_offset + (t.offset or 0) >= len(data))
    assert account.tensors_gone == expected.gone + gone
    assert "size_unestablished" in codes(evidence)
    assert ("tensor_bytes_missing" in codes(evidence)) == (expected.missing > 0 or gone > 0)
    assert ("tensor_overlap" in codes(evidence)) == (expected.overlap > 0)
    assert "unowned_bytes" not in codes(evidence)
    assert evidence.verdict not in {"sound", "notice", "residue"}


@property_test(200)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=6),
    st.integers(-20, 20),
    st.booleans(),
)
def test_safetensors_ranges_are_accounted_alike(
    place: Path, drawn: list[tuple[int, int]], slack: int, chained: bool
) -> None:
    ranges = []
    free = 0
    for begin, length in drawn:
        start = free if chained else begin
        ranges.append((start, start + length))
        free = max(free, start + length)
    header = {f"t{index}": st_entry("U8", [end - begin], begin, end) for index, (begin, end) in enumerate(ranges)}
    size = max(0, free + slack)
    data = safetensors(header, bytes(size))
    start = len(data) - size
    extents = [brute.Extent(index, begin, end - begin) for index, (begin, end) in enumerate(ranges)]
    expected = brute.count(len(data), start, 1, extents)
    evidence = observe_artifact(place, data, "model.safetensors")
    account = figures(evidence)
    assert account.data_offset == start
    for name in ("tensor_bytes", "alignment_padding", "surplus", "missing", "overlap", "residue", "remainder"):
        assert getattr(account, name) == getattr(expected, name), name
    assert (account.tensors_cut, account.tensors_gone) == (expected.cut, expected.gone)
    compare_regions(evidence, expected, {"gap", "trailing", "missing", "overlap"})
    assert ("unowned_bytes" in codes(evidence)) == (expected.surplus > 0)
    assert ("tensor_bytes_missing" in codes(evidence)) == (expected.missing > 0)
    assert ("tensor_overlap" in codes(evidence)) == (expected.overlap > 0)
    if expected.surplus or expected.missing or expected.overlap:
        assert evidence.outcome == "refused"
        assert evidence.verdict not in {"sound", "notice"}


#: What a damaged byte or two, a cut or an insertion is made of.
MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["byte", "u32", "u64", "cut", "insert", "swap"]),
        st.integers(0, 420),
        st.sampled_from(
            [0, 1, 2, 3, 7, 8, 9, 12, 13, 0x7F, 0x80, 0xFF, 0xFFFF, 2**31, 2**32 - 1, 2**53, 2**63, 2**64 - 1]
        ),
    ),
    min_size=1,
    max_size=4,
)


def mutated(seed: bytes, mutations: list[tuple[str, int, int]]) -> bytes:
    data = bytearray(seed)
    for what, where, value in mutations:
        position = min(where, max(0, len(data) - 8))
        if what == "byte" and data:
            data[position] = value & 0xFF
        elif what == "u32":
            data[position : position + 4] = struct.pack("<I", value & 0xFFFFFFFF)
        elif what == "u64":
            data[position : position + 8] = struct.pack("<Q", value)
        elif what == "cut":
            del data[position:]
        elif what == "insert":
            data[position:position] = bytes([value & 0xFF]) * 3
        else:
            data[position : position + 8] = data[position : position + 8][::-1]
    return bytes(data)


SEEDS = [
    sketch().data,
    simple(
        Tensor("a", [32], Q8_0),
        Tensor("b", [256], 12, length=144),
        Tensor("c", [0, 4], 99, length=0),
        Tensor("d", [], F32),
    ).data,
    gguf([ARCHITECTURE, Entry("k", "f32", 1.5), Entry("b", "bool", 1)], []).data,
    safetensors({"__metadata__": {"k": "v"}, "a": st_entry("F32", [2, 2], 0, 16)}, bytes(16)),
]


def check_record(evidence: Evidence) -> None:
    """What holds of every record, whatever the file."""
    verdicts = {FINDINGS[item.code].verdict for item in evidence.findings}
    if "residue_under_every_layout" not in codes(evidence):
        assert evidence.verdict == worst_verdict(verdicts)
    assert (evidence.outcome == "refused") == (evidence.error is not None)
    account = evidence.accounting
    if account is not None and account.residue is not None:
        assert account.residue == (account.surplus or 0) - (account.missing or 0) - (account.overlap or 0)
        if account.residue:
            assert evidence.verdict not in {"sound", "notice", "undetermined"}
    keys = [(item.code, item.constraint) for item in evidence.findings]
    assert len(keys) == len(set(keys))
    if evidence.outcome == "refused":
        assert evidence.verdict not in {"sound", "notice"}


@property_test(500)
@given(st.sampled_from(SEEDS), MUTATIONS)
def test_a_damaged_file_gives_a_record(place: Path, seed: bytes, mutations: list[tuple[str, int, int]]) -> None:
    data = mutated(seed, mutations)
    check_record(observe_artifact(place, data))


@property_test(200)
@given(st.binary(max_size=200), st.sampled_from([b"", b"GGUF", b"GGUF\x03\x00\x00\x00", b"\x40\0\0\0\0\0\0\0{"]))
def test_any_bytes_give_a_record(place: Path, tail: bytes, head: bytes) -> None:
    check_record(observe_artifact(place, head + tail))


@property_test(100)
@given(st.sampled_from(SEEDS), MUTATIONS)
def test_full_mode_agrees_with_header_mode(place: Path, seed: bytes, mutations: list[tuple[str, int, int]]) -> None:
    data = mutated(seed, mutations)
    brief, long = observe_artifact(place, data), observe_artifact(place, data, hash_mode="full")
    assert brief.gguf == long.gguf
    assert brief.safetensors == long.safetensors
    assert brief.error == long.error
    # Only who reads all of a file sees what its padding holds, and that it is zeros.
    assert codes(brief) == codes(long) - {"padding_nonzero", "zero_run"}
    assert brief.read.header_sha256 == long.read.header_sha256
    if brief.accounting is not None and long.accounting is not None:
        for name in ("tensor_bytes", "alignment_padding", "surplus", "missing", "overlap", "residue", "data_offset"):
            assert getattr(brief.accounting, name) == getattr(long.accounting, name)
