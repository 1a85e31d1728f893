"""The life of an alert."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from auditd.evidence.record import Evidence, Finding
from auditd.evidence_store.entities import Alert
from auditd.service.recording import alerts
from auditd.service.recording.alerts import Policy, next_alerts
from tests.support.records import accounting, evidence, finding

PATH = b"/srv/a.gguf"
POLICY = Policy("warning", 3600.0)


def record(*findings: Finding, residue: int | None = 0, **changes: Any) -> Evidence:
    return evidence(findings=list(findings), accounting=accounting(residue=residue), **changes)


def deep(record_: Evidence) -> Evidence:
    """The same record of a look at the whole file."""
    fields = {name: getattr(record_.read, name) for name in record_.read.__struct_fields__}
    read = type(record_.read)(**{**fields, "scope": "full"})
    return type(record_)(**{**{name: getattr(record_, name) for name in record_.__struct_fields__}, "read": read})


def stored(changes: list[Alert]) -> list[Alert]:
    """The alerts that are open once ``changes`` are stored and told."""
    return [
        replace(alert, alert_id=number, untold=None) for number, alert in enumerate(changes, 1) if not alert.cleared_at
    ]


def said(changes: list[Alert]) -> list[tuple[str, str | None, str | None]]:
    return [(alert.code, alert.untold, alert.cleared_as) for alert in changes]


def step(standing: list[Alert], record_: Evidence, *, follows: bool = False) -> list[Alert]:
    return next_alerts(PATH, standing, record_, POLICY, 100.0, deeper_look_follows=follows)


BAD = finding("unowned_bytes", actual=100)


def test_raised_once_and_cleared_as_repaired() -> None:
    raised = step([], record(BAD, residue=100))
    assert said(raised) == [("unowned_bytes", "alert_raised", None)]
    assert step(stored(raised), record(BAD, residue=100)) == []
    cleared = step(stored(raised), record())
    assert said(cleared) == [("unowned_bytes", "alert_cleared", "repaired")]
    assert cleared[0].facts["residue"] == 0
    assert cleared[0].facts["message"] == BAD.message


def test_a_finding_below_the_threshold_is_no_alert() -> None:
    assert step([], record(finding("big_endian"))) == []
    quiet = Policy("critical")
    assert next_alerts(PATH, [], record(finding("offset_misaligned")), quiet, 0.0, deeper_look_follows=False) == []


def test_other_figures_change_it() -> None:
    standing = stored(step([], record(BAD, residue=100)))
    changed = step(standing, record(BAD, residue=200))
    assert said(changed) == [("unowned_bytes", "alert_changed", None)]
    assert (changed[0].alert_id, changed[0].raised_at) == (1, 100.0)


def test_other_words_do_not_change_it() -> None:
    standing = stored(step([], record(BAD, residue=100)))
    assert step(standing, record(finding("unowned_bytes", "in other words", actual=100), residue=100)) == []


def test_changed_before_anybody_was_told_it_is_still_raised() -> None:
    untold = [replace(alert, untold="alert_raised") for alert in stored(step([], record(BAD, residue=1)))]
    assert said(step(untold, record(BAD, residue=2))) == [("unowned_bytes", "alert_raised", None)]


def test_another_finding_supersedes_it() -> None:
    standing = stored(step([], record(BAD, residue=100)))
    changes = step(standing, record(finding("tensor_bytes_missing"), residue=-5))
    assert sorted(said(changes), key=str) == [
        ("tensor_bytes_missing", "alert_raised", None),
        ("unowned_bytes", "alert_cleared", "superseded"),
    ]


def test_two_rules_of_one_code_are_two_alerts() -> None:
    both = step([], record(*(finding("header_malformed", constraint=rule) for rule in ("json", "nesting"))))
    assert len({alert.key for alert in both}) == 2


def test_evidence_without_an_end_clears_nothing() -> None:
    standing = stored(step([], record(BAD, residue=100)))
    for outcome in ("partial", "failed", "unavailable", "skipped"):
        assert step(standing, record(outcome=outcome)) == []
    assert said(step(standing, record(outcome="refused"))) == [("unowned_bytes", "alert_cleared", "repaired")]


def test_a_look_at_the_header_does_not_clear_what_only_the_whole_file_showed() -> None:
    padding = finding("padding_nonzero")
    standing = stored(step([], deep(record(padding))))
    assert step(standing, record(), follows=True) == []
    assert said(step(standing, deep(record()))) == [("padding_nonzero", "alert_cleared", "repaired")]
    # Nobody will look as deep again: it is not known to be repaired.
    assert said(step(standing, record())) == [("padding_nonzero", "alert_cleared", "superseded")]


def test_what_the_header_showed_once_the_header_clears() -> None:
    standing = stored(step([], record(BAD, residue=100)))
    assert step(standing, deep(record(BAD, residue=100))) == []
    assert said(step(standing, record(), follows=True)) == [("unowned_bytes", "alert_cleared", "repaired")]


def test_configuration_clears() -> None:
    (alert,) = stored(step([], record(BAD, residue=100)))
    assert alerts.by_policy(alert, "critical", POLICY, 5.0) is None
    for severity in ("notice", None):
        cleared = alerts.by_policy(alert, severity, POLICY, 5.0)
        assert cleared is not None
        assert (cleared.cleared_as, cleared.cleared_at, cleared.untold) == ("configuration", 5.0, "alert_cleared")


def test_repeat() -> None:
    (alert,) = stored(step([], record(BAD, residue=100)))
    again = alerts.repeat(alert, 7000.0)
    assert (again.untold, again.told_at, again.raised_at) == ("alert_repeated", 7000.0, 100.0)
