"""Older stores, brought up to the present schema in one transaction.

Nothing is judged on the way: a record that cannot be read is carried over as it is, never pruned, and named by
``verify``; so is a chain that does not hold.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final

from auditd.evidence_store import tables
from auditd.evidence_store.columns import Columns, columns, might_alert
from auditd.evidence_store.records import RecordError, decode, divide, unpack
from auditd.evidence_store.statements import insert, insert_as_it_is, transaction


def bring_up(connection: sqlite3.Connection, version: int) -> None:
    """Bring the tables from ``version`` to the present one, all the way or not at all."""
    with transaction(connection):
        for step in range(version, tables.VERSION):
            _STEPS[step](connection)
        connection.execute(f"PRAGMA user_version = {tables.VERSION}")


def _from_1(connection: sqlite3.Connection) -> None:
    """Schema 1 kept each record in one piece, its chain without an end, and nothing to find a record by but its path."""
    for index in ("evidence_by_path", "evidence_unlogged"):
        connection.execute(f"DROP INDEX {index}")
    for table in ("evidence", "chain"):
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in _statements(tables.EVIDENCE_TABLES):
        connection.execute(statement)
    for row in connection.execute("SELECT * FROM old_evidence ORDER BY sequence"):
        _take_over(connection, row)
    connection.execute("INSERT INTO chain (sequence, evidence_id, value) SELECT * FROM old_chain ORDER BY sequence")
    last = connection.execute("SELECT sequence, value FROM chain ORDER BY sequence DESC LIMIT 1").fetchone()
    connection.execute(
        "UPDATE ledger SET head_sequence = ?, head = ?, links = (SELECT count(*) FROM chain),"
        " records = (SELECT count(*) FROM evidence)",
        last or (0, bytes(32)),
    )
    for table in ("evidence", "chain"):
        connection.execute(f"DROP TABLE old_{table}")


def _from_2(connection: sqlite3.Connection) -> None:
    """Schema 2 knew nothing of references, which the next step adds, and of sets neither."""
    for statement in _statements(tables.SETS_TABLE):
        connection.execute(statement)


def _from_3(connection: sqlite3.Connection) -> None:
    """Schema 3 did not know since when an artifact waits for its scrub: one that was never hashed waits from now on."""
    connection.execute("ALTER TABLE artifacts RENAME TO old_artifacts")
    for name in _indexes(connection, "old_artifacts"):
        connection.execute(f"DROP INDEX {name}")
    for statement in _statements(tables.ARTIFACTS_TABLE):
        connection.execute(statement)
    columns = ", ".join(_columns(connection, "old_artifacts"))
    connection.execute(f"INSERT INTO artifacts ({columns}) SELECT {columns} FROM old_artifacts")  # noqa: S608 - of the schema
    connection.execute("UPDATE artifacts SET waits_since = coalesce(hashed_at, CAST(strftime('%s', 'now') AS REAL))")
    connection.execute("DROP TABLE old_artifacts")


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def _indexes(connection: sqlite3.Connection, table: str) -> list[str]:
    """Those that were made by name."""
    return [row[0] for row in connection.execute("SELECT name FROM pragma_index_list(?) WHERE origin = 'c'", (table,))]


def _statements(script: str) -> list[str]:
    """The statements of a script one by one: ``executescript`` would end the transaction."""
    lines = (line.partition("--")[0] for line in script.splitlines())
    return [statement for statement in "\n".join(lines).split(";") if statement.strip()]


def _take_over(connection: sqlite3.Connection, row: tuple[Any, ...]) -> None:
    sequence, evidence_id, recorded_at, path, outcome, verdict, identity, settings, logged, packed = row
    alerted = connection.execute("SELECT 1 FROM alerts WHERE evidence_id = ?", (evidence_id,)).fetchone() is not None
    try:
        record = unpack(packed)
        evidence = decode(record)
        found = columns(evidence)
    except RecordError:
        there = Columns(
            evidence_id,
            recorded_at,
            0,
            path,
            outcome,
            verdict,
            None,
            0,
            0,
            identity,
            settings,
        )
        insert_as_it_is(connection, sequence, there, packed)
    else:
        # What was there is carried over also where it is not what the record says.
        kept = found._replace(
            evidence_id=evidence_id,
            recorded_at=recorded_at,
            path=path,
            outcome=outcome,
            verdict=verdict,
            identity=identity,
            settings=settings,
        )
        insert(connection, sequence, kept, divide(record), alerted=alerted or might_alert(evidence), imported=False)
    connection.execute("UPDATE evidence SET logged = ? WHERE sequence = ?", (logged, sequence))


_STEPS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {1: _from_1, 2: _from_2, 3: _from_3}
