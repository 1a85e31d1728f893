"""Tensors of two records by name: added, removed, and those that have another shape, type or place.

Offsets are compared from the data start, so a longer header moves no tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from auditd.comparison.difference import Place, TensorChange, TensorDifference, Trait, TypeChange
from auditd.comparison.grouping import Grouping, summed
from auditd.comparison.sized_tensors import Sized, Tensor
from auditd.comparison.subject import Known, Paired, paired
from auditd.evidence.exactness import exact_int
from auditd.evidence.record import Evidence


def tensor_difference(a: Sized, b: Sized, limit: int) -> TensorDifference:
    """The tensors of two records; lists hold the first ``limit`` of their kind."""
    known = Known.of(a.evidence.coverage.tensors, b.evidence.coverage.tensors)
    ours, theirs = a.tensors, b.tensors
    pairs = paired(_named(ours), _named(theirs))
    tally = _tallied(pairs, known, limit)
    gguf = a.evidence.gguf is not None and b.evidence.gguf is not None
    return TensorDifference(
        extent=known.extent,
        reason=known.reason,
        a_count=_count(a.evidence),
        b_count=_count(b.evidence),
        unchanged=tally.unchanged,
        added=tally.counts["added"],
        removed=tally.counts["removed"],
        reshaped=tally.counts["reshaped"],
        requantized=tally.counts["requantized"],
        rewritten=tally.counts["rewritten"],
        digested=tally.digested,
        moved=tally.counts["moved"],
        not_compared=_unmatched(pairs, known),
        shift=tally.shift,
        order_changed=pairs.order_changed if gguf else None,
        group_count=tally.groups.count,
        groups=tally.groups.first(limit),
        first=tally.first,
        by_type=list(_by_type(ours, theirs)) if known.extent == "complete" else [],
    )


def _tallied(pairs: Paired[Tensor], known: Known, limit: int) -> _Tally:
    tally = _Tally(limit)
    for _, ours, theirs in pairs.both:
        tally.take(ours, theirs)
    # What one side lacks and never read is neither added nor removed.
    for _, tensor in pairs.only_a if known.b else ():
        tally.only("removed", tensor, None)
    for _, tensor in pairs.only_b if known.a else ():
        tally.only("added", None, tensor)
    return tally


def _named(rows: Sequence[Tensor]) -> Iterator[tuple[str, str | None, Tensor]]:
    return ((row.name, row.name_base64, row) for row in rows)


def _unmatched(pairs: Paired[Tensor], known: Known) -> int:
    return (0 if known.a else len(pairs.only_b)) + (0 if known.b else len(pairs.only_a))


def _count(evidence: Evidence) -> int | None:
    part = evidence.gguf or evidence.safetensors
    return None if part is None else part.tensor_count


class _Tally:
    """What was found so far, one tensor after the other."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.unchanged = self.digested = 0
        self.counts: Counter[Trait] = Counter()
        self.groups = Grouping()
        self._kept: Counter[Trait] = Counter()
        self.first: list[TensorChange] = []
        self._shifts: set[int] = set()

    def take(self, a: Tensor, b: Tensor) -> None:
        """A tensor that both have."""
        self.digested += a.sha256 is not None and b.sha256 is not None
        traits = list(_traits(a, b))
        if not traits:
            self.unchanged += 1
            return
        self.counts.update(traits)
        if "moved" in traits:
            self._shift(a, b)
        told = [trait for trait in traits if trait != "moved"]
        if told:
            self.groups.add(told[0], a, b)
        self._keep(traits, a, b)

    def only(self, trait: Trait, a: Tensor | None, b: Tensor | None) -> None:
        """A tensor that one side has."""
        self.counts[trait] += 1
        self.groups.add(trait, a, b)
        self._keep([trait], a, b)

    def _keep(self, traits: list[Trait], a: Tensor | None, b: Tensor | None) -> None:
        """Keep it while one of its traits has fewer than ``limit`` that are kept."""
        one = a or b
        if one is not None and any(self._kept[trait] < self.limit for trait in traits):
            self._kept.update(traits)
            self.first.append(
                TensorChange(name=one.name, name_base64=one.name_base64, traits=traits, a=_place(a), b=_place(b))
            )

    def _shift(self, a: Tensor, b: Tensor) -> None:
        # Two different ones are enough to know that there is not one; an unknown one counts as different, too.
        if len(self._shifts) <= 1:
            self._shifts.add(0 if a.offset is None or b.offset is None else b.offset - a.offset)

    @property
    def shift(self) -> int | None:
        """How far all that moved were moved, if it was as far each time."""
        one = next(iter(self._shifts)) if len(self._shifts) == 1 else 0
        return one or None


def _traits(a: Tensor, b: Tensor) -> Iterator[Trait]:
    if a.shape != b.shape:
        yield "reshaped"
    if a.kind != b.kind:
        yield "requantized"
    if (a.shape, a.kind) == (b.shape, b.kind) and None not in (a.sha256, b.sha256) and a.sha256 != b.sha256:
        yield "rewritten"
    if a.offset != b.offset:
        yield "moved"


def _place(tensor: Tensor | None) -> Place | None:
    if tensor is None:
        return None
    return Place(type=tensor.type, shape=tensor.shape, offset=tensor.offset, byte_length=exact_int(tensor.byte_length))


def _by_type(a: Sequence[Tensor], b: Sequence[Tensor]) -> Iterator[TypeChange]:
    """Types in the order of their names."""
    ours, theirs = _totals(a), _totals(b)
    for name in sorted({*ours, *theirs}):
        (tensors_a, bytes_a), (tensors_b, bytes_b) = ours.get(name, (0, 0)), theirs.get(name, (0, 0))
        yield TypeChange(
            type=name, a_tensors=tensors_a, b_tensors=tensors_b, a_bytes=exact_int(bytes_a), b_bytes=exact_int(bytes_b)
        )


def _totals(rows: Sequence[Tensor]) -> dict[str, tuple[int, int | None]]:
    totals: dict[str, tuple[int, int | None]] = {}
    for row in rows:
        count, size = totals.get(row.type, (0, 0))
        totals[row.type] = count + 1, summed(size, row.byte_length)
    return totals
