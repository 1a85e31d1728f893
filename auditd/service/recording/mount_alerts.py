"""Many files of one mount that are not what they were: one alert on the mount, not one on each.

A disk that rots, a mount that serves zeros or a host with bad memory hits many files at once. From the third on, the
alerts of single files are kept and not told any more; one alert on the mount says how many there are, and says it again
each time their number has doubled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from auditd.evidence_store.entities import QUIET, Alert, AlertEvent, ClearedAs
from auditd.service.recording.alerts import clear

#: Findings that say that content is another than it should be.
CODES: Final = frozenset({"digest_mismatch", "silent_corruption", "unstable_read"})

#: What makes an alert one on a mount, in the place of a constraint.
RULE: Final = "mount"

#: So many files of one mount are told one by one.
MANY: Final = 3

_ADVICE: Final = (
    "Suspect the mount, the disk or the memory of this host before the files: look at the kernel log, read one of the "
    "files elsewhere, then fetch them again."
)


def mount_point(path: bytes) -> bytes:
    """The directory that the file system of ``path`` is mounted on."""
    place = os.path.dirname(path)
    while not os.path.ismount(place) and place not in (b"/", b""):
        place = os.path.dirname(place)
    return place or b"/"


def fold(
    changes: list[Alert], others: Iterable[Alert], standing: Alert | None, place: bytes, code: str, now: float
) -> list[Alert]:
    """The changes of one file's alerts with what they do to the alert on its mount, and it to those of other files.

    ``others`` are the open alerts of other files of the mount with ``code``, ``standing`` is the open alert on the
    mount at ``place``; ``now`` is wall-clock seconds.
    """
    others = list(others)
    mine = [alert for alert in changes if alert.code == code and not alert.cleared_at]
    total = len(others) + len(mine)
    if total < MANY:
        ended = [] if standing is None else [cleared(standing, _reason(changes, code), now), *speak_up(others)]
        return [*changes, *ended]
    quiet = [_hushed(alert) if alert in mine and alert.untold else alert for alert in changes]
    told = _on_mount(mine[0], standing, place, total, now) if mine else None
    return quiet if told is None else [*quiet, told]


def _hushed(alert: Alert) -> Alert:
    return replace(alert, untold=None, facts={**alert.facts, QUIET: 1})


def speak_up(alerts: Iterable[Alert]) -> Iterator[Alert]:
    """Those that nobody speaks for any more: each is raised now."""
    for alert in alerts:
        if alert.is_quiet:
            facts = {name: fact for name, fact in alert.facts.items() if name != QUIET}
            yield replace(alert, facts=facts, untold="alert_raised")


def _on_mount(source: Alert, standing: Alert | None, place: bytes, total: int, now: float) -> Alert | None:
    figures = f"{RULE} {total.bit_length()}"
    if standing is not None and standing.figures == figures:
        return None
    facts: Mapping[str, str | int | None] = {
        **{name: fact for name, fact in source.facts.items() if name != QUIET},
        "size": None,
        "sha256": None,
        "format": None,
        "message": f"{total:,} files on this mount are not what they should be",
        "advice": _ADVICE,
    }
    fresh = replace(
        source,
        path=place,
        rule=RULE,
        figures=figures,
        facts=facts,
        raised_at=now,
        told_at=now,
        untold="alert_raised",
        alert_id=None,
    )
    if standing is None:
        return fresh
    untold: AlertEvent = "alert_raised" if standing.untold == "alert_raised" else "alert_changed"
    return replace(fresh, alert_id=standing.alert_id, raised_at=standing.raised_at, untold=untold)


def _reason(changes: list[Alert], code: str) -> ClearedAs:
    """Why the last of the files that were too many is none of them any more."""
    reasons = [alert.cleared_as for alert in changes if alert.code == code and alert.cleared_as is not None]
    return reasons[-1] if reasons else "repaired"


def cleared(standing: Alert, cleared_as: ClearedAs, now: float) -> Alert:
    """The alert on a mount whose files are few again."""
    return clear(standing, cleared_as, now)
