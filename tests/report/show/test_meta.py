"""``show meta``: every entry as it was written, long ones cut, one of them whole."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest

from auditd.errors import UsageError
from auditd.evidence.observation import Observation
from auditd.header_dump import codec as dump
from auditd.inspection.reread import elements
from auditd.report.columns import width
from auditd.report.show.meta import (
    MetaSheet,
    ValueSheet,
    element_lines,
    lines,
    long_array,
    sheet,
    value_sheet,
)
from auditd.report.show.meta_table import cut_text
from auditd.report.style import plain
from tests.builders import ARCHITECTURE, CASES, Array, Entry, gguf, safetensors, sketch, st_entry
from tests.models import hero
from tests.support.looks import looked, looked_at, twin_at


def text(shown: MetaSheet | ValueSheet, columns: int = 80) -> list[str]:
    return list(lines(shown, columns, plain))


def all_elements(observation: Observation, key: bytes) -> ValueSheet:
    entry = long_array(observation, key)
    return value_sheet(observation, key, None if entry is None else elements(observation, entry))


@pytest.fixture(scope="module")
def hero_look(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    return twin_at(tmp_path_factory.mktemp("hero"), hero())


def test_the_published_entries(hero_look: Observation) -> None:
    shown = sheet(hero_look)
    assert [row.index for row in shown.entries] == list(range(34))
    assert shown.declared == 34
    rows = {row.key: row for row in shown.entries}
    assert (rows["qwen2.attention.layer_norm_rms_epsilon"].type, rows["qwen2.rope.freq_base"].value) == ("f32", 1e6)
    assert rows["qwen2.attention.layer_norm_rms_epsilon"].value == 9.999999974752427e-07
    assert (rows["tokenizer.ggml.merges"].count, rows["tokenizer.ggml.token_type"].element_type) == (151_387, "i32")
    assert shown.groups is not None
    assert (shown.groups.architecture, shown.groups.tokenizer, shown.groups.general, shown.groups.other) == (
        8,
        10,
        16,
        0,
    )


def test_the_published_lines(hero_look: Observation) -> None:
    told = [line.split() for line in text(sheet(hero_look))]
    for line in (
        '0 general.architecture string "qwen2"',
        "14 qwen2.block_count u32 28",
        "21 qwen2.attention.layer_norm_rms_epsilon f32 9.999999974752427e-07",
        "25 tokenizer.ggml.tokens array 152,064 of string",
        "27 tokenizer.ggml.merges array 151,387 of string",
        "28 tokenizer.ggml.eos_token_id u32 151645",
    ):
        assert line.split() in told
    assert "8 qwen2., 10 tokenizer., 16 general." in " ".join(text(sheet(hero_look)))


def test_the_published_cut() -> None:
    link = b"https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/blob/main/LICENSE"
    cut = '"https://huggingface.co/Qwen/Qwen2.5-7B-Instr" ... and 21 more bytes'
    for cells in range(27, 80):
        shown = cut_text(link, cells)
        assert width(shown) <= cells
        if shown != f'"{link.decode()}"':
            kept = len(shown.split('"')[1])
            assert shown.endswith(f" ... and {len(link) - kept} more byte{'s' * (len(link) - kept != 1)}")
    assert cut_text(link, len(cut)) in {cut, f'"{link.decode()}"'}


@pytest.mark.parametrize(
    "raw", [b"\xff" * 100, "\u00e9".encode() * 100, "\u4e2d".encode() * 100, b"\n\x1b" * 100, b'"' * 99]
)
def test_a_cut_counts_bytes_and_keeps_characters_whole(raw: bytes) -> None:
    shown = cut_text(raw, 60)
    assert width(shown) <= 60
    assert shown.isprintable()
    rest = int(shown.split(" and ")[1].split()[0])
    assert 0 < rest < len(raw)
    raw[len(raw) - rest :].decode("utf-8", "surrogateescape")
    if not raw.startswith(b"\xff"):
        raw[: len(raw) - rest].decode("utf-8")  # raises in the middle of a character


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_lines_fit(hero_look: Observation, columns: int) -> None:
    assert all(width(line) <= columns for line in text(sheet(hero_look), columns))


def test_one_text_whole(tmp_path: Path) -> None:
    template = "{% for m in messages %}\n  {{ m }}\x1b[2J\n{% endfor %}" + "y" * 500
    observation = looked_at(tmp_path, gguf([ARCHITECTURE, Entry("tokenizer.chat_template", "string", template)]).data)
    shown = value_sheet(observation, b"tokenizer.chat_template")
    assert shown.entry.value == template
    told = text(shown)
    assert told[-3:-1] == ["{% for m in messages %}", "  {{ m }}\\x1b[2J"]
    assert told[-1] == "{% endfor %}" + "y" * 500


def test_one_array_whole_from_its_file(hero_look: Observation) -> None:
    key = b"tokenizer.ggml.tokens"
    entry = long_array(hero_look, key)
    assert entry is not None
    shown = value_sheet(hero_look, key, elements(hero_look, entry))
    assert shown.elements_from == "file"
    assert json.loads(msgspec.json.encode(shown))["elements"] == [f"{index:06d}" for index in range(152_064)]


def test_lines_of_a_long_array_stand_behind_its_heading(tmp_path: Path) -> None:
    nested = Array("array", [Array("string", ["\x1b", '"'] * 5), Array("f32", [0.5])])
    observation = looked_at(tmp_path, gguf([ARCHITECTURE, Entry("a", "array", nested)]).data)
    entry = long_array(observation, b"a")
    assert entry is not None
    told = list(element_lines(elements(observation, entry)))
    assert told[:2] == ['[0][0]  "\\x1b"', '[0][1]  "\\""']
    assert (len(told), told[-1]) == (11, "[1][0]  0.5")
    assert text(value_sheet(observation, b"a", following=True))[-1] == ""


def test_from_a_dump_the_beginning_of_an_array(hero_look: Observation) -> None:
    back = dump.decode(dump.encode(hero_look))
    shown = value_sheet(back, b"tokenizer.ggml.tokens")
    assert (shown.elements, shown.elements_from) == (None, None)
    told = text(shown)
    assert told[-2] == '[7]  "000007"'
    assert "152,056 more" in told[-1]
    assert sheet(back) == sheet(hero_look)


KINDS: list[tuple[Array, list[object]]] = [
    (Array("u8", [0, 255] * 5), [0, 255] * 5),
    (Array("i64", [-1] * 9), ["-1"] * 9),
    (Array("u64", [2**64 - 1] * 9), [str(2**64 - 1)] * 9),
    (Array("bool", [0, 1, 2] * 3), [False, True, 2] * 3),
    (Array("f64", [0.1, math.nan, -math.inf] * 3), [0.1, "NaN", "-Infinity"] * 3),
    (Array("string", ["", "\u4e2d", "x" * 300_000] * 3), ["", "\u4e2d", "x" * 300_000] * 3),
    (Array("string", [b"\xff"] * 9), [{"base64": "/w=="}] * 9),
    (Array("u8", []), []),
    (Array("string", ["a"]), ["a"]),
    (
        Array("array", [Array("u8", [1, 2]), Array("string", []), Array("string", ["a"] * 9)]),
        [[[0, 0], 1], [[0, 1], 2], *([[2, index], "a"] for index in range(9))],
    ),
]


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize(("array", "expected"), KINDS, ids=[str(i) for i in range(len(KINDS))])
def test_elements_of_every_type(tmp_path: Path, array: Array, expected: list[object], endian: str) -> None:
    observation = looked_at(tmp_path, gguf([ARCHITECTURE, Entry("a", "array", array)], endian=endian).data)
    assert json.loads(msgspec.json.encode(all_elements(observation, b"a")))["elements"] == expected


@pytest.mark.skipif(not (CASES / "vocabularies").is_dir(), reason="the collection of input files is not here")
def test_a_real_vocabulary_has_as_many_elements_as_it_declares() -> None:
    path = min((CASES / "vocabularies").glob("*.gguf"), key=lambda found: found.stat().st_size)
    observation = looked(path)
    entry = long_array(observation, b"tokenizer.ggml.tokens")
    assert entry is not None
    assert (
        sum(1 for _ in elements(observation, entry)) == value_sheet(observation, b"tokenizer.ggml.tokens").entry.count
    )


def test_a_key_that_is_not_there_has_near_ones(hero_look: Observation) -> None:
    for asked, near in ((b"qwen2.blok_count", "qwen2.block_count"), (b"merges", "tokenizer.ggml.merges")):
        with pytest.raises(UsageError, match=near):
            value_sheet(hero_look, asked)
    with pytest.raises(UsageError, match="its first") as caught:
        value_sheet(hero_look, b"\x1b[2J")
    assert "\x1b" not in str(caught.value)


def test_safetensors_metadata(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt", "\u202e": "x\ny"}, "w": st_entry("F32", [2], 0, 8)}
    observation = looked_at(tmp_path, safetensors(header, bytes(8)))
    shown = sheet(observation)
    assert [(row.index, row.key, row.type, row.value) for row in shown.entries] == [
        (0, "format", "string", "pt"),
        (1, "\u202e", "string", "x\ny"),
    ]
    assert (shown.declared, shown.groups) == (2, None)
    assert "\u202e" not in "".join(text(shown))
    assert value_sheet(observation, b"format").entry.value == "pt"


def test_nothing_to_show(tmp_path: Path) -> None:
    assert text(sheet(looked_at(tmp_path, gguf([]).data)))
    assert text(sheet(looked_at(tmp_path, safetensors("{}"))))
    shown = sheet(looked_at(tmp_path, b"hello"))
    assert shown.entries == []
    assert shown.ending is not None
    with pytest.raises(UsageError, match="which has none"):
        value_sheet(looked_at(tmp_path, b"hello"), b"a")


def test_what_was_read_before_it_stopped(tmp_path: Path) -> None:
    shown = sheet(looked_at(tmp_path, sketch().data[:200]))
    assert [row.key for row in shown.entries] == [
        "general.architecture",
        "general.name",
        "general.alignment",
        "counts.block_count",
    ]
    assert (shown.declared, shown.groups) == (5, None)
    assert any(line.startswith("4 entries of 5") for line in text(shown))
    assert shown.ending is not None
    assert shown.ending.offset == 192
