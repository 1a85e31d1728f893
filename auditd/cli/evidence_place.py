"""Which store a command means, and which record in it."""

from __future__ import annotations

import os
import re
import sqlite3
from argparse import Namespace
from dataclasses import dataclass
from typing import Final

from auditd.cli.configuration import DEFAULT_PATH, load
from auditd.errors import UsageError
from auditd.evidence.text import printable, quoted
from auditd.evidence_store import listing, location
from auditd.settings import Seconds, Settings, StoreSettings

_IDENTIFIER: Final = re.compile(rb"(?:ev_)?([0-9a-f]{4,64})")


@dataclass(frozen=True, slots=True)
class Place:
    """The store that is meant, and how long records are kept in it."""

    path: str
    retention_days: Seconds


def place(arguments: Namespace) -> Place:
    """The place that ``--store`` or ``--config`` names, else the configuration's, else the default one."""
    settings = _settings(arguments)
    kept = StoreSettings() if settings is None else settings.store
    if arguments.store is not None:
        return Place(location.store_in(arguments.store), kept.retention_days)
    return Place(kept.path or location.found_store(), kept.retention_days)


def _settings(arguments: Namespace) -> Settings | None:
    """The configuration; without being asked for it is read only where it is needed and there."""
    if arguments.config is not None:
        return load(arguments.config)
    if arguments.store is None and os.access(DEFAULT_PATH, os.R_OK):
        return load(DEFAULT_PATH)
    return None


def find(connection: sqlite3.Connection, target: bytes, store: str) -> int:
    """The sequence number of the record that is meant. ``UsageError`` if there is none, or more than one."""
    identifier = _IDENTIFIER.fullmatch(target)
    if identifier:
        found = listing.with_prefix(connection, "ev_" + identifier[1].decode("ascii"))
        if len(found) > 1:
            names = ", ".join(name for _, name in found)
            raise UsageError(f"{printable(target)}: several records begin so: {names}")
        if found:
            return found[0][0]
    for path in dict.fromkeys((target, os.path.abspath(target), os.path.realpath(target))):
        latest = listing.latest(connection, path)
        if latest is not None:
            return latest
    raise UsageError(f"{quoted(target)}: no such evidence_id and no such path in {printable(store)}")
