"""What a header says of its model: under the prefix that it names itself, and unknown with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from auditd.formats.declarations import ArrayValue
from auditd.model.architecture import FIGURES, Architecture, Groups, architecture
from tests.builders import Array, Entry, Tensor, gguf, safetensors, st_entry
from tests.models import hero, small
from tests.support.looks import looked_at, twin_at

TENSOR = Tensor("t", (32,))


def said(directory: Path, entries: Sequence[Entry]) -> Architecture:
    observation = looked_at(directory, gguf(entries, [TENSOR]).data)
    return architecture(observation.header, observation.account)


def values(found: Architecture) -> dict[str, int | None]:
    return {figure: getattr(found, figure).value for figure in FIGURES}


def test_the_published_figures(tmp_path: Path) -> None:
    observation = twin_at(tmp_path, hero())
    found = architecture(observation.header, observation.account)
    assert found.name == b"qwen2"
    assert values(found) == {
        "blocks": 28,
        "embedding_width": 3584,
        "heads": 28,
        "kv_heads": 4,
        "head_width": 128,
        "value_width": 128,
        "feed_forward_width": 18_944,
        "trained_context": 32_768,
        "vocabulary": 152_064,
        "merges": 151_387,
        "experts": None,
        "experts_used": None,
    }
    assert found.groups == Groups(architecture=8, tokenizer=10, general=16, other=0)
    assert found.parameters == 7_615_616_512
    assert found.experts.reason == "the file does not declare it"
    observation = twin_at(tmp_path, small())
    assert values(architecture(observation.header, observation.account))["vocabulary"] == 151_936


def test_the_prefix_is_the_one_that_the_file_names(tmp_path: Path) -> None:
    found = said(
        tmp_path,
        [
            Entry("qwen2.block_count", "u32", 7),
            Entry("general.architecture", "string", "gpt-oss"),
            Entry("gpt-oss.block_count", "u16", 24),
            Entry("gpt-ossify.block_count", "u32", 8),
        ],
    )
    assert found.blocks.value == 24
    assert found.groups == Groups(architecture=1, tokenizer=0, general=1, other=2)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Entry("a.block_count", "string", "24"), "it is a string, and no whole number"),
        (Entry("a.block_count", "f32", 24.0), "it is a f32, and no whole number"),
        (Entry("a.block_count", "bool", 1), "it is a bool, and no whole number"),
        (Entry("a.block_count", "array", Array("string", ["24"])), "it is an array of string"),
        (Entry("b.block_count", "u32", 24), "the file does not declare it"),
    ],
)
def test_what_is_no_number_is_unknown(entry: Entry, reason: str, tmp_path: Path) -> None:
    found = said(tmp_path, [Entry("general.architecture", "string", "a"), entry]).blocks
    assert (found.value, found.layers, found.reason) == (None, None, reason)


def test_a_key_that_stands_there_twice_says_nothing(tmp_path: Path) -> None:
    entries = [Entry("general.architecture", "string", "a"), *[Entry("a.block_count", "u32", at) for at in (3, 4)]]
    found = said(tmp_path, entries).blocks
    assert (found.value, found.reason) == (None, "the file declares it more than once")


def test_a_number_for_each_layer_is_an_array(tmp_path: Path) -> None:
    entries = [
        Entry("general.architecture", "string", "a"),
        Entry("a.attention.head_count", "array", Array("u32", list(range(20)))),
    ]
    heads = said(tmp_path, entries).heads
    assert heads.value is None
    assert heads.layers == ArrayValue(element_type=4, count=20, preview=tuple(range(8)))


@pytest.mark.parametrize(
    ("embedding", "heads", "declared", "width"),
    [(64, 4, None, 16), (64, 4, 24, 24), (64, 5, None, None), (64, 0, None, None), (None, 4, None, None)],
)
def test_the_width_of_a_head(
    embedding: int | None, heads: int, declared: int | None, width: int | None, tmp_path: Path
) -> None:
    said_ = {"embedding_length": embedding, "attention.head_count": heads, "attention.key_length": declared}
    entries = [Entry(f"a.{key}", "u32", value) for key, value in said_.items() if value is not None]
    found = said(tmp_path, [Entry("general.architecture", "string", "a"), *entries]).head_width
    assert found.value == width
    assert bool(found.reason) == (width is None)


def test_no_architecture_and_no_gguf(tmp_path: Path) -> None:
    found = said(tmp_path, [Entry("a.block_count", "u32", 3)])
    assert (found.name, found.blocks.value, found.blocks.reason) == (
        None,
        None,
        "the file does not name its architecture",
    )
    observation = looked_at(tmp_path, safetensors({"w": st_entry("F32", [2], 0, 8)}, bytes(8)), "m.safetensors")
    other = architecture(observation.header, observation.account)
    assert (other.name, other.groups, other.parameters) == (None, None, 2)
    assert {getattr(other, figure).reason for figure in FIGURES} == {"a safetensors header does not say it"}


def test_a_header_that_breaks_off_does_not_say_that_a_key_is_absent(tmp_path: Path) -> None:
    built = gguf([Entry("general.architecture", "string", "a"), Entry("a.block_count", "u32", 3)], [TENSOR])
    observation = looked_at(tmp_path, built.data[: built.at("metadata[1].value")])
    found = architecture(observation.header, observation.account)
    assert (found.name, found.groups) == (b"a", None)
    assert found.blocks.reason == "not every entry of the header is known"
