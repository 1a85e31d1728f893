"""Whether an artifact has to be read again. Pure.

A file is known by device, inode, size, mtime_ns and ctime_ns: a change that puts the modification time back still
moves the change time. What the last complete evidence saw under the same settings is not read again; what came to
nothing is tried again with doubling delays.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from auditd.evidence.exactness import is_exact
from auditd.evidence.expectation import NOTHING, Expectation, references_key, standing_key
from auditd.evidence.record import Evidence, FileIdentity

#: First and longest delay in seconds before the same identity is tried again.
RETRY_FIRST_SECONDS: Final = 60.0
RETRY_LONGEST_SECONDS: Final = 6 * 3600.0

#: Outcomes that need no second look: everything that could be said was said.
_FINAL_OUTCOMES: Final = frozenset({"complete", "refused"})


#: Stands for a number past 2**53 - 1, which a record does not hold: the rest decides.
_INEXACT: Final = -1


class Fingerprint(NamedTuple):
    """What tells one state of a file from another; times in nanoseconds since the epoch."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of_status(cls, status: os.stat_result) -> Fingerprint:
        """From a file's stat."""
        numbers = (status.st_dev, status.st_ino, status.st_size)
        device, inode, size = (number if is_exact(number) else _INEXACT for number in numbers)
        return cls(device, inode, size, status.st_mtime_ns, status.st_ctime_ns)

    @classmethod
    def of_identity(cls, identity: FileIdentity) -> Fingerprint:
        """From an evidence record."""
        numbers = (identity.device, identity.inode, identity.size)
        device, inode, size = (_INEXACT if number is None else number for number in numbers)
        return cls(device, inode, size, int(identity.mtime_ns), int(identity.ctime_ns))

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """From the form that :meth:`text` gives."""
        return cls(*map(int, text.split(" ")))

    def text(self) -> str:
        """One line for the store: device and inode may be wider than its integers."""
        return " ".join(map(str, self))


@dataclass(frozen=True, slots=True)
class ArtifactState:
    """What the store knows of an artifact: its last complete evidence, and the attempts since that came to nothing.

    ``mode`` is ``full`` once all of this state was hashed, at ``hashed_at`` (wall-clock seconds) and against
    ``promised``, the key of the references at that time; ``standing`` is the key of what else its store said.
    ``waits_since`` is what its next scrub is counted from: when it was hashed, or else when this state was first recorded.
    """

    fingerprint: Fingerprint | None = None
    settings: str | None = None
    mode: str | None = None
    run: int = 0
    evidence_id: str | None = None
    tried: Fingerprint | None = None
    failures: int = 0
    retry_at: float | None = None
    expected: str | None = None
    standing: str | None = None
    hashed_at: float | None = None
    waits_since: float | None = None


class RequiredWork(Enum):
    """What an artifact needs now."""

    NOTHING = "nothing"
    HEADER = "header"
    DIGEST = "digest"
    #: Something, but not before ``retry_at``.
    LATER = "later"


def same_file(known: Fingerprint, seen: Fingerprint, *, same_run: bool) -> bool:
    """Whether the two are one state of one file.

    Device numbers are given anew at every mount, so between two runs of the program they say nothing.
    """
    return known[1:] == seen[1:] and (not same_run or known.device == seen.device)


def wants_digest(mode: str, expectation: Expectation) -> bool:
    """Whether hash ``mode`` reads all of an artifact of which ``promise`` is known."""
    return mode == "full" or (mode == "expected" and bool(expectation.references))


