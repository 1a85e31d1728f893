"""The bytes of array values, element by element, in pieces of any size."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.formats.declarations import ArrayValue
from auditd.formats.gguf.elements import BrokenElements, Element, ElementWalk, extent_of, is_whole, kept_elements
from tests.builders import KINDS, Array, Entry, gguf, property_test

U8, STRING, ARRAY = KINDS["u8"], KINDS["string"], KINDS["array"]


def raw(array: Array, endian: str = "<") -> bytes:
    """The bytes of an array value: what stands behind the type in an entry with an empty key."""
    return gguf([Entry("", "array", array)], endian=endian).data[24 + 8 + 4 :]


def walked(data: bytes, size: int, order: Any = "little") -> list[Element]:
    walk = ElementWalk(order)
    found = [element for at in range(0, len(data), size) for element in walk.feed(data[at : at + size])]
    assert walk.finished
    return found


NESTED = Array("array", [Array("string", ["a", "bb"]), Array("u16", []), Array("array", [Array("i8", [-1])])])
EXPECTED = [((0, 0), STRING, b"a"), ((0, 1), STRING, b"bb"), ((2, 0, 0), KINDS["i8"], -1)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13, 1000])
@pytest.mark.parametrize(("endian", "order"), [("<", "little"), (">", "big")])
def test_arrays_in_arrays_in_pieces_of_any_size(size: int, endian: str, order: str) -> None:
    assert walked(raw(NESTED, endian), size, order) == EXPECTED


@property_test(40)
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 64))
def test_texts_in_pieces_of_any_size(texts: list[bytes], size: int) -> None:
    found = walked(raw(Array("string", texts)), size)
    assert [element.value for element in found] == texts
    assert [element.path for element in found] == [(index,) for index in range(len(texts))]


def test_an_array_that_is_cut_is_not_finished() -> None:
    data = raw(NESTED)
    for length in range(len(data)):
        walk = ElementWalk("little")
        list(walk.feed(data[:length]))
        assert not walk.finished


@pytest.mark.parametrize("data", [struct.pack("<IQ", 13, 1), struct.pack("<IQ", 0, 1) + b"ab"], ids=["type", "more"])
def test_bytes_that_are_no_array(data: bytes) -> None:
    with pytest.raises(BrokenElements):
        list(ElementWalk("little").feed(data))


def test_a_count_and_a_length_allocate_nothing() -> None:
    walk = ElementWalk("little")
    assert list(walk.feed(struct.pack("<IQQ", STRING, 2**64 - 1, 2**64 - 1))) == []
    assert not walk.finished


def test_bytes_of_a_value() -> None:
    whole = ArrayValue(STRING, 2, (b"a", b"bb"))
    assert extent_of(STRING, b"abc") == (11, True)
    assert extent_of(KINDS["f64"], 0.5) == (8, True)
    assert extent_of(ARRAY, whole) == (len(raw(Array("string", ["a", "bb"]))), True)
    assert extent_of(ARRAY, ArrayValue(U8, 1000, (1,) * 8)) == (12 + 1000, True)
    assert extent_of(ARRAY, ArrayValue(STRING, 10, (b"",) * 8)) == (12 + 10 * 8, False)
    assert extent_of(ARRAY, ArrayValue(ARRAY, 1, (whole,))) == (12 + 12 + 9 + 10, True)
    assert extent_of(ARRAY, ArrayValue(ARRAY, 9, (whole,) * 8)) == (12 + 8 * 31 + 12, False)


def test_what_is_kept_of_an_array() -> None:
    inner = ArrayValue(U8, 9, (7,) * 8)
    assert is_whole(5)
    assert is_whole(ArrayValue(ARRAY, 1, (ArrayValue(U8, 1, (7,)),)))
    assert not is_whole(inner)
    assert not is_whole(ArrayValue(ARRAY, 1, (inner,)))
    outer = ArrayValue(ARRAY, 2, (ArrayValue(STRING, 1, (b"a",)), ArrayValue(U8, 0, ())))
    assert list(kept_elements(outer)) == [((0, 0), STRING, b"a")]
