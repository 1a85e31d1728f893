"""What a part of a block is for, by its name: a table, and the one question asked of it."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

FEED_FORWARD: Final = "feed-forward"
ATTENTION: Final = "attention"
NORMS: Final = "norms"
EXPERTS: Final = "experts"
OTHER: Final = "other"

#: In the order of a listing.
KINDS: Final = (FEED_FORWARD, ATTENTION, EXPERTS, NORMS, OTHER)

#: The first row with a text that stands in the part decides. Norms come before what they norm, and the modulations
#: of diffusion models, which are called norms and weigh as much as an attention, before the norms.
_TEXTS: Final[tuple[tuple[str, tuple[bytes, ...]], ...]] = (
    (OTHER, (b"norm.linear", b"norm1.linear", b"norm1_context.linear", b"adaln", b"modulation", b"altup")),
    (NORMS, (b"norm", b"ln_", b"_ln.", b".ln", b"ln0.", b"ln1.", b"ln2.")),
    (
        EXPERTS,
        (b"expert", b"_exps", b"_shexp", b"_chexp", b"exp_probs", b"ffn_gate_inp", b"block_sparse_moe", b"router"),
    ),
    (EXPERTS, (b"mlp.gate.", b"moe")),
    (ATTENTION, (b"attn", b"attention", b"indexer.", b"q_proj", b"k_proj", b"v_proj", b"o_proj", b"qkv")),
    (FEED_FORWARD, (b"ffn", b"mlp", b"feed_forward", b"feedforward", b"ff.", b"ff_context.", b"channel_mix")),
    (
        FEED_FORWARD,
        (b"dense_h_to_4h", b"dense_4h_to_h", b"densereludense", b"intermediate.", b"fc1.", b"fc2.", b"output.dense."),
    ),
)

#: A part that is longer is not looked at: no convention has one.
_LONGEST_PART: Final = 1024


@lru_cache(maxsize=1024)  # the parts of one block are those of the next
def kind_of(part: bytes) -> str:
    """One of :data:`KINDS`."""
    text = part[:_LONGEST_PART].lower()
    return next((kind for kind, texts in _TEXTS if any(one in text for one in texts)), OTHER)
