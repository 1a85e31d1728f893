"""Findings from what a header declares of its model and what its tensors are: one a code, with a count."""

from __future__ import annotations

from collections.abc import Iterator

from auditd.evidence.observation import Observation
from auditd.formats.declarations import GgufHeader
from auditd.model.consistency import Discrepancy, discrepancies
from auditd.rules.draft import FindingDraft


def of_model(observation: Observation) -> Iterator[FindingDraft]:
    """Every finding of a model that does not agree with itself; none of it refuses the file."""
    if not isinstance(observation.header, GgufHeader):
        return
    found: dict[str, list[Discrepancy]] = {}
    for discrepancy in discrepancies(observation.header):
        found.setdefault(discrepancy.code, []).append(discrepancy)
    for code, hits in found.items():
        first = hits[0]
        yield FindingDraft(
            code,
            first.message,
            subject=first.subject,
            offset=first.offset,
            expected=first.expected,
            actual=first.actual,
            count=len(hits),
        )
