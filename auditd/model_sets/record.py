"""The record of a set, ``model-auditd/set-evidence/1``: frozen types, its bytes and its identifier.

The rules are those of ``auditd.evidence.record``: unknown is null, no integer is past 2**53 - 1, a name that is not
exact as UTF-8 has its bytes in base64 beside an escaped form, and ``evidence_id`` is ``ev_`` and the SHA-256 of the
RFC 8785 form of the complete record without that field.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from auditd.evidence.canonical import evidence_id
from auditd.evidence.record import Finding, Limitation, Producer, Record, Trigger, Verdict
from auditd.evidence.text import harmless_json
from auditd.model_sets.facts import SetKind
from auditd.rules.set_findings import SetVerdict

SET_SCHEMA: Final = "model-auditd/set-evidence/1"

#: A log line with its newline.
LINE_BYTES: Final = 16 * 1024


class SetName(Record, frozen=True):
    """A file name, or a tensor's."""

    name: str
    name_base64: str | None = None


class SetMemberRow(Record, frozen=True):
    """A file of the set: ``number`` from 1, ``verdict`` and ``evidence_id`` those of its own record.

    Not ``present``: its name is there and its content is not. ``path`` is the regular file after links.
    """

    name: str
    path: str
    size: int | None
    present: bool
    number: int | None
    tensors: int | None
    verdict: Verdict | None
    evidence_id: str | None
    name_base64: str | None = None
    path_base64: str | None = None


class MissingRow(Record, frozen=True):
    """What belongs to the set and is not there; ``dangling``: its name is a link that leads to nothing."""

    name: str
    size: int | None
    digest: str | None
    dangling: bool
    name_base64: str | None = None


class SetTotal(Record, frozen=True):
    """Members, tensors and bytes; ``bytes`` of tensors under an index, of files under a manifest."""

    members: int | None
    tensors: int | None
    bytes: int | None


class SetTotals(Record, frozen=True):
    """What the set says of itself, and what is there."""

    declared: SetTotal
    found: SetTotal


class SetPart(Record, frozen=True):
    """The set. Lists hold the first 1,000 of a kind (``members`` all) and are null in summary detail; counts are exact.

    ``source`` is the path of the index or manifest.
    """

    kind: SetKind
    name: str
    directory: str
    source: str | None
    members: list[SetMemberRow] | None
    missing: list[MissingRow] | None
    missing_tensors: list[SetName] | None
    stray: list[SetName] | None
    stale: list[SetName] | None
    unfinished: list[SetName] | None
    missing_count: int
    missing_tensor_count: int
    stray_count: int
    totals: SetTotals
    directory_base64: str | None = None
    source_base64: str | None = None


class SetEvidence(Record, frozen=True):
    """The record of one look at a set: what belongs to it, what is there, what is wrong."""

    schema: str
    evidence_id: str
    recorded_at: str
    producer: Producer
    trigger: Trigger
    verdict: SetVerdict
    detail: Literal["complete", "summary"]
    set: SetPart
    limitations: list[Limitation]
    findings: list[Finding]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(SetEvidence, strict=True)


def encode_set(evidence: SetEvidence) -> bytes:
    """One line of JSON without its newline; no character in it that a terminal would act upon."""
    return harmless_json(_ENCODER.encode(evidence))


def decode_set(encoded: bytes | str) -> SetEvidence:
    """The record in ``encoded``; raises ``msgspec.ValidationError`` with the path of what is wrong."""
    return _DECODER.decode(encoded)


def seal_set(evidence: SetEvidence) -> SetEvidence:
    """The record with its identifier."""
    return replace(evidence, evidence_id=evidence_id(evidence))


def set_summary(evidence: SetEvidence) -> SetEvidence:
    """The record without its lists, under the identifier of the complete one."""
    bare = replace(
        evidence.set, members=None, missing=None, missing_tensors=None, stray=None, stale=None, unfinished=None
    )
    limitations = [replace(item, subjects=item.subjects[:3]) for item in evidence.limitations]
    return replace(evidence, detail="summary", set=bare, limitations=limitations)


def set_line(evidence: SetEvidence) -> bytes:
    """The summary as one line of at most 16 KiB, newline included, whatever the names in it are."""
    short = set_summary(evidence)
    if len(encoded := encode_set(short)) >= LINE_BYTES:
        encoded = encode_set(_shorter(short))
    return encoded + b"\n"


def _shorter(evidence: SetEvidence) -> SetEvidence:
    """Only what no line may lack: texts cut so that every character may take six bytes."""
    part = evidence.set
    bare = replace(
        part,
        name=part.name[-60:],
        directory=part.directory[-1000:],
        source=None if part.source is None else part.source[-200:],
        directory_base64=None,
        source_base64=None,
    )
    findings = [replace(finding, message=finding.message[:200], advice="") for finding in evidence.findings[:4]]
    return replace(evidence, set=bare, findings=findings, limitations=[])
