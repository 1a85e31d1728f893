"""Two records compared: what differs is found, what is the same is not called different, and what is not known is said."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.comparison.compare import difference
from auditd.comparison.difference import SCHEMA, Difference
from auditd.comparison.subject import Subject
from auditd.comparison.texts import first_change
from auditd.evidence.canonical import decode, encode
from auditd.evidence.record import Evidence, GgufTensorRow, MetadataRow
from auditd.evidence.summary import summary
from tests.builders import (
    ARCHITECTURE,
    CASES,
    F16,
    F32,
    Q4_K,
    Q6_K,
    Array,
    Built,
    Entry,
    Tensor,
    aligned,
    gguf,
    observation,
    observe_artifact,
    property_test,
    safetensors,
    st_entry,
)
from tests.support.records import accounting, evidence
from tests.support.records import gguf as gguf_part

TEMPLATE = "tokenizer.chat_template"


def block(number: int, down: int = Q4_K) -> list[Tensor]:
    """Two tensors of a block: 144 or 210 bytes, and 1,024."""
    return [
        Tensor(f"blk.{number}.ffn_down.weight", [256], down),
        Tensor(f"blk.{number}.attn_norm.weight", [256], F32),
    ]


def blocks(*down: int) -> list[Tensor]:
    """Blocks 0, 1, ... with these types of their first tensors."""
    return [tensor for number, type_id in enumerate(down) for tensor in block(number, type_id)]


def text(key: str, value: str | bytes) -> Entry:
    """A string entry."""
    return Entry(key, "string", value)


class Pair:
    """Two files in one directory, and their comparison."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __call__(
        self, a: Built | bytes, b: Built | bytes, name: str = "gguf", limit: int = 10, **options: Any
    ) -> Difference:
        """Compare the records of two inspections."""
        first, second = (data if isinstance(data, bytes) else data.data for data in (a, b))
        ours = observe_artifact(self.directory, first, f"a.{name}", **options)
        theirs = observe_artifact(self.directory, second, f"b.{name}", **options)
        return difference(Subject(ours), Subject(theirs), limit)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """Two files compared."""
    return Pair(tmp_path)


def traits(result: Difference) -> tuple[int, ...]:
    """Counts of tensors: added, removed, reshaped, requantized, moved, unchanged."""
    tensors = result.tensors
    return (
        tensors.added,
        tensors.removed,
        tensors.reshaped,
        tensors.requantized,
        tensors.moved,
        tensors.unchanged,
    )


def entries(result: Difference) -> tuple[int, ...]:
    """Counts of metadata entries: added, removed, changed, unchanged."""
    metadata = result.metadata
    return metadata.added_count, metadata.removed_count, metadata.changed_count, metadata.unchanged


# -- the same ---------------------------------------------------------------------------------------


def test_a_file_and_itself(pair: Pair) -> None:
    built = gguf([ARCHITECTURE, text(TEMPLATE, "{{ x }}")], blocks(Q4_K, Q6_K))
    result = pair(built, built)
    assert (result.schema, result.conclusion.code, result.same) == (SCHEMA, "same_header", True)
    assert (traits(result), entries(result)) == ((0, 0, 0, 0, 0, 4), (0, 0, 0, 2))
    assert result.bytes is not None
    assert (result.bytes.same_class, result.bytes.changed) == (len(built.data), [])
    assert "the weights were not compared" in result.conclusion.message


def test_every_byte_read_makes_it_identical(pair: Pair) -> None:
    built = gguf([ARCHITECTURE], blocks(Q4_K))
    assert pair(built, built, hash_mode="full").conclusion.code == "identical"


def test_other_weights_under_one_header(pair: Pair) -> None:
    tensors = [Tensor("w", [2], F32)]
    result = pair(gguf([ARCHITECTURE], tensors, data=bytes(8)), gguf([ARCHITECTURE], tensors, data=b"12345678"))
    assert (result.conclusion.code, result.same) == ("same_header", True)
    result = pair(
        gguf([ARCHITECTURE], tensors, data=bytes(8)),
        gguf([ARCHITECTURE], tensors, data=b"12345678"),
        hash_mode="full",
    )
    assert (result.conclusion.code, result.same) == ("other_weights", False)


