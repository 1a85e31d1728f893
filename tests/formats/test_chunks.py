"""A reader says the same of the same bytes, however they come: whole, one by one, or cut anywhere."""

from __future__ import annotations

import dataclasses
import struct
from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.formats.gguf.reader import GgufReader
from auditd.formats.safetensors.reader import SafetensorsReader
from tests.builders import (
    ARCHITECTURE,
    F32,
    Q8_0,
    Array,
    Entry,
    Tensor,
    gguf,
    property_test,
    safetensors,
    simple,
    sketch,
    st_entry,
)
from tests.test_properties import MUTATIONS, mutated


def frozen(value: Any) -> Any:
    """A value that compares by what is in it: columns and NaN included."""
    if dataclasses.is_dataclass(value):
        return type(value).__name__, [(f.name, frozen(getattr(value, f.name))) for f in dataclasses.fields(value)]
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return [(key, frozen(item)) for key, item in value.items()]
    if isinstance(value, (array, bytearray)):
        return list(value)
    if isinstance(value, (str, bytes, int)) or value is None:
        return type(value).__name__, value
    if isinstance(value, Sequence):
        return [frozen(item) for item in value]
    return type(value).__name__, [(name, frozen(getattr(value, name))) for name in type(value).__slots__]


def has_work(reader: GgufReader | SafetensorsReader) -> bool:
    return not (reader.done or reader.needs_bytes)


def read(reader: GgufReader | SafetensorsReader, pieces: Sequence[bytes]) -> Any:
    for piece in pieces:
        if reader.done:
            break
        reader.feed(piece)
        while has_work(reader):
            reader.feed(b"")
    return reader.result()


def pieces_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in pairwise(edges)]


