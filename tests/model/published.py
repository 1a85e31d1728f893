"""Published architectures whose blocks are not all alike, and files that are no whole model: all of them healthy."""

from __future__ import annotations

from typing import Final

from tests.builders import Tensor
from tests.model.models import ATTENTION, BIASES, EXPERTS, FEED, MAMBA, PLAIN, Block, Model, numbered, plain

SHARED: Final = ("ffn_gate_shexp.weight", "ffn_up_shexp.weight", "ffn_down_shexp.weight")
LATENT: Final = (
    "attn_norm.weight",
    ("attn_q.weight", (64, 96)),
    "attn_kv_a_mqa.weight",
    "attn_kv_a_norm.weight",
    "attn_k_b.weight",
    "attn_v_b.weight",
    "attn_output.weight",
)
NEXTN: Final = ("nextn.eh_proj.weight", "nextn.enorm.weight", "nextn.hnorm.weight")
SHORTCONV: Final = (
    "attn_norm.weight",
    "shortconv.conv.weight",
    "shortconv.in_proj.weight",
    "shortconv.out_proj.weight",
)
#: Gemma 4: a layer that sees everything has wider heads, and its values are its keys.
GLOBAL: Final = (
    "attn_norm.weight",
    ("attn_q.weight", (64, 128)),
    ("attn_k.weight", (64, 32)),
    ("attn_output.weight", (128, 64)),
    *FEED,
)
GATED: Final = ("attn_norm.weight", ("attn_q.weight", (64, 128)), *ATTENTION[2:])
DELTA: Final = ("attn_norm.weight", ("attn_qkv.weight", (64, 96)), "attn_gate.weight", "ssm_a", "ssm_out.weight")
RWKV: Final = (
    "attn_norm.weight",
    "attn_norm.bias",
    "time_mix_key.weight",
    "time_mix_output.weight",
    "channel_mix_key.weight",
)
VALUE_RESIDUAL: Final = ("time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight")
T5: Final = ("attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_o.weight", *FEED)
WITH_SCALES: Final = (*PLAIN, "ffn_up.scale", "ffn_down.scale")


def _every(count: int, step: int, one: Block, other: Block) -> list[Block]:
    """``one`` at every ``step``-th place, counted from 1."""
    return [one if (at + 1) % step == 0 else other for at in range(count)]


def _deepseek(blocks: dict[int, Block], **entries: int) -> Model:
    said = {f"deepseek2.{key}": value for key, value in entries.items()}
    return Model("deepseek2", blocks, {"deepseek2.attention.kv_lora_rank": 16, "deepseek2.expert_count": 2, **said})


def _t5(name: str = "t5") -> Model:
    encoder = numbered([(*T5, "attn_rel_b.weight"), *[T5] * 5])
    decoder = [Tensor(f"dec.blk.{at}.{part}", (64,)) for at in range(5) for part in (*T5, "cross_attn_q.weight")]
    rel_b = Tensor("dec.blk.0.attn_rel_b.weight", (64,))
    return Model(name, encoder, {f"{name}.decoder_block_count": 5}, stack="enc.blk", more=(*decoder, rel_b))


