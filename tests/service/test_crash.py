"""Killed at random while files arrive, change and go: whole each time, and nothing lost or said twice for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash import crash

pytestmark = pytest.mark.system

#: ``python -m tests.crash`` does as many as are asked for.
KILLS = 8


def test_kills_at_random(tmp_path: Path) -> None:
    done = crash(tmp_path, KILLS, seed=7)
    assert done.kills == KILLS
    assert done.before.records