def required_work(
    known: ArtifactState | None,
    seen: Fingerprint,
    *,
    settings: str,
    mode: str,
    run: int,
    now: float,
    expectation: Expectation = NOTHING,
) -> RequiredWork:
    """What the file ``seen`` needs under ``settings`` (a digest) and hash ``mode``; ``now`` is wall-clock seconds."""
    if known is None:
        return RequiredWork.HEADER
    if (
        known.retry_at is not None
        # A time that is further away than any delay was written by a clock that has been set back since.
        and now < known.retry_at <= now + RETRY_LONGEST_SECONDS
        and known.tried is not None
        and same_file(known.tried, seen, same_run=False)
    ):
        return RequiredWork.LATER
    same_run = known.run == run
    if (
        known.fingerprint is None
        or known.settings != settings
        or not same_file(known.fingerprint, seen, same_run=same_run)
    ):
        return RequiredWork.HEADER
    if known.mode != "full":
        if wants_digest(mode, expectation):
            return RequiredWork.DIGEST
        if known.expected is not None and known.expected != references_key(expectation):
            # A digest of an earlier look was held against references that are no more, or others.
            return RequiredWork.HEADER
    elif known.expected != references_key(expectation):
        # The digest of this state is known, and stands against other references without another reading.
        return (
            RequiredWork.DIGEST
            if wants_digest(mode, expectation) and _needs_reading(expectation)
            else RequiredWork.HEADER
        )
    # Names came or went: a look at the header says so, and costs nothing.
    return RequiredWork.NOTHING if known.standing in (None, standing_key(expectation)) else RequiredWork.HEADER


def _needs_reading(expectation: Expectation) -> bool:
    """Whether a reference is of a kind that is taken only where it is asked for."""
    return any(reference.algorithm != "sha256" for reference in expectation.references)


def is_final(evidence: Evidence) -> bool:
    """Whether this evidence settles the matter until the file or the settings change."""
    return evidence.outcome in _FINAL_OUTCOMES and evidence.identity.status == "unchanged"


def retry_delay(failures: int) -> float:
    """Seconds to wait after the ``failures``-th attempt (from 1) on one identity came to nothing."""
    return min(RETRY_FIRST_SECONDS * 2.0 ** (min(failures, 32) - 1), RETRY_LONGEST_SECONDS)


def next_state(
    known: ArtifactState | None,
    evidence: Evidence,
    seen: Fingerprint,
    *,
    mode: str,
    run: int,
    now: float,
    interrupted: bool = False,
    expectation: Expectation = NOTHING,
) -> ArtifactState:
    """What is known once ``evidence`` of the file ``seen`` is recorded.

    An inspection that the end of the daemon ``interrupted`` is nobody's failure: it leaves no delay.
    """
    before = known or ArtifactState()
    if is_final(evidence) and evidence.identity.before is not None:
        return _settled(
            before, evidence, evidence.identity.before, mode=mode, run=run, now=now, expectation=expectation
        )
    if interrupted:
        return before
    return failed(before, seen, now)


def _settled(
    before: ArtifactState,
    evidence: Evidence,
    identity: FileIdentity,
    *,
    mode: str,
    run: int,
    now: float,
    expectation: Expectation,
) -> ArtifactState:
    """A look at the header alone leaves it at what a digest of the same state has shown.

    When it was hashed, and since when it waits for that, stays known under other settings, too: or each change of them
    would begin the scrub anew.
    """
    fingerprint = Fingerprint.of_identity(identity)
    settings = evidence.producer.configuration
    same = before.fingerprint is not None and same_file(before.fingerprint, fingerprint, same_run=before.run == run)
    stands = same and before.mode == "full" and before.settings == settings
    hashed = evidence.artifact.sha256 is not None
    return ArtifactState(
        fingerprint=fingerprint,
        settings=settings,
        mode="full" if hashed or stands else mode,
        run=run,
        evidence_id=evidence.evidence_id,
        expected=references_key(expectation),
        standing=standing_key(expectation),
        hashed_at=now if hashed else before.hashed_at if same else None,
        waits_since=before.waits_since if same and not hashed and before.waits_since is not None else now,
    )


def failed(known: ArtifactState | None, seen: Fingerprint, now: float) -> ArtifactState:
    """What is known once an attempt on the file ``seen`` came to nothing."""
    before = known or ArtifactState()
    again = before.tried is not None and same_file(before.tried, seen, same_run=False)
    failures = before.failures + 1 if again else 1
    return replace(before, tried=seen, failures=failures, retry_at=now + retry_delay(failures))
