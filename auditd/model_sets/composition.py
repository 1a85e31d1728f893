"""From the facts of a set to a sealed record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from auditd.evidence.exactness import exact_int, figure
from auditd.evidence.record import Finding, Limitation, Producer, Severity, Trigger
from auditd.evidence.text import exact
from auditd.model_sets.evaluate import evaluate_set
from auditd.model_sets.facts import LISTED, MissingMember, SetFacts, SetFigures, SetLimit, SetMember, SetRemark
from auditd.model_sets.record import (
    SET_SCHEMA,
    MissingRow,
    SetEvidence,
    SetMemberRow,
    SetName,
    SetPart,
    SetTotal,
    SetTotals,
    seal_set,
)
from auditd.rules.set_findings import SET_FINDINGS, set_severity_of, worst_set_verdict

_CUT: Final = "the lists hold the first of each kind; the counts are those of all"


def compose_set(
    facts: SetFacts,
    *,
    producer: Producer,
    trigger: Trigger,
    recorded_at: str,
    severities: Mapping[str, Severity],
) -> SetEvidence:
    """The sealed record of a set; ``recorded_at`` is RFC 3339 in UTC."""
    found = evaluate_set(facts)
    evidence = SetEvidence(
        schema=SET_SCHEMA,
        evidence_id="",
        recorded_at=recorded_at,
        producer=producer,
        trigger=trigger,
        verdict=worst_set_verdict(remark.code for remark in found),
        detail="complete",
        set=_part(facts),
        limitations=_limitations(facts),
        findings=[_finding(remark, severities) for remark in found],
    )
    return seal_set(evidence)


def _part(facts: SetFacts) -> SetPart:
    directory, directory_base64 = exact(facts.directory)
    source, source_base64 = (None, None) if facts.source is None else exact(facts.source)
    return SetPart(
        kind=facts.kind,
        name=facts.name,
        directory=directory,
        directory_base64=directory_base64,
        source=source,
        source_base64=source_base64,
        members=[_member(one) for one in facts.members],
        missing=[_missing(one) for one in facts.missing[:LISTED]],
        missing_tensors=_names(facts.missing_tensors),
        stray=_names(facts.stray),
        stale=_names(facts.stale),
        unfinished=_names(facts.unfinished),
        missing_count=facts.all_missing,
        missing_tensor_count=facts.all_missing_tensors,
        stray_count=facts.all_stray,
        totals=SetTotals(declared=_total(facts.declared), found=_total(facts.found)),
    )


def _member(one: SetMember) -> SetMemberRow:
    name, name_base64 = exact(one.name)
    path, path_base64 = exact(one.path)
    return SetMemberRow(
        name=name,
        name_base64=name_base64,
        path=path,
        path_base64=path_base64,
        size=exact_int(one.size),
        present=one.present,
        number=exact_int(one.number),
        tensors=exact_int(one.tensors),
        verdict=one.verdict,
        evidence_id=one.evidence_id,
    )


def _missing(one: MissingMember) -> MissingRow:
    name, name_base64 = exact(one.name)
    return MissingRow(
        name=name, name_base64=name_base64, size=exact_int(one.size), digest=one.digest, dangling=one.dangling
    )


def _names(names: Sequence[bytes]) -> list[SetName]:
    return [SetName(name=name, name_base64=base64) for name, base64 in map(exact, names[:LISTED])]


def _total(figures: SetFigures) -> SetTotal:
    return SetTotal(
        members=exact_int(figures.members), tensors=exact_int(figures.tensors), bytes=exact_int(figures.size)
    )


def _finding(remark: SetRemark, severities: Mapping[str, Severity]) -> Finding:
    return Finding(
        code=remark.code,
        constraint=None,
        severity=set_severity_of(remark.code, severities),
        message=remark.message,
        subject=remark.subject,
        offset=None,
        expected=figure(remark.expected),
        actual=figure(remark.actual),
        count=remark.count,
        advice=SET_FINDINGS[remark.code].advice,
    )


def _limitations(facts: SetFacts) -> list[Limitation]:
    limits = [_limit(limit) for limit in facts.limits]
    counts = (
        (facts.all_missing, facts.missing),
        (facts.all_missing_tensors, facts.missing_tensors),
        (facts.all_stray, facts.stray),
    )
    if any(listed and count > min(len(listed), LISTED) for count, listed in counts):
        limits.append(Limitation(code="lists_cut", message=_CUT, subjects=[], count=1))
    return limits


def _limit(limit: SetLimit) -> Limitation:
    subjects = [exact(name)[0] for name in limit.subjects[:LISTED]]
    return Limitation(code=limit.code, message=limit.message, subjects=subjects, count=limit.count)
