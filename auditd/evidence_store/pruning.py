"""What need not be kept, and how it goes without breaking the chain.

Kept for good: of each artifact the last record that settled the matter, the last one with the digest of the whole file
(made here and made elsewhere counted apart), what every later reading of its present state is held against (the first
one with the digest of this state, and of any other state the last one and the last one with the digest: see
:class:`auditd.evidence.history.Earlier`), every record that raised or changed an alert, and what is known of an
artifact by. Everything else goes once it is older than the retention, except what is still to be written into the
log. Links stay, marked, as long as an older record stays: the chain can then be walked from end to end. Those before
the oldest record go, and the value of the last of them becomes the anchor that the walk begins with.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

#: Records in one transaction, so that the daemon is not held up.
_BATCH: Final = 500

_MICROSECONDS: Final = 1_000_000

_UNNEEDED: Final = """
SELECT sequence, rows, path, length(record) FROM evidence AS old
WHERE moment < ? AND sequence > ? AND alerted = 0 AND logged = 1
AND NOT (final = 1 AND NOT EXISTS (
    SELECT 1 FROM evidence AS later
    WHERE later.path = old.path AND later.imported = old.imported AND later.final = 1 AND later.hashed >= old.hashed
    AND (later.moment, later.sequence) > (old.moment, old.sequence)))
AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.path = old.path AND artifacts.evidence_id = old.evidence_id)
AND evidence_id NOT IN (SELECT evidence_id FROM alerts)
AND NOT (final = 1 AND hashed = 1 AND imported = 0
    AND EXISTS (
        SELECT 1 FROM artifacts WHERE artifacts.path = old.path
        AND substr(artifacts.identity, instr(artifacts.identity, ' ')) = substr(old.identity, instr(old.identity, ' ')))
    AND NOT EXISTS (
        SELECT 1 FROM evidence AS first WHERE first.path = old.path AND first.sequence < old.sequence
        AND first.final = 1 AND first.hashed = 1 AND first.imported = 0
        AND substr(first.identity, instr(first.identity, ' ')) = substr(old.identity, instr(old.identity, ' '))))
AND NOT (final = 1 AND imported = 0 AND EXISTS (
    SELECT 1 FROM artifacts WHERE artifacts.path = old.path
    AND substr(artifacts.identity, instr(artifacts.identity, ' ')) <> substr(old.identity, instr(old.identity, ' '))
    AND NOT EXISTS (
        SELECT 1 FROM evidence AS later WHERE later.path = old.path AND later.sequence > old.sequence
        AND later.final = 1 AND later.imported = 0 AND later.hashed >= old.hashed
        AND substr(later.identity, instr(later.identity, ' '))
            <> substr(artifacts.identity, instr(artifacts.identity, ' ')))))
ORDER BY sequence LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Pruned:
    """One batch: how many records went, and the last of them; ``done`` says that no other would follow."""

    records: int
    last: int
    done: bool


@dataclass(frozen=True, slots=True)
class Unneeded:
    """A record that may go."""

    sequence: int
    rows: bytes | None
    path: bytes
    stored_bytes: int


def unneeded(connection: sqlite3.Connection, before: float, after: int = 0, limit: int = -1) -> list[Unneeded]:
    """The records older than ``before`` (seconds since the epoch) that need not be kept; a limit of -1 is none."""
    moment = int(before * _MICROSECONDS)
    return [Unneeded(*row) for row in connection.execute(_UNNEEDED, (moment, after, limit))]


def prune(connection: sqlite3.Connection, before: float, after: int = 0, batch: int = _BATCH) -> Pruned:
    """Inside a transaction: take up to ``batch`` records away."""
    going = unneeded(connection, before, after, batch)
    for item in going:
        connection.execute("DELETE FROM evidence WHERE sequence = ?", (item.sequence,))
        connection.execute("UPDATE chain SET pruned = 1 WHERE sequence = ?", (item.sequence,))
    for name in {item.rows for item in going if item.rows is not None}:
        connection.execute(
            "DELETE FROM declarations WHERE digest = ? AND NOT EXISTS (SELECT 1 FROM evidence WHERE rows = ?)",
            (name, name),
        )
    connection.execute("UPDATE ledger SET records = records - ?", (len(going),))
    _move_anchor(connection)
    return Pruned(len(going), going[-1].sequence if going else after, len(going) < batch)


def _move_anchor(connection: sqlite3.Connection) -> None:
    """Cut the links before the oldest record off."""
    (oldest,) = connection.execute("SELECT min(sequence) FROM chain WHERE pruned = 0").fetchone()
    below = "1" if oldest is None else "sequence < ?"
    values = () if oldest is None else (oldest,)
    last = connection.execute(
        f"SELECT sequence, value FROM chain WHERE {below} ORDER BY sequence DESC LIMIT 1",  # noqa: S608 - two constants
        values,
    ).fetchone()
    if last is None:
        return
    cut = connection.execute(f"DELETE FROM chain WHERE {below}", values).rowcount  # noqa: S608 - two constants
    connection.execute("UPDATE ledger SET anchor_sequence = ?, anchor = ?, links = links - ?", (*last, cut))
