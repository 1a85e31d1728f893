"""Where people's stores usually are: the one place that reads the environment for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Where the service that the installation script sets up has its models.
_OLLAMA_SERVICE: Final = "/usr/share/ollama/.ollama/models"


@dataclass(frozen=True, slots=True)
class Homes:
    """Directories to look into, in this order, whether they are there or not."""

    ollama: tuple[bytes, ...] = ()
    huggingface: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Homes:
        """The homes that the environment names, then the usual ones."""
        home = environment.get("HOME", "")

        def under(name: str, *below: str) -> str:
            """What a variable names, ``~`` put in, and a place below it; nothing if it is not set."""
            value = environment.get(name, "")
            if home and (value == "~" or value.startswith("~/")):
                value = home + value[1:]
            return os.path.join(value, *below) if value else ""

        return cls(
            ollama=_paths(under("OLLAMA_MODELS"), under("HOME", ".ollama", "models"), _OLLAMA_SERVICE),
            huggingface=_paths(
                under("HF_HUB_CACHE"),
                under("HUGGINGFACE_HUB_CACHE"),
                under("HF_HOME", "hub"),
                under("XDG_CACHE_HOME", "huggingface", "hub"),
                under("HOME", ".cache", "huggingface", "hub"),
            ),
        )


def _paths(*candidates: str) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(os.fsencode(path) for path in candidates if path))
