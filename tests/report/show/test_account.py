"""``show account``: every figure of two published listings, and what cannot be added up said to be so."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditd.evidence.accounts import accounting_part
from auditd.evidence.observation import Observation
from auditd.report.columns import width
from auditd.report.show.account import AccountSheet, lines, sheet
from auditd.report.style import coloured, plain
from tests.builders import CASES, F32, Q4_K, Entry, Tensor, gguf, safetensors, simple, sketch, st_entry
from tests.models import Twin, hero, small
from tests.support.looks import figures_in, looked, looked_at, twin_at

#: The published listings: label of a line, its figures.
LISTINGS: dict[str, list[tuple[str, list[int]]]] = {
    "hero": [
        ("the four numbers at the front", [24]),
        ("34 metadata entries", [5_934_607]),
        ("339 tensor entries", [19_304]),
        ("padding to alignment", [32, 17]),
        ("tensor data starts at", [5_953_952]),
        ("F32", [141, 333_312, 1_333_248]),
        ("Q4_K", [169, 6_094_061_568, 3_427_909_632]),
        ("Q6_K", [29, 1_521_221_632, 1_247_877_120]),
        ("all", [339, 7_615_616_512, 4_677_120_000]),
        ("header and padding", [5_953_952]),
        ("every tensor's bytes", [4_677_120_000]),
        ("the three added together", [4_683_073_952]),
        ("the file", [4_683_073_952]),
        ("left over", [0]),
        ("339 tensors start", [0]),
    ],
    "small": [
        ("padding to alignment", [32, 28]),
        ("tensor data starts at", [5_948_224]),
        ("header and padding", [5_948_224]),
        ("every tensor's bytes", [391_859_712]),
        ("the three added together", [397_807_936]),
        ("the file", [397_807_936]),
        ("left over", [0]),
        ("290 tensors start", [0]),
    ],
}


def twin_of(role: str) -> Twin:
    return hero() if role == "hero" else small()


def account_of(observation: Observation, columns: int = 80) -> list[str]:
    return list(lines(sheet(observation), columns, plain))


@pytest.fixture(scope="module", params=["hero", "small"])
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def whole(role: str, tmp_path_factory: pytest.TempPathFactory) -> Observation:
    return twin_at(tmp_path_factory.mktemp(role), twin_of(role))


def test_every_figure_of_the_published_listing(role: str, whole: Observation) -> None:
    shown = account_of(whole)
    for label, figures in LISTINGS[role]:
        assert figures_in(shown, label) == figures, label


def test_the_sheet_has_the_same_figures(role: str, whole: Observation) -> None:
    made = sheet(whole)
    twin = twin_of(role)
    assert made.schema == "model-auditd/show-account/1"
    assert made.data_offset == twin.data_offset
    assert made.accounting is not None
    assert made.accounting.residue == 0
    assert made.accounting.contiguous is not None
    assert (made.accounting.contiguous.yes, made.accounting.contiguous.no) == (len(twin.tensors), 0)
    assert sum(piece.bytes or 0 for piece in made.pieces) == twin.data_offset
    assert (made.unknown, made.ending) == (None, None)


def test_the_share_of_the_header(role: str, whole: Observation) -> None:
    """A little over a tenth of a percent of the one, one and a half percent of the other."""
    assert any(line.strip().startswith({"hero": "0.13 %", "small": "1.50 %"}[role]) for line in account_of(whole))


def test_today_s_layout_comes_out_and_the_other_does_not(role: str, whole: Observation) -> None:
    shown = account_of(whole)
    assert figures_in(shown, "residue")[0] == {"hero": -226_093_056, "small": -2_860_032}[role]
    assert next(line for line in shown if "comes out under" in line).split()[3] == "ggml-current,"


def test_what_is_appended_is_left_over(tmp_path: Path) -> None:
    twin = small()
    shown = account_of(looked_at(tmp_path, twin.header, size=twin.file_size + 100))
    assert figures_in(shown, "left over") == [100]
    assert figures_in(shown, "= surplus") == [100, 0, 0]
    assert figures_in(shown, "trailing") == [100, twin.file_size]
    assert 'after "output_norm.weight"' in " ".join(" ".join(shown).split())


def test_what_is_cut_is_missing(tmp_path: Path) -> None:
    twin = small()
    shown = account_of(looked_at(tmp_path, twin.header, size=twin.file_size - 4_000))
    assert figures_in(shown, "left over") == [-4_000]
    assert figures_in(shown, "= surplus") == [0, 4_000, 0]
    # The last norm is 3,584 bytes; the rest is cut off the tensor in front of it.
    assert figures_in(shown, "1 tensor cut") == []
    assert figures_in(shown, "1 tensor wholly past") == []


def test_one_tensor_that_moved_breaks_two_steps(tmp_path: Path) -> None:
    twin = hero()
    header = bytearray(twin.header)
    struct.pack_into("<Q", header, twin.offset_fields[5], (twin.tensors[5].offset or 0) + 32)
    shown = account_of(looked_at(tmp_path, bytes(header), size=twin.file_size))
    assert figures_in(shown, "337 tensors start") == [2]
    assert figures_in(shown, "gap") != []
    assert figures_in(shown, "overlap") != []


@pytest.mark.parametrize(("alignment", "padding", "start", "size"), [(64, 57, 384, 408), (4096, 3_769, 4_096, 4_120)])
def test_a_bigger_alignment_costs_padding_once(
    tmp_path: Path, alignment: int, padding: int, start: int, size: int
) -> None:
    shown = account_of(looked_at(tmp_path, sketch(alignment).data))
    assert figures_in(shown, "padding to alignment") == [alignment, padding]
    assert figures_in(shown, "tensor data starts at") == [start]
    assert figures_in(shown, "the file") == [size]
    assert figures_in(shown, "left over") == [0]
    assert "  1 tensor starts where the one before it ended, and 0 do not" in shown


def test_padding_between_tensors_is_not_left_over(tmp_path: Path) -> None:
    built = simple(Tensor("a", [3]), Tensor("b", [3]))
    shown = account_of(looked_at(tmp_path, built.data))
    assert figures_in(shown, "every tensor's bytes") == [24]
    assert figures_in(shown, "padding between tensors") == [20]
    assert figures_in(shown, "left over") == [0]


def test_empty_tensors_take_no_byte(tmp_path: Path) -> None:
    built = simple(Tensor("a", [8]), Tensor("b", [0]))
    shown = account_of(looked_at(tmp_path, built.data))
    assert "  1 tensor without a weight, which take no byte" in shown


UNKNOWN = {
    "a type that nobody knows": (simple(Tensor("a", [8], 99, 0, 32), data_length=32).data, "auto", "unestablished"),
    "no single alignment": (
        gguf([Entry("general.alignment", "u32", 0)], [Tensor("a", [8])]).data,
        "auto",
        "where the tensor data starts",
    ),
    "layouts that differ": (simple(Tensor("a", [4096], Q4_K), data_length=2304).data, "strict", "size"),
    "a header that is cut": (simple(Tensor("a", [8])).data[:50], "auto", "not read to its end"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_unknown_is_a_question_mark_with_its_reason(tmp_path: Path, case: str) -> None:
    data, layout, reason = UNKNOWN[case]
    observation = looked_at(tmp_path, data, layout=layout)
    made = sheet(observation)
    assert made.accounting is not None
    assert made.accounting.residue is None
    shown = account_of(observation)
    assert next(line for line in shown if line.strip().startswith("left over")).split()[-1] == "?"
    assert reason in " ".join(" ".join(shown).split())


def test_a_foreign_file_has_no_figures(tmp_path: Path) -> None:
    made = sheet(looked_at(tmp_path, b"hello, world"))
    assert (made.format, made.pieces, made.totals, made.accounting) == (None, [], None, None)
    assert made.ending is not None
    assert made.ending.outcome == "foreign"


def test_safetensors(tmp_path: Path) -> None:
    header = {"w": st_entry("F32", [2], 0, 8), "v": st_entry("BF16", [3], 8, 14)}
    data = safetensors(header, bytes(14))
    shown = account_of(looked_at(tmp_path, data, "m.safetensors"))
    assert figures_in(shown, "the length at the front") == [8]
    assert figures_in(shown, "the JSON text") == [len(data) - 8 - 14]
    assert figures_in(shown, "tensor data starts at") == [len(data) - 14]
    assert figures_in(shown, "BF16") == [1, 3, 6]
    assert figures_in(shown, "all") == [2, 5, 14]
    assert figures_in(shown, "left over") == [0]


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("size", [0, 100, -4_000])
def test_no_line_is_too_long(tmp_path: Path, columns: int, size: int) -> None:
    twin = small()
    observation = looked_at(tmp_path, twin.header, name="n" * 200 + ".gguf", size=twin.file_size + size)
    for line in account_of(observation, columns):
        assert width(line) <= columns, line


def test_names_cannot_move_the_cursor(tmp_path: Path) -> None:
    name = b"a\x1b[2J\n\xff\xe2\x80\xae"
    observation = looked_at(tmp_path, simple(Tensor(name, [8]), data_length=40).data, name="\x1b[2J.gguf")
    text = "\n".join(account_of(observation))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"\x1b[2J" in text
    encoded = msgspec.json.decode(msgspec.json.encode(sheet(observation)))
    assert encoded["neighbours"][0]["name_base64"] is not None


def test_colour_only_underlines(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, simple(Tensor("a", [8])).data)
    painted = [re.sub(r"\x1b\[\d*m", "", line) for line in lines(sheet(observation), 80, coloured)]
    assert painted == account_of(observation)


@pytest.mark.skipif(not CASES.is_dir(), reason="the collection of input files is not here")
@pytest.mark.parametrize("path", sorted((CASES / "vocabularies").glob("*.gguf")), ids=lambda path: path.name)
def test_a_real_vocabulary_is_all_header(path: Path) -> None:
    made: AccountSheet = sheet(looked(path))
    assert made.accounting is not None
    assert made.accounting.residue == 0
    assert made.totals is not None
    assert made.totals.tensors == 0
    assert made.data_offset == path.stat().st_size
    assert [piece.bytes for piece in made.pieces if piece.piece == "directory"] == [0]


def test_the_figures_are_the_record_s(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, simple(Tensor("a", [8], F32), data_length=40).data)
    made: Any = sheet(observation)
    assert made.accounting == accounting_part(observation)
