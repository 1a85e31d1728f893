"""What the tests of the stores share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from auditd.evidence.promise import Promise
from auditd.stores.stores import Stores


@pytest.fixture
def stores() -> Stores:
    return Stores()


@pytest.fixture
def promise(stores: Stores) -> Callable[[Path], Promise]:
    """What the stores say of a path."""
    return lambda path: stores.promise(bytes(path))
