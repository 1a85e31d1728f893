"""From the facts of one look to a sealed record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from auditd.evidence.accounts import accounting_part
from auditd.evidence.canonical import seal
from auditd.evidence.coverage import coverage_part
from auditd.evidence.exactness import exact_int
from auditd.evidence.limits import limitations_part
from auditd.evidence.observation import Observation, PartDigests
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
from auditd.rules.draft import FindingDraft
from auditd.rules.evaluate import as_rows, evaluate
from auditd.rules.findings import worst_verdict
from auditd.rules.reference_rules import is_unstable

#: These win over every other fault as ``error``: nothing behind them was interpreted.
_FIRST_ERRORS: Mapping[str, ErrorCode] = {
    "unsupported_version": "unsupported_version",
    "resource_limit": "resource_limit",
}


def compose(
    observation: Observation,
    *,
    producer: Producer,
    trigger: Trigger,
    recorded_at: str,
    severities: Mapping[str, Severity],
) -> Evidence:
    """The sealed record of ``look``; ``recorded_at`` is RFC 3339 in UTC."""
    found = evaluate(observation)
    header = observation.header
    evidence = Evidence(
        schema=SCHEMA,
        evidence_id="",
        recorded_at=recorded_at,
        producer=producer,
        trigger=trigger,
        outcome=outcome_of(observation, found),
        verdict=_verdict(observation, found),
        detail="complete",
        artifact=_artifact(observation),
        identity=Identity(before=observation.before, after=observation.after, status=observation.identity),
        read=Read(
            scope=observation.scope,
            header_length=None if header is None else exact_int(header.header_end),
            header_sha256=observation.header_sha256,
            bytes_read=observation.bytes_read,
            bytes_hashed=observation.bytes_hashed,
            cache=observation.cache,
            duration_seconds=observation.duration_seconds,
        ),
        coverage=coverage_part(observation),
        gguf=gguf_part(header, observation.account) if isinstance(header, GgufHeader) else None,
        safetensors=safetensors_part(header) if isinstance(header, SafetensorsHeader) else None,
        accounting=accounting_part(observation),
        limitations=limitations_part(observation),
        findings=as_rows(found, severities),
        error=_error(observation, found),
        digests=_digests(observation),
    )
    return seal(evidence)


def outcome_of(observation: Observation, found: Sequence[FindingDraft]) -> Outcome:
    """How the inspection ended, from its facts and its findings."""
    if observation.skipped:
        return "skipped"
    if observation.stop is not None:
        if observation.stop.category == "cancelled":
            return "partial"
        if observation.stop.category == "path":
            return "unavailable"
        return "partial" if _validated(observation) else "failed"
    if _short(observation):
        return "partial"
    if is_unstable(observation):
        return "partial" if _validated(observation) else "failed"
    return "refused" if any(drafts.refuses for drafts in found) or _faulty(observation) else "complete"


def _short(observation: Observation) -> bool:
    """Whether the file gave fewer bytes than its header needs: it shrank under the reading."""
    header = observation.header
    return header is not None and not header.complete and header.stopped is None


def _validated(observation: Observation) -> bool:
    """Whether some part of the header was read and checked before the reading ended."""
    header = observation.header
    if isinstance(header, GgufHeader):
        return header.metadata_done > 0 or header.complete
    return header is not None and header.complete


def _faulty(observation: Observation) -> bool:
    return observation.header is not None and bool(observation.header.faults)


def _verdict(observation: Observation, found: Sequence[FindingDraft]) -> Verdict:
    verdicts = [drafts.verdict for drafts in found]
    if observation.stop is not None:
        verdicts.append("unknown")
    return worst_verdict(verdicts)


def _artifact(observation: Observation) -> Artifact:
    path, path_base64 = exact(observation.path)
    name = exact(observation.path.rpartition(b"/")[2])[0]
    header = observation.header
    recognised = observation.foreign is None and header is not None
    expectation = observation.expectation
    given = [] if observation.given in (None, observation.path) else [exact(observation.given)[0]]
    return Artifact(
        path=path,
        path_base64=path_base64,
        name=name,
        names=[*expectation.names, path, *given],
        store=expectation.store,
        format=("gguf" if isinstance(header, GgufHeader) else "safetensors") if recognised else None,
        size=exact_int(observation.size),
        sha256=None if is_unstable(observation) else observation.sha256,
        expected=[
            Expected(algorithm=each.algorithm, value=each.value, source=each.source) for each in expectation.references
        ],
        expected_size=exact_int(expectation.size),
    )


def _digests(observation: Observation) -> Digests | None:
    """Digests beside the whole file's; None where none was taken."""
    parts = observation.parts or PartDigests()
    again = observation.sha256_again if is_unstable(observation) else None
    tensors = [TensorDigest(index=index, sha256=digest) for index, digest in parts.tensors]
    if (parts.tensor_data, observation.git_sha1, again) == (None, None, None) and not tensors:
        return None
    return Digests(
        tensor_data=parts.tensor_data, tensors=tensors or None, git_sha1=observation.git_sha1, sha256_again=again
    )


def _error(observation: Observation, found: Sequence[FindingDraft]) -> Error | None:
    """Why the inspection was no plain success: the stop, else the first of the faults."""
    if observation.stop is not None:
        stop = observation.stop
        return Error(
            code=stop.code,
            category=stop.category,
            constraint=None,
            subject=None,
            offset=exact_int(stop.offset),
            message=stop.message,
            errno=stop.errno,
        )
    if is_unstable(observation):
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
    faults = [drafts for drafts in found if drafts.refuses]
    if not faults:
        return None
    first = min(faults, key=lambda drafts: (drafts.code not in _FIRST_ERRORS, drafts.offset or 0))
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
