"""Tensors that changed alike, as one line: names that differ only in their block's number are one pattern."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from auditd.comparison.difference import TensorGroup, Trait
from auditd.comparison.sized_tensors import Tensor
from auditd.evidence.exactness import exact_int
from auditd.evidence.text import exact
from auditd.model.names import placed


class _Alike(NamedTuple):
    """What the tensors of a group have in common; names are exact bytes."""

    trait: Trait
    pattern: bytes
    a: str | None
    b: str | None


@dataclass(slots=True)
class _Members:
    count: int = 0
    blocks: set[int] = field(default_factory=set)
    a_bytes: int | None = 0
    b_bytes: int | None = 0


class Grouping:
    """Groups in the order in which their first tensors come."""

    def __init__(self) -> None:
        self._groups: dict[_Alike, _Members] = {}

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    def add(self, trait: Trait, a: Tensor | None, b: Tensor | None) -> None:
        """One tensor that changed, as each side has it."""
        tensor = a or b
        if tensor is None:
            return
        place = placed(_bytes(tensor))
        alike = _Alike(trait, place.pattern, _told(trait, a, b), _told(trait, b, a))
        members = self._groups.setdefault(alike, _Members())
        members.count += 1
        if place.block is not None:
            members.blocks.add(place.block)
        members.a_bytes = summed(members.a_bytes, a.byte_length if a else 0)
        members.b_bytes = summed(members.b_bytes, b.byte_length if b else 0)

    def first(self, limit: int) -> list[TensorGroup]:
        """The first ``limit`` groups."""
        return [_group(alike, members) for alike, members in list(self._groups.items())[:limit]]


def _bytes(tensor: Tensor) -> bytes:
    """The exact name; a record from elsewhere may hold base64 that is none, and then the text has to do."""
    if tensor.name_base64:
        try:
            return base64.b64decode(tensor.name_base64, validate=True)
        except binascii.Error:
            pass
    return tensor.name.encode("utf-8")


def _told(trait: Trait, tensor: Tensor | None, other: Tensor | None) -> str | None:
    """What of a tensor tells the change: its type, its shape, or both where both differ or there is no other."""
    if tensor is None:
        return None
    shape = " x ".join(tensor.shape) or "scalar"
    if trait in ("requantized", "rewritten"):
        return tensor.type
    if other is not None and tensor.kind == other.kind:
        return shape
    return f"{tensor.type} {shape}"


def _group(alike: _Alike, members: _Members) -> TensorGroup:
    pattern, pattern_base64 = exact(alike.pattern)
    return TensorGroup(
        trait=alike.trait,
        pattern=pattern,
        pattern_base64=pattern_base64,
        a=alike.a,
        b=alike.b,
        count=members.count,
        blocks=list(_ranges(members.blocks)),
        a_bytes=exact_int(members.a_bytes),
        b_bytes=exact_int(members.b_bytes),
    )


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Closed ranges of numbers that follow each other."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def summed(total: int | None, term: int | None) -> int | None:
    """The sum: unknown as soon as one term is."""
    return None if total is None or term is None else total + term
