"""The error tree: what this program raises on purpose, with facts that a caller can act upon.

Bad content is never an exception: readers report faults as values (:mod:`auditd.formats.faults`). These are
for what the caller gave or what the host did.
"""

from __future__ import annotations


class AuditError(Exception):
    """Base of all; ``str()`` is one printable line for a person."""


class UsageError(AuditError):
    """The command line asks for something that does not exist or does not go together."""


class TargetError(AuditError):
    """A name that makes sense and leads to nothing that can be looked at."""


class SettingsError(AuditError):
    """A configuration that is refused: the file, the key (dotted) and what is allowed."""

    def __init__(self, source: str, key: str, problem: str) -> None:
        self.source = source
        self.key = key
        self.problem = problem
        super().__init__(f"{source}: {key}: {problem}" if key else f"{source}: {problem}")


class StoreError(AuditError):
    """The evidence store cannot be opened, read or written."""


class InspectionStopped(AuditError):
    """Raised by a checkpoint to end an inspection at this chunk; ``reason`` goes into the evidence."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)
