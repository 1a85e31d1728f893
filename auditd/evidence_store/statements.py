"""The statements that change several tables at once, and how alerts are laid out in theirs.

Each function works on an open connection inside the transaction of whoever calls it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from auditd.evidence_store import chain
from auditd.evidence_store.artifact_state import ArtifactState, Fingerprint
from auditd.evidence_store.columns import Columns, Value, columns, seal
from auditd.evidence_store.entities import Alert, Entry
from auditd.evidence_store.records import Kept, RecordError, digest, join, pack, unpack

ALERT_COLUMNS: Final = (
    "path, code, rule, scope, severity, figures, facts, evidence_id, raised_at, told_at, cleared_at, cleared_as, "
    "untold, alert_id"
)


#: What :class:`ArtifactState` is made of, with the path before it.
_KNOWN_COLUMNS: Final = (
    "path, identity, settings, mode, run, evidence_id, tried, failures, retry_at, promised, standing, hashed_at,"
    " waits_since"
)

#: The columns of table ``evidence`` that its seal covers, in the order in which they are sealed.
SEALED_COLUMNS: Final = ", ".join(("sequence", *Columns._fields, "alerted", "imported", "place", "rows", "record"))


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


def record(connection: sqlite3.Connection, entry: Entry, kept: Kept) -> int:
    """Store a record and all that goes with it; its sequence number."""
    evidence = entry.evidence
    # A commit that failed may have reached the disk all the same, and is then made a second time.
    there = sequence_of(connection, evidence.evidence_id)
    if there is not None:
        return there
    alerted = any(alert.evidence_id == evidence.evidence_id for alert in entry.alerts)
    sequence = append(connection, columns(evidence)._replace(path=entry.path), kept, alerted=alerted)
    remember(connection, entry.path, entry.known)
    for alert in entry.alerts:
        put_alert(connection, alert)
    return sequence


def sequence_of(connection: sqlite3.Connection, evidence_id: str) -> int | None:
    """Where a record stands; None if it is not there."""
    row = connection.execute("SELECT sequence FROM evidence WHERE evidence_id = ?", (evidence_id,)).fetchone()
    return None if row is None else int(row[0])


def append(connection: sqlite3.Connection, found: Columns, kept: Kept, *, alerted: bool, imported: bool = False) -> int:
    """Store a record behind the last one and its link behind the last link; its sequence number."""
    last, head = connection.execute("SELECT head_sequence, head FROM ledger").fetchone()
    sequence = int(last) + 1
    value = chain.link(head, found.evidence_id)
    insert(connection, sequence, found, kept, alerted=alerted, imported=imported)
    connection.execute(
        "INSERT INTO chain (sequence, evidence_id, value) VALUES (?, ?, ?)", (sequence, found.evidence_id, value)
    )
    connection.execute(
        "UPDATE ledger SET head_sequence = ?, head = ?, links = links + 1, records = records + 1", (sequence, value)
    )
    return sequence


def insert(
    connection: sqlite3.Connection, sequence: int, found: Columns, kept: Kept, *, alerted: bool, imported: bool
) -> None:
    """Put a record into its table, and its rows into theirs if they are new."""
    name = None
    if kept.rows is not None:
        name = digest(kept.rows)
        if connection.execute("SELECT 1 FROM declarations WHERE digest = ?", (name,)).fetchone() is None:
            content = pack(kept.rows)
            connection.execute("INSERT INTO declarations VALUES (?, ?, ?)", (name, content, seal((content,))))
    _insert(connection, (sequence, *found, int(alerted), int(imported), kept.place, name, pack(kept.rest)))
    if imported:
        # The log has lines of what was seen here.
        connection.execute("UPDATE evidence SET logged = 1 WHERE sequence = ?", (sequence,))


def insert_as_it_is(connection: sqlite3.Connection, sequence: int, found: Columns, packed: bytes) -> None:
    """Put bytes that could not be read into the table, where they stay."""
    _insert(connection, (sequence, *found, 1, 0, 0, None, packed))


def _insert(connection: sqlite3.Connection, values: tuple[Value, ...]) -> None:
    marks = ", ".join("?" * (len(values) + 1))
    connection.execute(
        f"INSERT INTO evidence ({SEALED_COLUMNS}, seal) VALUES ({marks})",  # noqa: S608 - a constant and question marks
        (*values, seal(values)),
    )


def content(connection: sqlite3.Connection, kept: tuple[bytes, int, bytes | None]) -> bytes:
    """The record of a row (``record, place, rows``), byte for byte. Raises :class:`RecordError`."""
    packed, place, name = kept
    rows = None if name is None else declarations(connection, name)
    return join(Kept(unpack(packed), place, rows))


def declarations(connection: sqlite3.Connection, name: bytes) -> bytes:
    """The rows that are kept under a digest. Raises :class:`RecordError` if they are not there, or not these."""
    row = connection.execute("SELECT content, seal FROM declarations WHERE digest = ?", (name,)).fetchone()
    if row is None:
        raise RecordError("its declarations are missing")
    if seal(row[:1]) != row[1]:
        raise RecordError("its declarations are damaged")
    rows = unpack(row[0])
    if digest(rows) != name:
        raise RecordError("its declarations are not those that it had")
    return rows


def remember(connection: sqlite3.Connection, path: bytes, known: ArtifactState) -> None:
    """Replace what is known of an artifact."""
    connection.execute(
        "INSERT OR REPLACE INTO artifacts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            known.expected,
            known.standing,
            known.hashed_at,
            known.waits_since,
        ),
    )


def known_of(connection: sqlite3.Connection, paths: Sequence[bytes]) -> dict[bytes, ArtifactState]:
    """What is known of each artifact; those of which nothing is are left out."""
    marks = ", ".join("?" * len(paths))
    rows = connection.execute(f"SELECT {_KNOWN_COLUMNS} FROM artifacts WHERE path IN ({marks})", paths)  # noqa: S608
    return {path: _known(*row) for path, *row in rows}


def _known(
    identity: str | None,
    settings: str | None,
    mode: str | None,
    run: int | None,
    evidence_id: str | None,
    tried: str | None,
    *rest: Any,
) -> ArtifactState:
    return ArtifactState(
        None if identity is None else Fingerprint.parse(identity),
        settings,
        mode,
        run or 0,
        evidence_id,
        None if tried is None else Fingerprint.parse(tried),
        *rest,
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
