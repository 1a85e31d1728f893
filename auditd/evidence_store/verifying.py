"""Whether a store still holds what was put into it: every link, every record, every column, both ends. Pure reading.

Each broken thing is one :class:`Broken`. Nothing is trusted because something else says so: the seal of a row, the
identifier of the record, the columns that follow from it, the link that goes with it and the ledger's counts are
compared each with the content itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from auditd.evidence.text import printable
from auditd.evidence_store import chain, statements
from auditd.evidence_store.columns import Columns, columns, seal
from auditd.evidence_store.records import RecordError, verified

_PAGE: Final = 500

_ROW: Final = f"SELECT {statements.SEALED_COLUMNS}, seal FROM evidence WHERE sequence = ?"  # noqa: S608 - a constant
_BEHIND: Final = len(Columns._fields) + 1


@dataclass(frozen=True, slots=True)
class Broken:
    """One thing that does not hold: where in the order it stands (None: nowhere), of which record, and what it is."""

    sequence: int | None
    evidence_id: str | None
    problem: str


@dataclass(slots=True)
class Tally:
    """What was gone through so far. ``first_break`` is the first row of the chain that does not follow."""

    records: int = 0
    links: int = 0
    pruned: int = 0
    broken: int = 0
    first_break: int | None = None


def verify(connection: sqlite3.Connection, tally: Tally) -> Iterator[Broken]:
    """Everything that is broken, in the order of the chain, then what stands in no order; ``tally`` counts along."""
    try:
        for broken in _all(connection, tally):
            tally.broken += 1
            yield broken
    # The message of a damaged schema quotes it, and may be no text.
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        tally.broken += 1
        yield Broken(None, None, f"the file cannot be read to its end: {_text(str(error))}")


def _all(connection: sqlite3.Connection, tally: Tally) -> Iterator[Broken]:
    ledger = connection.execute(
        "SELECT anchor_sequence, anchor, head_sequence, head, links, records FROM ledger"
    ).fetchone()
    if ledger is None:
        yield Broken(None, None, "the ledger is missing, so nobody knows where the chain begins and ends")
        ledger = (0, chain.GENESIS, None, None, None, None)
    last = ledger[:2]
    for link in _links(connection):
        problem = _follows(last, link)
        if problem and tally.first_break is None:
            tally.first_break = link[0]
            yield Broken(link[0], _text(link[1]), problem)
        yield from _record(connection, link, tally)
        tally.links += 1
        last = (link[0], link[2])
    yield from _ends(ledger, last, tally)
    yield from _outside(connection, tally)
    yield from _file(connection)


def _links(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    last = None
    while True:
        where, values = ("", ()) if last is None else ("WHERE sequence > ?", (last,))
        page = connection.execute(
            f"SELECT sequence, evidence_id, value, pruned FROM chain {where} ORDER BY sequence LIMIT {_PAGE}",  # noqa: S608
            values,
        ).fetchall()
        if not page:
            return
        yield from page
        last = page[-1][0]


def _text(value: Any) -> str:
    return printable(value if isinstance(value, str | bytes) else str(value), 100)


def _follows(last: tuple[Any, ...], link: tuple[Any, ...]) -> str:
    """Why a link does not follow the one before it, or nothing."""
    sequence, evidence_id, value, _ = link
    if not isinstance(sequence, int) or not isinstance(last[0], int):
        return "the chain breaks here: a number in it is none"
    if not isinstance(last[1], bytes) or not isinstance(evidence_id, str) or not evidence_id.isascii():
        return "the chain breaks here: a value in it is not of its kind"
    if chain.link(last[1], evidence_id) != value:
        return "the chain breaks here: this link does not follow the one before it"
    if sequence != last[0] + 1:
        return f"the chain breaks here: links are missing, the one before this is {last[0]}"
    return ""


# --- records ---------------------------------------------------------------------------------------------


def _record(connection: sqlite3.Connection, link: tuple[Any, ...], tally: Tally) -> Iterator[Broken]:
    """What is broken in the record that belongs to a link."""
    sequence, evidence_id, _, pruned = link
    row = connection.execute(_ROW, (sequence,)).fetchone()
    name = _text(evidence_id)
    if row is None:
        tally.pruned += pruned == 1
        if pruned != 1:
            yield Broken(sequence, name, "the record is missing")
        return
    tally.records += 1
    if pruned != 0:
        yield Broken(sequence, name, "marked as pruned, and the record is there")
    if row[1] != evidence_id:
        yield Broken(sequence, name, f"the record in this place is another one: {_text(row[1])}")
    problems = list(_problems(connection, row))
    if problems:
        yield Broken(sequence, _text(row[1]), "; ".join(problems))


def _problems(connection: sqlite3.Connection, row: tuple[Any, ...]) -> Iterator[str]:
    *values, sealed = row
    if seal(values) != sealed:
        yield "the row is not as it was written"
    _, _, place, name, packed = values[_BEHIND:]
    try:
        evidence = verified(statements.content(connection, (packed, place, name)))
        expected = columns(evidence)
    except RecordError as error:
        yield str(error)
        return
    for field, is_there, should_be in zip(Columns._fields, values[1:_BEHIND], expected, strict=True):
        if is_there != should_be:
            yield f"column {field} is not what the record says"


# --- what stands in no order -----------------------------------------------------------------------------


def _ends(ledger: tuple[Any, ...], last: tuple[Any, ...], tally: Tally) -> Iterator[Broken]:
    _, _, head_sequence, head, links, records = ledger
    if head is not None and (head_sequence, head) != last:
        yield Broken(None, None, f"the end of the chain is not where it was: link {_text(head_sequence)} was the last")
    for name, counted, kept in (("links", tally.links, links), ("records", tally.records, records)):
        if kept is not None and counted != kept:
            yield Broken(None, None, f"there are {counted} {name} and there should be {_text(kept)}")


def _outside(connection: sqlite3.Connection, tally: Tally) -> Iterator[Broken]:
    """Records that the chain does not know, and declarations that no record has."""
    for sequence, evidence_id in connection.execute(
        "SELECT sequence, evidence_id FROM evidence WHERE sequence NOT IN (SELECT sequence FROM chain) ORDER BY sequence"
    ):
        tally.records += 1
        yield Broken(sequence, _text(evidence_id), "the record has no link in the chain")
    for (name,) in connection.execute(
        "SELECT digest FROM declarations WHERE digest NOT IN (SELECT rows FROM evidence WHERE rows IS NOT NULL)"
    ):
        shown = name.hex() if isinstance(name, bytes) else _text(name)
        yield Broken(None, None, f"declarations that no record has: {shown}")


def _file(connection: sqlite3.Connection) -> Iterator[Broken]:
    """What SQLite itself finds wrong: indexes that do not have what their tables have, pages that are torn."""
    for (problem,) in connection.execute("PRAGMA integrity_check(100)"):
        if problem != "ok":
            yield Broken(None, None, f"the file: {_text(problem)}")
