"""What is wrong or notable: findings from the facts of one look."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from auditd.evidence.exactness import exact_int, figure
from auditd.evidence.findings import FINDINGS, SEVERITY_ORDER, severity_of
from auditd.evidence.judge_account import of_account
from auditd.evidence.judge_model import of_model
from auditd.evidence.judge_reference import of_digests
from auditd.evidence.judged import Judged
from auditd.evidence.look import Look
from auditd.evidence.record import Finding, Severity
from auditd.formats.declarations import GgufHeader
from auditd.formats.faults import Constraint, Fault, FaultKind
from auditd.formats.quoting import shown

_FAULT_CODES: Final[Mapping[FaultKind, str]] = {
    FaultKind.MALFORMED: "header_malformed",
    FaultKind.TRUNCATED: "header_truncated",
    FaultKind.UNSUPPORTED: "unsupported_version",
    FaultKind.BOUND: "resource_limit",
}


def judge(look: Look) -> list[Judged]:
    """Every finding of a look, worst first. One that changed under the reading has only that finding.

    What was read of it may belong to two different files, so nothing else is said of it.
    """
    if look.identity in ("modified", "replaced"):
        message = "the file was replaced while it was read" if look.identity == "replaced" else _changed(look)
        return [Judged("identity_changed", message)]
    found = [*_of_looking(look), *of_digests(look), *_of_header(look), *of_account(look), *of_model(look)]
    return sorted(_merged(found), key=_rank)


def _merged(found: Sequence[Judged]) -> Iterable[Judged]:
    """One finding a code and constraint: header and account may both find rows that are no whole blocks."""
    merged: dict[tuple[str, str | None], Judged] = {}
    for judged in found:
        key = (judged.code, judged.constraint)
        other = merged.get(key)
        first = judged if other is None else min(other, judged, key=lambda each: each.offset or 0)
        merged[key] = first if other is None else replace(first, count=other.count + judged.count)
    return merged.values()


def _rank(judged: Judged) -> tuple[int, int]:
    severity = FINDINGS[judged.code].severity
    return -SEVERITY_ORDER.index(severity), judged.offset or 0


def as_rows(found: Sequence[Judged], severities: Mapping[str, Severity]) -> list[Finding]:
    """Findings as rows of a record, with the configured severities."""
    return [
        Finding(
            code=judged.code,
            constraint=judged.constraint,
            severity=severity_of(judged.code, severities),
            message=judged.message,
            subject=judged.subject,
            offset=exact_int(judged.offset),
            expected=figure(judged.expected),
            actual=figure(judged.actual),
            count=judged.count,
            advice=judged.advice or FINDINGS[judged.code].advice,
        )
        for judged in found
    ]


def _changed(look: Look) -> str:
    if look.before is None or look.after is None:
        return "the file changed while it was read"
    if look.before.size != look.after.size:
        return f"the file had {look.before.size:,} bytes before it was read and {look.after.size:,} after"
    return "the file's times changed while it was read"


# -- looking ----------------------------------------------------------------------------------------

_DIRECTORY: Final = "Give one file, or walk the directory: model-auditd audit looks at everything below it."
_STOP_CODES: Final = {"path": "path_unavailable", "host": "read_failed"}


def _of_looking(look: Look) -> Iterator[Judged]:
    if look.skipped:
        yield Judged("unfinished", "its name says that a download is under way, so it was not read")
    if look.stop is not None and look.stop.category in _STOP_CODES:
        code = "read_abandoned" if look.stop.abandoned else _STOP_CODES[look.stop.category]
        advice = _DIRECTORY if look.stop.errno == errno.EISDIR else None
        yield Judged(code, look.stop.message, offset=look.stop.offset, advice=advice)
    if look.foreign is not None and look.promise.role == "model":
        yield _foreign(look)
    if look.zeros is not None and look.zeros.words:
        yield Judged("zero_run", look.zeros.words, subject="artifact", offset=look.zeros.offset)


def _foreign(look: Look) -> Judged:
    kind = look.foreign
    assert kind is not None  # noqa: S101 - the caller has asked
    head = look.foreign_head[:4]
    # Whoever calls a file otherwise does not miss the mark of GGUF.
    mark = "" if look.path.endswith((b".safetensors", b".json")) else ', and a GGUF file opens "GGUF"'
    opens = f"; it opens {shown(head)}{mark}" if head else ""
    details = f"; {look.foreign_details}" if look.foreign_details else ""
    message = f"this is {kind.meaning}{details}{opens}"
    return Judged(
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


def _of_header(look: Look) -> Iterator[Judged]:
    header = look.header
    if header is None:
        return
    for fault, count in header.faults:
        yield of_fault(fault, count)
    for notice, count in header.notices:
        yield Judged(
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
        yield Judged("no_tensors", "the header declares no tensors")
    if isinstance(header, GgufHeader) and not header.architecture_present:
        yield Judged("architecture_absent", "the metadata has no general.architecture")


def of_fault(fault: Fault, count: int) -> Judged:
    """The finding of a fault of the header."""
    return Judged(
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
