"""From the facts of one look to a sealed record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from auditd.evidence.accounts import accounting_part
from auditd.evidence.canonical import seal
from auditd.evidence.coverage import coverage_part
from auditd.evidence.exactness import exact_int
from auditd.evidence.findings import worst_verdict
from auditd.evidence.judge import as_rows, judge
from auditd.evidence.judge_reference import is_unstable
from auditd.evidence.judged import Judged
from auditd.evidence.limits import limitations_part
from auditd.evidence.look import Look, PartDigests
from auditd.evidence.record import (
    SCHEMA,
    Artifact,
    Digests,
    Error,
    ErrorCode,
    Evidence,
    Expected,
    Identity,
    Outcome,
    Producer,
    Read,
    Severity,
    TensorDigest,
    Trigger,
    Verdict,
)
from auditd.evidence.rows import gguf_part, safetensors_part
from auditd.evidence.text import exact
from auditd.formats.declarations import GgufHeader, SafetensorsHeader

#: These win over every other fault as ``error``: nothing behind them was interpreted.
_FIRST_ERRORS: Mapping[str, ErrorCode] = {
    "unsupported_version": "unsupported_version",
    "resource_limit": "resource_limit",
}


def compose(
    look: Look,
    *,
    producer: Producer,
    trigger: Trigger,
    recorded_at: str,
    severities: Mapping[str, Severity],
) -> Evidence:
    """The sealed record of ``look``; ``recorded_at`` is RFC 3339 in UTC."""
    found = judge(look)
    header = look.header
    evidence = Evidence(
        schema=SCHEMA,
        evidence_id="",
        recorded_at=recorded_at,
        producer=producer,
        trigger=trigger,
        outcome=outcome_of(look, found),
        verdict=_verdict(look, found),
        detail="complete",
        artifact=_artifact(look),
        identity=Identity(before=look.before, after=look.after, status=look.identity),
        read=Read(
            scope=look.scope,
            header_length=None if header is None else exact_int(header.header_end),
            header_sha256=look.header_sha256,
            bytes_read=look.bytes_read,
            bytes_hashed=look.bytes_hashed,
            cache=look.cache,
            duration_seconds=look.duration_seconds,
        ),
        coverage=coverage_part(look),
        gguf=gguf_part(header, look.account) if isinstance(header, GgufHeader) else None,
        safetensors=safetensors_part(header) if isinstance(header, SafetensorsHeader) else None,
        accounting=accounting_part(look),
        limitations=limitations_part(look),
        findings=as_rows(found, severities),
        error=_error(look, found),
        digests=_digests(look),
    )
    return seal(evidence)


def outcome_of(look: Look, found: Sequence[Judged]) -> Outcome:
    """How the inspection ended, from its facts and its findings."""
    if look.skipped:
        return "skipped"
    if look.stop is not None:
        if look.stop.category == "cancelled":
            return "partial"
        if look.stop.category == "path":
            return "unavailable"
        return "partial" if _validated(look) else "failed"
    if _short(look):
        return "partial"
    if is_unstable(look):
        return "partial" if _validated(look) else "failed"
    return "refused" if any(judged.refuses for judged in found) or _faulty(look) else "complete"


def _short(look: Look) -> bool:
    """Whether the file gave fewer bytes than its header needs: it shrank under the reading."""
    header = look.header
    return header is not None and not header.complete and header.stopped is None


def _validated(look: Look) -> bool:
    """Whether some part of the header was read and checked before the reading ended."""
    header = look.header
    if isinstance(header, GgufHeader):
        return header.metadata_done > 0 or header.complete
    return header is not None and header.complete


def _faulty(look: Look) -> bool:
    return look.header is not None and bool(look.header.faults)


def _verdict(look: Look, found: Sequence[Judged]) -> Verdict:
    verdicts = [judged.verdict for judged in found]
    if look.stop is not None:
        verdicts.append("unknown")
    return worst_verdict(verdicts)


def _artifact(look: Look) -> Artifact:
    path, path_base64 = exact(look.path)
    name = exact(look.path.rpartition(b"/")[2])[0]
    header = look.header
    recognised = look.foreign is None and header is not None
    promise = look.promise
    given = [] if look.given in (None, look.path) else [exact(look.given)[0]]
    return Artifact(
        path=path,
        path_base64=path_base64,
        name=name,
        names=[*promise.names, path, *given],
        store=promise.store,
        format=("gguf" if isinstance(header, GgufHeader) else "safetensors") if recognised else None,
        size=exact_int(look.size),
        sha256=None if is_unstable(look) else look.sha256,
        expected=[
            Expected(algorithm=each.algorithm, value=each.value, source=each.source) for each in promise.references
        ],
        expected_size=exact_int(promise.size),
    )


def _digests(look: Look) -> Digests | None:
    """Digests beside the whole file's; None where none was taken."""
    parts = look.parts or PartDigests()
    again = look.sha256_again if is_unstable(look) else None
    tensors = [TensorDigest(index=index, sha256=digest) for index, digest in parts.tensors]
    if (parts.tensor_data, look.git_sha1, again) == (None, None, None) and not tensors:
        return None
    return Digests(tensor_data=parts.tensor_data, tensors=tensors or None, git_sha1=look.git_sha1, sha256_again=again)


def _error(look: Look, found: Sequence[Judged]) -> Error | None:
    """Why the inspection was no plain success: the stop, else the first of the faults."""
    if look.stop is not None:
        stop = look.stop
        return Error(
            code=stop.code,
            category=stop.category,
            constraint=None,
            subject=None,
            offset=exact_int(stop.offset),
            message=stop.message,
            errno=stop.errno,
        )
    if is_unstable(look):
        message = "two readings of the unchanged file gave two contents"
        return Error(
            code="execution_failure",
            category="host",
            constraint=None,
            subject="artifact.sha256",
            offset=None,
            message=message,
            errno=None,
        )
    faults = [judged for judged in found if judged.refuses]
    if not faults:
        return None
    first = min(faults, key=lambda judged: (judged.code not in _FIRST_ERRORS, judged.offset or 0))
    code = _FIRST_ERRORS.get(first.code, "file_format_rejected")
    return Error(
        code=code,
        category="bound" if code == "resource_limit" else "content",
        constraint=first.constraint,
        subject=first.subject,
        offset=exact_int(first.offset),
        message=first.message,
        errno=None,
    )
