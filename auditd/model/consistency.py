"""Whether what a GGUF header declares of the model is what its tensors are.

A healthy model must never be told that something is wrong with it, so a check is made only where the metadata speaks
of all tensors of the file, and only of what every published architecture keeps to. Nothing is said of a header that is
not complete or breaks a rule, of shards, adapters, projectors and importance matrices, of a draft model that borrows
the tables of another, or of a safetensors file, which may be a shard and has no declarations.

* Blocks: a file may leave out the blocks for multi-token prediction that it declares, or have them on top.
* Widths: only where all blocks agree and the declaration is one number. A gated query is twice as wide as its heads, a
  gate and an up projection stored as one are twice the feed-forward width, and Qwen 1 declares both together; latent
  attention and layers with heads of two widths have rules of their own and are not judged.
* Token ids: -1, in u32 as well, is how a file says that there is no such token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from auditd.formats.declarations import GgufHeader, GgufTensor, MetadataEntry
from auditd.formats.quoting import shown
from auditd.model.architecture import TOKENS_KEY, Figure, Metadata, head_width
from auditd.model.completeness import Loss, losses, missing_numbers
from auditd.model.names import placed

#: Parts by block: ``blocks[3][b"ffn_up.weight"]``.
_Blocks: TypeAlias = Mapping[int, Mapping[bytes, GgufTensor]]

#: These name tensors as GGUF models do and are no model of their own.
_NO_MODELS: Final = frozenset((b"clip", b"imatrix", b"controlvector", b"wavtokenizer-dec", b"eagle3", b"dflash"))
#: Its embedding table has rows for an image that are no tokens.
_EXTRA_ROWS: Final = frozenset((b"mllama",))
#: Encoder and decoder are stacks of their own; elsewhere their names and their keys do not go together.
_TWO_STACKS: Final = frozenset((b"t5", b"t5encoder"))
#: The feed-forward width that it declares is that of the gate and the up projection together.
_HALF_FEED: Final = frozenset((b"qwen",))
_STACKS: Final = (b"blk", b"enc.blk", b"dec.blk")
_LATENT: Final = (b"attention.q_lora_rank", b"attention.kv_lora_rank", b"attention.key_length_mla")
#: So many parts that a block lacks are named.
_PARTS_NAMED: Final = 2
_NO_TOKEN: Final = frozenset((2**32 - 1, 2**64 - 1))


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Two things in one header that do not agree.

    ``code`` is a finding's. ``subject`` and ``offset`` say where the declaration stands, ``expected`` is what it says
    and ``actual`` what the tensors say.
    """

    code: str
    message: str
    subject: str | None
    offset: int | None
    expected: int | str | None
    actual: int | str | None


@dataclass(frozen=True, slots=True)
class _Model:
    """A header, sorted for the checks."""

    header: GgufHeader
    metadata: Metadata
    stacks: Mapping[bytes, _Blocks]
    outside: Mapping[bytes, GgufTensor]

    @property
    def architecture(self) -> bytes:
        return self.metadata.architecture or b""

    def said(self, suffix: bytes) -> Figure:
        return self.metadata.under_prefix(suffix)


def discrepancies(header: GgufHeader) -> Iterator[Discrepancy]:
    """Everything in ``header`` that contradicts itself; nothing where it is not known that it speaks for a model."""
    metadata = Metadata(header)
    if not _is_a_model(header, metadata):
        return
    model = _sorted(header, metadata)
    for stack in model.stacks:
        yield from _block_count(model, stack)
        yield from _gaps(model, stack)
        yield from _losses(model, stack)
    yield from _vocabulary(model)
    yield from _embedding(model)
    yield from _attention(model)
    yield from _feed_forward(model)
    yield from _token_ids(model)


def _is_a_model(header: GgufHeader, metadata: Metadata) -> bool:
    if not header.complete or not header.rows_complete or not metadata.complete or header.faults or not header.tensors:
        return False
    if metadata.architecture is None or metadata.architecture in _NO_MODELS:
        return False
    kind = metadata.entries.get(b"general.type")
    shards = metadata.entries.get(b"split.count")
    if b"adapter.type" in metadata.entries or (kind is not None and kind.value != b"model"):
        return False
    return shards is None or shards.value in (0, 1)


def _sorted(header: GgufHeader, metadata: Metadata) -> _Model:
    stacks: dict[bytes, dict[int, dict[bytes, GgufTensor]]] = {}
    outside: dict[bytes, GgufTensor] = {}
    for tensor in header.tensors:
        place = placed(tensor.name)
        if place.block is None:
            outside[tensor.name] = tensor
        elif place.stack in _STACKS:
            stacks.setdefault(place.stack, {}).setdefault(place.block, {})[place.part] = tensor
    return _Model(header, metadata, stacks, outside)


