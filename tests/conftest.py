"""Fixtures for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import models
from tests.support.commands import Write


@pytest.fixture
def model(tmp_path: Path) -> Write:
    """Write a model file (a sound GGUF file unless ``content`` says otherwise) and return its path."""

    def write(name: str = "model.gguf", content: bytes | None = None) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(models.gguf() if content is None else content)
        return path

    return write
