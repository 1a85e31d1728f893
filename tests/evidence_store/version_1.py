"""A store as schema 1 was: its tables to the letter, and records as they were put into them."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from auditd.evidence.record import Evidence
from auditd.evidence_store.artifact_state import Fingerprint
from auditd.evidence_store.chain import GENESIS, link
from auditd.evidence_store.records import encoded

TABLES = """
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


def make(path: Path, records: Iterable[Evidence]) -> None:
    """A store of version 1 with these records."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(
            f"BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {0x6D616474}; PRAGMA user_version = 1; COMMIT;"
        )
        value = GENESIS
        for sequence, evidence in enumerate(records, 1):
            before = evidence.identity.before
            connection.execute(
                "INSERT INTO evidence (evidence_id, recorded_at, path, outcome, verdict, identity, settings, record)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    evidence.evidence_id,
                    evidence.recorded_at,
                    evidence.artifact.path.encode(),
                    evidence.outcome,
                    evidence.verdict,
                    None if before is None else Fingerprint.of_identity(before).text(),
                    evidence.producer.configuration,
                    zlib.compress(encoded(evidence), 1),
                ),
            )
            value = link(value, evidence.evidence_id)
            connection.execute("INSERT INTO chain VALUES (?, ?, ?)", (sequence, evidence.evidence_id, value))
