"""Fixtures for every test, and one check behind all of them: each record that is composed is valid."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from auditd.evidence.canonical import encode
from auditd.evidence.record import Evidence
from auditd.inspection.composition import compose
from tests.support import models
from tests.support.commands import Write

_SCHEMA = json.loads((Path(__file__).parents[1] / "config" / "evidence.schema.json").read_text(encoding="utf-8"))


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it puts into the background, and what is started from here would not hear of it either.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_SYSTEM_REASON = "MODEL_AUDITD_SYSTEM=no: the kernel and the system are the same for every interpreter"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of several suites on one machine, one tests the system."""
    if os.environ.get("MODEL_AUDITD_SYSTEM") != "no":
        return
    for item in items:
        if item.get_closest_marker("system") is not None:
            item.add_marker(pytest.mark.skip(reason=_SYSTEM_REASON))


@pytest.fixture(autouse=True, scope="session")
def _every_record_is_valid() -> Iterator[None]:
    """Hold each record of the whole run to the published schema, with a validator that is not ours."""
    validator = jsonschema_rs.Draft202012Validator(_SCHEMA)

    def checked(*arguments: Any, **named: Any) -> Evidence:
        evidence = compose(*arguments, **named)
        validator.validate(json.loads(encode(evidence)))
        return evidence

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("auditd.inspection.inspector.compose", checked)
        yield


@pytest.fixture
def model(tmp_path: Path) -> Write:
    """Write a model file (a sound GGUF file unless ``content`` says otherwise) and return its path."""

    def write(name: str = "model.gguf", content: bytes | None = None) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(models.gguf() if content is None else content)
        return path

    return write
