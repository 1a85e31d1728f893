"""What the tests of the stores share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from auditd.evidence.expectation import Expectation
from auditd.model_stores.stores import ModelStores


@pytest.fixture
def stores() -> ModelStores:
    return ModelStores()


@pytest.fixture
def expectation(stores: ModelStores) -> Callable[[Path], Expectation]:
    """What the stores say of a path."""
    return lambda path: stores.expectation(bytes(path))
