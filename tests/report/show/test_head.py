"""``show head``: every line of a published listing, and heads that are broken, foreign or of the other format."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditd.evidence.expectation import Expectation, Reference
from auditd.evidence.observation import Observation
from auditd.header_dump import codec as dump
from auditd.report.columns import width
from auditd.report.show.head import HeadSheet, lines, sheet
from auditd.report.style import coloured, plain
from tests.builders import CASES, Array, Entry, Tensor, aligned, gguf, safetensors, simple, sketch, st_entry
from tests.models import hero, small
from tests.support.looks import figures_in, looked, looked_at, twin_at

LISTINGS: dict[str, list[tuple[str, list[int]]]] = {
    "hero": [
        ("size", [4_683_073_952]),
        ("version", [3]),
        ("tensors", [339]),
        ("metadata entries", [34]),
        ("blocks in the stack", [28]),
        ("embedding width", [3_584]),
        ("attention heads", [28]),
        ("key and value heads", [4]),
        ("feed-forward width", [18_944]),
        ("trained context", [32_768]),
        ("vocabulary", [152_064]),
        ("merges", [151_387]),
        ("parameters", [7_615_616_512]),
        ("one head is", [128, 3_584, 28, 128]),
        ("all keys are", [512, 4, 128, 512]),
        ("alignment", [32]),
        ("metadata ends at", [5_934_631]),
        ("last tensor entry ends at", [5_953_935]),
        ("padding", [17]),
        ("tensor data starts at", [5_953_952]),
    ],
    "small": [
        ("size", [397_807_936]),
        ("tensors", [290]),
        ("blocks in the stack", [24]),
        ("embedding width", [896]),
        ("vocabulary", [151_936]),
        ("last tensor entry ends at", [5_948_196]),
        ("padding", [28]),
        ("tensor data starts at", [5_948_224]),
    ],
}


def head_of(observation: Observation, columns: int = 80) -> list[str]:
    return list(lines(sheet(observation), columns, plain))


def text_of(observation: Observation) -> str:
    return " ".join(" ".join(head_of(observation)).split())


@pytest.fixture(scope="module", params=["hero", "small"])
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def whole(role: str, tmp_path_factory: pytest.TempPathFactory) -> Observation:
    return twin_at(tmp_path_factory.mktemp(role), hero() if role == "hero" else small())


def test_every_figure_of_the_published_listing(role: str, whole: Observation) -> None:
    shown = head_of(whole)
    for label, figures in LISTINGS[role]:
        found = figures_in(shown, label)
        assert found[-len(figures) :] == figures, label


def test_what_is_no_figure(role: str, whole: Observation) -> None:
    shown = head_of(whole)
    assert "  architecture         qwen2" in shown
    assert f"  name                 Qwen2.5 {'7B' if role == 'hero' else '0.5B'} Instruct" in shown
    assert "  version           3, little-endian" in shown
    assert "which the file does not declare and so is the format's own" in text_of(whole)


def test_from_a_dump_it_is_the_same(whole: Observation) -> None:
    again = dump.decode(dump.encode(whole))
    assert sheet(again) == sheet(whole)


def test_the_sheet(role: str, whole: Observation) -> None:
    made = sheet(whole)
    assert made.schema == "model-auditd/show-head/1"
    assert made.model is not None
    by_name = {fact.figure: fact for fact in made.model.facts}
    assert by_name["blocks"].key == "qwen2.block_count"
    assert by_name["blocks"].value == {"hero": 28, "small": 24}[role]
    assert by_name["head_width"].key is None
    assert by_name["head_width"].value == {"hero": 128, "small": 64}[role]
    assert made.findings == []
    assert made.ending is None


def test_a_declared_alignment(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, sketch(64).data)
    shown = head_of(observation)
    assert figures_in(shown, "alignment")[0] == 64
    assert "alignment 64, which the file declares" in text_of(observation)
    assert figures_in(shown, "last tensor entry ends at") == [327]
    assert figures_in(shown, "padding") == [57]
    assert figures_in(shown, "tensor data starts at") == [384]


def model(*entries: Entry) -> bytes:
    return gguf([Entry("general.architecture", "string", "arch"), *entries], [Tensor("a", [8])]).data


def entry(key: str, value: Any, kind: str = "u32") -> Entry:
    return Entry(f"arch.{key}", kind, value)


HEADS = {
    "declared": (
        [entry("attention.head_count", 16), entry("embedding_length", 3072), entry("attention.key_length", 256)],
        "one head is 256 wide, as the file declares",
    ),
    "one a layer": (
        [entry("attention.head_count_kv", Array("i32", [0, 0, 8]), "array")],
        "key and value heads 0, 0, 8 (3 values, one a layer)",
    ),
    "many layers": (
        [entry("feed_forward_length", Array("u32", [1000] * 20), "array")],
        ", ... (20 values, one a layer)",
    ),
    "another type": ([entry("block_count", "28", "string")], "blocks in the stack ?: it is a string"),
    "twice": ([entry("block_count", 1), entry("block_count", 2)], "blocks in the stack ?: the file declares it more"),
    "not there": ([], "blocks in the stack ?: the file does not declare it"),
    "wider than JSON": ([entry("context_length", 2**63, "u64")], "trained context 9,223,372,036,854,775,808 tokens"),
}


@pytest.mark.parametrize("case", HEADS)
def test_figures_of_every_form(tmp_path: Path, case: str) -> None:
    entries, expected = HEADS[case]
    assert expected in text_of(looked_at(tmp_path, model(*entries)))


def test_a_width_that_does_not_divide_is_not_told(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, model(entry("attention.head_count", 3), entry("embedding_length", 100)))
    assert "one head" not in text_of(observation)


def test_heads_of_nothing_are_no_division(tmp_path: Path) -> None:
    zeros = [entry(key, 0) for key in ("attention.head_count", "attention.head_count_kv", "embedding_length")]
    assert "falls out" not in text_of(looked_at(tmp_path, model(*zeros)))


def test_without_an_architecture_nothing_is_missed(tmp_path: Path) -> None:
    shown = text_of(looked_at(tmp_path, gguf([], [Tensor("a", [8])]).data))
    assert "architecture ?" in shown
    assert "blocks" not in shown


def test_a_promise_is_shown(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, simple(Tensor("a", [8])).data)
    expectation = Expectation("ollama", ("qwen2.5:7b",), (Reference("sha256", "ab" * 32, "blob \udcff"),))
    expected = replace(observation, expectation=expectation)
    shown = text_of(expected)
    assert "known as qwen2.5:7b" in shown
    assert f"published sha256 {'ab' * 32}" in shown
    assert msgspec.json.decode(msgspec.json.encode(sheet(expected)))["store"] == "ollama"


def test_findings_stand_at_the_end(tmp_path: Path) -> None:
    twin = small()
    shown = head_of(looked_at(tmp_path, twin.header, size=twin.file_size + 1))
    at = next(at for at, line in enumerate(shown) if line.startswith("residue: "))
    assert at > shown.index("where the header stops")
    assert shown[at + 1] == "  critical: unowned_bytes"
    assert shown[at + 2].startswith("    1 byte belongs to nothing")
    assert sum("unowned_bytes" in line for line in shown) == 1


def test_a_wrong_block_count_is_seen_here(tmp_path: Path) -> None:
    tensors = [Tensor(f"blk.{block}.attn_norm.weight", [8]) for block in range(4)]
    built = gguf([Entry("general.architecture", "string", "arch"), entry("block_count", 3)], tensors)
    assert "block_count_mismatch" in text_of(looked_at(tmp_path, built.data))


def test_what_was_read_of_a_header_that_is_cut(tmp_path: Path) -> None:
    shown = head_of(looked_at(tmp_path, sketch().data[:200]))
    assert figures_in(shown, "tensors") == [1]
    assert "  architecture         counts" in shown
    assert figures_in(shown, "metadata ends at") == []
    assert "not known before the metadata was read to its end" not in " ".join(shown)  # the file declares it
    assert any(line.startswith("truncated") for line in shown)


def test_a_header_that_is_cut_before_its_alignment(tmp_path: Path) -> None:
    shown = " ".join(head_of(looked_at(tmp_path, sketch().data[:100])))
    assert "alignment ?, not known before the metadata was read to its end" in shown


def test_safetensors(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt", "note": "\x1b[2J"},
        "w": st_entry("F32", [2], 0, 8),
        "v": st_entry("BF16", [3], 8, 14),
    }
    data = safetensors(header, bytes(14))
    observation = looked_at(tmp_path, data, "m.safetensors")
    shown = head_of(observation)
    assert figures_in(shown, "length of the JSON text") == [len(data) - 8 - 14]
    assert figures_in(shown, "tensors") == [2]
    assert figures_in(shown, "tensor data starts at") == [len(data) - 14]
    assert '  format  "pt"' in shown
    assert figures_in(shown, "BF16") == [1, 3, 6]
    assert "\x1b" not in "".join(shown)
    made = sheet(observation)
    assert (made.format, made.numbers, made.model, made.stops) == ("safetensors", None, None, None)


HOSTILE = b"\x1b[2J\r\n\xff\xe2\x80\xae"


def test_names_cannot_move_the_cursor(tmp_path: Path) -> None:
    metadata = [
        Entry("general.architecture", "string", HOSTILE),
        Entry("general.name", "string", HOSTILE),
        Entry(HOSTILE + b".block_count", "string", HOSTILE),
    ]
    data = gguf(metadata, [Tensor(HOSTILE, [8])], data_length=1).data
    observation = looked_at(tmp_path, data, name="\x1b[2J\udcff.gguf")
    text = "\n".join(head_of(observation))
    assert not set(text) & set("\x1b\r\u202e")
    assert r"\x1b[2J" in text
    made = msgspec.json.decode(msgspec.json.encode(sheet(observation)))
    assert made["model"]["name_base64"]
    assert made["file"]["name_base64"]


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_is_too_long(tmp_path: Path, columns: int) -> None:
    long = [Entry("general.name", "string", "name " * 60), entry("expert_count", Array("u32", [10**6] * 8), "array")]
    data = model(*long, aligned(64), *[Entry(f"k{index}", "u32", 0) for index in range(3)])
    observation = looked_at(tmp_path, data + b"x", name="n" * 200 + ".gguf")
    for line in head_of(observation, columns):
        assert width(line) <= columns, line


def test_colour_only_underlines(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, model() + b"x")
    painted = [re.sub(r"\x1b\[\d*m", "", line) for line in lines(sheet(observation), 80, coloured)]
    assert painted == head_of(observation)


@pytest.mark.skipif(not CASES.is_dir(), reason="the collection of input files is not here")
def test_a_real_vocabulary() -> None:
    made: HeadSheet = sheet(looked(CASES / "vocabularies" / "ggml-vocab-phi-3.gguf"))
    assert made.model is not None
    values = {fact.figure: fact.value for fact in made.model.facts}
    assert made.model.architecture == "phi3"
    assert (values["vocabulary"], values["embedding_width"], values["blocks"]) == (32_064, 3_072, 32)
