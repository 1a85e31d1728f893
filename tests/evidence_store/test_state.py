"""Whether an artifact is read again."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as changed

from auditd.evidence.record import FileIdentity, Identity
from auditd.evidence_store.artifact_state import (
    ArtifactState,
    Fingerprint,
    RequiredWork,
    failed,
    next_state,
    required_work,
    retry_delay,
)
from tests.support.records import evidence

SEEN = Fingerprint(device=1, inode=2, size=96, mtime_ns=4, ctime_ns=5)
IDENTITY = FileIdentity(device=1, inode=2, size=96, mtime_ns="4", ctime_ns="5", links=1, mode=0o100644, uid=0, gid=0)
UNCHANGED = Identity(before=IDENTITY, after=IDENTITY, status="unchanged")
SETTINGS = "0" * 64


def known(**changes: Any) -> ArtifactState:
    fields: dict[str, Any] = {"fingerprint": SEEN, "settings": SETTINGS, "mode": "expected", "run": 7}
    return ArtifactState(**{**fields, **changes})


def ask(
    known_: ArtifactState | None, seen: Fingerprint = SEEN, mode: str = "expected", run: int = 7, now: float = 0.0
) -> RequiredWork:
    return required_work(known_, seen, settings=SETTINGS, mode=mode, run=run, now=now)


def test_what_is_known_is_not_read_again() -> None:
    assert ask(None) is RequiredWork.HEADER
    assert ask(known()) is RequiredWork.NOTHING


@pytest.mark.parametrize("field", Fingerprint._fields)
def test_any_difference_is_a_change(field: str) -> None:
    assert ask(known(), SEEN._replace(**{field: 99})) is RequiredWork.HEADER


def test_across_a_restart_another_device_number_alone_is_no_change() -> None:
    assert ask(known(), SEEN._replace(device=99), run=8) is RequiredWork.NOTHING
    assert ask(known(), SEEN._replace(device=99, inode=3), run=8) is RequiredWork.HEADER


def test_other_settings_read_again() -> None:
    assert ask(known(settings="1" * 64)) is RequiredWork.HEADER


def test_a_header_then_a_digest() -> None:
    assert ask(known(mode="header"), mode="full") is RequiredWork.DIGEST
    assert ask(known(mode="full"), mode="full") is RequiredWork.NOTHING


def test_delays_double_up_to_six_hours() -> None:
    assert [retry_delay(number) for number in (1, 2, 3, 9, 10, 10_000)] == [60, 120, 240, 15_360, 21_600, 21_600]


def test_what_came_to_nothing_is_tried_later_and_a_change_at_once() -> None:
    once = failed(None, SEEN, 1000.0)
    assert (once.failures, once.retry_at) == (1, 1060.0)
    assert ask(once, now=1059.0) is RequiredWork.LATER
    assert ask(once, now=1060.0) is RequiredWork.HEADER
    assert ask(once, SEEN._replace(ctime_ns=6), now=1001.0) is RequiredWork.HEADER
    twice = failed(once, SEEN, 1060.0)
    assert (twice.failures, twice.retry_at) == (2, 1180.0)
    assert failed(twice, SEEN._replace(size=1), 0.0).failures == 1


def recorded(before: ArtifactState | None, **changes: Any) -> ArtifactState:
    interrupted = changes.pop("interrupted", False)
    return next_state(before, evidence(**changes), SEEN, mode="expected", run=7, now=0.0, interrupted=interrupted)


def test_complete_and_refused_settle_it() -> None:
    for outcome in ("complete", "refused"):
        result = recorded(failed(None, SEEN, 0.0), outcome=outcome, identity=UNCHANGED)
        assert ask(result) is RequiredWork.NOTHING
        assert result.failures == 0


def test_a_scrub_is_counted_from_the_digest_or_else_from_when_the_state_came() -> None:
    def at(before: ArtifactState | None, now: float, sha256: str | None = None, inode: int = 2) -> ArtifactState:
        there = changed(IDENTITY, inode=inode)
        made = evidence(identity=Identity(before=there, after=there, status="unchanged"))
        made = changed(made, artifact=changed(made.artifact, sha256=sha256))
        return next_state(before, made, SEEN, mode="header", run=7, now=now)

    came = at(None, 100.0)
    assert (came.hashed_at, came.waits_since) == (None, 100.0)
    assert at(came, 200.0).waits_since == 100.0
    hashed = at(came, 300.0, sha256="ab" * 32)
    assert (hashed.hashed_at, hashed.waits_since) == (300.0, 300.0)
    assert at(hashed, 400.0).waits_since == 300.0
    assert at(hashed, 500.0, inode=9).waits_since == 500.0
    assert failed(hashed, SEEN, 600.0).waits_since == 300.0


def test_what_is_not_final_keeps_the_last_complete_evidence() -> None:
    for outcome in ("partial", "failed", "unavailable"):
        result = recorded(known(evidence_id="ev_1"), outcome=outcome)
        assert (result.evidence_id, result.failures) == ("ev_1", 1)
    modified = Identity(before=IDENTITY, after=IDENTITY, status="modified")
    assert recorded(None, identity=modified).failures == 1


def test_the_end_of_the_daemon_is_no_failure() -> None:
    assert recorded(known(), outcome="partial", interrupted=True) == known()
    assert ask(recorded(None, outcome="partial", interrupted=True)) is RequiredWork.HEADER


def test_text_and_back() -> None:
    wide = Fingerprint(2**64 - 1, 2**64 - 1, 0, -1, 2**63)
    assert Fingerprint.parse(wide.text()) == wide
    assert Fingerprint.of_identity(IDENTITY) == SEEN
