"""What is wrong or notable: findings from the facts of one look."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from auditd.evidence.exactness import exact_int, figure
from auditd.evidence.observation import Observation
from auditd.evidence.record import Finding, Severity
from auditd.formats.declarations import GgufHeader
from auditd.formats.faults import Constraint, Fault, FaultKind
from auditd.formats.quoting import shown
from auditd.rules.account_rules import of_account
from auditd.rules.draft import FindingDraft
from auditd.rules.findings import FINDINGS, SEVERITY_ORDER, severity_of
from auditd.rules.model_rules import of_model
from auditd.rules.reference_rules import of_digests

_FAULT_CODES: Final[Mapping[FaultKind, str]] = {
    FaultKind.MALFORMED: "header_malformed",
    FaultKind.TRUNCATED: "header_truncated",
    FaultKind.UNSUPPORTED: "unsupported_version",
    FaultKind.BOUND: "resource_limit",
}


def evaluate(observation: Observation) -> list[FindingDraft]:
    """Every finding of a look, worst first. One that changed under the reading has only that finding.

    What was read of it may belong to two different files, so nothing else is said of it.
    """
    if observation.identity in ("modified", "replaced"):
        message = (
            "the file was replaced while it was read" if observation.identity == "replaced" else _changed(observation)
        )
        return [FindingDraft("identity_changed", message)]
    found = [
        *_of_observation(observation),
        *of_digests(observation),
        *_of_header(observation),
        *of_account(observation),
        *of_model(observation),
    ]
    return sorted(_merged(found), key=_rank)


def _merged(found: Sequence[FindingDraft]) -> Iterable[FindingDraft]:
    """One finding a code and constraint: header and account may both find rows that are no whole blocks."""
    merged: dict[tuple[str, str | None], FindingDraft] = {}
    for drafts in found:
        key = (drafts.code, drafts.constraint)
        other = merged.get(key)
        first = drafts if other is None else min(other, drafts, key=lambda each: each.offset or 0)
        merged[key] = first if other is None else replace(first, count=other.count + drafts.count)
    return merged.values()


def _rank(drafts: FindingDraft) -> tuple[int, int]:
    severity = FINDINGS[drafts.code].severity
    return -SEVERITY_ORDER.index(severity), drafts.offset or 0


def as_rows(found: Sequence[FindingDraft], severities: Mapping[str, Severity]) -> list[Finding]:
    """Findings as rows of a record, with the configured severities."""
    return [
        Finding(
            code=drafts.code,
            constraint=drafts.constraint,
            severity=severity_of(drafts.code, severities),
            message=drafts.message,
            subject=drafts.subject,
            offset=exact_int(drafts.offset),
            expected=figure(drafts.expected),
            actual=figure(drafts.actual),
            count=drafts.count,
            advice=drafts.advice or FINDINGS[drafts.code].advice,
        )
        for drafts in found
    ]


def _changed(observation: Observation) -> str:
    if observation.before is None or observation.after is None:
        return "the file changed while it was read"
    if observation.before.size != observation.after.size:
        return f"the file had {observation.before.size:,} bytes before it was read and {observation.after.size:,} after"
    return "the file's times changed while it was read"


# -- looking ----------------------------------------------------------------------------------------

_DIRECTORY: Final = "Give one file, or walk the directory: model-auditd audit looks at everything below it."
_STOP_CODES: Final = {"path": "path_unavailable", "host": "read_failed"}


def _of_observation(observation: Observation) -> Iterator[FindingDraft]:
    if observation.skipped:
        yield FindingDraft("unfinished", "its name says that a download is under way, so it was not read")
    if observation.stop is not None and observation.stop.category in _STOP_CODES:
        code = "read_abandoned" if observation.stop.abandoned else _STOP_CODES[observation.stop.category]
        advice = _DIRECTORY if observation.stop.errno == errno.EISDIR else None
        yield FindingDraft(code, observation.stop.message, offset=observation.stop.offset, advice=advice)
    if observation.foreign is not None and observation.expectation.role == "model":
        yield _foreign(observation)
    if observation.zeros is not None and observation.zeros.words:
        yield FindingDraft("zero_run", observation.zeros.words, subject="artifact", offset=observation.zeros.offset)


def _foreign(observation: Observation) -> FindingDraft:
    kind = observation.foreign
    assert kind is not None  # noqa: S101 - the caller has asked
    head = observation.foreign_head[:4]
    # Whoever calls a file otherwise does not miss the mark of GGUF.
    mark = "" if observation.path.endswith((b".safetensors", b".json")) else ', and a GGUF file opens "GGUF"'
    opens = f"; it opens {shown(head)}{mark}" if head else ""
    details = f"; {observation.foreign_details}" if observation.foreign_details else ""
    message = f"this is {kind.meaning}{details}{opens}"
    return FindingDraft(
        "not_a_model",
        message,
        subject="header.magic",
        offset=0,
        constraint=Constraint.MAGIC,
        expected="GGUF, or a safetensors header",
        actual=kind.word,
        advice=kind.advice,
        refuses=True,
    )


# -- header -----------------------------------------------------------------------------------------


def _of_header(observation: Observation) -> Iterator[FindingDraft]:
    header = observation.header
    if header is None:
        return
    for fault, count in header.faults:
        yield of_fault(fault, count)
    for notice, count in header.notices:
        yield FindingDraft(
            notice.code,
            notice.message,
            subject=notice.subject,
            offset=notice.offset,
            expected=notice.expected,
            actual=notice.actual,
            count=count,
        )
    if not header.complete:
        return
    if header.tensor_count == 0:
        yield FindingDraft("no_tensors", "the header declares no tensors")
    if isinstance(header, GgufHeader) and not header.architecture_present:
        yield FindingDraft("architecture_absent", "the metadata has no general.architecture")


def of_fault(fault: Fault, count: int) -> FindingDraft:
    """The finding of a fault of the header."""
    return FindingDraft(
        _FAULT_CODES[fault.kind],
        fault.message,
        subject=fault.subject,
        offset=fault.offset,
        constraint=fault.constraint,
        expected=fault.expected,
        actual=fault.actual,
        count=count,
        refuses=True,
    )