def test_tensors_that_hold_other_bytes(pair: Pair) -> None:
    tensors = [Tensor(f"blk.{number}.w", [8], offset=32 * number) for number in range(3)]
    old = gguf([ARCHITECTURE], tensors, data=bytes(96))
    new = gguf([ARCHITECTURE, text("k", "v" * 64)], tensors, data=bytes(32) + b"\x01" * 32 + bytes(32))
    result = pair(old, new, hash_mode="full", parts="tensors")
    assert (result.conclusion.code, result.file.tensor_data) == ("other_weights", "differs")
    assert (result.tensors.rewritten, result.tensors.digested, result.tensors.unchanged) == (1, 3, 2)
    (group,) = result.tensors.groups
    assert (group.trait, group.pattern, group.blocks) == ("rewritten", "blk.N.w", [(1, 1)])


def test_a_new_header_before_the_same_weights(pair: Pair) -> None:
    tensors = [Tensor("w", [2])]
    old = gguf([ARCHITECTURE], tensors, data=b"12345678")
    new = gguf([ARCHITECTURE, text("k", "v" * 64)], tensors, data=b"12345678")
    result = pair(old, new, hash_mode="full", parts="data")
    assert (result.conclusion.code, result.file.tensor_data) == ("other_metadata", "same")
    assert "the weights are the same" in result.conclusion.message


def test_a_record_that_was_written_and_read_again(pair: Pair, tmp_path: Path) -> None:
    record = observe_artifact(tmp_path, gguf([ARCHITECTURE, aligned(64)], blocks(Q4_K, Q6_K), alignment=64).data)
    again = decode(encode(record))
    result = difference(Subject(again), Subject(record, "file"))
    assert (result.same, result.a.source, result.b.source) == (True, "record", "file")
    assert (result.a.evidence_id, result.b.evidence_id) == (record.evidence_id, None)


# -- metadata ---------------------------------------------------------------------------------------


def test_a_template_is_changed_and_nothing_else(pair: Pair) -> None:
    old = "{% for m in messages %}\n{{ m.content }}\n{% endfor %}"
    new = old.replace("content", "context")
    a = gguf([ARCHITECTURE, text(TEMPLATE, old)], blocks(Q4_K))
    b = gguf([ARCHITECTURE, text(TEMPLATE, new)], blocks(Q4_K))
    result = pair(a, b)
    assert (result.conclusion.code, result.same) == ("other_metadata", False)
    assert (traits(result), entries(result)) == ((0, 0, 0, 0, 0, 2), (0, 0, 1, 1))
    (template,) = result.metadata.templates
    assert (template.name, template.change) == ("default", "changed")
    assert template.a_sha256 == hashlib.sha256(old.encode()).hexdigest()
    assert template.b_sha256 == hashlib.sha256(new.encode()).hexdigest()
    assert template.text is not None
    assert (template.text.line, template.text.column) == (2, 11)
    assert (template.text.a, template.text.b) == ("{{ m.content }}", "{{ m.context }}")
    assert "chat template changed" in result.conclusion.message


def test_templates_added_and_removed(pair: Pair) -> None:
    a = gguf([ARCHITECTURE, text(TEMPLATE + ".tool_use", "x")])
    b = gguf([ARCHITECTURE, text(TEMPLATE, "x")])
    result = pair(a, b)
    assert {(t.name, t.change) for t in result.metadata.templates} == {("tool_use", "removed"), ("default", "added")}


def test_entries_added_removed_and_changed(pair: Pair) -> None:
    a = gguf([ARCHITECTURE, text("gone", "x"), Entry("number", "u32", 1), Entry("kind", "u32", 1)])
    b = gguf([ARCHITECTURE, Entry("number", "u32", 2), Entry("kind", "i32", 1), text("new", "y")])
    result = pair(a, b)
    assert entries(result) == (1, 1, 2, 1)
    assert [entry.key for entry in result.metadata.added] == ["new"]
    assert [entry.key for entry in result.metadata.removed] == ["gone"]
    assert [(c.key, c.a.type, c.a.value, c.b.type, c.b.value) for c in result.metadata.changed] == [
        ("number", "u32", 1, "u32", 2),
        ("kind", "u32", 1, "i32", 1),
    ]


def test_one_true_and_one_point_nought_are_three_values(pair: Pair) -> None:
    values = [Entry("x", "u8", 1), Entry("x", "bool", 1), Entry("x", "f32", 1.0)]
    for first in values:
        for second in values:
            assert pair(gguf([first]), gguf([second])).metadata.changed_count == (first is not second)


