"""Ages and lines of the list."""

from __future__ import annotations

from typing import Any

import pytest

from auditd.report.columns import width
from auditd.report.evidence_list import Row, age, as_json, head, line
from auditd.report.style import coloured
from tests.support.lines import harmless


def row(**changes: Any) -> Row:
    fields: dict[str, Any] = {
        "evidence_id": "ev_" + "a" * 64,
        "recorded_at": "2024-01-01T00:00:00Z",
        "age_seconds": 5.0,
        "verdict": "sound",
        "outcome": "complete",
        "residue": 0,
        "path": b"/m/a.gguf",
        "imported": False,
    }
    return Row(**{**fields, **changes})


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-0.1, "future"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (48 * 3600 - 1, "47 h"),
        (48 * 3600, "2 d"),
        (86400 * 12345, "12345 d"),
    ],
)
def test_ages(seconds: float, shown: str) -> None:
    assert age(seconds) == shown
    assert width(shown) <= 7


def test_columns_stand_below_their_titles() -> None:
    title, shown = head(), line(row(residue=-1_000_000, verdict="undetermined", outcome="unavailable"))
    for name, cell in (("VERDICT", "undetermined"), ("OUTCOME", "unavailable"), ("FILE", "/m/a.gguf")):
        assert title.index(name) == shown.index(cell)
    assert "-1,000,000" in shown
    assert "?" in line(row(residue=None))


def test_names_are_cut_on_the_left_and_never_escape() -> None:
    long = line(row(path=b"/very/long" * 30 + b"/end.gguf"), 100)
    assert width(long) == 100
    assert long.endswith("/end.gguf")
    nasty = line(row(path=b"/m/\x1b[2J\n\xff\xe2\x80\xae"))
    assert harmless(nasty)
    assert line(row(imported=True)).endswith("/m/a.gguf (imported)")


def test_colour_is_on_the_verdict() -> None:
    shown = line(row(verdict="residue"), None, coloured)
    assert "\x1b[31mresidue\x1b[0m" in shown
    assert shown.count("\x1b") == 2


def test_a_path_that_is_not_text() -> None:
    entry = as_json(row(path=b"/m/\xff"))
    assert (entry["path"], entry["path_base64"]) == ("/m/\\xff", "L20v/w==")