def one_by_one(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


GGUF_SEEDS = [
    sketch().data,
    simple(
        Tensor("a", [32], Q8_0),
        Tensor("b", [256], 12, length=144),
        Tensor("c", [0, 4], 99, length=0),
        Tensor("a", [], F32),
    ).data,
    gguf(
        [
            ARCHITECTURE,
            Entry("k.f", "array", Array("f32", [float(n) for n in range(40)])),
            Entry("k.n", "array", Array("array", [Array("string", ["a", "bc", ""]), Array("bool", [0, 1, 2])])),
            Entry("k.s", "array", Array("string", [b"\xc3\xa9", b"\xff", b"x" * 200, b""] * 50)),
            Entry("Bad Key", "bool", 3),
        ],
        [Tensor("w" * 70, [3])],
    ).data,
    gguf([ARCHITECTURE, Entry("k.v", "u64", 9)], [Tensor("w", [4], F32)], endian=">").data,
    gguf([ARCHITECTURE, Entry("t.t", "array", Array("string", [f"token{n}" for n in range(700)]))]).data,
]
SAFETENSORS_SEEDS = [
    safetensors({"__metadata__": {"k": "v"}, "a": st_entry("F32", [2, 2], 0, 16)}, bytes(16)),
    safetensors({f"t{n}": st_entry("U8", [3], 3 * n, 3 * n + 3) for n in range(40)}, bytes(120)),
    safetensors(
        '{ "a" : {"dtype":"U8","shape":[1], "data_offsets":[0,1],"x":{"y":["\\u00e9", 1.5e3, null]}} }  ', b"x"
    ),
    safetensors('{"é🦙":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}', b"x"),
]


@pytest.mark.parametrize("data", GGUF_SEEDS)
def test_gguf_whole_and_byte_by_byte(data: bytes) -> None:
    whole = read(GgufReader(len(data)), [data])
    assert whole.complete
    assert frozen(read(GgufReader(len(data)), one_by_one(data))) == frozen(whole)


@pytest.mark.parametrize("data", SAFETENSORS_SEEDS)
def test_safetensors_whole_and_byte_by_byte(data: bytes) -> None:
    whole = read(SafetensorsReader(len(data)), [data])
    assert frozen(read(SafetensorsReader(len(data)), one_by_one(data))) == frozen(whole)


@pytest.mark.parametrize("cut", range(409))
def test_the_sketch_in_two_pieces(cut: int) -> None:
    data = sketch().data
    expected = frozen(read(GgufReader(408), [data]))
    assert frozen(read(GgufReader(408), [data[:cut], data[cut:]])) == expected


@property_test(400)
@given(st.sampled_from(GGUF_SEEDS), MUTATIONS, st.lists(st.integers(0, 10_000), max_size=8))
def test_gguf_mutated_and_cut_anywhere(seed: bytes, mutations: list[tuple[str, int, int]], cuts: list[int]) -> None:
    data = mutated(seed, mutations)
    expected = frozen(read(GgufReader(len(data)), [data]))
    assert frozen(read(GgufReader(len(data)), pieces_of(data, cuts))) == expected


@property_test(60)
@given(st.sampled_from(GGUF_SEEDS), MUTATIONS)
def test_gguf_mutated_and_byte_by_byte(seed: bytes, mutations: list[tuple[str, int, int]]) -> None:
    data = mutated(seed, mutations)
    expected = frozen(read(GgufReader(len(data)), [data]))
    assert frozen(read(GgufReader(len(data)), one_by_one(data))) == expected


@property_test(400)
@given(st.sampled_from(SAFETENSORS_SEEDS), MUTATIONS, st.lists(st.integers(0, 10_000), max_size=8))
def test_safetensors_mutated_and_cut_anywhere(
    seed: bytes, mutations: list[tuple[str, int, int]], cuts: list[int]
) -> None:
    data = mutated(seed, mutations)
    expected = frozen(read(SafetensorsReader(len(data)), [data]))
    assert frozen(read(SafetensorsReader(len(data)), pieces_of(data, cuts))) == expected


@property_test(300)
@given(st.text(max_size=60), st.lists(st.integers(0, 200), max_size=4))
def test_safetensors_with_any_json_text(text: str, cuts: list[int]) -> None:
    data = safetensors("{" + text)
    expected = read(SafetensorsReader(len(data)), [data])
    assert expected.complete or expected.stopped is not None
    assert frozen(read(SafetensorsReader(len(data)), pieces_of(data, cuts))) == frozen(expected)


@pytest.mark.parametrize("data", GGUF_SEEDS)
def test_more_bytes_never_mean_less_knowledge(data: bytes) -> None:
    reader = GgufReader(len(data))
    before: Any = reader.result()
    for piece in one_by_one(data):
        if reader.done:
            break
        reader.feed(piece)
        now = reader.result()
        for name in ("version", "tensor_count", "metadata_count", "alignment", "metadata_end", "directory_end"):
            if getattr(before, name) is not None:
                assert getattr(now, name) == getattr(before, name), name
        assert now.metadata[: len(before.metadata)] == before.metadata
        assert now.tensors[: len(before.tensors)] == before.tensors
        assert len(now.metadata) >= len(before.metadata)
        assert len(now.tensors) >= len(before.tensors)
        before = now
    assert reader.done


def test_the_default_alignment_is_known_only_with_all_metadata() -> None:
    built = gguf([ARCHITECTURE, Entry("a.b", "u8", 1)], [Tensor("w", [8])])
    reader = GgufReader(len(built.data))
    reader.feed(built.data[: built.at("metadata[1].value")])
    assert reader.result().alignment is None
    reader.feed(built.data[built.at("metadata[1].value") : built.at("tensors[0].name")])
    assert reader.result().alignment == 32
    assert reader.result().alignment_declared is False


def test_a_declared_alignment_is_known_once_it_was_read() -> None:
    built = gguf([Entry("general.alignment", "u32", 64), Entry("a.b", "u8", 1)], [Tensor("w", [8])], alignment=64)
    reader = GgufReader(len(built.data))
    reader.feed(built.data[: built.at("metadata[1].type")])
    header = reader.result()
    assert (header.alignment, header.alignment_declared) == (64, True)


def test_a_reader_never_asks_for_bytes_past_its_file() -> None:
    for data in [*GGUF_SEEDS, sketch().data[:300], b"GGUF", b"G"]:
        reader = GgufReader(len(data))
        read(reader, [data])
        assert reader.done
    for data in [*SAFETENSORS_SEEDS, SAFETENSORS_SEEDS[0][:40], SAFETENSORS_SEEDS[0][:9]]:
        other = SafetensorsReader(len(data))
        read(other, [data])
        assert other.done
