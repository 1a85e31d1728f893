"""The tensors of a model as a short list: one row for each name without its block number, in the order of the file.

A *stack* is a run of numbered blocks; a model may have several (text and vision, double and single). Sizes are in
bytes and None where the size of one of the tensors is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from auditd.model.kinds import ATTENTION, KINDS, kind_of
from auditd.model.names import Placed, placed
from auditd.model.tensors import Storage, TensorFact

#: Dimensions of a matrix.
_MATRIX: Final = 2


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """A tensor and its place in the model."""

    fact: TensorFact
    place: Placed


@dataclass(frozen=True, slots=True)
class TypeShare:
    """The tensors of one row that are held in one type; ``blocks`` are their blocks' numbers, ascending, each once.

    ``storage`` are the blocks that a quantized type keeps their elements in, of all of them together.
    """

    type: str
    tensors: int
    elements: int | None
    bytes: int | None
    blocks: tuple[int, ...]
    storage: Storage | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Every tensor of one pattern.

    ``stack`` is None outside any block. ``shape`` is None where the tensors have several, ``shapes`` says how many;
    ``types`` go from the narrowest to the widest, and those of unknown width come last.
    """

    pattern: bytes
    stack: bytes | None
    tensors: int
    blocks: int
    shape: tuple[int, ...] | None
    shapes: int
    types: tuple[TypeShare, ...]
    bytes: int | None