#: Blocks that are not all alike.
UNEVEN: Final[dict[str, Model]] = {
    "qwen2, biases": Model("qwen2", numbered([(*PLAIN, *BIASES)] * 6)),
    "llama, tied": plain().having(output_weight=None),
    "jamba": Model(
        "jamba",
        numbered([(*(ATTENTION if at % 8 == 4 else MAMBA), *(EXPERTS if at % 2 else FEED)) for at in range(16)]),
        {"jamba.attention.head_count_kv": [2 if at % 8 == 4 else 0 for at in range(16)], "jamba.expert_count": 2},
    ),
    "granitehybrid": Model(
        "granitehybrid",
        numbered([(*ATTENTION, *FEED) if at in {5, 15} else (*MAMBA, *FEED) for at in range(20)]),
        {"granitehybrid.attention.head_count_kv": [2 if at in {5, 15} else 0 for at in range(20)]},
    ),
    "lfm2": Model(
        "lfm2",
        numbered([(*ATTENTION, *FEED) if at in {2, 5, 8} else (*SHORTCONV, *FEED) for at in range(12)]),
        {"lfm2.attention.head_count_kv": [2 if at in {2, 5, 8} else 0 for at in range(12)]},
    ),
    "nemotron_h": Model(
        "nemotron_h",
        numbered([ATTENTION if at == 7 else MAMBA if at % 2 else ("attn_norm.weight", *FEED[2:]) for at in range(14)]),
        {
            "nemotron_h.attention.head_count_kv": [2 if at == 7 else 0 for at in range(14)],
            "nemotron_h.feed_forward_length": [0 if at % 2 else 128 for at in range(14)],
        },
    ),
    "qwen3next": Model(
        "qwen3next",
        numbered(_every(16, 4, (*GATED, *EXPERTS), (*DELTA, *EXPERTS))),
        {"qwen3next.expert_count": 2},
    ),
    "kimi-linear": Model(
        "kimi-linear",
        numbered([(*DELTA, *FEED), *_every(11, 4, (*LATENT, *EXPERTS), (*DELTA, *EXPERTS))]),
        {"kimi-linear.attention.kv_lora_rank": 16, "kimi-linear.expert_count": 2},
    ),
    "deepseek2, one dense block first": _deepseek(numbered([(*LATENT, *FEED), *[(*LATENT, *EXPERTS, *SHARED)] * 8])),
    "deepseek2, three dense blocks first": _deepseek(
        numbered([*[(*LATENT, *FEED)] * 3, *[(*LATENT, *EXPERTS, *SHARED, "exp_probs_b.bias")] * 8])
    ),
    "glm4moe with its prediction block": Model(
        "glm4moe",
        numbered([PLAIN, *[(*ATTENTION, *EXPERTS)] * 6, (*ATTENTION, *EXPERTS, *NEXTN)]),
        {"glm4moe.nextn_predict_layers": 1, "glm4moe.expert_count": 2},
    ),
    "glm4moe without its prediction block": Model(
        "glm4moe",
        numbered([PLAIN, *[(*ATTENTION, *EXPERTS)] * 6]),
        {"glm4moe.nextn_predict_layers": 1, "glm4moe.expert_count": 2, "glm4moe.block_count": 8},
    ),
    "mimo2, prediction blocks on top": Model(
        "mimo2",
        numbered([*[PLAIN] * 6, *[(*PLAIN, *NEXTN)] * 3]),
        {"mimo2.nextn_predict_layers": 3, "mimo2.block_count": 6},
    ),
    "a prediction block alone": _deepseek({8: (*LATENT, *EXPERTS, *NEXTN)}, block_count=9, nextn_predict_layers=1),
    "llama4": Model(
        "llama4", numbered(_every(8, 2, (*ATTENTION, *EXPERTS, *SHARED), PLAIN)), {"llama4.expert_count": 2}
    ),
    "arctic": Model(
        "arctic",
        numbered(_every(8, 2, (*PLAIN, *EXPERTS[1:], "ffn_norm_exps.weight"), PLAIN)),
        {"arctic.expert_count": 2},
    ),
    "deci": Model(
        "deci",
        {
            0: PLAIN,
            1: PLAIN,
            2: FEED,
            3: ATTENTION,
            4: PLAIN,
            # 5 skips both its halves
            6: PLAIN,
            7: ("attn_norm.weight", "attn_output.weight", *FEED),
            8: PLAIN,
        },
        {
            "deci.block_count": 9,
            "deci.attention.head_count": [4, 4, 0, 4, 4, 0, 4, 4, 4],
            "deci.attention.head_count_kv": [2, 2, 0, 2, 2, 0, 2, 0, 2],
            "deci.feed_forward_length": [128, 128, 128, 0, 128, 0, 128, 128, 128],
        },
    ),
    "deci, whose last block skips both its halves": Model(
        "deci",
        numbered([PLAIN] * 5),
        {"deci.block_count": 6, "deci.attention.head_count": [4, 4, 4, 4, 4, 0]},
    ),
    "gemma3n, shared keys and values": Model(
        "gemma3n",
        numbered([*[PLAIN] * 6, *[("attn_norm.weight", "attn_q.weight", "attn_output.weight", *FEED)] * 4]),
        {"gemma3n.feed_forward_length": [128] * 10},
    ),
    "gemma4, values that are keys": Model(
        "gemma4",
        numbered(_every(12, 6, GLOBAL, PLAIN)),
        {"gemma4.attention.key_length": 32, "gemma4.attention.value_length": 32, "gemma4.attention.key_length_swa": 16}
        | {"gemma4.attention.value_length_swa": 16},
    ),
    "gemma4, one block that sees everything": Model(
        "gemma4",
        numbered([*[PLAIN] * 3, GLOBAL, PLAIN]),
        {"gemma4.attention.key_length": 32, "gemma4.attention.value_length": 32, "gemma4.attention.key_length_swa": 16}
        | {"gemma4.attention.value_length_swa": 16},
    ),
    "mimo2, sinks in most blocks": Model("mimo2", numbered(_every(12, 6, PLAIN, (*PLAIN, "attn_sinks.weight")))),
    "rwkv7": Model("rwkv7", numbered([RWKV, *[(*RWKV, *VALUE_RESIDUAL)] * 5]), {"rwkv7.attention.head_count": 0}),
    "rwkv4, another norm first": Model(
        "rwkv4", numbered([(*RWKV, "ln0.weight", "ln0.bias"), *[RWKV] * 5]), {"rwkv4.attention.head_count": 0}
    ),
    "modern-bert, no norm first": Model("modern-bert", numbered([PLAIN[1:], *[PLAIN] * 5])),
    "nomic-bert-moe": Model(
        "nomic-bert-moe",
        numbered(_every(6, 2, ("attn_qkv.weight", *EXPERTS[1:]), ("attn_qkv.weight", *FEED[2:]))),
        {"nomic-bert-moe.expert_count": 2},
    ),
    "t5": _t5(),
    "t5encoder": Model("t5encoder", numbered([(*T5, "attn_rel_b.weight"), *[T5] * 5]), stack="enc.blk"),
    "qwen, two projections declared as one": Model(
        "qwen", numbered([("attn_qkv.weight", *FEED)] * 4), {"qwen.feed_forward_length": 256}
    ),
    "phi3, two projections stored as one": Model(
        "phi3", numbered([("attn_qkv.weight", ("ffn_up.weight", (64, 256)), "ffn_down.weight")] * 4)
    ),
    "mamba": Model("mamba", numbered([MAMBA] * 6), {"mamba.attention.head_count": 0, "mamba.feed_forward_length": 0}),
    "openelm": Model(
        "openelm",
        numbered([("attn_qkv.weight", ("ffn_up.weight", (64, 64 + 32 * at))) for at in range(6)]),
        {
            "openelm.attention.head_count": [4] * 6,
            "openelm.attention.head_count_kv": [2] * 6,
            "openelm.feed_forward_length": [64 + 32 * at for at in range(6)],
        },
    ),
    "scales beside what was quantized in one way": Model(
        "llama", numbered([*[WITH_SCALES] * 5, WITH_SCALES[:-1], PLAIN])
    ),
    "one block": plain(1),
    "two blocks that differ": Model("llama", numbered([PLAIN, PLAIN[:-1]])),
    "heads wider than the embedding's share": plain().saying(
        arch__attention__head_count=2,
        arch__attention__head_count_kv=1,
        arch__attention__key_length=32,
        arch__attention__value_length=32,
    ),
    "another embedding and output in front": plain().having(rope_freqs_weight=(8,)),
    "no token of that kind": plain().saying(
        tokenizer__ggml__bos_token_id=2**32 - 1, tokenizer__ggml__padding_token_id=-1, tokenizer__ggml__eos_token_id=9
    ),
}

#: No whole models, each with contradictions that would be findings in one.
_ODD: Final = Model("llama", {0: PLAIN, 2: PLAIN, 3: PLAIN[:-1]}, {"tokenizer.ggml.bos_token_id": 10}).having(
    token_embd_weight=(32, 9)
)
PARTS: Final[dict[str, Model]] = {
    "shard": _ODD.saying(split__count=3, split__no=1),
    "adapter": _ODD.saying(general__type="adapter"),
    "older adapter": _ODD.saying(adapter__type="lora"),
    "projector": _ODD.saying(general__type="mmproj"),
    "importance matrix": _ODD.saying(general__type="imatrix"),
    "draft model": Model("eagle3", _ODD.blocks, _ODD.entries, outside=_ODD.outside),
    "control vector": Model("controlvector", _ODD.blocks, _ODD.entries, outside=_ODD.outside),
    "vision tower": Model("clip", _ODD.blocks, _ODD.entries, outside=_ODD.outside),
    "no architecture": _ODD.saying(general__architecture=None),
    "vocabulary only": Model("llama", {}, {"llama.block_count": 32}, outside={}),
}
ODD: Final = _ODD
