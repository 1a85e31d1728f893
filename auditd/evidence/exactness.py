"""The rule for numbers in a record: no integer past 2**53 - 1 in either direction."""

from __future__ import annotations

from auditd.evidence.record import Figure
from auditd.formats.bounds import EXACT_INTEGER


def is_exact(value: int) -> bool:
    """Whether every JSON reader takes the integer for what it is."""
    return -EXACT_INTEGER <= value <= EXACT_INTEGER


def exact_int(value: int | None) -> int | None:
    """The integer if a record may hold it, else None (and a limitation says so)."""
    return value if value is not None and is_exact(value) else None


def figure(value: int | str | None) -> Figure:
    """A figure of a finding: the integer if a record may hold it, else its decimal digits."""
    return str(value) if isinstance(value, int) and not is_exact(value) else value