@dataclass(frozen=True, slots=True)
class BlockSize:
    """One block's number, tensors and bytes."""

    block: int
    tensors: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Share:
    """The tensors of a stack that are of one kind."""

    kind: str
    tensors: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack: ``blocks`` ascending by number; ``smallest`` and ``largest`` None unless every size is known.

    ``matrices`` are the attention's tensors of two dimensions and more: its weights without biases.
    """

    name: bytes
    blocks: tuple[BlockSize, ...]
    tensors: int
    bytes: int | None
    smallest: BlockSize | None
    largest: BlockSize | None
    shares: tuple[Share, ...]
    matrices: Total


@dataclass(frozen=True, slots=True)
class Total:
    """How many tensors, and their bytes."""

    tensors: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Listing:
    """The whole list.

    ``in_front``, ``between`` and ``behind`` are tensors outside any block, before, between and after those that stand
    in one, by file offset; all three are None in a model without blocks. ``names`` counts the rows and ``repeating`` those that stand in blocks.
    """

    rows: tuple[Row, ...]
    stacks: tuple[Stack, ...]
    in_front: Total | None
    inside: Total
    between: Total | None
    behind: Total | None
    outside: Total
    total: Total
    names: int
    repeating: int


def placed_tensors(facts: Iterable[TensorFact]) -> list[PlacedTensor]:
    """The tensors with their places, in the order in which they stand in the file."""
    return [PlacedTensor(fact, placed(fact.name)) for fact in sorted(facts, key=_file_order)]


def listing(tensors: Sequence[PlacedTensor]) -> Listing:
    """The list of ``tensors``, which stand in file order (see :func:`placed_tensors`)."""
    groups: dict[tuple[bool, bytes], _Group] = {}
    stacks: dict[bytes, list[PlacedTensor]] = {}
    for tensor in tensors:
        place = tensor.place
        inside = place.block is not None
        groups.setdefault((inside, place.pattern), _Group()).take(tensor)
        if inside:
            stacks.setdefault(place.stack, []).append(tensor)
    rows = tuple(_row(pattern, group, inside=inside) for (inside, pattern), group in groups.items())
    in_front, between, behind = _around(tensors)
    return Listing(
        rows=rows,
        stacks=tuple(_stack(name, members) for name, members in stacks.items()),
        in_front=in_front,
        inside=_total(tensor for members in stacks.values() for tensor in members),
        between=between,
        behind=behind,
        outside=_total(tensor for tensor in tensors if tensor.place.block is None),
        total=_total(tensors),
        names=len(rows),
        repeating=sum(row.stack is not None for row in rows),
    )


def _file_order(fact: TensorFact) -> tuple[int, int]:
    return fact.offset, fact.index


def total_of(sizes: Iterable[int | None]) -> int | None:
    """The sum; None as soon as one of them is."""
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def _total(tensors: Iterable[PlacedTensor]) -> Total:
    sizes = [tensor.fact.byte_length for tensor in tensors]
    return Total(len(sizes), total_of(sizes))


def _around(tensors: Sequence[PlacedTensor]) -> tuple[Total | None, Total | None, Total | None]:
    """What stands outside the blocks, in front of them, between them and behind them."""
    numbered = [at for at, tensor in enumerate(tensors) if tensor.place.block is not None]
    if not numbered:
        return None, None, None
    first, last = numbered[0], numbered[-1]
    between = (tensors[at] for at in range(first, last) if tensors[at].place.block is None)
    return _total(tensors[:first]), _total(between), _total(tensors[last + 1 :])


# -- rows -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Group:
    """The tensors of one pattern while they are gathered."""

    tensors: list[PlacedTensor] = field(default_factory=list)
    by_type: dict[str, list[PlacedTensor]] = field(default_factory=dict)

    def take(self, tensor: PlacedTensor) -> None:
        self.tensors.append(tensor)
        self.by_type.setdefault(tensor.fact.type, []).append(tensor)


def _row(pattern: bytes, group: _Group, *, inside: bool) -> Row:
    shapes = {tensor.fact.shape for tensor in group.tensors}
    return Row(
        pattern=pattern,
        stack=group.tensors[0].place.stack if inside else None,
        tensors=len(group.tensors),
        blocks=len(_blocks(group.tensors)),
        shape=next(iter(shapes)) if len(shapes) == 1 else None,
        shapes=len(shapes),
        types=tuple(sorted((_type_share(name, members) for name, members in group.by_type.items()), key=_width)),
        bytes=total_of(tensor.fact.byte_length for tensor in group.tensors),
    )


def _type_share(name: str, tensors: Sequence[PlacedTensor]) -> TypeShare:
    return TypeShare(
        type=name,
        tensors=len(tensors),
        elements=total_of(tensor.fact.elements for tensor in tensors),
        bytes=total_of(tensor.fact.byte_length for tensor in tensors),
        blocks=_blocks(tensors),
        storage=_stored(tensors),
    )


def _stored(tensors: Iterable[PlacedTensor]) -> Storage | None:
    """The blocks of all together; None where one has none, or they are not alike."""
    found = [tensor.fact.storage for tensor in tensors]
    known = [storage for storage in found if storage is not None]
    kinds = {(storage.elements, storage.bytes) for storage in known}
    if len(known) < len(found) or len(kinds) != 1:
        return None
    return Storage(sum(storage.blocks for storage in known), *kinds.pop())


def _blocks(tensors: Iterable[PlacedTensor]) -> tuple[int, ...]:
    return tuple(sorted({tensor.place.block for tensor in tensors if tensor.place.block is not None}))


def _width(share: TypeShare) -> tuple[bool, float, str]:
    """Bytes for each element, the unknown last."""
    if share.bytes is None or not share.elements:
        return True, 0.0, share.type
    return False, share.bytes / share.elements, share.type


# -- stacks -----------------------------------------------------------------------------------------


def _stack(name: bytes, tensors: Sequence[PlacedTensor]) -> Stack:
    by_block: dict[int, list[PlacedTensor]] = {}
    by_kind: dict[str, list[PlacedTensor]] = {}
    for tensor in tensors:
        if tensor.place.block is not None:
            by_block.setdefault(tensor.place.block, []).append(tensor)
        by_kind.setdefault(kind_of(tensor.place.part), []).append(tensor)
    blocks = tuple(_block_size(number, by_block[number]) for number in sorted(by_block))
    known = all(block.bytes is not None for block in blocks)
    return Stack(
        name=name,
        blocks=blocks,
        tensors=len(tensors),
        bytes=total_of(block.bytes for block in blocks),
        smallest=min(blocks, key=_bytes_of) if known else None,
        largest=max(blocks, key=_bytes_of) if known else None,
        shares=tuple(_share(kind, by_kind[kind]) for kind in KINDS if kind in by_kind),
        matrices=_total(tensor for tensor in by_kind.get(ATTENTION, ()) if len(tensor.fact.shape) >= _MATRIX),
    )


def _block_size(number: int, tensors: Sequence[PlacedTensor]) -> BlockSize:
    total = _total(tensors)
    return BlockSize(number, total.tensors, total.bytes)


def _bytes_of(block: BlockSize) -> int:
    return block.bytes or 0


def _share(kind: str, tensors: Sequence[PlacedTensor]) -> Share:
    total = _total(tensors)
    return Share(kind, total.tensors, total.bytes)
