"""The values that go into the store and come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from auditd.evidence.record import Evidence, Severity
from auditd.evidence_store.artifact_state import ArtifactState
from auditd.model_sets.record import SetEvidence

AlertEvent: TypeAlias = Literal["alert_raised", "alert_changed", "alert_repeated", "alert_cleared"]
#: What is still to be said: an event, or both ends of an alert that ended before anybody heard of it.
Untold: TypeAlias = AlertEvent | Literal["alert_raised alert_cleared"]
ClearedAs: TypeAlias = Literal["repaired", "removed", "superseded", "configuration"]
Scope: TypeAlias = Literal["header", "full"]
Fact: TypeAlias = str | int | None


#: The fact of an alert that another one speaks for; it is in none of its events, since it has none.
QUIET: Final = "quiet"


@dataclass(frozen=True, slots=True)
class Alert:
    """The life of one finding on one artifact. ``alert_id`` is None until it is stored; times are wall-clock seconds.

    ``rule`` is the finding's constraint or ``""``; ``figures`` are compared to tell a change; ``facts`` is what
    its events say; ``untold`` is what was committed and not yet said.
    """

    path: bytes
    code: str
    rule: str
    scope: Scope
    severity: Severity
    figures: str
    facts: Mapping[str, Fact]
    evidence_id: str
    raised_at: float
    told_at: float
    cleared_at: float | None = None
    cleared_as: ClearedAs | None = None
    untold: Untold | None = None
    alert_id: int | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether an alert on its mount speaks for it: it is neither repeated nor told when it is cleared."""
        return bool(self.facts.get(QUIET))

    @property
    def key(self) -> tuple[str, str]:
        """What makes it one alert on its artifact."""
        return self.code, self.rule


@dataclass(frozen=True, slots=True)
class Entry:
    """All that one inspection changes, stored in one transaction."""

    path: bytes
    evidence: Evidence
    known: ArtifactState
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as it stands in the store."""

    sequence: int
    path: bytes
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class SetEntry:
    """All that one judgement of a set changes. ``state`` is a digest of what was found, without time and numbers."""

    name: bytes
    place: bytes
    evidence: SetEvidence
    state: str
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class DueItem:
    """Where the re-hash of everything stands.

    ``path``, ``identity`` and ``waits_since`` (wall-clock seconds; None: by a clock that has been set back since) are of
    the artifact that waits longest, None if there is none; ``next_at`` is when its turn comes. ``finished_since`` is set
    once everything that was there when a pass began was hashed, has changed or is gone, with the time of that begin.
    """

    path: bytes | None = None
    identity: str | None = None
    waits_since: float | None = None
    next_at: float = 0.0
    finished_since: float | None = None
