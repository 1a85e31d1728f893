"""The place of a tensor by its name: published conventions, and names that only look like them."""

from __future__ import annotations

import re

import gguf as reference
import pytest

from auditd.model.kinds import ATTENTION, EXPERTS, FEED_FORWARD, KINDS, NORMS, OTHER, kind_of
from auditd.model.names import Placed, placed

#: Name, stack, block, part.
CONVENTIONS = [
    ("blk.0.attn_norm.weight", "blk", 0, "attn_norm.weight"),
    ("blk.27.ffn_gate_exps.weight", "blk", 27, "ffn_gate_exps.weight"),
    ("v.blk.3.attn_q.weight", "v.blk", 3, "attn_q.weight"),
    ("enc.blk.1.attn_o.weight", "enc.blk", 1, "attn_o.weight"),
    ("dec.blk.1.cross_attn_k.weight", "dec.blk", 1, "cross_attn_k.weight"),
    ("model.layers.10.self_attn.q_proj.weight", "model.layers", 10, "self_attn.q_proj.weight"),
    ("model.language_model.layers.4.mlp.up_proj.weight", "model.language_model.layers", 4, "mlp.up_proj.weight"),
    ("transformer.h.11.attn.c_attn.bias", "transformer.h", 11, "attn.c_attn.bias"),
    ("transformer.blocks.2.ffn.up_proj.weight", "transformer.blocks", 2, "ffn.up_proj.weight"),
    ("h.0.ln_1.weight", "h", 0, "ln_1.weight"),
    ("layers.5.attention.wq.weight", "layers", 5, "attention.wq.weight"),
    ("gpt_neox.layers.6.attention.dense.weight", "gpt_neox.layers", 6, "attention.dense.weight"),
    ("bert.encoder.layer.9.output.dense.weight", "bert.encoder.layer", 9, "output.dense.weight"),
    ("encoder.block.3.layer.1.DenseReluDense.wi.weight", "encoder.block", 3, "layer.1.DenseReluDense.wi.weight"),
    ("model.decoder.layers.8.fc1.weight", "model.decoder.layers", 8, "fc1.weight"),
    ("vision_model.encoder.layers.2.mlp.fc2.bias", "vision_model.encoder.layers", 2, "mlp.fc2.bias"),
    ("visual.blocks.31.attn.qkv.weight", "visual.blocks", 31, "attn.qkv.weight"),
    ("double_blocks.18.img_attn.qkv.weight", "double_blocks", 18, "img_attn.qkv.weight"),
    (
        "model.diffusion_model.single_blocks.7.linear1.weight",
        "model.diffusion_model.single_blocks",
        7,
        "linear1.weight",
    ),
    ("transformer_blocks.0.ff.net.0.proj.weight", "transformer_blocks", 0, "ff.net.0.proj.weight"),
    ("single_transformer_blocks.37.attn.to_q.weight", "single_transformer_blocks", 37, "attn.to_q.weight"),
    ("joint_blocks.23.x_block.attn.proj.weight", "joint_blocks", 23, "x_block.attn.proj.weight"),
    ("down_blocks.1.resnets.0.conv1.weight", "down_blocks", 1, "resnets.0.conv1.weight"),
    (
        "model.diffusion_model.input_blocks.4.1.transformer_blocks.0.attn1.to_q.weight",
        "model.diffusion_model.input_blocks",
        4,
        "1.transformer_blocks.0.attn1.to_q.weight",
    ),
    ("0.auto_model.encoder.layer.3.output.dense.bias", "0.auto_model.encoder.layer", 3, "output.dense.bias"),
    ("blk.7", "blk", 7, ""),
]


@pytest.mark.parametrize(("name", "stack", "block", "part"), CONVENTIONS)
def test_a_published_convention(name: str, stack: str, block: int, part: str) -> None:
    place = placed(name.encode())
    assert (place.stack, place.block, place.part) == (stack.encode(), block, part.encode())
    assert place.pattern == name.encode().replace(f"{stack}.{block}".encode(), f"{stack}.N".encode(), 1)
    assert place.expert is None


