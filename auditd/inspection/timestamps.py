"""The time of a record."""

from __future__ import annotations

from datetime import UTC, datetime


def now_text() -> str:
    """Now, as a record has it: RFC 3339 in UTC with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
