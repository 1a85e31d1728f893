"""Dumped headers: exact in both directions, and nothing that is not one is taken for one."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import math
import os
import struct
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.evidence.expectation import Expectation, Reference, Remark
from auditd.evidence.observation import Observation, Stop
from auditd.formats.declarations import ArrayValue, GgufHeader, SafetensorsHeader, TensorColumns
from auditd.header_dump.codec import DumpError, NotDumpable, decode, encode
from auditd.inspection.composition import compose
from auditd.inspection.reread import array_digests
from tests.builders import (
    ARCHITECTURE,
    CASES,
    PRODUCER,
    Array,
    Entry,
    Tensor,
    aligned,
    gguf,
    property_test,
    safetensors,
    simple,
    sketch,
    st_entry,
)
from tests.models import hero
from tests.support.looks import looked, looked_at, twin_at

#: Every value type, and in each what JSON has trouble with.
AWKWARD = [
    ARCHITECTURE,
    Entry("u8", "u8", 255),
    Entry("i8", "i8", -128),
    Entry("u16", "u16", 65_535),
    Entry("i16", "i16", -32_768),
    Entry("i32", "i32", -(2**31)),
    Entry("u64", "u64", 2**64 - 1),
    Entry("i64", "i64", -(2**63)),
    Entry("f32", "f32", 0.1),
    Entry("f32.whole", "f32", 1e6),
    Entry("f64", "f64", 0.1),
    Entry("nan", "f32", math.nan),
    Entry("inf", "f64", -math.inf),
    Entry("minus.zero", "f32", -0.0),
    Entry("yes", "bool", 1),
    Entry("two", "bool", 2),
    Entry(b"k\xff", "string", b"\xfe\x00x"),
    Entry("text", "string", '\u202e"\\\n\x1b'),
    Entry("empty", "array", Array("string", [])),
    Entry("texts", "array", Array("string", [b"\xff", "x"] * 6)),
    Entry("numbers", "array", Array("f32", [math.inf, -0.0, 0.1] * 4)),
    Entry("nested", "array", Array("array", [Array("u8", [1, 2]), Array("string", ["a"] * 9)])),
    Entry("tokenizer.chat_template", "string", "{{ x }}"),
]
TENSORS = [
    Tensor("w", [32, 2], 8),
    Tensor(b"\xf0", [2**40, 0], 0),
    Tensor("scalar", [], 0),
    Tensor("fork", [4], 144, 0),
]

NESTED_32 = Array("u8", [7])
for _ in range(31):
    NESTED_32 = Array("array", [NESTED_32])

FILES: dict[str, bytes] = {
    "awkward": gguf(AWKWARD, TENSORS, data_length=4096).data,
    "big-endian": gguf(AWKWARD, TENSORS, endian=">", data_length=4096).data,
    "version 2": gguf(AWKWARD, TENSORS, version=2, data_length=4096).data,
    "nested to the bound": gguf([ARCHITECTURE, Entry("deep", "array", NESTED_32)]).data,
    "nothing in it": gguf([], []).data,
    "a partial gap": gguf([ARCHITECTURE], []).data + b"x",
    "alignment 0": gguf([aligned(0)], [Tensor("w", [8])], alignment=32).data,
    "alignment twice": gguf([aligned(64), Entry("general.alignment", "u32", 32)], [Tensor("w", [8])]).data,
    "alignment a text": gguf([Entry("general.alignment", "string", "64")], [Tensor("w", [8])]).data,
    "keys twice": gguf([ARCHITECTURE, ARCHITECTURE], [Tensor("w", [8]), Tensor("w", [8])]).data,
    "overflow": simple(Tensor("w", [2**63, 2**63], length=0)).data,
    "part of a block": simple(Tensor("w", [33], 8, length=36)).data,
    "an impossible count": gguf(metadata_count=2**63).data,
    "version 9": gguf(version=9).data,
    "gap and trail": simple(Tensor("a", [8]), Tensor("b", [8], offset=96), data_length=300).data,
    "beyond 2^53": simple(Tensor("a", [8], offset=2**63), data_length=32).data,
    "three bytes": b"GGU",
    "text": b"hello, world",
    "empty": b"",
    "st": safetensors(
        {
            "__metadata__": {"a": "b", "": "\u202e"},
            "v": st_entry("F16", [2, 1], 8, 12),
            "w": st_entry("F32", [2], 0, 8),
        },
        bytes(12),
    ),
    "st without tensors": safetensors("{}"),
    "st null metadata": safetensors('{"__metadata__":null}'),
    "st unknown dtype": safetensors({"w": st_entry("X1", [2**60, 1], 0, 8)}, bytes(8)),
    "st gap": safetensors({"w": st_entry("F32", [1], 4, 8)}, bytes(9)),
    "st reversed": safetensors({"w": st_entry("F32", [1], 8, 4)}, bytes(8)),
    "st overflow": safetensors({"w": st_entry("F32", [2**63, 2], 0, 8)}, bytes(8)),
    "st twice": safetensors('{"w":1,"w":2}'),
    "st cut": safetensors("{}", length=1000),
    "st too long": safetensors("{}", length=2**40),
}


def record_of(observation: Observation) -> dict[str, Any]:
    """What a record says of a look, but for what only a file has."""
    evidence = compose(observation, producer=PRODUCER, trigger="command", recorded_at="", severities={})
    names = ("outcome", "verdict", "gguf", "safetensors", "accounting", "findings", "error", "limitations")
    return {name: getattr(evidence, name) for name in names}


def assert_equal_headers(a: GgufHeader | SafetensorsHeader | None, b: GgufHeader | SafetensorsHeader | None) -> None:
    assert type(a) is type(b)
    if a is None:
        return
    for field in fields(a):
        ours, theirs = getattr(a, field.name), getattr(b, field.name)
        if field.name == "columns" and ours is not None:
            assert [getattr(ours, name) for name in ours.__slots__] == [
                getattr(theirs, name) for name in ours.__slots__
            ]
        else:
            assert repr(ours) == repr(theirs), field.name  # repr: a NaN is not equal to itself, 1 is to 1.0


def assert_round_trip(observation: Observation) -> Observation:
    text = encode(observation)
    back = decode(text)
    assert encode(back) == text
    assert_equal_headers(observation.header, back.header)
    assert record_of(back) == record_of(observation)
    assert (back.size, back.path, back.header_sha256) == (
        observation.size,
        os.path.basename(observation.path),
        observation.header_sha256,
    )
    return back


# -- what is kept -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hero_look(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    return array_digests(twin_at(tmp_path_factory.mktemp("hero"), hero()))


def test_a_large_model_is_a_hundred_thousandth_of_itself(hero_look: Observation) -> None:
    text = encode(hero_look)
    assert len(text) < hero().file_size / 95_000
    lines = text.decode().splitlines()
    assert text.endswith(b"}\n")
    assert sum(line.startswith('{"name":"') for line in lines) - 1 == 339  # one more: the chat template
    assert sum(line.startswith('{"key":"') for line in lines) == 34
    assert '{"name":"output_norm.weight","shape":[3584],"type":0,"offset":4677105664}' in lines
    assert '{"key":"qwen2.block_count","type":"u32","value":28},' in lines


def test_a_large_model_comes_back(hero_look: Observation) -> None:
    back = assert_round_trip(hero_look)
    assert back.account is not None
    assert back.account.figures.residue == 0
    assert back.array_sha256 == hero_look.array_sha256


def test_digests_of_long_arrays_are_those_of_their_bytes(hero_look: Observation) -> None:
    header = hero_look.header
    assert isinstance(header, GgufHeader)
    long = [entry for entry in header.metadata if isinstance(entry.value, ArrayValue) and entry.value.count > 8]
    assert [entry.index for entry in long] == [25, 26, 27] == list(hero_look.array_sha256)
    for entry in long:
        value = hero().header[entry.value_begin : entry.end]
        assert hero_look.array_sha256[entry.index] == hashlib.sha256(value).hexdigest()
    rows = json.loads(encode(hero_look))["metadata"]
    assert {index for index, row in enumerate(rows) if "sha256" in row} == {25, 26, 27}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_comes_back(tmp_path: Path, name: str) -> None:
    assert_round_trip(looked_at(tmp_path, FILES[name]))


@pytest.mark.parametrize("length", range(0, 409, 8))
def test_a_file_that_is_cut_anywhere_comes_back(tmp_path: Path, length: int) -> None:
    assert_round_trip(looked_at(tmp_path, sketch().data[:length]))


@pytest.mark.skipif(not CASES.is_dir(), reason="the collection of input files is not here")
def test_the_collection_comes_back() -> None:
    for path in sorted((CASES / "advisories").rglob("*.*")):
        assert_round_trip(looked(path))


def test_values_are_exact(tmp_path: Path) -> None:
    rows = {row["key"]: row for row in json.loads(encode(looked_at(tmp_path, FILES["awkward"])))["metadata"]}
    assert rows["u64"]["value"] == str(2**64 - 1)
    assert rows["i64"]["value"] == str(-(2**63))
    assert rows["f32"]["value"] == struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert [rows[key]["value"] for key in ("nan", "inf", "minus.zero")] == ["NaN", "-Infinity", "-0"]
    assert [rows[key]["value"] for key in ("yes", "two")] == [True, 2]
    assert base64.b64decode(rows["k\\xff"]["key_base64"]) == b"k\xff"
    assert base64.b64decode(rows["k\\xff"]["value_base64"]) == b"\xfe\x00x"
    assert len(rows["texts"]["preview"]) == 8
    assert rows["texts"]["bytes"] == 12 + 6 * 9 + 6 * 9
    assert "bytes" not in rows["numbers"]
    assert rows["nested"]["preview"][0] == {"element_type": "u8", "count": 2, "preview": [1, 2]}


def test_nothing_in_it_acts_upon_a_terminal(tmp_path: Path) -> None:
    text = encode(looked_at(tmp_path, FILES["awkward"])).decode()
    assert not set(text) & set("\u202e\x1b")
    assert "\\u202e" in text


def test_what_a_store_says_is_kept(tmp_path: Path) -> None:
    expectation = Expectation(
        store="ollama",
        names=("a:latest", "\x1bb"),
        references=(Reference("sha256", "0" * 64, "the name of the blob"), Reference("git-sha1", "1" * 40, "an etag")),
        size=408,
        role="model",
        remarks=(Remark("orphan", "no manifest names it"),),
    )
    observation = replace(looked_at(tmp_path, sketch().data), expectation=expectation)
    assert decode(encode(observation)).expectation == expectation
    odd = encode(replace(observation, expectation=replace(expectation, names=("m\udcff", "\ud800"))))
    assert decode(odd).expectation.names == ("m\\udcff", "\\ud800")
    assert encode(decode(odd)) == odd


def test_a_name_that_is_not_text_is_kept(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/m\xff.gguf"
    with open(path, "wb") as file:
        file.write(sketch().data)
    assert decode(encode(looked(path))).path == b"m\xff.gguf"


def test_a_layout_is_believed_when_the_dump_is_read(tmp_path: Path) -> None:
    data = simple(Tensor("w", [256], 12)).data
    text = encode(looked_at(tmp_path, data))
    back = decode(text, layout="k64")
    assert back.account is not None
    assert (back.account.layout, back.account.basis) == ("k64", "operator")
    assert back.account.figures.tensor_bytes == 4 * 38
    assert encode(back) == text


# -- what is no dump --------------------------------------------------------------------------------

Change = Callable[[dict[str, Any]], object]


def put(*path: Any) -> Change:
    """Set the member at all but the last of ``path`` to the last."""
    *places, name, value = path

    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for place in places:
            target = target[place]
        target[name] = value

    return change


GGUF_CHANGES: list[tuple[Change, str]] = [
    (put("schema", "model-auditd/header/2"), "schema"),
    (put("format", "onnx"), "format"),
    (put("more", 1), "more"),
    (put("metadata", 0, "more", 1), "metadata[0]"),
    (lambda d: d.pop("tensors"), "tensors"),
    (put("version", 4), "version"),
    (put("version", None), "byte_order"),
    (put("byte_order", "middle"), "byte_order"),
    (lambda d: d.update(version=2, byte_order="big"), "byte_order"),
    (put("tensor_count", 2), "tensors"),
    (put("tensor_count", None), "metadata_count"),
    (put("metadata_count", 22), "metadata"),
    (put("metadata_count", -1), "metadata_count"),
    (put("metadata_count", 23.0), "metadata_count"),
    (put("metadata_count", "23"), "metadata_count"),
    (put("alignment", 64), "alignment"),
    (put("alignment_declared", True), "alignment_declared"),
    (put("metadata_end", 1), "metadata_end"),
    (put("metadata_end", None), "metadata_end"),
    (put("directory_end", None), "directory_end"),
    (put("data_offset", 0), "data_offset"),
    (put("header_sha256", "0" * 63), "header_sha256"),
    (put("file", "size", 100), "metadata"),
    (put("file", "size", 2**63), "file.size"),
    (put("file", "name", "a/b"), "file.name"),
    (put("chat_templates", []), "chat_templates"),
    (put("chat_templates", 0, "sha256", "0" * 64), "chat_templates"),
    (put("metadata", 1, "value", 256), "metadata[1].value"),
    (put("metadata", 1, "value", 1.0), "metadata[1].value"),
    (put("metadata", 1, "value", True), "metadata[1].value"),
    (put("metadata", 1, "value", None), "metadata[1]"),
    (put("metadata", 1, "type", "u7"), "metadata[1].type"),
    (put("metadata", 6, "value", 5), "metadata[6].value"),
    (put("metadata", 6, "value", "05"), "metadata[6].value"),
    (put("metadata", 6, "value", str(2**64)), "metadata[6].value"),
    (put("metadata", 6, "value", "\u0661"), "metadata[6].value"),
    (put("metadata", 8, "value", 0.1), "metadata[8].value"),
    (put("metadata", 8, "value", 1), "metadata[8].value"),
    (put("metadata", 8, "value", "Infinity"), "metadata[8].value"),
    (put("metadata", 14, "value", 1), "metadata[14].value"),
    (put("metadata", 15, "value", 256), "metadata[15].value"),
    (put("metadata", 16, "value_base64", "AAAA"), "metadata[16].value_base64"),
    (put("metadata", 16, "value_base64", "?"), "metadata[16].value_base64"),
    (put("metadata", 0, "value_base64", "dGVzdA=="), "metadata[0].value_base64"),
    (put("metadata", 0, "count", 1), "metadata[0]"),
    (put("metadata", 18, "value", "x"), "metadata[18]"),
    (put("metadata", 19, "preview", []), "metadata[19].preview"),
    (put("metadata", 19, "count", 3), "metadata[19].preview"),
    (put("metadata", 19, "bytes", 10), "metadata[19].bytes"),
    (put("metadata", 19, "bytes", None), "metadata[19].bytes"),
    (put("metadata", 19, "preview_base64", [None] * 8), "metadata[19].preview_base64"),
    (put("metadata", 19, "preview", 0, 1), "metadata[19].preview[0]"),
    (put("metadata", 20, "bytes", 60), "metadata[20].bytes"),
    (put("metadata", 20, "count", 2**53 - 1), "metadata[20]"),
    (put("metadata", 20, "count", str(2**64 - 1)), "metadata[20]"),
    (put("metadata", 20, "count", str(2**64)), "metadata[20].count"),
    (put("metadata", 21, "preview", 0, "x"), "metadata[21].preview[0]"),
    (put("metadata", 0, "sha256", "0" * 64), "metadata[0].sha256"),
    (put("tensors", 0, "shape", [1] * 5), "tensors[0].shape"),
    (put("tensors", 0, "shape", [-1]), "tensors[0].shape[0]"),
    (put("tensors", 0, "shape", ["32", 2]), "tensors[0].shape[0]"),
    (put("tensors", 0, "type", 2**32), "tensors[0].type"),
    (put("tensors", 0, "offset", "1" * 20 + "0"), "tensors[0].offset"),
    (put("tensors", 0, "name", "longer"), "directory_end"),
    (put("tensors", []), "tensors"),
    (put("notices", 0, "code", "made_up"), "notices[0].code"),
    (put("notices", 0, "message", "\x1b[2J"), "notices[0]"),
    (put("notices", 0, "count", 0), "notices[0].count"),
    (
        put("promise", {"references": [{"algorithm": "sha256", "value": "1" * 40, "source": ""}]}),
        "promise.references[0]",
    ),
]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return {
        name: json.loads(encode(looked_at(tmp_path_factory.mktemp("dumps"), data)))
        for name, data in FILES.items()
        if name in {"awkward", "st", "st twice", "text", "an impossible count"}
    }


def refused(document: dict[str, Any], change: Change) -> str:
    document = copy.deepcopy(document)
    change(document)
    with pytest.raises(DumpError) as caught:
        decode(json.dumps(document).encode())
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "where"), GGUF_CHANGES, ids=[f"{i}-{where}" for i, (_, where) in enumerate(GGUF_CHANGES)]
)
def test_what_is_wrong_is_named(documents: dict[str, dict[str, Any]], change: Change, where: str) -> None:
    assert where in refused(documents["awkward"], change)


@pytest.mark.parametrize(
    ("name", "change", "where"),
    [
        ("st", put("header_length", 100_000_009), "header_length"),
        ("st", put("header_length", 10**6), "header_length"),
        ("st", put("tensor_count", 3), "tensor_count"),
        ("st", put("tensors", 0, "name", "w"), "tensors[1].name"),
        ("st", put("tensors", 0, "name", "x"), "tensors[1].name"),
        ("st", put("tensors", 0, "at", 8), "tensors[0].at"),
        ("st", put("tensors", 0, "range", [0]), "tensors[0].range"),
        ("st", lambda d: d["metadata"].append({"key": "a", "value": "c"}), "metadata"),
        ("st twice", put("metadata", []), "tensors"),
        ("st twice", put("faults", 0, "stopped", False), "tensor_count"),
        ("st twice", put("faults", 0, "constraint", "taste"), "faults[0].constraint"),
        ("text", put("kind", "poem"), "kind"),
        ("text", put("head_base64", "AA=="), "head_base64"),
        ("an impossible count", put("faults", 0, "subject", "\u202e"), "faults[0]"),
        ("an impossible count", put("faults", 0, "actual", {"integer": "1"}), "faults[0].actual"),
        ("an impossible count", lambda d: d["faults"].append(d["faults"][0]), "faults"),
    ],
)
def test_the_same_of_other_formats(documents: dict[str, dict[str, Any]], name: str, change: Change, where: str) -> None:
    assert where in refused(documents[name], change)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"GGUF\x03\0\0\0",
        b'{"schema":"model-auditd/evidence/1"}',
        b'{"schema": "\xff"}',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"file":{"size":1,"size":2}}',
        b"{} {}",
    ],
    ids=range(12),
)
def test_texts_that_are_no_dump(text: bytes) -> None:
    with pytest.raises(DumpError, match=r"^no dumped header: "):
        decode(text)
    with pytest.raises(DumpError, match=r"^m\.json: "):
        decode(text, name="m.json")


def test_a_name_that_comes_twice_is_refused(tmp_path: Path) -> None:
    """Most JSON readers take the last one, so two programs would see two headers."""
    text = encode(looked_at(tmp_path, sketch().data))
    assert b'"type":0,' in text
    with pytest.raises(DumpError, match="has the name"):
        decode(text.replace(b'"type":0,', b'"type":1,"type":0,'))


@pytest.mark.parametrize("constant", [b"NaN", b"Infinity", b"1e999"])
def test_numbers_that_json_does_not_have(tmp_path: Path, constant: bytes) -> None:
    text = encode(looked_at(tmp_path, gguf([Entry("x", "f64", 0.5)]).data))
    with pytest.raises(DumpError):
        decode(text.replace(b'"value":0.5', b'"value":' + constant))


def test_other_white_space_is_the_same_dump(tmp_path: Path) -> None:
    text = encode(looked_at(tmp_path, FILES["awkward"]))
    assert encode(decode(json.dumps(json.loads(text), indent=3).encode())) == text


LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, -1, 33, 2**32, 2**53, 0.5, "", "x", "-0", str(2**53), str(2**64), [], {}, [None], "array", "u64"]
)


@property_test(60)
@given(st.data())
def test_any_change_is_refused_or_a_header_like_any_other(
    documents: dict[str, dict[str, Any]], data: st.DataObject
) -> None:
    document = copy.deepcopy(documents[data.draw(st.sampled_from(sorted(documents)))])
    target: Any = document
    while True:
        place = data.draw(st.sampled_from(sorted(target) if isinstance(target, dict) else range(len(target))))
        if not isinstance(target[place], dict | list) or not target[place] or data.draw(st.booleans()):
            break
        target = target[place]
    if data.draw(st.booleans()):
        target[place] = data.draw(LEAVES)
    else:
        del target[place]
    try:
        observation = decode(json.dumps(document).encode())
    except DumpError:
        return
    assert encode(decode(encode(observation))) == encode(observation)
    record_of(observation)


# -- what cannot be dumped --------------------------------------------------------------------------


def test_looks_that_do_not_stand_in_for_their_file(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, sketch().data)
    header = observation.header
    assert isinstance(header, GgufHeader)
    short = replace(header, complete=False, stopped=None, directory_end=None, columns=TensorColumns())
    for unlike, why in (
        (replace(observation, stop=Stop("cancelled", "cancelled", "stopped by SIGINT")), "stopped by SIGINT"),
        (replace(observation, identity="modified"), "changed while it was read"),
        (replace(observation, skipped=True), "a download is under way"),
        (replace(observation, header=None), "nothing of the file was read"),
        (replace(observation, header=replace(header, rows_complete=False)), "more than is kept"),
        (replace(observation, header=short), "not read to its end"),
    ):
        with pytest.raises(NotDumpable, match=why):
            encode(unlike)
