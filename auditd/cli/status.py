"""Exit statuses: what a script may rely on."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from auditd.evidence.record import Evidence, Outcome, Severity
from auditd.rules.findings import at_least


class Status(IntEnum):
    """The worst one is the highest: over many files the maximum decides."""

    #: Nothing at or above the alert severity; also a download in progress, and sizes that are not established.
    CLEAR = 0
    #: Findings, refused content, a foreign file, an unsupported version.
    FINDINGS = 1
    #: The command line or the configuration.
    USAGE = 2
    #: Could not look, or not to the end: the path, the host, a cancellation.
    NOT_SEEN = 3


_NOT_SEEN: frozenset[Outcome] = frozenset({"unavailable", "failed", "partial"})


def status_of(evidence: Evidence, threshold: Severity = "warning") -> Status:
    """The exit status for one record."""
    return status_from(evidence.outcome, (finding.severity for finding in evidence.findings), threshold)


def status_from(outcome: Outcome, severities: Iterable[Severity], threshold: Severity = "warning") -> Status:
    """The exit status for an outcome and the severities of its findings."""
    if outcome in _NOT_SEEN:
        return Status.NOT_SEEN
    if outcome == "refused" or any(at_least(severity, threshold) for severity in severities):
        return Status.FINDINGS
    return Status.CLEAR


def worst(statuses: Iterable[Status]) -> Status:
    """The exit status for many records."""
    return max(statuses, default=Status.CLEAR)
