"""Fixtures for every test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import models


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Path]:
    """Write a model file (a sound GGUF file unless ``content`` says otherwise) and return its path."""

    def write(name: str = "model.gguf", content: bytes | None = None) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(models.gguf() if content is None else content)
        return path

    return write
