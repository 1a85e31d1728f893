"""Where a tensor stands by its name: the number of its block taken out, and the number of its expert inside the block.

A name is read as components between dots. The first component that is a plain decimal number with a word before it
is the number of a block, and the words up to it are the name of the stack: ``blk.3.attn_norm.weight`` is block 3 of
``blk``, ``model.layers.3.mlp.experts.17.w1.weight`` block 3 of ``model.layers``. This one rule covers what is
published:

==============================================  ============================================================
``blk``, ``v.blk``, ``enc.blk``, ``dec.blk``    GGUF: text, vision, encoder, decoder
``model.layers``, ``model.language_model.layers``, ``gpt_neox.layers``, ``decoder.layers``, ``layers``
                                                transformers: most decoders
``encoder.layer``, ``encoder.block``            BERT, T5
``transformer.h``, ``transformer.blocks``, ``h``  GPT-2, Falcon, MPT
``vision_model.encoder.layers``, ``visual.blocks``  vision towers
``double_blocks``, ``single_blocks``, ``transformer_blocks``, ``single_transformer_blocks``, ``joint_blocks``,
``input_blocks``, ``down_blocks``               diffusion models
==============================================  ============================================================

The exceptions are numbers that count the steps of one small part and no blocks (:data:`_STEPS`), and everything in
the projector of a GGUF vision file (``mm.``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

#: Words whose number is a step of a sequence inside one part.
_STEPS: Final = frozenset(
    b"mm mlp mlp1 net proj projector linear conv conv1d classifier head heads score fc time_embed time_embedding "
    b"label_emb adaLN_modulation to_out text_projection".split()
)
#: A first word under which no number is a block's.
_NO_STACKS: Final = frozenset((b"mm",))
#: Words whose number, inside a block, is an expert's: the last three in GGUF files from before experts were merged.
_EXPERTS: Final = frozenset((b"experts", b"ffn_gate", b"ffn_up", b"ffn_down"))
#: No block is numbered with more digits, and no convention has names of more bytes.
_MOST_DIGITS: Final = 9
_LONGEST_NAME: Final = 1024


class Placed(NamedTuple):
    """A name and its place: ``pattern`` has ``N`` for the block and ``E`` for the expert.

    ``stack`` are the words before the block's number and ``part`` what stands behind it. Outside any block the
    pattern and the part are the name, the stack is empty and ``block`` is None.
    """

    pattern: bytes
    stack: bytes
    block: int | None
    part: bytes
    expert: int | None = None


def placed(name: bytes) -> Placed:
    """Where the tensor of this name stands; linear in its length."""
    words = name.split(b".") if len(name) <= _LONGEST_NAME else []
    at = _block_at(words)
    if at is None:
        return Placed(name, b"", None, name)
    behind = words[at + 1 :]
    expert_at = _expert_at(behind)
    expert = None
    pattern = list(behind)
    if expert_at is not None:
        expert = int(behind[expert_at])
        pattern[expert_at] = b"E"
    stack = b".".join(words[:at])
    return Placed(b".".join((stack, b"N", *pattern)), stack, int(words[at]), b".".join(behind), expert)


def _block_at(words: list[bytes]) -> int | None:
    if not words or words[0] in _NO_STACKS:
        return None
    for at in range(1, len(words)):
        if _is_number(words[at]) and words[at - 1] not in _STEPS and not _is_number(words[at - 1]):
            return at
    return None


def _expert_at(behind: list[bytes]) -> int | None:
    for at in range(1, len(behind)):
        if behind[at - 1] in _EXPERTS and _is_number(behind[at]):
            return at
    return None


def _is_number(word: bytes) -> bool:
    """Whether it is a number as a program writes one: ``007`` is a name, or two blocks would be one."""
    return word.isdigit() and len(word) <= _MOST_DIGITS and (word == b"0" or word[:1] != b"0")
