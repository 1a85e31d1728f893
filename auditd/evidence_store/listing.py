"""Finding records in an open store: by time, path, verdict, identifier. Nothing is unpacked but what is asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from auditd.evidence_store import statements

_PAGE: Final = 500
_LAST: Final = (1 << 63) - 1
#: Identifiers that an ambiguous prefix is answered with.
_ALTERNATIVES: Final = 5


class Listed(NamedTuple):
    """A record as a list shows it; ``moment`` is when the look was recorded, in microseconds since the epoch."""

    sequence: int
    evidence_id: str
    recorded_at: str
    moment: int
    path: bytes
    outcome: str
    verdict: str
    residue: int | None
    imported: int


_COLUMNS: Final = ", ".join(Listed._fields)


def listed(
    connection: sqlite3.Connection,
    *,
    verdicts: Sequence[str] = (),
    since: int | None = None,
    wanted: Callable[[bytes], bool] | None = None,
    limit: int | None = None,
) -> Iterator[Listed]:
    """At most ``limit`` records, the newest first.

    Of these ``verdicts`` (all if none), not before ``since`` (as ``moment``), at paths that are ``wanted``.
    """
    left = limit
    for item in _newest_first(connection, verdicts, since):
        if left == 0:
            return
        if wanted is None or wanted(item.path):
            yield item
            left = None if left is None else left - 1


def _newest_first(connection: sqlite3.Connection, verdicts: Sequence[str], since: int | None) -> Iterator[Listed]:
    within = f"AND verdict IN ({', '.join('?' * len(verdicts))})" if verdicts else ""
    query = (
        f"SELECT {_COLUMNS} FROM evidence WHERE (moment, sequence) < (?, ?) AND moment >= ? {within}"  # noqa: S608
        " ORDER BY moment DESC, sequence DESC LIMIT ?"
    )
    earliest = -_LAST if since is None else since
    last = (_LAST, _LAST)
    while page := connection.execute(query, (*last, earliest, *verdicts, _PAGE)).fetchall():
        yield from map(Listed._make, page)
        last = (page[-1][3], page[-1][0])


def with_prefix(connection: sqlite3.Connection, prefix: str) -> list[tuple[int, str]]:
    """Sequence number and identifier of the records whose identifier begins so; a few if there are many."""
    return connection.execute(
        "SELECT sequence, evidence_id FROM evidence WHERE evidence_id >= ? AND evidence_id < ? ORDER BY evidence_id LIMIT ?",
        (prefix, prefix + "~", _ALTERNATIVES),
    ).fetchall()


def latest(connection: sqlite3.Connection, path: bytes) -> int | None:
    """Sequence number of the newest record of a path."""
    row = connection.execute(
        "SELECT sequence FROM evidence WHERE path = ? ORDER BY moment DESC, sequence DESC LIMIT 1", (path,)
    ).fetchone()
    return None if row is None else int(row[0])


def in_order(connection: sqlite3.Connection) -> list[int]:
    """The sequence numbers of all records."""
    return [sequence for (sequence,) in connection.execute("SELECT sequence FROM evidence ORDER BY sequence")]


def load(connection: sqlite3.Connection, sequence: int) -> bytes:
    """A record, byte for byte. Raises :class:`auditd.evidence_store.records.RecordError` if it is damaged."""
    row = connection.execute("SELECT record, place, rows FROM evidence WHERE sequence = ?", (sequence,)).fetchone()
    return statements.content(connection, row)