@pytest.mark.parametrize(
    "name",
    [
        "token_embd.weight",
        "output_norm.weight",
        "",
        ".",
        "..",
        "blk",
        "blk.",
        "blk.x.attn_q.weight",
        "blk.-1.attn_q.weight",
        "blk.+1.attn_q.weight",
        "blk.1_0.attn_q.weight",
        "blk.007.attn_q.weight",
        "blk.00.attn_q.weight",
        "blk.1234567890.attn_q.weight",
        "blk.\u0661.attn_q.weight",
        "blk1.attn_q.weight",
        "0.weight",
        "mm.0.weight",
        "mm.model.mb_block.1.block.0.0.weight",
        "visual.merger.mlp.0.weight",
        "time_embed.2.bias",
        "label_emb.0.0.weight",
        "final_layer.adaLN_modulation.1.weight",
    ],
)
def test_a_name_outside_any_block(name: str) -> None:
    raw = name.encode()
    assert placed(raw) == Placed(raw, b"", None, raw)


@pytest.mark.parametrize("raw", [b"blk." + b"x" * 2000 + b".3.weight", b"a." * 500_000 + b"3"], ids=["word", "dots"])
def test_a_name_that_is_longer_than_any_convention_has_no_block(raw: bytes) -> None:
    assert placed(raw) == Placed(raw, b"", None, raw)


@pytest.mark.parametrize(
    ("name", "pattern", "expert"),
    [
        ("model.layers.3.mlp.experts.17.w1.weight", "model.layers.N.mlp.experts.E.w1.weight", 17),
        (
            "model.layers.0.block_sparse_moe.experts.0.w2.weight",
            "model.layers.N.block_sparse_moe.experts.E.w2.weight",
            0,
        ),
        ("blk.4.ffn_gate.6.weight", "blk.N.ffn_gate.E.weight", 6),
        ("blk.3.ffn_gate_exps.weight", "blk.N.ffn_gate_exps.weight", None),
    ],
)
def test_experts_inside_a_block(name: str, pattern: str, expert: int | None) -> None:
    place = placed(name.encode())
    assert (place.pattern, place.expert) == (pattern.encode(), expert)
    assert place.part == name.encode().partition(b".%d." % (place.block or 0))[2]


def test_names_that_are_not_text_are_bytes_all_the_same() -> None:
    assert placed(b"\xff\xfe.12.\x80") == Placed(b"\xff\xfe.N.\x80", b"\xff\xfe", 12, b"\x80")


def test_every_name_of_the_reference_is_understood() -> None:
    """The names that the reference writer gives to tensors in blocks, and those of the models that it converts."""
    templates = set(reference.TENSOR_NAMES.values())
    for names in (*reference.TensorNameMap.block_mappings_cfg.values(), *reference.TensorNameMap.mappings_cfg.values()):
        templates.update(names)
    stacks = re.compile(r"(^|\.)(blk|layers?|blocks?|h)\.\{bid\}(\.|$)")
    numbered = sorted(template for template in templates if stacks.search(template))
    assert len(numbered) > 300
    for template in numbered:
        place = placed((template.format(bid=7, xid=3) + ".weight").encode())
        assert place.block == 7, template
        assert place.stack == template.partition(".{bid}")[0].encode()
    outside = sorted(template for template in templates if not re.search(r"\{|\.\d", template))
    assert len(outside) > 100
    for template in outside:
        assert placed(template.encode()).block is None, template


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (
            ATTENTION,
            "attn_q.weight attn_v.bias attn_output.weight self_attn.q_proj.weight attn.qkv.weight attention.wq.weight",
        ),
        (ATTENTION, "self_attention.dense.weight attention.output.dense.weight img_attn.proj.weight"),
        (
            FEED_FORWARD,
            "ffn_up.weight ffn_down.weight mlp.gate_proj.weight mlp.c_fc.bias feed_forward.w1.weight fc1.weight",
        ),
        (FEED_FORWARD, "ff.net.0.proj.weight intermediate.dense.weight output.dense.weight img_mlp.0.weight"),
        (NORMS, "attn_norm.weight ffn_norm.weight input_layernorm.weight ln_1.bias attn_q_norm.weight norm2.weight"),
        (NORMS, "post_attention_layernorm.weight attention.output.LayerNorm.weight ffn_norm_exps.weight"),
        (
            EXPERTS,
            "ffn_gate_exps.weight ffn_up_shexp.weight ffn_gate_inp.weight exp_probs_b.bias mlp.experts.0.w1.weight",
        ),
        (EXPERTS, "block_sparse_moe.gate.weight mlp.shared_expert.up_proj.weight mlp.gate.weight mlp.router.bias"),
        (OTHER, "ssm_in.weight shortconv.conv.weight norm1.linear.weight img_mod.lin.weight counts.weight"),
    ],
)
def test_what_a_part_is_for(kind: str, parts: str) -> None:
    assert kind in KINDS
    for part in parts.split():
        assert kind_of(part.encode()) == kind, part
