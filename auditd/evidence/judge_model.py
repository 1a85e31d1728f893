"""Findings from what a header declares of its model and what its tensors are: one a code, with a count."""

from __future__ import annotations

from collections.abc import Iterator

from auditd.evidence.judged import Judged
from auditd.evidence.look import Look
from auditd.formats.declarations import GgufHeader
from auditd.model.consistency import Discrepancy, discrepancies


def of_model(look: Look) -> Iterator[Judged]:
    """Every finding of a model that does not agree with itself; none of it refuses the file."""
    if not isinstance(look.header, GgufHeader):
        return
    found: dict[str, list[Discrepancy]] = {}
    for discrepancy in discrepancies(look.header):
        found.setdefault(discrepancy.code, []).append(discrepancy)
    for code, hits in found.items():
        first = hits[0]
        yield Judged(
            code,
            first.message,
            subject=first.subject,
            offset=first.offset,
            expected=first.expected,
            actual=first.actual,
            count=len(hits),
        )