def test_floats_that_are_no_numbers(pair: Pair) -> None:
    values = [float("nan"), float("inf"), 0.0, -0.0]
    for first, value in enumerate(values):
        for second, other in enumerate(values):
            a, b = (gguf([Entry("x", "f64", one)]) for one in (value, other))
            assert pair(a, b).metadata.changed_count == (first != second)


def test_the_order_of_keys_only(pair: Pair) -> None:
    first, second = text("one", "1"), text("two", "2")
    result = pair(gguf([ARCHITECTURE, first, second]), gguf([ARCHITECTURE, second, first]))
    assert (result.conclusion.code, result.same) == ("reordered", False)
    assert (result.metadata.order_changed, entries(result)) == (True, (0, 0, 0, 3))


def test_a_new_key_is_no_other_order(pair: Pair) -> None:
    first, second = text("one", "1"), text("two", "2")
    assert pair(gguf([first, second]), gguf([text("new", ""), first, second])).metadata.order_changed is False


def tokens(*words: str) -> Built:
    """A file with a vocabulary."""
    return gguf([ARCHITECTURE, Entry("tokens", "array", Array("string", words))])


def test_a_token_among_the_first_eight(pair: Pair) -> None:
    result = pair(tokens("a", "b", "c"), tokens("a", "x", "c"))
    (change,) = result.metadata.changed
    assert (change.a.preview, change.b.preview, change.array_differs) == (["a", "b", "c"], ["a", "x", "c"], False)


def test_what_lies_past_the_first_eight_is_said_not_to_be_compared(pair: Pair) -> None:
    words = [f"t{index}" for index in range(20)]
    result = pair(tokens(*words), tokens(*words[:19], "t-1"))
    assert (entries(result), result.metadata.not_compared_count) == ((0, 0, 0, 1), 1)
    assert [name.key for name in result.metadata.not_compared] == ["tokens"]
    # The headers' digests differ, so it is known that something does.
    assert (result.conclusion.code, result.same) == ("other_header", False)


def test_the_digests_of_the_arrays_decide(tmp_path: Path) -> None:
    words = [f"t{index}" for index in range(20)]
    a = observe_artifact(tmp_path, tokens(*words).data, "a.gguf")
    b = observe_artifact(tmp_path, tokens(*words[:19], "t-1").data, "b.gguf")
    result = difference(Subject(a, "file", {1: "0" * 64}), Subject(b, "file", {1: "1" * 64}))
    (change,) = result.metadata.changed
    assert (change.key, change.array_differs, result.conclusion.code) == ("tokens", True, "other_metadata")
    result = difference(Subject(a, "file", {1: "0" * 64}), Subject(b, "file", {1: "0" * 64}))
    assert (result.metadata.changed_count, result.metadata.not_compared_count) == (0, 0)


def test_nothing_differs_and_not_all_is_known(tmp_path: Path) -> None:
    record = observe_artifact(tmp_path, tokens(*map(str, range(20))).data)
    unhashed = msgspec.structs.replace(record, read=msgspec.structs.replace(record.read, header_sha256=None))
    result = difference(Subject(unhashed), Subject(unhashed))
    assert (result.conclusion.code, result.same) == ("undecided", None)


def test_an_array_inside_an_array_is_not_whole(pair: Pair) -> None:
    inner = Array("u8", bytes(range(20)))
    other = Array("u8", bytes([*range(19), 99]))
    a, b = (gguf([Entry("x", "array", Array("array", [array]))]) for array in (inner, other))
    assert pair(a, b).metadata.not_compared_count == 1


def test_a_long_text_shows_where_it_differs(pair: Pair) -> None:
    long = "x" * 5000
    result = pair(gguf([text("k", long + "a" + long)]), gguf([text("k", long + "b" + long)]))
    (change,) = result.metadata.changed
    assert (change.a.characters, change.a.complete) == (10_001, False)
    assert change.text is not None
    assert change.text.column == 5001
    assert change.text.a is not None
    assert change.text.a.lstrip("x").startswith("a")


