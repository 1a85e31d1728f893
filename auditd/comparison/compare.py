"""Two records compared: the way in.

A comparison says what it could compare and what not. Nothing that differs and nothing that was left out makes two
sides the same; nothing that differs and something left out makes it undecided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from auditd.comparison.classes import byte_difference
from auditd.comparison.conclude import conclude
from auditd.comparison.difference import SCHEMA, Compared, Difference, FieldChange, FileDifference, FindingNote, Side
from auditd.comparison.metadata import metadata_difference
from auditd.comparison.sized_tensors import sized
from auditd.comparison.subject import Subject
from auditd.comparison.tensors import tensor_difference
from auditd.evidence.record import Evidence, Finding

#: How many of each kind a comparison lists unless it is asked for more.
LIMIT: Final = 10


def difference(a: Subject, b: Subject, limit: int = LIMIT) -> Difference:
    """What differs between ``a`` and ``b``; lists hold the first ``limit`` of their kind, counts are exact.

    Raises ``ValueError`` for a summary record: it has no rows. Time and memory in proportion to both records.
    """
    if "summary" in (a.evidence.detail, b.evidence.detail):
        raise ValueError("a summary has no rows, and nothing to compare")
    file = _file(a.evidence, b.evidence)
    metadata = metadata_difference(a, b, limit)
    ours, theirs = sized(a.evidence), sized(b.evidence)
    tensors = tensor_difference(ours, theirs, limit)
    classes, reason = byte_difference(ours, theirs)
    conclusion, same = conclude(a.evidence, b.evidence, file, metadata, tensors)
    return Difference(
        schema=SCHEMA,
        conclusion=conclusion,
        same=same,
        a=_side(a),
        b=_side(b),
        file=file,
        metadata=metadata,
        tensors=tensors,
        bytes=classes,
        bytes_reason=reason,
        findings_only_a=_only(a.evidence.findings, b.evidence.findings),
        findings_only_b=_only(b.evidence.findings, a.evidence.findings),
    )


def _side(subject: Subject) -> Side:
    evidence = subject.evidence
    artifact = evidence.artifact
    return Side(
        source=subject.source,
        path=artifact.path,
        path_base64=artifact.path_base64,
        evidence_id=evidence.evidence_id if subject.source == "record" else None,
        format=artifact.format,
        outcome=evidence.outcome,
        verdict=evidence.verdict,
        size=artifact.size,
        sha256=artifact.sha256,
        header_sha256=evidence.read.header_sha256,
        residue=None if evidence.accounting is None else evidence.accounting.residue,
    )


def _compared(a: object, b: object) -> Compared:
    if a is None or b is None:
        return "unknown"
    return "same" if a == b else "differs"


def _file(a: Evidence, b: Evidence) -> FileDifference:
    sizes = a.artifact.size, b.artifact.size
    return FileDifference(
        format=_compared(a.artifact.format, b.artifact.format),
        size=_compared(*sizes),
        size_change=None if sizes[0] is None or sizes[1] is None else sizes[1] - sizes[0],
        header_sha256=_compared(a.read.header_sha256, b.read.header_sha256),
        sha256=_compared(a.artifact.sha256, b.artifact.sha256),
        tensor_data=_compared(_tensor_data(a), _tensor_data(b)),
        fields=list(_changed_fields(a, b)),
    )


def _tensor_data(evidence: Evidence) -> str | None:
    return None if evidence.digests is None else evidence.digests.tensor_data


def _changed_fields(a: Evidence, b: Evidence) -> Iterator[FieldChange]:
    ours, theirs = dict(_fields(a)), dict(_fields(b))
    for name, value in ours.items():
        if name in theirs and theirs[name] != value:
            yield FieldChange(name=name, a=value, b=theirs[name])


def _fields(evidence: Evidence) -> Iterator[tuple[str, int | str | None]]:
    """What stands in a header besides rows, and what follows from it."""
    if evidence.gguf is not None:
        yield "version", evidence.gguf.version
        yield "byte_order", evidence.gguf.byte_order
        yield "alignment", evidence.gguf.alignment
    yield "header_length", evidence.read.header_length
    accounting = evidence.accounting
    if accounting is not None:
        yield "data_offset", accounting.data_offset
        if accounting.layout is not None:
            yield "layout", accounting.layout.name
        yield "residue", accounting.residue


def _only(findings: Sequence[Finding], others: Sequence[Finding]) -> list[FindingNote]:
    """Findings whose code and constraint the other side has not."""
    known = {(finding.code, finding.constraint) for finding in others}
    return [
        FindingNote(
            code=finding.code,
            constraint=finding.constraint,
            severity=finding.severity,
            message=finding.message,
            count=finding.count,
        )
        for finding in findings
        if (finding.code, finding.constraint) not in known
    ]
