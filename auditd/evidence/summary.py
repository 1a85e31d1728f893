"""The short form of a record: no rows, all counts and totals, and small enough for a log line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from auditd.evidence.canonical import encode
from auditd.evidence.record import Evidence, Finding

#: A log line with its newline: log shippers stop at twice as much.
LINE_BYTES: Final = 16 * 1024

#: Subjects that a limitation of a summary names.
_SUBJECTS: Final = 3


def summary(evidence: Evidence) -> Evidence:
    """The record without metadata, tensor and region rows, under the identifier of the complete one."""
    gguf = evidence.gguf and replace(evidence.gguf, metadata=None, tensors=None)
    safetensors = evidence.safetensors and replace(evidence.safetensors, metadata=None, tensors=None)
    accounting = evidence.accounting and replace(evidence.accounting, regions=None)
    limitations = [replace(item, subjects=item.subjects[:_SUBJECTS]) for item in evidence.limitations]
    return replace(
        evidence,
        detail="summary",
        gguf=gguf,
        safetensors=safetensors,
        accounting=accounting,
        limitations=limitations,
        digests=evidence.digests and replace(evidence.digests, tensors=None),
    )


def _without_limitations(evidence: Evidence) -> Evidence:
    return replace(evidence, limitations=[])


def _without_layouts(evidence: Evidence) -> Evidence:
    accounting = evidence.accounting and replace(evidence.accounting, candidates=[], by_type=[])
    gguf = evidence.gguf and replace(evidence.gguf, totals=None, headline={}, chat_templates=[])
    safetensors = evidence.safetensors and replace(evidence.safetensors, totals=None, headline={})
    return replace(evidence, accounting=accounting, gguf=gguf, safetensors=safetensors)


def _short_findings(evidence: Evidence) -> Evidence:
    return replace(evidence, findings=[_short(finding) for finding in evidence.findings[:8]])


def _short(finding: Finding) -> Finding:
    return replace(finding, message=finding.message[:200], advice="", expected=None, actual=None)


def _short_names(evidence: Evidence) -> Evidence:
    artifact = evidence.artifact
    short = replace(artifact, name=artifact.name[-60:], names=[], path=artifact.path[-1000:])
    return replace(evidence, artifact=short, findings=evidence.findings[:2], error=None)


#: What is left out first when a line is too long.
_CUTS: Final[tuple[Callable[[Evidence], Evidence], ...]] = (
    _without_limitations,
    _without_layouts,
    _short_findings,
    _short_names,
)


def line(evidence: Evidence) -> bytes:
    """The summary as one line of at most 16 KiB, newline included, whatever the names in it are."""
    short = summary(evidence)
    encoded = encode(short)
    for cut in _CUTS:
        if len(encoded) < LINE_BYTES:
            break
        short = cut(short)
        encoded = encode(short)
    return encoded + b"\n"
