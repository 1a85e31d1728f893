"""``show block``: the published listing of block 0, and how the others compare."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auditd.errors import UsageError
from auditd.evidence.observation import Observation
from auditd.report.columns import width
from auditd.report.show.block import BlockSheet, lines, sheet
from auditd.report.show.tables import blocks_shown
from auditd.report.style import plain
from tests.builders import Q8_0, Tensor, safetensors, simple, st_entry
from tests.models import hero, small
from tests.support.lines import harmless
from tests.support.looks import figures_in, looked_at, twin_at

#: The published listing: name, shape, type, offset, bytes.
BLOCK_0 = [
    ("attn_k.bias", "512", "F32", 438_667_264, 2_048),
    ("attn_k.weight", "3584 x 512", "Q4_K", 438_669_312, 1_032_192),
    ("attn_norm.weight", "3584", "F32", 306_561_024, 14_336),
    ("attn_output.weight", "3584 x 3584", "Q4_K", 439_701_504, 7_225_344),
    ("attn_q.bias", "3584", "F32", 446_926_848, 14_336),
    ("attn_q.weight", "3584 x 3584", "Q4_K", 446_941_184, 7_225_344),
    ("attn_v.bias", "512", "F32", 454_166_528, 2_048),
    ("attn_v.weight", "3584 x 512", "Q6_K", 454_168_576, 1_505_280),
    ("ffn_down.weight", "18944 x 3584", "Q6_K", 306_575_360, 55_695_360),
    ("ffn_gate.weight", "3584 x 18944", "Q4_K", 362_270_720, 38_191_104),
    ("ffn_norm.weight", "3584", "F32", 438_652_928, 14_336),
    ("ffn_up.weight", "3584 x 18944", "Q4_K", 400_461_824, 38_191_104),
]


@pytest.fixture(scope="module")
def hero_look(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    return twin_at(tmp_path_factory.mktemp("hero"), hero())


def test_the_published_block(hero_look: Observation) -> None:
    page = sheet(hero_look, 0)
    assert [(one.name, " x ".join(one.shape), one.type, one.offset, one.bytes) for one in page.tensors] == BLOCK_0
    assert {one.file_offset for one in page.tensors} == {5_953_952 + row[3] for row in BLOCK_0}
    assert (page.stack, page.block, page.bytes) == ("blk", 0, 149_112_832)
    others = page.others
    assert len(others.same) + len(others.other_types) == 27
    assert (len(others.same), len(others.other_types)) == (11, 16)
    assert (others.other_shapes, others.other_names) == ([], [])


def test_the_blocks_of_the_quantized_tensors(hero_look: Observation) -> None:
    page = sheet(hero_look, 0)
    found = {one.name: one.storage and (one.storage.blocks, one.storage.bytes) for one in page.tensors}
    assert found["ffn_up.weight"] == (3584 * 18_944 // 256, 144)
    assert found["ffn_down.weight"] == (18_944 * 3584 // 256, 210)
    assert found["attn_norm.weight"] is None
    assert any(line.endswith("  265,216 x 144") for line in lines(page, 100, plain))
    assert not any("x 144" in line for line in lines(page, 99, plain))


def test_the_published_block_for_a_terminal(hero_look: Observation) -> None:
    text = list(lines(sheet(hero_look, 0), 80, plain))
    table = [line.split() for line in text]
    for name, shape, kind, offset, size in BLOCK_0:
        assert [name, *shape.split(), kind, f"{offset:,}", f"{size:,}"] in table
    assert figures_in(text, "12 tensors") == [149_112_832]
    assert "against the other 27 blocks" in text
    assert figures_in(text, "same names and shapes")[:1] == [27]
    assert figures_in(text, "and the same types, too")[:1] == [11]
    assert figures_in(text, "same shapes, some type elsewhere")[:1] == [16]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_lines_keep_to_their_columns(columns: int, hero_look: Observation) -> None:
    page = sheet(hero_look, 20)
    assert max(map(width, lines(page, columns, plain))) <= columns
    assert msgspec.json.decode(msgspec.json.encode(page), type=BlockSheet) == page
    assert msgspec.json.encode(page).startswith(b'{"schema":"model-auditd/show-block/1"')


def test_the_small_model_has_every_second_block_alike(tmp_path: Path) -> None:
    others = sheet(twin_at(tmp_path, small()), 1).others
    assert (others.same, others.other_types) == ([*range(3, 24, 2)], [*range(0, 24, 2)])


def test_blocks_that_are_not_alike(tmp_path: Path) -> None:
    tensors = [
        Tensor("blk.0.a", (32,)),
        Tensor("blk.1.a", (32,), Q8_0),
        Tensor("blk.2.a", (64,)),
        Tensor("blk.3.b", (32,)),
    ]
    observation = looked_at(tmp_path, simple(*tensors).data)
    page = sheet(observation, 0)
    others = page.others
    assert (others.same, others.other_types, others.other_shapes, others.other_names) == ([], [1], [2], [3])
    text = list(lines(page, 80, plain))
    assert figures_in(text, "same names and shapes")[:1] == [1]
    assert figures_in(text, "and the same types, too") == [0]
    assert any(line.split()[-2:] == ["1:", "3"] for line in text if "other names" in line)


def test_a_single_block_is_held_against_nothing(tmp_path: Path) -> None:
    page = sheet(looked_at(tmp_path, simple(Tensor("blk.0.a", (32,))).data), 0)
    assert "  no other block to hold it against" in list(lines(page, 80, plain))


def test_a_block_that_is_not_there_says_which_are(hero_look: Observation, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'"blk" has no block 28; there are 0-27$'):
        sheet(hero_look, 28)
    with pytest.raises(UsageError, match="has no block -1"):
        sheet(hero_look, -1)
    with pytest.raises(UsageError, match=r'no stack is called "v\.blk"; there are "blk" \(0-27\)$'):
        sheet(hero_look, 0, stack="v.blk")
    with pytest.raises(UsageError, match="there is no block"):
        sheet(looked_at(tmp_path, simple(Tensor("a", (32,))).data), 0)
    with pytest.raises(UsageError, match="there is no block"):
        sheet(looked_at(tmp_path, b""), 0)


def test_several_stacks_have_to_be_named(tmp_path: Path) -> None:
    header = {
        name: st_entry("F32", [1], 4 * at, 4 * at + 4) for at, name in enumerate(["h.0.w", "h.2.w", "t.layers.5.w"])
    }
    observation = looked_at(tmp_path, safetensors(header, bytes(12)), "m.safetensors")
    with pytest.raises(UsageError, match=r'name one with --stack: "h" \(0, 2\), "t\.layers" \(5\)$'):
        sheet(observation, 0)
    page = sheet(observation, 5, stack="t.layers")
    assert [one.name for one in page.tensors] == ["w"]
    assert page.tensors[0].offset == 8


def test_hostile_names(tmp_path: Path) -> None:
    names = [b"\x1b[31m.3.\xff\x1b]0;x\x07", b"\x1b[31m.3." + b"y" * 500]
    observation = looked_at(tmp_path, simple(*[Tensor(name, (1,)) for name in names]).data)
    page = sheet(observation, 3)
    for columns in (60, 80, 200):
        text = list(lines(page, columns, plain))
        assert all(map(harmless, text))
        assert max(map(width, text)) <= columns
    with pytest.raises(UsageError) as refused:
        sheet(observation, 4)
    assert harmless(str(refused.value))


def test_a_name_on_the_command_line_that_is_no_text_finds_its_stack(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, simple(Tensor(b"\xff.3.w", (1,)), Tensor(b"blk.0.w", (1,))).data)
    page = sheet(observation, 3, stack="\udcff")
    assert (page.stack, page.stack_base64) == ("\\xff", "/w==")


def test_many_blocks_are_told_shortly() -> None:
    assert blocks_shown([]) == ""
    assert blocks_shown([3]) == "3"
    assert blocks_shown([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    shown = blocks_shown(range(0, 2_000_000, 2))
    assert shown.startswith("0, 2, 4, ")
    assert shown.endswith(", 46, ... (1,000,000 in all)")