def _at(entry: MetadataEntry | None) -> tuple[str | None, int | None]:
    """Where an entry's value stands: its path and its file offset."""
    return (None, None) if entry is None else (f"metadata[{entry.index}].value", entry.value_begin)


# -- blocks -----------------------------------------------------------------------------------------


def _declared_blocks(model: _Model, stack: bytes) -> Figure:
    """How many blocks the file says that ``stack`` has."""
    if stack != b"blk" and model.architecture not in _TWO_STACKS:
        return Figure()
    if stack == b"dec.blk":
        own = model.said(b"decoder_block_count")
        if own.entry is not None:
            return own
    return model.said(b"block_count")


def _prediction_blocks(model: _Model) -> int:
    return max(0, model.said(b"nextn_predict_layers").value or 0)


def _skips_blocks(model: _Model) -> bool:
    """Whether a block may have no tensor at all."""
    return model.said(b"attention.head_count").layers is not None


def _block_count(model: _Model, stack: bytes) -> Iterator[Discrepancy]:
    declared = _declared_blocks(model, stack)
    numbers = model.stacks[stack]
    if declared.value is None or _skips_blocks(model) or _is_prediction_only(model, stack):
        return
    extra = _prediction_blocks(model)
    allowed = range(declared.value - extra, declared.value + extra + 1)
    if len(numbers) in allowed or max(numbers) + 1 in allowed:
        return
    message = (
        f"{_key(declared)} declares {_blocks(declared.value)}, and {_blocks(len(numbers))} of {shown(stack)} are there"
    )
    yield Discrepancy("block_count_mismatch", message, *_at(declared.entry), declared.value, len(numbers))


def _is_prediction_only(model: _Model, stack: bytes) -> bool:
    """Whether only the blocks for multi-token prediction are there, under the numbers that the whole model gave them."""
    declared, predicting = _declared_blocks(model, stack).value, _prediction_blocks(model)
    return declared is not None and 0 < predicting < declared and declared - predicting <= min(model.stacks[stack])


def _gaps(model: _Model, stack: bytes) -> Iterator[Discrepancy]:
    numbers = sorted(model.stacks[stack])
    gap = missing_numbers(numbers)
    declared = _declared_blocks(model, stack)
    counted_from_one = numbers[0] == 1 and numbers[-1] == len(numbers) == declared.value
    if gap is None or counted_from_one or _skips_blocks(model) or _is_prediction_only(model, stack):
        return
    first, count = gap
    if declared.value is None and count > len(numbers):  # some tensors of some model, and nobody says how many it has
        return
    more = f" and {count - 1:,} more" if count > 1 else ""
    message = f"{shown(stack)} goes up to block {numbers[-1]}, and block {first}{more} has no tensors"
    yield Discrepancy("blocks_incomplete", message, *_at(declared.entry), numbers[-1] + 1, len(numbers))


def _losses(model: _Model, stack: bytes) -> Iterator[Discrepancy]:
    if _skips_blocks(model):
        return
    for loss in losses(model.stacks[stack]):
        first = model.header.tensors[loss.first]
        message = _loss_message(stack, loss)
        expected = loss.tensors + len(loss.parts)
        yield Discrepancy(
            "blocks_incomplete", message, f"tensors[{loss.first}].name", first.begin, expected, loss.tensors
        )


def _loss_message(stack: bytes, loss: Loss) -> str:
    named = list(map(shown, loss.parts[:_PARTS_NAMED]))
    more = len(loss.parts) - len(named)
    parts = ", ".join(named) + f" and {more:,} more" if more else " and ".join(named)
    return f"block {loss.block} of {shown(stack)} lacks {parts}, which {loss.alike:,} blocks like it have"


def _blocks(count: int) -> str:
    return "1 block" if count == 1 else f"{count:,} blocks"


def _key(figure: Figure) -> str:
    return "the file" if figure.entry is None else shown(figure.entry.key)


# -- widths and lengths -----------------------------------------------------------------------------

_MATRIX: Final = 2


def _matrix(tensor: GgufTensor | None) -> tuple[int, int] | None:
    """Elements in a row, and rows."""
    if tensor is None or len(tensor.shape) != _MATRIX:
        return None
    return tensor.shape[0], tensor.shape[1]


