"""The alert state machine: what an evidence record, a removal or a new configuration does to the open alerts. Pure.

One alert a finding (code and rule) and artifact. It is raised once, changed when its figures change, repeated after a
while, and cleared as

``repaired``       the artifact was looked at again and nothing that alerts is left
``superseded``     that finding is gone and another one that alerts is there, or nobody will look as deep again
``removed``        the artifact is gone
``configuration``  the settings no longer make it an alert

Evidence that did not come to its end clears nothing, and neither does a look at the header alone what only the whole
file showed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from auditd.evidence.record import Evidence, Finding, Severity
from auditd.evidence_store.artifact_state import is_final
from auditd.evidence_store.entities import QUIET, Alert, ClearedAs, Fact, Scope
from auditd.model_sets.record import SetEvidence
from auditd.rules.findings import at_least

#: Findings whose figure is the account of the whole file: another residue is another state.
_ACCOUNT_CODES: Final = frozenset(
    {
        "unowned_bytes",
        "tensor_bytes_missing",
        "tensor_overlap",
        "extent_out_of_range",
        "residue_under_every_layout",
    }
)


#: Findings that rest on the digest of the whole file, whenever it was taken.
_BY_KNOWN_DIGEST: Final = frozenset({"digest_mismatch"})


@dataclass(frozen=True, slots=True)
class Policy:
    """From which severity on a finding is an alert, and after how many seconds it is said again (0: never)."""

    threshold: Severity = "warning"
    repeat_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """What one record says of its artifact or set, as far as alerts need it.

    ``facts`` is what its events carry; ``final`` says that the look came to its end.
    """

    evidence_id: str
    findings: Sequence[Finding]
    facts: dict[str, Fact]
    residue: int | None
    scope: Scope
    final: bool


def case_of(record: Evidence | SetEvidence) -> Case:
    """The case that a record makes."""
    if isinstance(record, SetEvidence):
        facts: dict[str, Fact] = {
            "evidence_id": record.evidence_id,
            "format": None,
            "verdict": record.verdict,
            "residue": None,
            "size": None,
            "sha256": None,
        }
        return Case(record.evidence_id, record.findings, facts, None, "header", final=record.verdict != "in_progress")
    scope: Scope = "full" if record.read.scope == "full" else "header"
    return Case(
        record.evidence_id, record.findings, facts_of(record), residue_of(record), scope, final=is_final(record)
    )


def residue_of(evidence: Evidence) -> int | None:
    """The headline residue of a record."""
    return None if evidence.accounting is None else evidence.accounting.residue


def facts_of(evidence: Evidence) -> dict[str, Fact]:
    """What every event about an inspection says, beside the path."""
    return {
        "evidence_id": evidence.evidence_id,
        "format": evidence.artifact.format,
        "verdict": evidence.verdict,
        "residue": residue_of(evidence),
        "size": evidence.artifact.size,
        "sha256": evidence.artifact.sha256,
    }


def figures(finding: Finding, residue: int | None) -> str:
    """The figures of a finding as one comparable text. Not its message: words may change with a new version."""
    account = residue if finding.code in _ACCOUNT_CODES else None
    return json.dumps(
        [finding.severity, finding.subject, finding.offset, finding.expected, finding.actual, finding.count, account]
    )


def next_alerts(
    path: bytes,
    standing: Iterable[Alert],
    record: Evidence | SetEvidence,
    policy: Policy,
    now: float,
    *,
    deeper_look_follows: bool,
    deeper_look_stands: bool = False,
) -> list[Alert]:
    """The alerts that change with ``record``, as they are afterwards; ``untold`` says which event is due.

    ``standing`` are the artifact's open alerts; ``now`` is wall-clock seconds. ``deeper_look_follows`` says that a
    full inspection of the same file is coming, ``deeper_look_stands`` that one of this very state was made.
    """
    case = case_of(record)
    alarming = [finding for finding in case.findings if at_least(finding.severity, policy.threshold)]
    open_by_key = {alert.key: alert for alert in standing}
    changes = []
    for finding in alarming:
        fresh = _alert(path, finding, case, now)
        changes.append(_merge(open_by_key.pop(fresh.key, None), fresh))
    for alert in open_by_key.values():
        if may_clear(alert, case, follows=deeper_look_follows, stands=deeper_look_stands):
            shallower = alert.scope == "full" and case.scope != "full" and alert.code not in _BY_KNOWN_DIGEST
            cleared_as: ClearedAs = "superseded" if alarming or shallower else "repaired"
            changes.append(clear(alert, cleared_as, now, case.facts))
    return [change for change in changes if change is not None]


def may_clear(alert: Alert, case: Case, *, follows: bool, stands: bool) -> bool:
    """Whether ``case``, which does not have the alert's finding, is reason enough to clear it."""
    if not case.final:
        return False
    if alert.scope == "header" or case.scope == "full":
        return True
    # A reference is held against the digest that is known, so a look at the header judges it as well.
    return not follows and (not stands or alert.code in _BY_KNOWN_DIGEST)


def clear(alert: Alert, cleared_as: ClearedAs, now: float, facts: dict[str, Fact] | None = None) -> Alert:
    """The alert, cleared; ``facts`` are those of the evidence that cleared it.

    One that nobody heard of yet is said to have been raised, first, and keeps the facts that it was raised with.
    """
    unheard = alert.untold == "alert_raised"
    if alert.is_quiet:
        return replace(alert, cleared_at=now, cleared_as=cleared_as, untold=None)
    return replace(
        alert,
        facts=alert.facts if unheard else {**alert.facts, **(facts or {})},
        cleared_at=now,
        cleared_as=cleared_as,
        untold="alert_raised alert_cleared" if unheard else "alert_cleared",
    )


def repeat(alert: Alert, now: float) -> Alert:
    """The alert, to be said again; one that another speaks for only waits anew."""
    return replace(alert, told_at=now, untold=None if alert.is_quiet else "alert_repeated")


def by_policy(alert: Alert, severity: Severity | None, policy: Policy, now: float) -> Alert | None:
    """The alert as a new configuration leaves it; None if nothing changes.

    ``severity`` is what its code has there, None if nobody watches its artifact any more.
    """
    if severity is None or not at_least(severity, policy.threshold):
        return clear(alert, "configuration", now)
    return None


def _alert(path: bytes, finding: Finding, case: Case, now: float) -> Alert:
    return Alert(
        path=path,
        code=finding.code,
        rule=finding.constraint or "",
        scope=case.scope,
        severity=finding.severity,
        figures=figures(finding, case.residue),
        facts={**case.facts, "message": finding.message, "advice": finding.advice},
        evidence_id=case.evidence_id,
        raised_at=now,
        told_at=now,
        untold="alert_raised",
    )


def _merge(standing: Alert | None, fresh: Alert) -> Alert | None:
    """A finding that alerts, against the alert that may stand for it already."""
    if standing is None:
        return fresh
    if standing.figures == fresh.figures:
        return None
    if standing.is_quiet:
        fresh = replace(fresh, facts={**fresh.facts, QUIET: 1})
    return replace(
        fresh,
        alert_id=standing.alert_id,
        raised_at=standing.raised_at,
        # What the header alone shows once is shown by the header alone for good.
        scope="header" if "header" in {standing.scope, fresh.scope} else "full",
        # An alert that nobody was told of yet is raised, not changed.
        untold=None if standing.is_quiet else "alert_raised" if standing.untold == "alert_raised" else "alert_changed",
    )