def test_keys_and_values_that_are_no_text(pair: Pair) -> None:
    result = pair(gguf([text("\\xff", b"\xfe"), Entry(b"\xff", "u8", 1)]), gguf([text("\\xff", b"\xfd")]))
    # The escaped form of one key is the text of the other; they are two keys all the same.
    assert entries(result) == (0, 1, 1, 0)
    assert [(entry.key, entry.key_base64) for entry in result.metadata.removed] == [("\\xff", "/w==")]
    (change,) = result.metadata.changed
    assert (change.a.value_base64, change.b.value_base64) == ("/g==", "/Q==")


# -- tensors ----------------------------------------------------------------------------------------


def test_requantized_blocks_are_one_group(pair: Pair) -> None:
    a = gguf([ARCHITECTURE], blocks(Q6_K, Q6_K, Q4_K, Q6_K))
    b = gguf([ARCHITECTURE], blocks(Q4_K, Q4_K, Q4_K, Q4_K))
    result = pair(a, b)
    assert (result.conclusion.code, result.same) == ("requantized", False)
    # All but the first tensor of 8 begin 32 bytes (or twice or three times that) earlier.
    assert traits(result) == (0, 0, 0, 3, 7, 0)
    (group,) = result.tensors.groups
    assert (group.pattern, group.a, group.b, group.count) == ("blk.N.ffn_down.weight", "Q6_K", "Q4_K", 3)
    assert group.blocks == [(0, 1), (3, 3)]
    assert (group.a_bytes, group.b_bytes) == (3 * 210, 3 * 144)
    by_type = {total.type: total for total in result.tensors.by_type}
    assert (by_type["Q6_K"].a_tensors, by_type["Q6_K"].b_tensors) == (3, 0)
    assert (by_type["Q4_K"].a_bytes, by_type["Q4_K"].b_bytes) == (144, 4 * 144)


def test_a_longer_header_moves_no_tensor(pair: Pair) -> None:
    a = gguf([ARCHITECTURE], blocks(Q4_K, Q4_K))
    b = gguf([ARCHITECTURE, text("general.description", "words" * 100)], blocks(Q4_K, Q4_K))
    result = pair(a, b)
    assert (result.conclusion.code, traits(result)) == ("other_metadata", (0, 0, 0, 0, 0, 4))
    fields = {change.name: (change.a, change.b) for change in result.file.fields}
    assert fields["data_offset"] == (a.data_offset, b.data_offset)
    assert fields["header_length"] == (a.header_end, b.header_end)


def test_moved_tensors(pair: Pair) -> None:
    a = gguf([ARCHITECTURE], [Tensor("x", [8]), Tensor("y", [8], offset=32)], data_length=128)
    b = gguf([ARCHITECTURE], [Tensor("x", [8]), Tensor("y", [8], offset=96)], data_length=128)
    result = pair(a, b)
    assert (result.conclusion.code, traits(result), result.tensors.shift) == ("moved", (0, 0, 0, 0, 1, 1), 64)


def test_tensors_that_change_their_places_stand_in_another_order(pair: Pair) -> None:
    x, y = Tensor("x", [8], offset=0), Tensor("y", [8], offset=32)
    result = pair(gguf([ARCHITECTURE], [x, y], data_length=64), gguf([ARCHITECTURE], [y, x], data_length=64))
    assert (result.conclusion.code, result.tensors.order_changed, traits(result)) == (
        "reordered",
        True,
        (0, 0, 0, 0, 0, 2),
    )


def test_tensors_added_removed_and_reshaped(pair: Pair) -> None:
    a = gguf([ARCHITECTURE], [*blocks(Q4_K, Q4_K), Tensor("output.weight", [4, 2])])
    b = gguf([ARCHITECTURE], [*blocks(Q4_K, Q4_K), Tensor("head.weight", [4, 2]), Tensor("extra", [8])])
    result = pair(a, b)
    assert (result.conclusion.code, traits(result)[:3]) == ("other_tensors", (2, 1, 0))
    assert {change.name for change in result.tensors.first} == {"output.weight", "head.weight", "extra"}
    result = pair(gguf([ARCHITECTURE], [Tensor("w", [4, 2])]), gguf([ARCHITECTURE], [Tensor("w", [2, 4])]))
    (group,) = result.tensors.groups
    assert (group.trait, group.a, group.b) == ("reshaped", "4 x 2", "2 x 4")


