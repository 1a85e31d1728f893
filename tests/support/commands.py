"""What the fixtures that run the command return."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


Command: TypeAlias = Callable[..., Done]
Start: TypeAlias = Callable[..., "subprocess.Popen[bytes]"]
#: Writes a model file and returns its path.
Write: TypeAlias = Callable[..., Path]
