"""What earlier evidence of the same artifact knew, and what of it is another now. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditd.evidence.record import Evidence, FileIdentity


@dataclass(frozen=True, slots=True)
class Seen:
    """What one earlier record knew; digests are None where it had none.

    ``templates`` are (name, SHA-256) of each chat template, ``recorded_at`` is RFC 3339.
    """

    evidence_id: str
    recorded_at: str
    identity: FileIdentity | None
    header_sha256: str | None = None
    templates: tuple[tuple[str, str], ...] | None = None
    sha256: str | None = None
    tensor_data: str | None = None
    git_sha1: str | None = None

    @classmethod
    def of(cls, evidence: Evidence) -> Seen:
        """What ``evidence`` knew."""
        gguf, digests = evidence.gguf, evidence.digests
        return cls(
            evidence_id=evidence.evidence_id,
            recorded_at=evidence.recorded_at,
            identity=evidence.identity.before,
            header_sha256=evidence.read.header_sha256,
            templates=None if gguf is None else tuple((each.name, each.sha256) for each in gguf.chat_templates),
            sha256=evidence.artifact.sha256,
            tensor_data=None if digests is None else digests.tensor_data,
            git_sha1=None if digests is None else digests.git_sha1,
        )


@dataclass(frozen=True, slots=True)
class Earlier:
    """The records that a look is held against.

    ``before`` is the last complete one of another state of the file, ``hashed`` the last of another state that hashed
    all of it, ``same`` the first that hashed all of this very state. So a second look takes nothing back: a change is
    told against another state for as long as this one lasts, and corruption against what this state was at first.
    """

    before: Seen | None = None
    hashed: Seen | None = None
    same: Seen | None = None


def is_same(before: FileIdentity | None, now: FileIdentity | None) -> bool:
    """Whether two looks saw one state of one file; device numbers change at every mount and say nothing here."""
    return before is not None and now is not None and _state(before) == _state(now)


def _state(identity: FileIdentity) -> tuple[object, ...]:
    return identity.inode, identity.size, identity.mtime_ns, identity.ctime_ns


def changed_templates(
    before: tuple[tuple[str, str], ...], now: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, str | None, str | None]]:
    """``(name, digest before, digest now)`` of every chat template that came, went or is another."""
    old, new = dict(before), dict(now)
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield name, old.get(name), new.get(name)
