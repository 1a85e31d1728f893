"""Every finding code of files and of sets, for settings and alerts, which make no difference between them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from auditd.evidence.record import Severity
from auditd.rules.findings import FINDINGS
from auditd.rules.set_findings import SET_FINDINGS

#: The severity that each code has if nobody configures another.
SEVERITIES: Final[Mapping[str, Severity]] = MappingProxyType(
    {code: kind.severity for code, kind in FINDINGS.items()}
    | {code: kind.severity for code, kind in SET_FINDINGS.items()}
)


def configured_severity(code: str, overrides: Mapping[str, Severity]) -> Severity:
    """The configured severity of a finding code, else its own; ``info`` for a code of an earlier version."""
    return overrides.get(code, SEVERITIES.get(code, "info"))
