"""``show stack``: every figure of two published listings, and files that are not like them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditd.evidence.observation import Observation
from auditd.report.columns import width
from auditd.report.show.stack import StackSheet, lines, sheet
from auditd.report.style import coloured, plain
from tests.builders import F32, Entry, Tensor, gguf, safetensors, simple, st_entry
from tests.models import hero, small
from tests.support.lines import harmless
from tests.support.looks import figures_in, looked_at, twin_at

#: The published listings: count, name, shape, types, bytes.
HERO = [
    (1, "token_embd.weight", "3584 x 152064", "Q4_K", 306_561_024),
    (28, "blk.N.attn_norm.weight", "3584", "F32", 401_408),
    (28, "blk.N.ffn_down.weight", "18944 x 3584", "Q4_K x14 Q6_K x14", 1_314_410_496),
    (28, "blk.N.ffn_gate.weight", "3584 x 18944", "Q4_K", 1_069_350_912),
    (28, "blk.N.ffn_up.weight", "3584 x 18944", "Q4_K", 1_069_350_912),
    (28, "blk.N.ffn_norm.weight", "3584", "F32", 401_408),
    (28, "blk.N.attn_k.bias", "512", "F32", 57_344),
    (28, "blk.N.attn_k.weight", "3584 x 512", "Q4_K", 28_901_376),
    (28, "blk.N.attn_output.weight", "3584 x 3584", "Q4_K", 202_309_632),
    (28, "blk.N.attn_q.bias", "3584", "F32", 401_408),
    (28, "blk.N.attn_q.weight", "3584 x 3584", "Q4_K", 202_309_632),
    (28, "blk.N.attn_v.bias", "512", "F32", 57_344),
    (28, "blk.N.attn_v.weight", "3584 x 512", "Q4_K x14 Q6_K x14", 35_524_608),
    (1, "output.weight", "3584 x 152064", "Q6_K", 447_068_160),
    (1, "output_norm.weight", "3584", "F32", 14_336),
]
SMALL = [
    (1, "token_embd.weight", "896 x 151936", "Q8_0", 144_643_072),
    (24, "blk.N.attn_norm.weight", "896", "F32", 86_016),
    (24, "blk.N.ffn_down.weight", "4864 x 896", "Q4_K x12 Q6_K x12", 72_317_952),
    (24, "blk.N.ffn_gate.weight", "896 x 4864", "Q5_0", 71_909_376),
    (24, "blk.N.ffn_up.weight", "896 x 4864", "Q5_0", 71_909_376),
    (24, "blk.N.ffn_norm.weight", "896", "F32", 86_016),
    (24, "blk.N.attn_k.bias", "128", "F32", 12_288),
    (24, "blk.N.attn_k.weight", "896 x 128", "Q5_0", 1_892_352),
    (24, "blk.N.attn_output.weight", "896 x 896", "Q5_0", 13_246_464),
    (24, "blk.N.attn_q.bias", "896", "F32", 86_016),
    (24, "blk.N.attn_q.weight", "896 x 896", "Q5_0", 13_246_464),
    (24, "blk.N.attn_v.bias", "128", "F32", 12_288),
    (24, "blk.N.attn_v.weight", "896 x 128", "Q5_0 x12 Q8_0 x12", 2_408_448),
    (1, "output_norm.weight", "896", "F32", 3_584),
]


@pytest.fixture(scope="module", params=["hero", "small"])
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def observation(role: str, tmp_path_factory: pytest.TempPathFactory) -> Observation:
    return twin_at(tmp_path_factory.mktemp(role), hero() if role == "hero" else small())


def told(row: Any) -> tuple[int, str, str, str, int | None]:
    types = row.types[0].type if len(row.types) == 1 else " ".join(f"{one.type} x{one.tensors}" for one in row.types)
    return row.tensors, row.name, " x ".join(row.shape), types, row.bytes


def test_the_published_rows_in_their_order(role: str, observation: Observation) -> None:
    assert [told(row) for row in sheet(observation).rows] == (HERO if role == "hero" else SMALL)


def test_the_published_sums(role: str, observation: Observation) -> None:
    page = sheet(observation)
    sums = (page.in_front, page.inside, page.behind, page.total)
    found = [None if part is None else part.bytes for part in sums]
    (stack,) = page.stacks
    assert stack.smallest is not None
    assert stack.largest is not None
    spread = (stack.blocks, stack.first_block, stack.last_block, stack.smallest.bytes, stack.largest.bytes)
    assert page.between is not None
    assert page.between.tensors == 0
    assert (page.complete, page.ending) == (True, None)
    if role == "hero":
        assert (page.architecture, page.declared_blocks, page.tensors, page.names, page.repeating) == (
            "qwen2",
            28,
            339,
            15,
            12,
        )
        assert found == [306_561_024, 3_923_476_480, 447_082_496, 4_677_120_000]
        assert spread == (28, 0, 27, 131_135_488, 149_112_832)
    else:
        assert (page.architecture, page.declared_blocks, page.tensors, page.names, page.repeating) == (
            "qwen2",
            24,
            290,
            14,
            12,
        )
        assert found == [144_643_072, 247_213_056, 3_584, 391_859_712]
        assert spread == (24, 0, 23, 9_717_248, 10_883_840)


def test_the_published_shares(tmp_path: Path) -> None:
    page = sheet(twin_at(tmp_path, hero()))
    kinds = {one.kind: one for one in page.stacks[0].kinds}
    feed = kinds["feed-forward"]
    assert feed.bytes == 3_453_112_320
    assert feed.share == round(3_453_112_320 / 3_923_476_480, 6)
    weights = [
        row.bytes
        for row in page.rows
        if row.name.startswith("blk.N.attn_")
        and row.name.endswith(("k.weight", "output.weight", "q.weight", "v.weight"))
    ]
    assert len(weights) == 4
    assert sum(size or 0 for size in weights) == 469_045_248
    matrices = page.stacks[0].attention_matrices
    assert matrices is not None
    assert (matrices.tensors, matrices.bytes) == (4 * 28, 469_045_248)
    assert matrices.share == round(469_045_248 / 3_923_476_480, 6)
    assert figures_in(list(lines(page, 200, plain)), "attention weight matrices alone, without biases:") == [
        112,
        469_045_248,
    ]
    biases = 2 * 57_344 + 401_408
    assert kinds["attention"].bytes == 469_045_248 + biases
    assert kinds["norms"].bytes == 2 * 401_408
    assert sum(one.tensors for one in kinds.values()) == 336


def test_how_many_blocks_a_quantized_tensor_takes(tmp_path: Path) -> None:
    rows = {row.name: row for row in sheet(twin_at(tmp_path, hero())).rows}
    (embedding,) = rows["token_embd.weight"].types
    assert embedding.storage is not None
    # 3584 x 152064 = 544,997,376 weights
    assert (embedding.storage.blocks, embedding.storage.elements, embedding.storage.bytes) == (2_128_896, 256, 144)
    assert rows["output_norm.weight"].types[0].storage is None
    assert [one.storage and one.storage.blocks for one in rows["blk.N.ffn_down.weight"].types] == [14 * 3584 * 74] * 2


def test_which_blocks_hold_the_wider_type_and_what_it_takes(tmp_path: Path) -> None:
    page = sheet(twin_at(tmp_path, hero()))
    rows = {row.name: row for row in page.rows if len(row.types) > 1}
    down, value = rows["blk.N.ffn_down.weight"], rows["blk.N.attn_v.weight"]
    assert (down.bytes, value.bytes) == (1_314_410_496, 35_524_608)
    assert [(one.type, one.blocks) for one in down.types] == [("Q4_K", [*range(14, 28)]), ("Q6_K", [*range(14)])]
    assert [(one.type, one.blocks) for one in value.types] == [
        ("Q4_K", [12, 13, *range(16, 28)]),
        ("Q6_K", [*range(12), 14, 15]),
    ]
    # a row of 18,944 is 74 blocks of 256, of 144 or 210 bytes; a row of 3,584 is 14
    assert [one.bytes for one in down.types] == [14 * 3584 * 74 * 144, 14 * 3584 * 74 * 210]
    assert [one.bytes for one in value.types] == [14 * 512 * 14 * 144, 14 * 512 * 14 * 210]
    wider = 14 * 3584 * 74 * 210 + 14 * 512 * 14 * 210
    mixed = page.mixed
    assert (mixed.rows, mixed.bytes, mixed.wider_bytes) == (2, 1_349_935_104, wider)
    assert mixed.share_of_tensors == round(1_349_935_104 / 4_677_120_000, 6)
    assert mixed.wider_share_of_tensors == round(wider / 4_677_120_000, 6)
    assert mixed.wider_share_of_file == round(wider / 4_683_073_952, 6)


def test_the_listing_for_a_terminal(role: str, observation: Observation) -> None:
    text = list(lines(sheet(observation), 200, plain))
    table = [line.split() for line in text]
    for count, name, shape, types, size in HERO if role == "hero" else SMALL:
        assert [str(count), name, *shape.split(), *types.split(), f"{size:,}"] in table
    place = "in front of the stack"
    if role == "hero":
        assert figures_in(text, "15 names")[:1] == [12]
        assert figures_in(text, place) == [306_561_024]
        assert figures_in(text, "the stack itself") == [3_923_476_480, 28]
        assert figures_in(text, "behind it") == [447_082_496]
        assert figures_in(text, "all together") == [4_677_120_000]
        assert figures_in(text, "smallest block")[:1] == [131_135_488]
        assert figures_in(text, "largest block")[:1] == [149_112_832]
        assert figures_in(text, "feed-forward")[:2] == [84, 3_453_112_320]
        assert any("Q6_K" in line and line.endswith("blocks 0-11, 14-15") for line in text)
    else:
        assert figures_in(text, place) == [144_643_072]
        assert figures_in(text, "the stack itself") == [247_213_056, 24]
        assert figures_in(text, "behind it") == [3_584]


@pytest.mark.parametrize("columns", [60, 80, 100, 200])
def test_lines_keep_to_their_columns_and_lose_no_figure(columns: int, observation: Observation) -> None:
    page = sheet(observation)
    text = list(lines(page, columns, plain))
    assert max(map(width, text)) <= columns
    for row in page.rows:
        assert any(line.endswith(f"{row.bytes:,}") for line in text)
    assert list(lines(page, columns, coloured)) != text


def test_the_sheet_is_json_that_can_be_read_back(observation: Observation) -> None:
    page = sheet(observation)
    encoded = msgspec.json.encode(page)
    assert encoded.startswith(b'{"schema":"model-auditd/show-stack/1"')
    assert msgspec.json.decode(encoded, type=StackSheet) == page


# -- other files


def test_experts_and_two_stacks_of_a_safetensors_file(tmp_path: Path) -> None:
    names = [f"model.layers.{block}.mlp.experts.{expert}.w1.weight" for block in range(3) for expert in range(4)]
    names += [f"visual.blocks.{block}.norm1.weight" for block in range(2)]
    header = {name: st_entry("F32", [2, 3], 24 * at, 24 * at + 24) for at, name in enumerate(names)}
    page = sheet(looked_at(tmp_path, safetensors(header, bytes(24 * 14)), "m.safetensors"))
    assert [(row.tensors, row.blocks, row.name, row.bytes) for row in page.rows] == [
        (12, 3, "model.layers.N.mlp.experts.E.w1.weight", 288),
        (2, 2, "visual.blocks.N.norm1.weight", 48),
    ]
    assert (page.architecture, page.declared_blocks) == (None, None)
    assert [(stack.name, stack.blocks, [one.kind for one in stack.kinds]) for stack in page.stacks] == [
        ("model.layers", 3, ["experts"]),
        ("visual.blocks", 2, ["norms"]),
    ]
    text = list(lines(page, 80, plain))
    assert figures_in(text, "the stack itself") == [336, 5, 2]


def test_hostile_names_and_types(tmp_path: Path) -> None:
    names = ["blk.0.\x1b[31m\u202e", "blk.1.\x1b[31m\u202e", "x" * 3000, "a.b" * 100, "\u4e2d" * 90]
    header = {name: st_entry("F32\x1b[2J", [1], 4 * at, 4 * at + 4) for at, name in enumerate(names)}
    page = sheet(looked_at(tmp_path, safetensors(header, bytes(20)), "m.safetensors"))
    assert page.rows[0].name == "blk.N.\x1b[31m\u202e"
    for columns in (60, 80, 200):
        text = list(lines(page, columns, plain))
        assert all(map(harmless, text))
        assert max(map(width, text)) <= columns


def test_a_name_that_is_no_text_has_its_bytes_beside_it(tmp_path: Path) -> None:
    page = sheet(looked_at(tmp_path, simple(Tensor(b"blk.0.\xff", (1,)), Tensor(b"blk.1.\xff", (1,))).data))
    (row,) = page.rows
    assert row.name == "blk.N.\\xff"
    assert base64.b64decode(row.name_base64 or "") == b"blk.N.\xff"
    assert any("\\udcff" in line for line in lines(page, 80, plain))


def test_a_size_that_is_not_known_is_a_question_mark_and_null(tmp_path: Path) -> None:
    tensors = [Tensor("blk.0.w", (32,), 99, 0, 128), Tensor("blk.1.w", (32,), F32, 128)]
    page = sheet(looked_at(tmp_path, simple(*tensors, data_length=256).data))
    (row,) = page.rows
    assert (row.bytes, page.inside.bytes, page.total.bytes, page.mixed.wider_bytes) == (None, None, None, None)
    assert page.stacks[0].smallest is None
    text = list(lines(page, 80, plain))
    assert any(line.split()[:2] == ["2", "blk.N.w"] and line.endswith(" ?") for line in text)


def test_a_dimension_past_what_json_holds(tmp_path: Path) -> None:
    tensors = [Tensor("blk.0.w", (2**60, 0), F32, 0, 0), Tensor("w", (2**60,), F32, 0, 0)]
    page = sheet(looked_at(tmp_path, simple(*tensors, data_length=0).data))
    by_name = {row.name: row for row in page.rows}
    assert (by_name["blk.N.w"].shape, by_name["blk.N.w"].bytes) == ([str(2**60), "0"], 0)
    assert (by_name["w"].shape, by_name["w"].bytes) == ([str(2**60)], None)
    assert max(map(width, lines(page, 60, plain))) <= 60


def test_a_header_that_breaks_off_shows_what_was_read(tmp_path: Path) -> None:
    built = simple(*[Tensor(f"blk.{at}.w", (32,)) for at in range(4)])
    page = sheet(looked_at(tmp_path, built.data[: built.at("tensors[2].dims")]))
    assert (page.tensors, page.complete, page.total.tensors) == (4, False, 2)
    assert page.ending is not None
    text = list(lines(page, 80, plain))
    assert "4 tensors in the file, 2 of them shown" in text[1]
    assert any(line.startswith("truncated") for line in text)


@pytest.mark.parametrize(
    "data", [b"", b"PK\3\4" + bytes(100), b"GGUF", gguf([Entry("general.architecture", "string", "a")]).data]
)
def test_a_file_without_tensors(data: bytes, tmp_path: Path) -> None:
    page = sheet(looked_at(tmp_path, data))
    assert (page.rows, page.stacks, page.in_front, page.total.tensors) == ([], [], None, 0)
    assert list(lines(page, 80, plain))
