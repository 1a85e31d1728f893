"""One side of a comparison, and what of it can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from auditd.comparison.difference import Extent, Source
from auditd.evidence.record import Cover, Evidence

_Item = TypeVar("_Item")

#: A name as a record has it: text, its bytes in base64 where the text is not exact, and which of several equal ones.
Key: TypeAlias = tuple[str, str | None, int]


@dataclass(frozen=True, slots=True)
class Subject:
    """A record in complete detail, and where it comes from.

    ``array_sha256`` has, by the index of a GGUF metadata entry, the digest of its value's bytes: a record keeps
    only the first elements of a long array. Both sides must have taken their digests over the same bytes.
    """

    evidence: Evidence
    source: Source = "record"
    array_sha256: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """How much of one aspect both sides have, and why not all of it.

    ``a`` and ``b`` say of each side whether it has everything: what the other side lacks there is really absent.
    """

    a: bool
    b: bool
    extent: Extent
    reason: str | None

    @classmethod
    def of(cls, a: Cover, b: Cover) -> Known:
        """From the coverage of the same aspect in both records."""
        whole = a.status == "complete", b.status == "complete"
        reasons = [f"{name}: {cover.reason}" for name, cover in (("A", a), ("B", b)) if cover.status != "complete"]
        nothing = "none" in (a.status, b.status)
        extent: Extent = "none" if nothing else "complete" if all(whole) else "partial"
        return cls(*whole, extent, "; ".join(reasons) or None)


@dataclass(frozen=True, slots=True)
class Paired(Generic[_Item]):
    """Items of two sides by name: those that both have, in the order of A, and those that only one has."""

    both: Sequence[tuple[Key, _Item, _Item]]
    only_a: Sequence[tuple[Key, _Item]]
    only_b: Sequence[tuple[Key, _Item]]
    #: Whether what both have stands in another order.
    order_changed: bool


def paired(a: Iterable[tuple[str, str | None, _Item]], b: Iterable[tuple[str, str | None, _Item]]) -> Paired[_Item]:
    """Items of both sides, each with its name's text and base64. Of equal names the first goes with the first."""
    ours, theirs = _by_key(a), _by_key(b)
    common = [key for key in ours if key in theirs]
    return Paired(
        both=[(key, ours[key], theirs[key]) for key in common],
        only_a=[(key, item) for key, item in ours.items() if key not in theirs],
        only_b=[(key, item) for key, item in theirs.items() if key not in ours],
        order_changed=common != [key for key in theirs if key in ours],
    )


def _by_key(items: Iterable[tuple[str, str | None, _Item]]) -> dict[Key, _Item]:
    again: Counter[tuple[str, str | None]] = Counter()
    found: dict[Key, _Item] = {}
    for text, base64, item in items:
        key = text, base64, 0
        if key in found:
            again[text, base64] += 1
            key = text, base64, again[text, base64]
        found[key] = item
    return found
