"""One block taken apart, and the other blocks of its stack held against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from auditd.model.stack import PlacedTensor, total_of
from auditd.model.tensors import TensorFact

#: Part, shape and type of every tensor of a block, sorted.
_Contents: TypeAlias = tuple[tuple[bytes, tuple[int, ...], str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of a block; ``name`` is what stands behind the block's number."""

    name: bytes
    fact: TensorFact


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every other block of the stack, by its number, in exactly one of four lists, each ascending.

    ``same`` has the same names, shapes and types; ``other_types`` the same names and shapes, and some type is
    another; ``other_shapes`` the same names, and some shape is another; ``other_names`` the rest.
    """

    same: tuple[int, ...]
    other_types: tuple[int, ...]
    other_shapes: tuple[int, ...]
    other_names: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One block: ``parts`` sorted by name, ``bytes`` None where a size is unknown."""

    stack: bytes
    number: int
    parts: tuple[Part, ...]
    bytes: int | None
    comparison: Comparison


def stacks_of(tensors: Iterable[PlacedTensor]) -> dict[bytes, tuple[int, ...]]:
    """The stacks in the order of the file, each with its blocks' numbers, ascending."""
    numbers: dict[bytes, set[int]] = {}
    for tensor in tensors:
        if tensor.place.block is not None:
            numbers.setdefault(tensor.place.stack, set()).add(tensor.place.block)
    return {stack: tuple(sorted(found)) for stack, found in numbers.items()}


def block_of(tensors: Sequence[PlacedTensor], stack: bytes, number: int) -> Block | None:
    """Block ``number`` of ``stack``, None if it has no tensor there."""
    members: dict[int, list[PlacedTensor]] = {}
    for tensor in tensors:
        if tensor.place.block is not None and tensor.place.stack == stack:
            members.setdefault(tensor.place.block, []).append(tensor)
    own = members.pop(number, None)
    if own is None:
        return None
    parts = sorted((Part(tensor.place.part, tensor.fact) for tensor in own), key=lambda part: part.name)
    return Block(
        stack=stack,
        number=number,
        parts=tuple(parts),
        bytes=total_of(tensor.fact.byte_length for tensor in own),
        comparison=_compared(_contents(own), {other: _contents(members[other]) for other in sorted(members)}),
    )


def _contents(tensors: Iterable[PlacedTensor]) -> _Contents:
    return tuple(sorted((tensor.place.part, tensor.fact.shape, tensor.fact.type) for tensor in tensors))


def _compared(own: _Contents, others: dict[int, _Contents]) -> Comparison:
    lists: tuple[list[int], ...] = ([], [], [], [])
    for number, contents in others.items():
        lists[_likeness(own, contents)].append(number)
    return Comparison(*map(tuple, lists))


def _likeness(own: _Contents, other: _Contents) -> int:
    """The place in :class:`Comparison`'s lists."""
    if own == other:
        return 0
    if [item[:2] for item in own] == [item[:2] for item in other]:
        return 1
    return 2 if [item[0] for item in own] == [item[0] for item in other] else 3
