"""The statements that change several tables at once, and how alerts are laid out in theirs.

Each function works on an open connection inside the transaction of whoever calls it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from auditd.archive import chain
from auditd.archive.rows import Alert, Entry
from auditd.archive.state import Fingerprint, Known

ALERT_COLUMNS: Final = (
    "path, code, rule, scope, severity, figures, facts, evidence_id, raised_at, told_at, cleared_at, cleared_as, "
    "untold, alert_id"
)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One transaction: committed at the end, rolled back by any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have rolled it back already; what matters is the error that is on its way.
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def record(connection: sqlite3.Connection, entry: Entry, packed: bytes) -> int:
    """Store a record and all that goes with it; its sequence number."""
    evidence = entry.evidence
    before = evidence.identity.before
    # A commit that failed may have reached the disk all the same, and is then made a second time.
    there = connection.execute(
        "SELECT sequence FROM evidence WHERE evidence_id = ?", (evidence.evidence_id,)
    ).fetchone()
    if there is not None:
        return int(there[0])
    cursor = connection.execute(
        "INSERT INTO evidence (evidence_id, recorded_at, path, outcome, verdict, identity, settings, record)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            evidence.evidence_id,
            evidence.recorded_at,
            entry.path,
            evidence.outcome,
            evidence.verdict,
            None if before is None else Fingerprint.of_identity(before).text(),
            evidence.producer.configuration,
            packed,
        ),
    )
    sequence = cursor.lastrowid or 0
    last = connection.execute("SELECT value FROM chain ORDER BY sequence DESC LIMIT 1").fetchone()
    value = chain.link(chain.GENESIS if last is None else last[0], evidence.evidence_id)
    connection.execute("INSERT INTO chain VALUES (?, ?, ?)", (sequence, evidence.evidence_id, value))
    remember(connection, entry.path, entry.known)
    for alert in entry.alerts:
        put_alert(connection, alert)
    return sequence


def remember(connection: sqlite3.Connection, path: bytes, known: Known) -> None:
    """Replace what is known of an artifact."""
    connection.execute(
        "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            path,
            None if known.fingerprint is None else known.fingerprint.text(),
            known.settings,
            known.mode,
            known.run,
            known.evidence_id,
            None if known.tried is None else known.tried.text(),
            known.failures,
            known.retry_at,
        ),
    )


def alert(row: tuple[Any, ...]) -> Alert:
    """A row in the order of :data:`ALERT_COLUMNS`, which is that of the type."""
    before, facts, behind = row[:6], row[6], row[7:]
    return Alert(*before, json.loads(facts), *behind)  # type: ignore[call-arg]


def put_alert(connection: sqlite3.Connection, alert: Alert) -> None:
    """Store an alert: a new one, or in place of the one with its number."""
    connection.execute(
        f"INSERT OR REPLACE INTO alerts ({ALERT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            alert.path,
            alert.code,
            alert.rule,
            alert.scope,
            alert.severity,
            alert.figures,
            json.dumps(dict(alert.facts)),
            alert.evidence_id,
            alert.raised_at,
            alert.told_at,
            alert.cleared_at,
            alert.cleared_as,
            alert.untold,
            alert.alert_id,
        ),
    )
