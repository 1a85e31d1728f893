"""A comparison for a person: the conclusion first, within its columns, and nothing in it that acts on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditd.comparison.compare import difference
from auditd.comparison.difference import Difference
from auditd.comparison.subject import Subject
from auditd.report.columns import width
from auditd.report.difference import lines
from tests.builders import ARCHITECTURE, F32, Q4_K, Q6_K, Array, Built, Entry, Tensor, aligned, gguf, observe_artifact
from tests.support.lines import harmless

TEMPLATE = "tokenizer.chat_template"


def compared(directory: Path, a: Built | bytes, b: Built | bytes, limit: int = 10) -> Difference:
    """Two files compared."""
    first, second = (data if isinstance(data, bytes) else data.data for data in (a, b))
    return difference(
        Subject(observe_artifact(directory, first, "a.gguf")),
        Subject(observe_artifact(directory, second, "b.gguf")),
        limit,
    )


def blocks(*down: int) -> list[Tensor]:
    """One tensor a block, of these types."""
    return [Tensor(f"blk.{number}.ffn_down.weight", [256], type_id) for number, type_id in enumerate(down)]


def section(shown: list[str], name: str) -> list[str]:
    """The lines of one section, stripped."""
    begin = next(index for index, line in enumerate(shown) if line.startswith(name))
    end = next((index for index, line in enumerate(shown) if index > begin and not line), len(shown))
    return [line.strip() for line in shown[begin:end]]


def test_the_conclusion_stands_first(tmp_path: Path) -> None:
    a = gguf([ARCHITECTURE, Entry("k", "u32", 1), Entry(TEMPLATE, "string", "one\ntwo")], blocks(Q4_K))
    b = gguf([ARCHITECTURE, Entry("k", "u32", 2), Entry(TEMPLATE, "string", "one\nTwo")], blocks(Q4_K))
    shown = list(lines(compared(tmp_path, a, b), 80))
    assert " ".join(shown[: shown.index("")]) == (
        "the same tensors, another header: 2 metadata entries changed; chat template changed; "
        "the weights were not compared"
    )
    metadata = section(shown, "metadata: 2 changed, 1 unchanged")
    assert metadata[1:] == [
        "changed   k: 1 (u32) -> 2 (u32)",
        "template  default: changed in line 2, column 1",
        'A       "two"',
        'B       "Two"',
    ]


def test_what_was_requantized(tmp_path: Path) -> None:
    a, b = gguf([ARCHITECTURE], blocks(Q6_K, Q6_K, Q4_K, Q6_K)), gguf([ARCHITECTURE], blocks(*[Q4_K] * 4))
    shown = list(lines(compared(tmp_path, a, b), 200))
    assert "blk.N.ffn_down.weight: Q6_K -> Q4_K in 3 blocks: 0-1, 3, 630 -> 432 bytes" in " ".join(shown)
    table = [line.split() for line in shown if line.strip().startswith(("Q4_K", "Q6_K"))]
    assert table == [["Q4_K", "1", "4", "144", "576", "+432"], ["Q6_K", "3", "0", "630", "0", "-630"]]


def test_what_the_same_bytes_are_for_is_not_called_the_same(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE], blocks(Q4_K))
    shown = list(
        lines(compared(tmp_path, built, gguf([Entry("general.architecture", "string", "tesu")], blocks(Q4_K))), 80)
    )
    told = " ".join(" ".join(section(shown, "bytes, by what they are for")).split())
    assert f"{len(built.data):,} have the same use in both (their content was not compared)" in told
    assert any(line.split() == ["header", "differs"] for line in shown)


def test_the_side_that_is_no_model_is_named(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE], blocks(Q4_K))
    for a, b, name in ((built, b"hello", "B"), (b"hello", built, "A")):
        message = compared(tmp_path, a, b).conclusion.message
        assert message == f"{name} is neither a GGUF nor a safetensors file, so there is no header of it to compare"


def test_bytes_that_are_past_the_end(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE], blocks(Q4_K))
    shown = list(lines(compared(tmp_path, built.data, built.data + bytes(1000)), 80))
    # The tensor's 144 bytes are padded to 160, and what is behind that belongs to nothing.
    end = len(built.data)
    assert [line.split() for line in section(shown, "bytes, ")[-2:]] == [
        ["984", "1", f"{end + 16:,}", "past", "the", "end", "trailing", "bytes"],
        ["16", "1", f"{end:,}", "past", "the", "end", "padding"],
    ]
    assert any("unowned_bytes" in line for line in section(shown, "findings"))


def hostile(mark: str) -> Built:
    """Long and evil names everywhere."""
    evil = f"\x1b[2J\u202e\r\n{mark}" + "字" * 60
    metadata = [
        ARCHITECTURE,
        aligned(64 if mark == "a" else 32),
        Entry(evil, "string", evil * 5),
        Entry("same", "string", evil * 5),
        Entry(TEMPLATE, "string", f"{evil}\n{evil}"),
        Entry("words", "array", Array("string", [evil] * 20)),
        *(Entry(f"{mark}{index}", "u64", (1 << 64) - 1) for index in range(20)),
    ]
    tensors = [Tensor(f"{evil}{index}", [8], F32) for index in range(20)] + blocks(Q4_K if mark == "a" else Q6_K)
    return gguf(metadata, tensors, alignment=64 if mark == "a" else 32)


@pytest.mark.parametrize("columns", [60, 80, 200, None])
def test_it_fits_and_is_harmless(tmp_path: Path, columns: int | None) -> None:
    shown = list(lines(compared(tmp_path, hostile("a"), hostile("b")), columns))
    assert all(map(harmless, shown))
    assert max(map(width, shown)) <= max(80, columns or 80)
    if columns == 200:
        assert max(map(width, shown)) > 100


def test_more_than_is_shown_is_counted(tmp_path: Path) -> None:
    shown = list(lines(compared(tmp_path, hostile("a"), hostile("b"), limit=3), 80))
    metadata = section(shown, "metadata")
    assert "and 18 more" in metadata  # 20 numbers and one evil key on each side, 3 of them shown


def test_what_could_not_be_compared_is_said(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE], blocks(Q4_K, Q4_K))
    shown = list(lines(compared(tmp_path, built, built.data[: built.at("tensors[1].type")]), 80))
    assert any(line.startswith("in part") and "B: " in line for line in section(shown, "tensors"))
    assert any(line.startswith("not told") for line in section(shown, "bytes"))