def test_another_model(pair: Pair) -> None:
    a = gguf([ARCHITECTURE], [Tensor(f"x{index}", [8]) for index in range(4)])
    b = gguf([ARCHITECTURE], [Tensor(f"y{index}", [8]) for index in range(4)])
    assert pair(a, b).conclusion.code == "other_model"


def test_the_architecture_decides_whether_it_is_another_model(pair: Pair) -> None:
    one = [Tensor("a", [8]), Tensor("b", [8]), Tensor("c", [8])]
    other = [*one[:2], Tensor("c", [16])]
    assert pair(gguf([ARCHITECTURE], one), gguf([ARCHITECTURE], other)).conclusion.code == "other_tensors"
    renamed = text("general.architecture", "another")
    assert pair(gguf([ARCHITECTURE], one), gguf([renamed], other)).conclusion.code == "other_model"


def test_keys_and_names_that_come_twice_are_counted_one_by_one(pair: Pair) -> None:
    twice = gguf([ARCHITECTURE, Entry("k"), Entry("k")], [Tensor("t", [8]), Tensor("t", [8])])
    once = gguf([ARCHITECTURE, Entry("k")], [Tensor("t", [8])])
    result = pair(twice, once)
    assert (entries(result), traits(result)) == ((0, 1, 0, 2), (0, 1, 0, 0, 0, 1))
    assert pair(twice, twice).same is True


def test_lists_are_short_and_counts_exact(pair: Pair) -> None:
    a = gguf([ARCHITECTURE, *(text(f"k{index}", "") for index in range(30))])
    b = gguf([ARCHITECTURE], [Tensor(f"t{index}x", [8]) for index in range(40)])
    result = pair(a, b, limit=3)
    assert (len(result.metadata.removed), result.metadata.removed_count) == (3, 30)
    assert (len(result.tensors.groups), result.tensors.group_count, result.tensors.added) == (3, 40, 40)
    assert len(result.tensors.first) == 3


def test_an_alignment_that_changed(pair: Pair) -> None:
    tensors = [Tensor("a", [8, 3]), Tensor("b", [8])]
    a = gguf([ARCHITECTURE, aligned(32)], tensors, alignment=32)
    b = gguf([ARCHITECTURE, aligned(64)], tensors, alignment=64)
    result = pair(a, b)
    assert {"alignment": (32, 64)}.items() <= {c.name: (c.a, c.b) for c in result.file.fields}.items()
    # "a" takes 96 bytes, so "b" begins at 96 or at 128.
    assert (traits(result), result.tensors.shift) == ((0, 0, 0, 0, 1, 1), 32)


def test_one_header_in_two_byte_orders(pair: Pair) -> None:
    little, big = (gguf([ARCHITECTURE], blocks(Q4_K), endian=endian) for endian in "<>")
    result = pair(little, big)
    assert (result.conclusion.code, result.same) == ("other_header", False)
    assert ("byte_order", "little", "big") in [(c.name, c.a, c.b) for c in result.file.fields]


# -- bytes ------------------------------------------------------------------------------------------


def test_bytes_that_are_appended(pair: Pair) -> None:
    built = gguf([ARCHITECTURE], blocks(Q4_K))
    result = pair(built.data, built.data + b"x" * 100)
    assert (result.conclusion.code, result.same, result.file.size_change) == ("other_size", False, 100)
    assert result.bytes is not None
    assert [(t.kind, t.bytes, t.first_offset) for t in result.bytes.only_b] == [
        ("trailing bytes", 100, len(built.data))
    ]
    assert (result.bytes.only_a, result.bytes.changed) == ([], [])
    assert [note.code for note in result.findings_only_b] == ["unowned_bytes"]
    assert result.findings_only_a == []


