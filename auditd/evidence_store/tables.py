"""The tables of the evidence store, and what its version number allows.

Paths are BLOBs: names need not be UTF-8. Times are seconds since the epoch, except ``recorded_at``, which is the
record's own text. A newer version than :data:`VERSION` is refused: it may keep promises that are not known here.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from auditd.errors import StoreError

VERSION: Final = 4

#: "madt": lets `file` and people tell the store from any other SQLite file.
APPLICATION_ID: Final = 0x6D616474

#: What pertains to records; an older version of these is brought up to date by ``migration``.
EVIDENCE_TABLES: Final = """
CREATE TABLE evidence (
    sequence    INTEGER PRIMARY KEY,   -- the order of recording, without a gap
    evidence_id TEXT NOT NULL UNIQUE,
    recorded_at TEXT NOT NULL,
    moment      INTEGER NOT NULL,      -- the same in microseconds since the epoch
    path        BLOB NOT NULL,
    outcome     TEXT NOT NULL,
    verdict     TEXT NOT NULL,
    residue     INTEGER,
    final       INTEGER NOT NULL,      -- it settled the matter: complete or refused, of one file all along
    hashed      INTEGER NOT NULL,      -- all of the file was hashed
    identity    TEXT,                  -- device inode size mtime_ns ctime_ns, before the reading
    settings    TEXT NOT NULL,         -- digest of the settings that matter
    alerted     INTEGER NOT NULL,      -- it raised or changed an alert
    imported    INTEGER NOT NULL,      -- it was made elsewhere
    place       INTEGER NOT NULL,      -- where in the record its rows belong
    rows        BLOB,                  -- the digest of these rows; NULL: they are where they belong
    record      BLOB NOT NULL,         -- the rest of the record, zlib
    seal        BLOB NOT NULL,         -- SHA-256 over all of these
    logged      INTEGER NOT NULL DEFAULT 0 CHECK (logged IN (0, 1))
);
CREATE INDEX evidence_by_path ON evidence (path, sequence);
CREATE INDEX evidence_by_moment ON evidence (moment, sequence);
CREATE INDEX evidence_by_rows ON evidence (rows) WHERE rows IS NOT NULL;
CREATE INDEX evidence_unlogged ON evidence (sequence) WHERE logged = 0;

-- Rows of metadata and tensors, once for all records that have the same.
CREATE TABLE declarations (
    digest      BLOB PRIMARY KEY,      -- SHA-256 of the rows
    content     BLOB NOT NULL,         -- the rows, zlib
    seal        BLOB NOT NULL          -- SHA-256 of the content as it stands here
);

-- Apart from the records, so that it stays whole when records are pruned.
CREATE TABLE chain (
    sequence    INTEGER PRIMARY KEY,
    evidence_id TEXT NOT NULL,
    value       BLOB NOT NULL,
    pruned      INTEGER NOT NULL DEFAULT 0
);

-- Where the chain begins and ends, and how much there is: what was cut off an end leaves no other trace.
CREATE TABLE ledger (
    only        INTEGER PRIMARY KEY CHECK (only = 1),
    anchor_sequence INTEGER NOT NULL,  -- the last link that pruning took away
    anchor      BLOB NOT NULL,
    head_sequence INTEGER NOT NULL,    -- the last link
    head        BLOB NOT NULL,
    links       INTEGER NOT NULL,      -- rows in chain
    records     INTEGER NOT NULL       -- rows in evidence
);
INSERT INTO ledger VALUES (1, 0, zeroblob(32), 0, zeroblob(32), 0, 0);
"""

#: What is known of each artifact.
ARTIFACTS_TABLE: Final = """
CREATE TABLE artifacts (
    path        BLOB PRIMARY KEY,
    identity    TEXT,                  -- of the last complete evidence
    settings    TEXT,
    mode        TEXT,                  -- the hash mode that was asked for
    run         INTEGER,               -- the run that recorded it
    evidence_id TEXT,
    tried       TEXT,                  -- identity of the attempts that came to nothing
    failures    INTEGER NOT NULL DEFAULT 0,
    retry_at    REAL,
    promised    TEXT,                  -- key of the references that it was hashed against
    standing    TEXT,                  -- key of what else its store said
    hashed_at   REAL,                  -- when all of this state was hashed
    waits_since REAL                   -- that, or else when this state was first recorded
) WITHOUT ROWID;
CREATE INDEX artifacts_by_wait ON artifacts (waits_since);
CREATE INDEX artifacts_by_identity ON artifacts (identity);
"""

#: The last record of each set of files.
SETS_TABLE: Final = """
CREATE TABLE sets (
    name        BLOB PRIMARY KEY,      -- what the set is told by, an absolute path
    place       BLOB NOT NULL,         -- the directory or store whose files make it
    evidence_id TEXT NOT NULL,
    verdict     TEXT NOT NULL,
    state       TEXT NOT NULL,         -- digest of what was found: a set that stayed as it was has no new record
    record      BLOB NOT NULL,         -- the last record, zlib
    logged      INTEGER NOT NULL DEFAULT 0 CHECK (logged IN (0, 1))
) WITHOUT ROWID;
"""

_TABLES: Final = """
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


def check(connection: sqlite3.Connection, name: str) -> int:
    """The version of the tables that are there, 0 for none.

    :class:`StoreError` if the file is another program's or a newer version's.
    """
    version = version_of(connection)
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if application == APPLICATION_ID and version > VERSION:
        raise StoreError(f"{name}: written by a newer version (schema {version}; this program reads up to {VERSION})")
    if application == APPLICATION_ID and version > 0:
        return version
    if application or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise StoreError(f"{name}: a database of another program")
    return 0


def existing(connection: sqlite3.Connection, name: str) -> int:
    """The version of the tables, which must be there; :class:`StoreError` as :func:`check`."""
    version = check(connection, name)
    if version == 0:
        raise StoreError(f"{name}: no evidence store")
    return version


def create(connection: sqlite3.Connection) -> None:
    """Make the tables in a new file."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {EVIDENCE_TABLES} {ARTIFACTS_TABLE} {SETS_TABLE} {_TABLES} PRAGMA application_id = {APPLICATION_ID};"
        f" PRAGMA user_version = {VERSION}; COMMIT;"
    )
