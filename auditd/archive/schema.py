"""The tables of the evidence store, and what its version number allows.

Paths are BLOBs: names need not be UTF-8. Times are seconds since the epoch, except ``recorded_at``, which is the
record's own text. A newer version than :data:`VERSION` is refused: it may keep promises that are not known here.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from auditd.errors import StoreError

VERSION: Final = 1

#: "madt": lets `file` and people tell the store from any other SQLite file.
APPLICATION_ID: Final = 0x6D616474

_TABLES: Final = """
CREATE TABLE evidence (
    sequence    INTEGER PRIMARY KEY,   -- the order of recording
    evidence_id TEXT NOT NULL UNIQUE,
    recorded_at TEXT NOT NULL,
    path        BLOB NOT NULL,
    outcome     TEXT NOT NULL,
    verdict     TEXT NOT NULL,
    identity    TEXT,                  -- device inode size mtime_ns ctime_ns, before the reading
    settings    TEXT NOT NULL,         -- digest of the settings that matter
    logged      INTEGER NOT NULL DEFAULT 0,
    record      BLOB NOT NULL          -- the complete record, canonical JSON, zlib
);
CREATE INDEX evidence_by_path ON evidence (path, sequence);
CREATE INDEX evidence_unlogged ON evidence (sequence) WHERE logged = 0;

-- Apart from the records, so that it stays whole when old records are pruned.
CREATE TABLE chain (
    sequence    INTEGER PRIMARY KEY,
    evidence_id TEXT NOT NULL,
    value       BLOB NOT NULL
);

CREATE TABLE artifacts (
    path        BLOB PRIMARY KEY,
    identity    TEXT,                  -- of the last complete evidence
    settings    TEXT,
    mode        TEXT,                  -- the hash mode that was asked for
    run         INTEGER,               -- the run that recorded it
    evidence_id TEXT,
    tried       TEXT,                  -- identity of the attempts that came to nothing
    failures    INTEGER NOT NULL DEFAULT 0,
    retry_at    REAL
) WITHOUT ROWID;

-- What the first bytes of a file without a model name said, once for each identity.
CREATE TABLE sniffs (
    path        BLOB PRIMARY KEY,
    identity    TEXT NOT NULL,
    model       INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE alerts (
    alert_id    INTEGER PRIMARY KEY,
    path        BLOB NOT NULL,
    code        TEXT NOT NULL,
    rule        TEXT NOT NULL,         -- the finding's constraint, '' for none
    scope       TEXT NOT NULL,         -- how deep the inspection looked that raised it: header, full
    severity    TEXT NOT NULL,
    figures     TEXT NOT NULL,         -- a change in these is told
    facts       TEXT NOT NULL,         -- what its events carry, JSON
    evidence_id TEXT NOT NULL,
    raised_at   REAL NOT NULL,
    told_at     REAL NOT NULL,
    cleared_at  REAL,
    cleared_as  TEXT,
    untold      TEXT                   -- the event that is still to be said, in case of a crash before it
);
CREATE UNIQUE INDEX alerts_open ON alerts (path, code, rule) WHERE cleared_at IS NULL;
CREATE INDEX alerts_untold ON alerts (alert_id) WHERE untold IS NOT NULL;

CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('run', 0);
"""


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of an open file; 0 for a new one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def check(connection: sqlite3.Connection, name: str) -> bool:
    """Whether the tables are there. :class:`StoreError` if the file is another program's or a newer version's."""
    version = version_of(connection)
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if application == APPLICATION_ID and version > VERSION:
        raise StoreError(f"{name}: written by a newer version (schema {version}; this program reads up to {VERSION})")
    if application == APPLICATION_ID and version == VERSION:
        return True
    if application or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise StoreError(f"{name}: a database of another program")
    return False


def prepare(connection: sqlite3.Connection, name: str) -> None:
    """Make the tables in a new file; :class:`StoreError` as :func:`check`."""
    if check(connection, name):
        return
    connection.executescript(
        f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
    )
