"""The pure account against the count of every byte, without a file between them."""

from __future__ import annotations

from array import array
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.accounting.account import account_gguf, no_pulse
from auditd.accounting.candidates import Directory
from auditd.formats.declarations import TensorColumns
from auditd.formats.gguf.reader import GgufReader
from tests import brute
from tests.builders import F16, F32, Tensor, aligned, f32_length, gguf, property_test, round_up


def account(data: bytes, file_size: int) -> Any:
    """The account of a header for a file of any size: the reader sees no more than the header."""
    reader = GgufReader(file_size)
    reader.feed(data)
    return account_gguf(reader.result())


LENGTHS = st.integers(0, 24).map(lambda n: (F32, n, 4 * n)) | st.integers(0, 24).map(lambda n: (F16, n, 2 * n))


@property_test(1000)
@given(
    st.sampled_from([1, 2, 3, 5, 8, 24, 32, 64]),
    st.lists(st.tuples(LENGTHS, st.integers(0, 160)), min_size=1, max_size=9),
    st.integers(-260, 130),
)
def test_random_extents(alignment: int, drawn: list[tuple[tuple[int, int, int], int]], slack: int) -> None:
    tensors = [
        Tensor(f"t{index}", [elements], type_id, offset) for index, ((type_id, elements, _), offset) in enumerate(drawn)
    ]
    built = gguf([aligned(alignment)], tensors, alignment=alignment, data=b"")
    extents = [brute.Extent(index, offset, length) for index, ((_, _, length), offset) in enumerate(drawn)]
    last = max((e.offset + e.length for e in extents if e.length), default=0)
    size = max(built.header_end, built.data_offset + last + slack)
    expected = brute.count(size, built.data_offset, alignment, extents)
    got = account(built.data[: built.header_end], size)
    assert got.data_offset == built.data_offset
    figures = got.figures
    for name in ("tensor_bytes", "alignment_padding", "surplus", "missing", "overlap", "residue", "remainder"):
        assert getattr(figures, name) == getattr(expected, name), name
    assert (figures.contiguous, figures.discontiguous) == (expected.contiguous, expected.broken)
    assert (figures.tensors_cut, figures.tensors_gone) == (expected.cut, expected.gone)
    runs = sorted(got.runs, key=lambda run: (run.begin, run.kind))
    assert [(r.kind, r.begin, r.end - r.begin, r.before) for r in runs] == [
        (r.kind, r.begin, r.length, r.before) for r in expected.runs
    ]
    for run, other in zip(runs, expected.runs, strict=True):
        assert run.after in other.after


@property_test(300)
@given(st.sampled_from([8, 24, 32, 64]), st.lists(LENGTHS, min_size=1, max_size=8), st.booleans(), st.randoms())
def test_files_as_writers_make_them_come_out(
    alignment: int, drawn: list[tuple[int, int, int]], padded: bool, dice: Any
) -> None:
    """Laid out one after the other in any directory order, with or without padding at the end: residue 0."""
    order = list(range(len(drawn)))
    dice.shuffle(order)
    tensors: list[Tensor | None] = [None] * len(drawn)
    offset = end = 0
    for index in order:
        type_id, elements, length = drawn[index]
        tensors[index] = Tensor(f"t{index}", [elements], type_id, offset)
        if length:
            end = offset + length
        offset = round_up(offset + length, alignment)
    placed = [tensor for tensor in tensors if tensor is not None]
    built = gguf([aligned(alignment)], placed, alignment=alignment, data=b"")
    size = built.data_offset + (round_up(end, alignment) if padded else end)
    got = account(built.data[: built.header_end], size)
    figures = got.figures
    assert (figures.surplus, figures.missing, figures.overlap, figures.residue) == (0, 0, 0, 0)
    assert got.runs == ()
    assert figures.discontiguous == 0
    assert figures.contiguous == sum(1 for _, elements, _ in drawn if elements)
    assert figures.tensor_bytes == sum(f32_length(t.dims, t.type_id) for t in placed)


@pytest.mark.parametrize("alignment", [1, 2, 8, 24, 32])
@pytest.mark.parametrize("length", [4, 28, 32, 36, 44])
def test_every_size_from_the_header_on(alignment: int, length: int) -> None:
    """One file cut at and grown to each size: the end of the last padding is where one byte decides."""
    tensors = [Tensor("a", [length // 4], F32, 0), Tensor("b", [length // 4], F32, round_up(length, alignment))]
    built = gguf([aligned(alignment)], tensors, alignment=alignment, data=b"")
    extents = [brute.Extent(index, tensor.offset or 0, length) for index, tensor in enumerate(tensors)]
    for size in range(built.header_end, built.data_offset + 2 * round_up(length, alignment) + 3 * alignment):
        expected = brute.count(size, built.data_offset, alignment, extents)
        got = account(built.data[: built.header_end], size)
        figures = got.figures
        for name in ("tensor_bytes", "alignment_padding", "surplus", "missing", "overlap", "residue", "remainder"):
            assert getattr(figures, name) == getattr(expected, name), (size, name)
        assert [(run.kind, run.begin, run.end - run.begin) for run in got.runs] == [
            (run.kind, run.begin, run.length) for run in expected.runs
        ]


def test_a_hundred_thousand_offsets_in_any_order_are_sorted_like_a_few() -> None:
    """More offsets than are sorted at once, equal ones among them, some far away: (offset, index) decides."""
    random = Random(11)
    offsets = array(
        "Q", (random.choice((random.randrange(50), random.randrange(1 << 20), 1 << 63)) for _ in range(300_000))
    )
    columns = TensorColumns()
    for offset in offsets:
        columns.append(0, offset, 8, 8)
    order = Directory(columns, no_pulse).order
    assert list(order) == sorted(range(len(offsets)), key=lambda index: (offsets[index], index))