def _vocabulary(model: _Model) -> Iterator[Discrepancy]:
    tokens = model.metadata.length(TOKENS_KEY)
    if not tokens.value or model.architecture in _EXTRA_ROWS:
        return
    # a table of draft tokens: the output has a vocabulary of its own
    tables = (b"token_embd.weight",) if b"d2t" in model.outside else (b"token_embd.weight", b"output.weight")
    for name in tables:
        matrix = _matrix(model.outside.get(name))
        if matrix is not None and matrix[1] != tokens.value:
            message = f"the vocabulary has {tokens.value:,} tokens and {shown(name)} {matrix[1]:,} rows"
            yield Discrepancy("vocabulary_mismatch", message, *_at(tokens.entry), tokens.value, matrix[1])


def _embedding(model: _Model) -> Iterator[Discrepancy]:
    declared = model.said(b"embedding_length")
    matrix = _matrix(model.outside.get(b"token_embd.weight"))
    if declared.value and matrix is not None and matrix[0] != declared.value:
        yield _wrong_width(declared, b"token_embd.weight", declared.value, matrix[0])


def _wrong_width(declared: Figure, name: bytes, expected: int, actual: int) -> Discrepancy:
    message = f"{_key(declared)} asks for a width of {expected:,}, and {shown(name)} is {actual:,} wide"
    return Discrepancy("width_mismatch", message, *_at(declared.entry), expected, actual)


def _rows_of(model: _Model, part: bytes) -> int | None:
    """The rows of this part if all blocks that have it agree."""
    found = {_matrix(parts[part]) for parts in model.stacks.get(b"blk", {}).values() if part in parts}
    matrix = next(iter(found)) if len(found) == 1 else None
    return None if matrix is None else matrix[1]


def _attention(model: _Model) -> Iterator[Discrepancy]:
    heads = model.said(b"attention.head_count")
    if not heads.value or _has_other_heads(model):
        return
    kv_heads = model.said(b"attention.head_count_kv")
    kv_heads = heads if kv_heads.entry is None else kv_heads
    embedding = model.said(b"embedding_length")
    key, value = (model.said(suffix) for suffix in (b"attention.key_length", b"attention.value_length"))
    if kv_heads.value is None or (key.entry is None) != (value.entry is None):
        return
    key, value = head_width(key, embedding, heads), head_width(value, embedding, heads)
    for part, count, width, folds in (
        (b"attn_q.weight", heads, key, (1, 2)),
        (b"attn_k.weight", kv_heads, key, (1,)),
        (b"attn_v.weight", kv_heads, value, (1,)),
    ):
        yield from _heads(model, part, count, width, folds)


def _has_other_heads(model: _Model) -> bool:
    """Whether attention is latent, or some layers have heads of another width."""
    if any(model.said(suffix).entry is not None for suffix in _LATENT):
        return True
    prefix = model.architecture + b".attention."
    return any(key.startswith(prefix) and key.endswith(b"_swa") for key in model.metadata.entries)


def _heads(model: _Model, part: bytes, count: Figure, width: Figure, folds: tuple[int, ...]) -> Iterator[Discrepancy]:
    rows = _rows_of(model, part)
    if rows is None or not count.value or not width.value:
        return
    expected = count.value * width.value
    if rows not in [fold * expected for fold in folds]:
        yield _wrong_width(count, part, expected, rows)


def _feed_forward(model: _Model) -> Iterator[Discrepancy]:
    declared = model.said(b"feed_forward_length")
    rows = _rows_of(model, b"ffn_up.weight")
    if not declared.value or rows is None or model.said(b"expert_count").entry is not None or _has_experts(model):
        return
    expected = declared.value // 2 if model.architecture in _HALF_FEED else declared.value
    if rows not in {expected, 2 * expected}:
        yield _wrong_width(declared, b"ffn_up.weight", expected, rows)


def _has_experts(model: _Model) -> bool:
    return any(b"exps" in part for parts in model.stacks.get(b"blk", {}).values() for part in parts)


# -- tokens -----------------------------------------------------------------------------------------


def _token_ids(model: _Model) -> Iterator[Discrepancy]:
    tokens = model.metadata.length(TOKENS_KEY).value
    if not tokens:
        return
    for key, entry in model.metadata.entries.items():
        if not (key.startswith(b"tokenizer.ggml.") and key.endswith(b"_token_id")):
            continue
        token = model.metadata.number(key).value
        if token is not None and token >= tokens and token not in _NO_TOKEN:
            message = f"{shown(key)} is {token:,}, and the vocabulary has {tokens:,} tokens"
            yield Discrepancy("token_id_out_of_range", message, *_at(entry), f"below {tokens}", token)
