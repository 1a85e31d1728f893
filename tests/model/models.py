"""Small GGUF files with the tensor names of published architectures, each block's parts by hand.

Widths: embedding 64, 4 heads of 16 for queries, 2 for keys and values, feed-forward 128, 10 tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.builders import Array, Built, Entry, Tensor, gguf

#: Shapes by part; what is not here is a vector of 64.
SHAPES: Final[Mapping[str, tuple[int, ...]]] = {
    "attn_q": (64, 64),
    "attn_k": (64, 32),
    "attn_v": (64, 32),
    "attn_output": (64, 64),
    "attn_qkv": (64, 128),
    "ffn_gate": (64, 128),
    "ffn_up": (64, 128),
    "ffn_down": (128, 64),
    "ffn_gate_exps": (64, 32, 2),
    "ffn_up_exps": (64, 32, 2),
    "ffn_down_exps": (32, 64, 2),
    "attn_k.bias": (32,),
    "attn_v.bias": (32,),
}

ATTENTION: Final = ("attn_norm.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight", "attn_output.weight")
FEED: Final = ("ffn_norm.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight")
BIASES: Final = ("attn_q.bias", "attn_k.bias", "attn_v.bias")
EXPERTS: Final = (
    "ffn_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_exps.weight",
    "ffn_up_exps.weight",
    "ffn_down_exps.weight",
)
MAMBA: Final = (
    "attn_norm.weight",
    "ssm_in.weight",
    "ssm_conv1d.weight",
    "ssm_conv1d.bias",
    "ssm_x.weight",
    "ssm_dt.weight",
    "ssm_dt.bias",
    "ssm_a",
    "ssm_d",
    "ssm_out.weight",
)
PLAIN: Final = (*ATTENTION, *FEED)

#: A block is its parts, or parts with shapes of their own.
Block = Sequence[str | tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Model:
    """A model to be written: ``entries`` come on top of the usual ones and replace those of the same key."""

    name: str
    blocks: Mapping[int, Block]
    entries: Mapping[str, int | str | Sequence[int] | None] = field(default_factory=dict)
    stack: str = "blk"
    outside: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {"token_embd.weight": (64, 10), "output_norm.weight": (64,), "output.weight": (64, 10)}
    )
    more: Sequence[Tensor] = ()

    def without(self, block: int, *parts: str) -> Model:
        """The model with a block that lost these parts."""
        left = [part for part in self.blocks[block] if _name(part) not in parts]
        assert len(left) == len(self.blocks[block]) - len(parts)
        return Model(self.name, {**self.blocks, block: left}, self.entries, self.stack, self.outside, self.more)

    def saying(self, **entries: int | str | Sequence[int] | None) -> Model:
        """The model with other metadata; ``__`` stands for a dot, and ``arch`` for the architecture's name."""
        said = {key.replace("__", ".").replace("arch.", f"{self.name}."): value for key, value in entries.items()}
        return Model(self.name, self.blocks, {**self.entries, **said}, self.stack, self.outside, self.more)

    def having(self, **outside: tuple[int, ...] | None) -> Model:
        """The model with other tensors outside its blocks; ``_weight`` stands for ``.weight``."""
        changed = {**self.outside, **{key.replace("_weight", ".weight"): shape for key, shape in outside.items()}}
        left = {key: shape for key, shape in changed.items() if shape is not None}
        return Model(self.name, self.blocks, self.entries, self.stack, left, self.more)

    def built(self) -> Built:
        """The file."""
        usual: dict[str, int | str | Sequence[int] | None] = {
            "general.architecture": self.name,
            f"{self.name}.block_count": len(self.blocks),
            f"{self.name}.embedding_length": 64,
            f"{self.name}.feed_forward_length": 128,
            f"{self.name}.attention.head_count": 4,
            f"{self.name}.attention.head_count_kv": 2,
        }
        said = {**usual, **self.entries}
        entries = [_entry(key, value) for key, value in said.items() if value is not None]
        if "tokenizer.ggml.tokens" not in said:
            entries.append(Entry("tokenizer.ggml.tokens", "array", Array("string", [f"t{at}" for at in range(10)])))
        tensors = [Tensor(name, shape) for name, shape in self.outside.items()]
        for number, block in self.blocks.items():
            tensors += [_tensor(f"{self.stack}.{number}.", part) for part in block]
        return gguf(entries, [*tensors, *self.more])


def _name(part: str | tuple[str, tuple[int, ...]]) -> str:
    return part if isinstance(part, str) else part[0]


def _tensor(prefix: str, part: str | tuple[str, tuple[int, ...]]) -> Tensor:
    if not isinstance(part, str):
        return Tensor(prefix + part[0], part[1])
    shape = SHAPES.get(part) or (SHAPES.get(part.removesuffix(".weight")) if part.endswith(".weight") else None)
    return Tensor(prefix + part, shape or (64,))


def _entry(key: str, value: int | str | Sequence[int] | None) -> Entry:
    if isinstance(value, str):
        return Entry(key, "string", value)
    if isinstance(value, int):
        return Entry(key, "i32" if value < 0 else "u32", value)
    return Entry(key, "array", Array("i32", list(value or ())))


def numbered(blocks: Iterable[Block]) -> dict[int, Block]:
    """Blocks numbered from 0."""
    return dict(enumerate(blocks))


def plain(count: int = 6, name: str = "llama") -> Model:
    """A plain decoder."""
    return Model(name, numbered([PLAIN] * count))
