"""The last record of each set of files, for :class:`auditd.evidence_store.store.EvidenceStore`: the statements on their table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from auditd.evidence_store.entities import Alert, SetEntry
from auditd.evidence_store.records import RecordError, pack, unpack
from auditd.evidence_store.statements import put_alert
from auditd.model_sets.record import SetEvidence, decode_set, encode_set


def state_of(connection: sqlite3.Connection, name: bytes) -> str | None:
    """What was found of a set when it was last judged; None if it is not known."""
    row = connection.execute("SELECT state FROM sets WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def record(connection: sqlite3.Connection, entry: SetEntry) -> None:
    """Store the record of a set in place of the one before, and its alerts."""
    connection.execute(
        "INSERT OR REPLACE INTO sets (name, place, evidence_id, verdict, state, record) VALUES (?, ?, ?, ?, ?, ?)",
        (
            entry.name,
            entry.place,
            entry.evidence.evidence_id,
            entry.evidence.verdict,
            entry.state,
            pack(encode_set(entry.evidence)),
        ),
    )
    for alert in entry.alerts:
        put_alert(connection, alert)


def names_at(connection: sqlite3.Connection, place: bytes) -> list[bytes]:
    """The sets that are known of a place."""
    return [name for (name,) in connection.execute("SELECT name FROM sets WHERE place = ? ORDER BY name", (place,))]


def places(connection: sqlite3.Connection, directory: bytes, first: bytes, end: bytes) -> list[bytes]:
    """The places at ``directory`` and below it, the half-open range of whose paths is given, of which sets are known."""
    rows = connection.execute(
        "SELECT DISTINCT place FROM sets WHERE place = ? OR (place >= ? AND place < ?) ORDER BY place",
        (directory, first, end),
    )
    return [place for (place,) in rows]


def forget(connection: sqlite3.Connection, name: bytes, alerts: Iterable[Alert]) -> None:
    """A set is gone."""
    connection.execute("DELETE FROM sets WHERE name = ?", (name,))
    for alert in alerts:
        put_alert(connection, alert)


def unlogged(connection: sqlite3.Connection) -> list[SetEvidence]:
    """The records whose lines are not known to stand in the log. A damaged one is none."""
    rows = connection.execute("SELECT record FROM sets WHERE logged = 0 ORDER BY name").fetchall()
    return [evidence for (packed,) in rows if (evidence := _decoded(packed)) is not None]


def mark_logged(connection: sqlite3.Connection, evidence_ids: Iterable[str]) -> None:
    """The lines of these records are written."""
    connection.executemany("UPDATE sets SET logged = 1 WHERE evidence_id = ?", [(each,) for each in evidence_ids])


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """How many sets have which verdict."""
    return dict(connection.execute("SELECT verdict, count(*) FROM sets GROUP BY verdict").fetchall())


def _decoded(packed: bytes) -> SetEvidence | None:
    try:
        return decode_set(unpack(packed))
    except (RecordError, msgspec.DecodeError, UnicodeDecodeError):
        return None
