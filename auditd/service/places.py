"""Where the daemon keeps its files when the settings do not say: systemd's directories, else XDG's."""

from __future__ import annotations

import os
from collections.abc import Mapping

from auditd.settings import Settings

STORE_NAME = "evidence.sqlite"
LOG_NAME = "evidence.jsonl"
STATUS_NAME = "status.json"


def _systemd(environment: Mapping[str, str], name: str) -> str | None:
    """The first of the directories that systemd made for the unit."""
    return environment.get(name, "").split(":")[0] or None


def state_directory(environment: Mapping[str, str]) -> str:
    """The directory of the store."""
    given = _systemd(environment, "STATE_DIRECTORY")
    if given is not None:
        return given
    home = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME") or "/", ".local", "state")
    return os.path.join(home, "model-auditd")


def store_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The evidence store."""
    return settings.store.path or os.path.join(state_directory(environment), STORE_NAME)


def log_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The JSON Lines log."""
    directory = _systemd(environment, "LOGS_DIRECTORY") or os.path.dirname(store_path(settings, environment))
    return settings.log.path or os.path.join(directory, LOG_NAME)


def status_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The daemon's state, for ``model-auditd status``."""
    directory = _systemd(environment, "RUNTIME_DIRECTORY") or os.path.dirname(store_path(settings, environment))
    return os.path.join(directory, STATUS_NAME)