def test_classes_byte_by_byte(pair: Pair) -> None:
    """Two small files, and what each of their bytes is for, written down by hand."""
    tensors = [Tensor("a", [3]), Tensor("b", [8], offset=32)]
    a = gguf([ARCHITECTURE], tensors, data_length=64)
    b = gguf([ARCHITECTURE], [Tensor("a", [3], F16), Tensor("b", [4], offset=96)], data_length=112)
    data = a.data_offset
    assert data == b.data_offset
    # a: 12 bytes of "a", padding to 32, 32 bytes of "b". b: 6 bytes of "a", padding to 32, a gap to 96, 16 bytes of "b".
    words_a = ["F32"] * 12 + ["padding"] * 20 + ["F32"] * 32
    words_b = ["F16"] * 6 + ["padding"] * 26 + ["gap"] * 64 + ["F32"] * 16
    changes: dict[tuple[str, str], int] = {}
    for first, second in zip(words_a, words_b, strict=False):
        if first != second:
            changes[first, second] = changes.get((first, second), 0) + 1
    found = pair(a, b).bytes
    assert found is not None
    told = {(c.a.removeprefix("tensor "), c.b.removeprefix("tensor ")): c.bytes for c in found.changed}
    assert told == changes
    assert found.same_class == data + sum(x == y for x, y in zip(words_a, words_b, strict=False))
    assert {t.kind: (t.bytes, t.first_offset) for t in found.only_b} == {
        "gap": (32, data + 64),
        "tensor F32": (16, data + 96),
    }


@property_test(40)
@given(
    sides=st.tuples(
        *[
            st.tuples(
                st.lists(st.tuples(st.integers(0, 12), st.integers(0, 24), st.sampled_from([F32, F16])), max_size=5),
                st.integers(0, 600),
            )
        ]
        * 2
    )
)
def test_every_byte_is_counted_once(tmp_path: Path, sides: Any) -> None:
    """Tensors anywhere, upon each other and past the end: the sums come to the sizes, and A and B are symmetrical."""
    subjects = []
    for name, (places, length) in zip("ab", sides, strict=True):
        tensors = [Tensor(f"t{i}", [size], kind, offset=32 * at) for i, (at, size, kind) in enumerate(places)]
        built = gguf([ARCHITECTURE], tensors, data=bytes(length))
        subjects.append((Subject(observe_artifact(tmp_path, built.data, f"{name}.gguf")), len(built.data)))
    (a, size_a), (b, size_b) = subjects
    there, back = difference(a, b, 1).bytes, difference(b, a, 1).bytes
    if there is None or back is None:
        assert there is back
        return
    shorter = min(size_a, size_b)
    assert there.same_class + sum(change.bytes for change in there.changed) == shorter
    assert sum(total.bytes for total in there.only_a) == size_a - shorter
    assert sum(total.bytes for total in there.only_b) == size_b - shorter
    assert {(c.a, c.b, c.bytes, c.runs, c.first_offset) for c in there.changed} == {
        (c.b, c.a, c.bytes, c.runs, c.first_offset) for c in back.changed
    }
    assert (there.only_a, there.only_b) == (back.only_b, back.only_a)


def test_runs_are_counted(pair: Pair) -> None:
    x, y, z = ([Tensor(name, [8], type_id) for name in ("a", "b", "c")] for type_id in (F32, F32, F32))
    y[0], y[2] = Tensor("a", [16], F16), Tensor("c", [16], F16)
    found = pair(gguf([ARCHITECTURE], x), gguf([ARCHITECTURE], y)).bytes
    assert found is not None
    assert [(c.a, c.b, c.bytes, c.runs) for c in found.changed] == [("tensor F32", "tensor F16", 64, 2)]
    assert pair(gguf([ARCHITECTURE], x), gguf([ARCHITECTURE], z)).same


def test_overlapping_tensors_have_a_class_of_their_own(pair: Pair) -> None:
    apart = gguf([ARCHITECTURE], [Tensor("a", [8]), Tensor("b", [8], offset=32)], data_length=64)
    upon = gguf([ARCHITECTURE], [Tensor("a", [8]), Tensor("b", [8], offset=0)], data_length=64)
    found = pair(apart, upon).bytes
    assert found is not None
    assert {(c.a, c.b): c.bytes for c in found.changed} == {
        ("tensor F32", "overlap"): 32,
        ("tensor F32", "trailing bytes"): 32,
    }


def test_a_file_that_was_cut(pair: Pair) -> None:
    built = gguf([ARCHITECTURE], blocks(Q4_K, Q4_K))
    result = pair(built.data, built.data[:-100])
    assert (result.conclusion.code, result.file.size_change) == ("other_size", -100)
    assert result.bytes is not None
    assert [(t.kind, t.bytes) for t in result.bytes.only_a] == [("tensor F32", 100)]
    assert [note.code for note in result.findings_only_b] == ["tensor_bytes_missing"]


