"""Whether the blocks of a GGUF stack are all there, and each with all of its tensors.

The rule has to catch a model that lost something and to say nothing of one that was built that way, and models are
built in many ways. Nothing in a file says which kinds of block it has, so kinds are what is seen: blocks with the same
parts in the same shapes. A block *lost* something when all of this holds:

* At least three blocks are of one kind, and it has all but some of their parts, and nothing else. Hybrids (Jamba,
  Granite-H, LFM2, Nemotron-H, Qwen3-Next, Kimi Linear), leading dense blocks before experts (DeepSeek), every second
  block with experts (Llama 4) and a last block for multi-token prediction have parts that the others lack.
* No other block lacks the same. Layers that share keys and values (Gemma 3n), or whose values are their keys (Gemma
  4), or that have no attention sinks, come several at a time and often in other shapes.
* What it lacks is one weight, its bias or both. A block without attention or without feed-forward (Nemotron 51B)
  lacks three and more. Only where all blocks but the first, the last and this one are of the one kind, and at least
  six, may it lack anything: such a model has no second kind that it could be of.
* In the first and the last block, it is a weight that no architecture does without: a first block may have no norm
  (ModernBERT), and first and last ones are where exceptions are made.

Only weights and biases count: scales stand beside those tensors alone that were quantized in certain ways, and rope
tables beside those that need them. A number that is missing between 0 and the last one is a block that was lost, but
not where the head counts are declared one for each block: a block that skips both its halves has no tensor at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from auditd.formats.declarations import GgufTensor

#: Parts with their shapes.
_Kind: TypeAlias = frozenset[tuple[bytes, tuple[int, ...]]]

#: So many blocks make a kind.
_LEAST_ALIKE: Final = 3
#: So many blocks of one kind, and none of another, make a model that has only one.
_LEAST_OF_ONE: Final = 6
#: No published model has more; where there are, blocks differ by design.
_MOST_KINDS: Final = 8
_COUNTED: Final = (b".weight", b".bias")
_NOT_COUNTED: Final = b"rope"
#: A block for multi-token prediction has these, and some of its parts are optional.
_PREDICTION: Final = b"nextn."
#: What the first or last block can not do without, weight or bias left off.
_ALWAYS: Final = frozenset((b"attn_q", b"attn_qkv", b"attn_output", b"ffn_up", b"ffn_down"))


@dataclass(frozen=True, slots=True)
class Loss:
    """A block that lacks ``parts`` (sorted), which ``alike`` other blocks have.

    ``tensors`` is how many it has of those that were compared, ``first`` the index of its first in the directory.
    """

    block: int
    parts: tuple[bytes, ...]
    alike: int
    tensors: int
    first: int


def missing_numbers(numbers: Sequence[int]) -> tuple[int, int] | None:
    """``(first, how many)`` of the numbers from 0 on that are not among ``numbers``, which ascend; None if all are."""
    if not numbers or numbers[-1] + 1 == len(numbers):
        return None
    first = next((at for at, number in enumerate(numbers) if number != at), len(numbers))
    return first, numbers[-1] + 1 - len(numbers)


def losses(blocks: Mapping[int, Mapping[bytes, GgufTensor]]) -> Iterator[Loss]:
    """Every block that lost a tensor, ascending; ``blocks`` are a stack's tensors by block and part."""
    kinds: dict[_Kind, list[int]] = {}
    for number, parts in blocks.items():
        kinds.setdefault(_kind(parts.items()), []).append(number)
    common = [kind for kind, members in kinds.items() if len(members) >= _LEAST_ALIKE]
    if len(common) > _MOST_KINDS:
        return
    # the only kind of a model, if it has only one
    only = next((kind for kind in common if len(kinds[kind]) >= max(_LEAST_OF_ONE, len(blocks) - 3)), None)
    edges = (min(blocks, default=0), max(blocks, default=0))
    for number, kind in sorted((members[0], kind) for kind, members in kinds.items() if len(members) == 1):
        whole = _lacking(kind, common)
        if whole is None and only is not None and number not in edges and kind < only:
            whole = only
        if whole is None or any(part.startswith(_PREDICTION) for part in blocks[number]):
            continue
        lost = tuple(sorted(part for part, _ in whole - kind))
        if _stem(lost[0]) in _ALWAYS or number not in edges:
            first = min(tensor.index for tensor in blocks[number].values())
            yield Loss(number, lost, len(kinds[whole]), len(kind), first)


def _kind(parts: Iterable[tuple[bytes, GgufTensor]]) -> _Kind:
    return frozenset(
        (part, tensor.shape) for part, tensor in parts if part.endswith(_COUNTED) and _NOT_COUNTED not in part
    )


def _lacking(kind: _Kind, common: Iterable[_Kind]) -> _Kind | None:
    """The kind that it would be with one weight, its bias or both; None if there is none."""
    for whole in common:
        few = 0 < len(whole) - len(kind) <= len(_COUNTED)
        if few and kind < whole and len({_stem(part) for part, _ in whole - kind}) == 1:
            return whole
    return None


def _stem(part: bytes) -> bytes:
    return part.rpartition(b".")[0]
