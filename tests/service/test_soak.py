"""Some hours of the daemon's life in seconds; ``python -m tests.soak`` lives for a month."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
import trio

from auditd.service.watching.scanner import Scanner
from tests.soak.life import Life

pytestmark = pytest.mark.system

#: A life with reloads, restarts, faults and roots that go in it.
SEED = 3


def lived(home: Path, days: float) -> Life:
    life = Life(home, SEED)
    trio.run(life.run, days, clock=life.clockwork.clock)
    return life


def test_hours_in_which_nothing_goes_unseen(tmp_path: Path) -> None:
    life = lived(tmp_path, 0.3)
    assert not life.problems.told
    assert life.figures.checks
    assert life.ledger.counts["alert_raised"] > 5
    assert life.figures.records > 20


def test_a_daemon_that_misses_what_is_gone_is_found_out(tmp_path: Path) -> None:
    """The soak itself: a defect in the daemon does not go unseen."""
    with patch.object(Scanner, "_sweep", lambda *_: 0), patch.object(Scanner, "_gone", lambda *_: 0):
        life = lived(tmp_path, 0.05)
    assert any("not there, and known" in problem for problem in life.problems.told)
