"""Fixtures for the daemon's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.processes import House, houses


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A place for a daemon and its models."""
    yield from houses(tmp_path)
