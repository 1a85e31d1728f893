"""Looks at files made for a test: the facts that sheets are computed from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from auditd.evidence.observation import Observation
from auditd.inspection.inspector import observe_artifact
from auditd.inspection.request import Request
from tests.builders import PRODUCER
from tests.models import Twin


def looked(path: str | bytes | Path, **options: Any) -> Observation:
    """One look at a path, with nothing that stops it."""
    return observe_artifact(Request(path=os.fsencode(path), producer=PRODUCER, **options))


def looked_at(
    directory: Path, data: bytes, name: str = "model.gguf", size: int | None = None, **options: Any
) -> Observation:
    """One look at these bytes; with ``size`` the file is made longer, with a hole, or cut."""
    path = directory / name
    path.write_bytes(data)
    if size is not None:
        os.truncate(path, size)
    return looked(path, **options)


def twin_at(directory: Path, twin: Twin, **options: Any) -> Observation:
    """One look at the twin of a published file."""
    return looked_at(directory, twin.header, size=twin.file_size, **options)


def figures_in(lines: Sequence[str], label: str) -> list[int]:
    """The numbers on the first line that begins with ``label``, thousands separators taken out."""
    line = next(line for line in lines if line.strip().startswith(label))
    rest = line.strip().removeprefix(label)
    words = (word.strip(".,:;+()").replace(",", "") for word in rest.split())
    return [int(word) for word in words if word.removeprefix("-").isdecimal()]
