"""A finding before it is a row of a record."""

from __future__ import annotations

from dataclasses import dataclass

from auditd.evidence.record import Verdict
from auditd.formats.faults import Constraint
from auditd.rules.findings import FINDINGS


@dataclass(frozen=True, slots=True)
class FindingDraft:
    """A finding before it is a row: ``verdict`` is the code's own unless its parts say worse.

    ``refuses`` says that the content breaks a rule of its format, so that the outcome is ``refused``.
    """

    code: str
    message: str
    subject: str | None = None
    offset: int | None = None
    constraint: Constraint | None = None
    expected: int | str | None = None
    actual: int | str | None = None
    count: int = 1
    advice: str | None = None
    verdict_override: Verdict | None = None
    refuses: bool = False

    @property
    def verdict(self) -> Verdict:
        """What the finding makes of the artifact."""
        return self.verdict_override or FINDINGS[self.code].verdict