def test_a_header_that_was_cut_is_compared_as_far_as_it_goes(pair: Pair) -> None:
    built = gguf([ARCHITECTURE, text("k", "v")], blocks(Q4_K, Q4_K))
    cut = built.data[: built.at("tensors[1].n_dims")]
    result = pair(built.data, cut)
    assert (traits(result)[1], result.tensors.not_compared, result.tensors.extent) == (0, 3, "partial")
    assert result.same is False
    assert (result.bytes, result.tensors.reason is not None) == (None, True)
    assert result.bytes_reason is not None
    assert result.bytes_reason.startswith("B: ")


def test_what_a_cut_header_does_not_say_is_not_called_different(pair: Pair) -> None:
    built = gguf([ARCHITECTURE, text("k", "v")], blocks(Q4_K))
    cut = built.data[: built.at("metadata[1].value")]
    result = pair(built.data, cut)
    # The alignment of the cut one is not known; the sizes differ, and that is all that is known to.
    assert (result.conclusion.code, result.metadata.not_compared_count) == ("other_size", 1)
    assert pair(cut, cut).same is None


def test_what_is_no_model(pair: Pair) -> None:
    result = pair(gguf([ARCHITECTURE]), b"hello, world, this is no model")
    assert (result.conclusion.code, result.same, result.b.format) == ("other_format", False, None)
    result = pair(b"hello, world, this is no model", b"hello, world, this is no other")
    assert result.same is None


# -- safetensors ------------------------------------------------------------------------------------


def test_safetensors(pair: Pair) -> None:
    data = bytes(16)
    header = {"__metadata__": {"format": "pt"}, "a": st_entry("F32", [2], 0, 8), "b": st_entry("F32", [2], 8, 16)}
    other = {"__metadata__": {"format": "np"}, "a": st_entry("F32", [2], 0, 8), "b": st_entry("I64", [1], 8, 16)}
    result = pair(safetensors(header, data), safetensors(other, data), "safetensors")
    assert (entries(result), traits(result)) == ((0, 0, 1, 0), (0, 0, 1, 1, 0, 1))
    (group,) = result.tensors.groups
    assert (group.pattern, group.a, group.b) == ("b", "F32 2", "I64 1")
    assert result.bytes is not None
    assert [(c.a, c.b, c.bytes) for c in result.bytes.changed] == [("tensor F32", "tensor I64", 8)]


def test_white_space_in_json_is_no_declaration(pair: Pair) -> None:
    header = {"a": st_entry("F32", [2], 0, 8)}
    loose = json.dumps(header, separators=(", ", ":"))
    tight = json.dumps(header, separators=(",", ":"))
    tight += " " * (len(loose) - len(tight))
    result = pair(safetensors(loose, bytes(8)), safetensors(tight, bytes(8)), "safetensors")
    assert (result.conclusion.code, result.same) == ("same_declarations", True)
    assert result.file.header_sha256 == "differs"


@pytest.mark.skipif(not CASES.is_dir(), reason="the collection of input files is not here")
def test_the_published_pair_differs_in_its_metadata() -> None:
    paths = [CASES / "field" / "st" / f"pair_meta_{name}.safetensors" for name in "ab"]
    headers = []
    for path in paths:
        raw = path.read_bytes()
        headers.append(json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]]))
    a, b = (Subject(observation(path)) for path in paths)
    result = difference(a, b)
    ours, theirs = (header.pop("__metadata__", {}) for header in headers)
    assert headers[0] == headers[1]
    assert result.conclusion.code == "other_metadata"
    assert entries(result)[:3] == (
        len(theirs.keys() - ours.keys()),
        len(ours.keys() - theirs.keys()),
        sum(ours[key] != theirs[key] for key in ours.keys() & theirs.keys()),
    )
    assert traits(result) == (0, 0, 0, 0, 0, len(headers[0]))


def test_two_formats(tmp_path: Path) -> None:
    a = observe_artifact(tmp_path, gguf([ARCHITECTURE], [Tensor("w", [2])]).data)
    b = observe_artifact(tmp_path, safetensors({"w": st_entry("F32", [2], 0, 8)}, bytes(8)), "b.safetensors")
    assert difference(Subject(a), Subject(b)).conclusion.code == "other_format"


# -- bounds -----------------------------------------------------------------------------------------


