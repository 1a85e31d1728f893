"""Totals by type, as a record has them."""

from __future__ import annotations

from collections.abc import Iterable

from auditd.accounting import account
from auditd.evidence.exactness import exact_int
from auditd.evidence.record import DeclaredTotals, TypeTotal


def type_totals(totals: Iterable[account.TypeTotal]) -> list[TypeTotal]:
    """Each total with counts as decimal strings and sizes as far as JSON holds them exactly."""
    return [
        TypeTotal(
            type=total.type,
            type_id=total.type_id,
            tensors=total.tensors,
            elements=None if total.elements is None else str(total.elements),
            bytes=exact_int(total.size),
        )
        for total in totals
    ]


def declared(totals: list[TypeTotal]) -> DeclaredTotals:
    """The sum over types: unknown as soon as one of them is."""
    elements = [total.elements for total in totals]
    sizes = [total.bytes for total in totals]
    return DeclaredTotals(
        tensors=sum(total.tensors for total in totals),
        elements=None if None in elements else str(sum(int(count or 0) for count in elements)),
        bytes=None if None in sizes else exact_int(sum(size or 0 for size in sizes)),
        by_type=totals,
    )
