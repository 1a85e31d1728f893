"""Where the daemon keeps its files when the settings do not say: systemd's directories, else XDG's."""

from __future__ import annotations

import os
from collections.abc import Mapping

from auditd.evidence_store import location
from auditd.settings import Settings

LOG_NAME = "evidence.jsonl"
STATUS_NAME = "status.json"


def store_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The evidence store."""
    return location.store_path(settings.store.path, environment)


def log_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The JSON Lines log."""
    directory = location.first_directory(environment, "LOGS_DIRECTORY") or os.path.dirname(
        store_path(settings, environment)
    )
    return settings.log.path or os.path.join(directory, LOG_NAME)


def status_path(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The daemon's state, for ``model-auditd status``."""
    directory = location.first_directory(environment, "RUNTIME_DIRECTORY") or os.path.dirname(
        store_path(settings, environment)
    )
    return os.path.join(directory, STATUS_NAME)
