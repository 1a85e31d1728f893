"""What a header says of its model against its tensors: told where it is wrong, and never of a healthy model."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from auditd.rules.draft import FindingDraft
from auditd.rules.model_rules import of_model
from tests.builders import Entry, Tensor, finding, gguf, observe_artifact, safetensors, st_entry
from tests.model.models import PLAIN, Block, Model, numbered, plain
from tests.model.published import ODD, PARTS, UNEVEN
from tests.models import hero, small
from tests.support.looks import looked_at, twin_at


def judged(directory: Path, model: Model) -> dict[str, FindingDraft]:
    found = list(of_model(looked_at(directory, model.built().data)))
    assert len({one.code for one in found}) == len(found)
    return {one.code: one for one in found}


@pytest.mark.parametrize("name", UNEVEN)
def test_nothing_is_said_of_a_healthy_model(name: str, tmp_path: Path) -> None:
    assert judged(tmp_path, UNEVEN[name]) == {}


@pytest.mark.parametrize("name", PARTS)
def test_nothing_is_said_of_what_is_no_whole_model(name: str, tmp_path: Path) -> None:
    assert judged(tmp_path, PARTS[name]) == {}


def test_but_the_same_is_told_of_a_whole_one(tmp_path: Path) -> None:
    assert set(judged(tmp_path, ODD)) == {
        "blocks_incomplete",
        "vocabulary_mismatch",
        "width_mismatch",
        "token_id_out_of_range",
    }


def test_the_published_models_agree_with_themselves(tmp_path: Path) -> None:
    for twin in (hero(), small()):
        assert list(of_model(twin_at(tmp_path, twin))) == []


def test_a_published_model_with_another_block_count(tmp_path: Path) -> None:
    header = bytearray(hero().header)
    key = b"qwen2.block_count"
    at = header.index(key) + len(key) + 4
    assert struct.unpack_from("<I", header, at) == (28,)
    struct.pack_into("<I", header, at, 27)
    evidence = observe_artifact(tmp_path, bytes(header))
    hit = finding(evidence, "block_count_mismatch")
    assert (hit.severity, hit.subject, hit.offset) == ("warning", "metadata[14].value", at)
    assert (hit.expected, hit.actual, hit.count) == (27, 28, 1)
    assert hit.message == '"qwen2.block_count" declares 27 blocks, and 28 blocks of "blk" are there'


# -- blocks


def place_of(model: Model, key: str) -> tuple[str, int]:
    """The subject and the file offset of a value."""
    built = model.built()
    at = built.data.index(key.encode()) + len(key) + 4
    index = next(
        int(span.subject.split("[")[1].split("]")[0])
        for span in built.spans
        if span.subject.endswith(".key") and built.data[span.begin : span.end] == key.encode()
    )
    return f"metadata[{index}].value", at


@pytest.mark.parametrize("declared", [1, 5, 7, 2**32 - 1])
def test_a_block_count_that_is_not_there(declared: int, tmp_path: Path) -> None:
    model = plain(6).saying(arch__block_count=declared)
    found = judged(tmp_path, model)
    assert set(found) == {"block_count_mismatch"}
    hit = found["block_count_mismatch"]
    assert (hit.expected, hit.actual) == (declared, 6)
    assert (hit.subject, hit.offset) == place_of(model, "llama.block_count")


@pytest.mark.parametrize(("count", "told"), [(5, True), (6, False), (7, False), (8, False), (9, True)])
def test_prediction_blocks_may_be_left_out_or_come_on_top(count: int, told: bool, tmp_path: Path) -> None:
    model = plain(count).saying(arch__block_count=7, arch__nextn_predict_layers=1)
    assert ("block_count_mismatch" in judged(tmp_path, model)) is told


@pytest.mark.parametrize(("key", "value"), [("block_count", "6"), ("block_count", [6]), ("block_count", None)])
def test_a_block_count_that_is_no_number(key: str, value: str | list[int] | None, tmp_path: Path) -> None:
    assert judged(tmp_path, plain(5).saying(**{f"arch__{key}": value})) == {}


def test_encoder_and_decoder_are_counted_apart(tmp_path: Path) -> None:
    t5 = UNEVEN["t5"]
    encoder = judged(tmp_path, t5.saying(arch__block_count=7))["block_count_mismatch"]
    assert (encoder.expected, encoder.actual) == (7, 6)
    model = t5.saying(arch__decoder_block_count=6)
    decoder = judged(tmp_path, model)["block_count_mismatch"]
    assert (decoder.expected, decoder.actual) == (6, 5)
    assert decoder.subject == place_of(model, "t5.decoder_block_count")[0]


@pytest.mark.parametrize("lost", [0, 2, 4])
def test_a_block_that_is_gone(lost: int, tmp_path: Path) -> None:
    blocks = {number: PLAIN for number in range(6) if number != lost}
    found = judged(tmp_path, Model("llama", blocks, {"llama.block_count": 6}))
    assert set(found) == {"blocks_incomplete"}
    hit = found["blocks_incomplete"]
    assert (hit.expected, hit.actual) == (6, 5)
    assert hit.message == f'"blk" goes up to block 5, and block {lost} has no tensors'


def test_the_last_block_that_is_gone(tmp_path: Path) -> None:
    assert set(judged(tmp_path, plain(5).saying(arch__block_count=6))) == {"block_count_mismatch"}


#: Architecture, block, what it lost; in the first and last block only what nobody does without.
LOSSES = [
    ("qwen2, biases", 3, ("attn_norm.weight",)),
    ("qwen2, biases", 2, ("attn_k.bias",)),
    ("qwen2, biases", 1, ("attn_v.weight", "attn_v.bias")),
    ("qwen2, biases", 0, ("ffn_down.weight",)),
    ("qwen2, biases", 5, ("attn_q.weight",)),
    ("jamba", 7, ("ffn_up_exps.weight",)),
    ("granitehybrid", 8, ("ssm_dt.bias",)),
    ("nemotron_h", 5, ("ssm_out.weight",)),
    ("qwen3next", 7, ("attn_k.weight",)),
    ("deepseek2, three dense blocks first", 5, ("exp_probs_b.bias",)),
    ("deepseek2, three dense blocks first", 10, ("attn_output.weight",)),
    ("llama4", 4, ("ffn_gate.weight",)),
    ("gemma3n, shared keys and values", 2, ("attn_v.weight",)),
    ("t5", 2, ("ffn_up.weight",)),
    ("mamba", 3, ("ssm_in.weight",)),
]


@pytest.mark.parametrize(("name", "block", "parts"), LOSSES)
def test_a_block_that_lost_a_tensor(name: str, block: int, parts: tuple[str, ...], tmp_path: Path) -> None:
    model = UNEVEN[name].without(block, *parts)
    found = judged(tmp_path, model)
    assert set(found) == {"blocks_incomplete"}
    hit = found["blocks_incomplete"]
    assert hit.message.startswith(f'block {block} of "{model.stack}" lacks ')
    assert all(f'"{part}"' in hit.message for part in parts)
    assert isinstance(hit.expected, int)
    assert isinstance(hit.actual, int)
    assert (hit.expected - hit.actual, hit.count) == (len(parts), 1)
    built = model.built()
    first = next(
        span for span in built.spans if built.data[span.begin : span.end].startswith(f"{model.stack}.{block}.".encode())
    )
    assert (hit.subject, hit.offset) == (first.subject, first.begin - 8)


FEW = ("ffn_gate.weight", "ffn_up.weight", "ffn_down.weight")


@pytest.mark.parametrize(("blocks", "told"), [(6, False), (7, True), (30, True)])
def test_where_all_others_are_of_one_kind_a_block_may_lack_more(blocks: int, told: bool, tmp_path: Path) -> None:
    found = judged(tmp_path, plain(blocks).without(3, *FEW))
    assert set(found) == ({"blocks_incomplete"} if told else set())
    if told:
        hit = found["blocks_incomplete"]
        assert hit.message.startswith('block 3 of "blk" lacks "ffn_down.weight", "ffn_gate.weight" and 1 more, which ')
        assert (hit.expected, hit.actual) == (len(PLAIN), len(PLAIN) - 3)


def test_a_first_or_last_block_may_lack_more(tmp_path: Path) -> None:
    assert judged(tmp_path, plain(20).without(19, *FEW)) == {}
    assert judged(tmp_path, plain(20).without(0, *FEW)) == {}


def test_two_blocks_that_lack_the_same_are_a_kind(tmp_path: Path) -> None:
    assert judged(tmp_path, plain(20).without(5, "ffn_up.weight").without(11, "ffn_up.weight")) == {}


def test_only_blocks_past_the_declared_ones(tmp_path: Path) -> None:
    model = Model("llama", dict.fromkeys((7, 8, 9), PLAIN), {"llama.block_count": 5})
    assert set(judged(tmp_path, model)) == {"block_count_mismatch", "blocks_incomplete"}


def test_two_blocks_that_lost_different_tensors_are_one_finding(tmp_path: Path) -> None:
    model = plain(8).without(2, "ffn_up.weight").without(5, "attn_k.weight")
    hit = judged(tmp_path, model)["blocks_incomplete"]
    assert hit.count == 2
    assert hit.message == 'block 2 of "blk" lacks "ffn_up.weight", which 6 blocks like it have'


# -- lengths and widths


@pytest.mark.parametrize("table", ["token_embd_weight", "output_weight"])
@pytest.mark.parametrize("rows", [9, 11])
def test_a_table_of_another_length(table: str, rows: int, tmp_path: Path) -> None:
    model = plain().having(**{table: (64, rows)})
    found = judged(tmp_path, model)
    assert set(found) == {"vocabulary_mismatch"}
    hit = found["vocabulary_mismatch"]
    assert (hit.expected, hit.actual) == (10, rows)
    assert (hit.subject, hit.offset) == place_of(model, "tokenizer.ggml.tokens")


def test_both_tables_are_one_finding(tmp_path: Path) -> None:
    model = plain().having(token_embd_weight=(64, 12), output_weight=(64, 12))
    assert judged(tmp_path, model)["vocabulary_mismatch"].count == 2


def test_a_table_of_draft_tokens_gives_the_output_its_own_length(tmp_path: Path) -> None:
    assert judged(tmp_path, plain().having(output_weight=(64, 5), d2t=(5,))) == {}


@pytest.mark.parametrize(
    ("key", "said", "expected", "actual", "told"),
    [
        ("embedding_length", 128, 128, 64, "embedding_length"),
        ("attention.head_count", 2, 64, 32, "attention.head_count_kv"),  # heads become 32 wide, and keys are 2 of them
        ("attention.head_count_kv", 4, 64, 32, "attention.head_count_kv"),
        ("feed_forward_length", 100, 100, 128, "feed_forward_length"),
    ],
)
def test_a_width_that_is_not_the_tensors(
    key: str, said: int, expected: int, actual: int, told: str, tmp_path: Path
) -> None:
    model = plain().saying(**{f"arch__{key.replace('.', '__')}": said})
    hit = judged(tmp_path, model)["width_mismatch"]
    assert (hit.expected, hit.actual) == (expected, actual)
    assert (hit.subject, hit.offset) == place_of(model, f"llama.{told}")


def test_widths_are_judged_only_where_all_blocks_agree(tmp_path: Path) -> None:
    uneven: Block = [*PLAIN[:1], ("attn_q.weight", (64, 80)), *PLAIN[2:]]
    assert judged(tmp_path, Model("llama", numbered([PLAIN, PLAIN, PLAIN, uneven]))) == {}
    assert set(judged(tmp_path, Model("llama", numbered([uneven] * 4)))) == {"width_mismatch"}


# -- tokens


@pytest.mark.parametrize(("token", "told"), [(0, False), (9, False), (10, True), (2**32 - 2, True), (2**32 - 1, False)])
def test_a_token_past_the_vocabulary(token: int, told: bool, tmp_path: Path) -> None:
    model = plain().saying(tokenizer__ggml__eos_token_id=token)
    found = judged(tmp_path, model)
    assert set(found) == ({"token_id_out_of_range"} if told else set())
    if told:
        hit = found["token_id_out_of_range"]
        assert (hit.expected, hit.actual) == ("below 10", token)
        assert (hit.subject, hit.offset) == place_of(model, "tokenizer.ggml.eos_token_id")


# -- where nothing is said


def test_a_header_that_breaks_a_rule_is_not_judged(tmp_path: Path) -> None:
    odd = ODD.built()
    assert list(of_model(looked_at(tmp_path, odd.data)))
    cut = odd.data[: odd.header_end - 1]
    assert list(of_model(looked_at(tmp_path, cut))) == []
    twice = [Entry("general.architecture", "string", "llama"), Entry("llama.block_count", "u32", 9)]
    data = gguf([*twice, twice[1]], [Tensor("blk.0.a.weight", (32,))]).data
    assert list(of_model(looked_at(tmp_path, data))) == []


def test_a_safetensors_file_has_no_declarations(tmp_path: Path) -> None:
    header = {f"model.layers.{at}.w": st_entry("F32", [1], 4 * at, 4 * at + 4) for at in range(4)}
    header["model.layers.9.w"] = st_entry("F32", [1], 16, 20)
    assert list(of_model(looked_at(tmp_path, safetensors(header, bytes(20)), "m.safetensors"))) == []


def test_a_single_block_of_a_model_whose_length_nobody_says(tmp_path: Path) -> None:
    data = gguf([Entry("general.architecture", "string", "test")], [Tensor("blk.25.a.weight", (32,))]).data
    assert list(of_model(looked_at(tmp_path, data))) == []


def test_a_number_like_a_million_blocks_takes_no_time_for_each(tmp_path: Path) -> None:
    tensors = [Tensor(f"blk.{at}.a.weight", (32,)) for at in (0, 999_999_999)]
    data = gguf([Entry("general.architecture", "string", "test"), Entry("test.block_count", "u32", 2)], tensors).data
    (hit,) = of_model(looked_at(tmp_path, data))
    assert (hit.code, hit.expected, hit.actual) == ("blocks_incomplete", 1_000_000_000, 2)
    assert hit.message == '"blk" goes up to block 999999999, and block 1 and 999,999,997 more has no tensors'
