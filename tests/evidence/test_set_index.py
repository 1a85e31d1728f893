"""The index of sharded files: what it says, and what it may not be."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.model_sets.index import INDEX_BYTES, INDEX_FILES, Index, IndexProblem, parse_index
from auditd.model_sets.packed_names import PackedNames
from tests.builders import property_test
from tests.support.lines import harmless


def index(data: bytes | str) -> Index:
    parsed = parse_index(data.encode() if isinstance(data, str) else data)
    assert isinstance(parsed, Index), parsed
    return parsed


def problem(data: bytes | str) -> str:
    parsed = parse_index(data.encode() if isinstance(data, str) else data)
    assert isinstance(parsed, IndexProblem)
    assert harmless(parsed.message)
    return parsed.message


def names(parsed: Index) -> dict[bytes, list[bytes]]:
    return {file: list(held) for file, held in parsed.files.items()}


def test_an_index() -> None:
    parsed = index(
        '{"metadata": {"total_size": 24, "total_parameters": 6, "x": {"total_size": 1}},'
        ' "weight_map": {"b": "two", "a": "one", "caf\\u00e9": "two", "\\u0000": "one"}, "more": [1, {"a": null}]}'
    )
    assert names(parsed) == {b"two": [b"b", "café".encode()], b"one": [b"a", b"\0"]}
    assert (parsed.tensors, parsed.total_size) == (4, 24)


@pytest.mark.parametrize(
    ("total", "right"),
    [
        ("24", 24),
        ("24.0", 24),
        ("0", 0),
        ("9007199254740991", 2**53 - 1),
        ("9007199254740992", None),
        ("24.5", None),
        ("-1", None),
        ("1e3", None),
        ('"24"', None),
        ("null", None),
        ("[24]", None),
        ("9" * 5000, None),
    ],
)
def test_the_total(total: str, right: int | None) -> None:
    assert index(f'{{"metadata":{{"total_size":{total}}},"weight_map":{{"a":"f"}}}}').total_size == right
    assert index(f'{{"weight_map":{{"a":"f"}},"metadata":{total}}}').total_size is None


@pytest.mark.parametrize(
    "file",
    ["", ".", "..", "/etc/passwd", "../f", "a/f", "a/../f", "f\0", "x" * 256, "/"],
)
@pytest.mark.parametrize("first", ["", '"z": "good", '])
def test_only_names_of_files_beside_it(file: str, first: str) -> None:
    told = problem(f'{{"weight_map": {{{first}"a": {json.dumps(file)}, "b": "g"}}}}')
    assert "not a plain file name" in told


@pytest.mark.parametrize("file", ["f", "..f", "a\\b", "\x1b[31m", "é", "x" * 255, "-rf", " "])
def test_any_other_name_is_a_name(file: str) -> None:
    assert names(index(f'{{"weight_map": {{"a": {json.dumps(file)}}}}}')) == {file.encode(): [b"a"]}


@pytest.mark.parametrize(
    "text",
    [
        '{"weight_map": {"a": "f", "a": "f"}}',
        '{"weight_map": {"a": "f", "b": "f", "a": "g", "c": "h"}}',
        '{"weight_map": {"a": "f", "\\u0061": "f"}}',
        '{"weight_map": {"a": "f"}, "weight_map": {"b": "f"}}',
        '{"metadata": {"x": 1, "x": 2}, "weight_map": {"a": "f"}}',
        '{"weight_map": {"a": "f"}, "x": {"y": 1, "y": 2}}',
    ],
)
def test_no_name_twice(text: str) -> None:
    assert "already" in problem(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[]",
        '"weight_map"',
        "null",
        "{}",
        '{"weight_map": {}}',
        '{"weight_map": []}',
        '{"weight_map": "f"}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": null}}',
        '{"weight_map": {"a": ["f"]}}',
        '{"weight_map": {"a": {"b": "f"}}}',
        '{"weight_map": {"a": "f",}}',
        '{"weight_map": {"a": "f"',
        '{"weight_map": {"a": "f"}',
        '{"weight_map": {"a": "f"}} x',
        '{"weight_map": {"a": "f"}, "x": NaN}',
        "{'weight_map': {'a': 'f'}}",
        '{"weight_map": {"a\n": "f"}}',
        '{"weight_map": {"a": "\\ud800"}}',
        '\ufeff{"weight_map": {"a": "f"}}',
        "<html>\x1b[31m",
    ],
)
def test_what_is_no_index(text: str) -> None:
    assert problem(text)


def test_what_is_no_text() -> None:
    assert problem(b'{"weight_map": {"a": "\xff"}}') == "it is not UTF-8"
    assert problem(bytes(100))
    assert "bytes" in problem(bytes(INDEX_BYTES + 1))


@pytest.mark.parametrize("nested", ["[" * 200_000, '{"a":' * 200_000, "[" * 40 + "]" * 40])
def test_deep_nesting(nested: str) -> None:
    assert problem(f'{{"weight_map": {{"a": "f"}}, "x": {nested}')
    assert problem(f'{{"weight_map": {{"a": {nested}')


def test_a_hundred_thousand_files_and_no_more() -> None:
    def text(count: int) -> str:
        return '{"weight_map":{' + ",".join(f'"{at}":"{at}"' for at in range(count)) + "}}"

    assert len(index(text(1000)).files) == 1000
    assert "more than 100,000 files" in problem(text(INDEX_FILES + 1))


def test_every_name_is_checked_past_those_that_are_kept_plainly() -> None:
    entries = [f'"{at}":"f"' for at in range(66_000)]
    assert index('{"weight_map":{' + ",".join(entries) + "}}").tensors == 66_000
    assert "already" in problem('{"weight_map":{' + ",".join([*entries, '"65999":"f"', '"z":"f"']) + "}}")


def test_a_long_index_pauses() -> None:
    entries = ",".join(f'"{at}":"f"' for at in range(66_000))
    escaped = ",".join(f'"\\u0041{at}":"f"' for at in range(66_000))
    skipped = "[" + ",".join(["{}"] * 300_000) + "]"
    for text in (
        f'{{"weight_map":{{{entries}}}}}',
        f'{{"weight_map":{{{escaped}}}}}',
        f'{{"weight_map":{{"a":"f"}},"x":{skipped}}}',
    ):
        pauses: list[None] = []
        assert isinstance(parse_index(text.encode(), lambda pauses=pauses: pauses.append(None)), Index)  # type: ignore[misc]
        assert len(pauses) >= 2


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(
    st.dictionaries(TEXT, st.sampled_from(["f", "g", "caf\u00e9"]), min_size=1),
    st.booleans(),
    st.sampled_from([None, 1]),
)
@property_test(40)
def test_any_map_of_names_comes_back(weights: dict[str, str], ascii_only: bool, indent: int | None) -> None:
    text = json.dumps({"weight_map": weights}, ensure_ascii=ascii_only, indent=indent)
    expected: dict[bytes, list[bytes]] = {}
    for tensor, file in weights.items():
        expected.setdefault(file.encode(), []).append(tensor.encode())
    assert names(index(text)) == expected


JSON = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["weight_map", "metadata", "a"]), inner),
    max_leaves=8,
)


@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
@property_test(40)
def test_any_bytes_are_an_index_or_a_problem(data: bytes) -> None:
    assert isinstance(parse_index(data), (Index, IndexProblem))


@given(st.lists(st.binary(max_size=20)))
@property_test(40)
def test_packed_names_come_back(names: list[bytes]) -> None:
    packed = PackedNames.of(names)
    assert list(packed) == names
    assert len(packed) == len(names)