def many(count: int, type_id: int) -> Evidence:
    """The record of a file with many tensors and keys, made without a file."""
    rows = [
        GgufTensorRow(
            index=index,
            name=f"blk.{index // 10}.part{index % 10}.weight",
            type_id=type_id,
            type="F32" if type_id == F32 else "F16",
            shape=["8"],
            elements="8",
            offset=32 * index,
            file_offset=64 + 32 * index,
            byte_length=32 if type_id == F32 else 16,
            storage_validation="consistent",
        )
        for index in range(count)
    ]
    keys = [MetadataRow(index=index, key=f"k{index}", type="u32", value=type_id) for index in range(count)]
    part = msgspec.structs.replace(gguf_part(), tensors=rows, tensor_count=count, metadata=keys, metadata_count=count)
    record = evidence(gguf=part, accounting=accounting(file_size=64 + 32 * count))
    return msgspec.structs.replace(record, artifact=msgspec.structs.replace(record.artifact, size=64 + 32 * count))


def test_ten_thousand_tensors() -> None:
    """More than anything that takes the square of the time would be through with."""
    count = 10_000
    result = difference(Subject(many(count, F32)), Subject(many(count, F16)))
    assert traits(result) == (0, 0, 0, count, 0, 0)
    assert (result.tensors.group_count, result.tensors.groups[0].blocks) == (10, [(0, count // 10 - 1)])
    assert (result.metadata.changed_count, len(result.metadata.changed)) == (count, 10)
    assert result.bytes is not None
    assert {(c.a, c.b): (c.bytes, c.runs) for c in result.bytes.changed} == {
        ("tensor F32", "tensor F16"): (16 * count, count),
        ("tensor F32", "padding"): (16 * count, count),
    }


def test_a_record_that_contradicts_itself_is_no_trouble() -> None:
    record = many(4, Q4_K)
    assert record.gguf is not None
    assert record.gguf.tensors is not None
    odd: list[dict[str, Any]] = [
        {"shape": ["0"], "elements": "7", "byte_length": None},
        {"shape": ["x"], "elements": "y", "byte_length": None},
        {"file_offset": -5, "byte_length": -7},
        {"name_base64": "not base64", "shape": ["9" * 5000], "byte_length": None},
    ]
    rows = [msgspec.structs.replace(row, **one) for row, one in zip(record.gguf.tensors, odd, strict=True)]
    broken = msgspec.structs.replace(record, gguf=msgspec.structs.replace(record.gguf, tensors=rows))
    assert difference(Subject(broken), Subject(record)).same is False
    assert difference(Subject(record), Subject(broken)).same is False


def test_a_summary_has_nothing_to_compare(tmp_path: Path) -> None:
    record = observe_artifact(tmp_path, gguf([ARCHITECTURE]).data)
    with pytest.raises(ValueError, match="summary"):
        difference(Subject(summary(record)), Subject(record))


def test_no_integer_is_past_what_json_holds(pair: Pair) -> None:
    huge = [Tensor(f"t{index}", [1 << 52], F32, offset=32) for index in range(3)]
    result = pair(gguf([ARCHITECTURE], huge, data_length=64), gguf([ARCHITECTURE], [], data_length=64))
    assert result.tensors.by_type[0].a_bytes is None
    assert result.tensors.removed == 3

    def check(value: object) -> None:
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(item)
        assert not isinstance(value, int) or abs(value) <= 2**53 - 1

    check(json.loads(msgspec.json.encode(result)))


# -- texts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "line", "column", "first", "second"),
    [
        ("a", "b", 1, 1, "a", "b"),
        ("a\nb\nc", "a\nx\nc", 2, 1, "b", "x"),
        ("same", "same\nmore", 2, 1, None, "more"),
        ("same\n", "same", 2, 1, "", None),
        ("", "x", 1, 1, "", "x"),
        ("abc", "ab", 1, 3, "abc", "ab"),
        ("a\nb", "ab", 1, 2, "a", "ab"),
        ("", "\n", 2, 1, None, ""),
    ],
)
def test_the_first_line_that_differs(
    a: str, b: str, line: int, column: int, first: str | None, second: str | None
) -> None:
    change = first_change(a, b)
    assert change is not None
    assert (change.line, change.column, change.a, change.b) == (line, column, first, second)


def test_no_change() -> None:
    assert first_change("a\nb", "a\nb") is None
