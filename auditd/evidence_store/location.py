"""Where the store is: as asked for, else in the state directory that systemd gives, else in XDG's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

STORE_NAME: Final = "evidence.sqlite"

#: Where the unit's StateDirectory is for whoever is not the unit.
UNIT_DIRECTORY: Final = "/var/lib/model-auditd"


def first_directory(environment: Mapping[str, str], name: str) -> str | None:
    """The first of the directories that systemd made for the unit and told in the variable ``name``."""
    return environment.get(name, "").split(":")[0] or None


def state_directory(environment: Mapping[str, str] = os.environ) -> str:
    """The directory of the store."""
    given = first_directory(environment, "STATE_DIRECTORY")
    if given is not None:
        return given
    home = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME") or "/", ".local", "state")
    return os.path.join(home, "model-auditd")


def store_path(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The store that the settings name, else the one in the state directory."""
    return given or os.path.join(state_directory(environment), STORE_NAME)


def store_in(directory: str) -> str:
    """The store in ``directory``; the store's own file may be named, too."""
    return directory if os.path.isfile(directory) else os.path.join(directory, STORE_NAME)


def found_store(environment: Mapping[str, str] = os.environ) -> str:
    """The store of this user, or where that is not there and the unit's is, the unit's."""
    own, unit = store_path(None, environment), store_in(UNIT_DIRECTORY)
    return unit if not os.path.exists(own) and os.path.exists(unit) else own
