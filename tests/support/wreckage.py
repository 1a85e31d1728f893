"""What a daemon that was killed has left behind, read without the code under test: SQLite, SHA-256 and JSON alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

Event = dict[str, Any]

#: Events that say something of an alert, and must not be said twice.
ALERT_EVENTS = frozenset({"alert_raised", "alert_changed", "alert_repeated", "alert_cleared"})


class Told(NamedTuple):
    """What makes an alert event one event, and a second one like it a repeat."""

    event: str
    path: str
    code: str
    rule: str
    evidence_id: str


def told(event: Event) -> Told:
    return Told(event["event"], event["path"], event["code"], event["constraint"] or "", event["evidence_id"])


@dataclass(frozen=True)
class Kept:
    """The store as its file says."""

    records: tuple[str, ...] = ()
    sets: frozenset[str] = frozenset()
    #: What was committed to be said, and is not known to have been.
    untold: frozenset[Told] = frozenset()
    #: Path, code and rule of the open alerts; and how many were ever raised.
    open_alerts: frozenset[tuple[str, str, str]] = frozenset()
    raised: int = 0
    #: By artifact, the record of its last complete look.
    artifacts: dict[str, str | None] = field(default_factory=dict)


def kept(store: Path) -> Kept:
    """Everything that has to hold of a store, held; read from a copy, so that the next daemon finds what was left."""
    if not store.exists():
        return Kept()
    with TemporaryDirectory() as name:
        copy = Path(name) / store.name
        for end in ("", "-wal"):
            if os.path.exists(f"{store}{end}"):
                shutil.copyfile(f"{store}{end}", f"{copy}{end}")
        with closing(sqlite3.connect(copy)) as connection:
            return _read(connection)


def _read(connection: sqlite3.Connection) -> Kept:
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger'").fetchone():
        return Kept()  # killed before its tables were there
    records = connection.execute("SELECT sequence, evidence_id FROM evidence ORDER BY sequence").fetchall()
    links = connection.execute("SELECT sequence, evidence_id, value FROM chain ORDER BY sequence").fetchall()
    ledger = connection.execute("SELECT head_sequence, head, links, records FROM ledger").fetchone()
    assert [link[:2] for link in links] == records
    assert [sequence for sequence, _ in records] == list(range(1, len(records) + 1))
    value = bytes(32)
    for _, evidence_id, stored in links:
        value = hashlib.sha256(value + evidence_id.encode()).digest()
        assert value == stored
    assert ledger == (len(records), value, len(records), len(records))
    alerts = connection.execute("SELECT path, code, rule, facts, untold, cleared_at FROM alerts").fetchall()
    return Kept(
        records=tuple(evidence_id for _, evidence_id in records),
        sets=frozenset(name for (name,) in connection.execute("SELECT evidence_id FROM sets")),
        untold=frozenset(
            Told(event, os.fsdecode(path), code, rule, json.loads(facts)["evidence_id"])
            for path, code, rule, facts, untold, _ in alerts
            for event in (untold or "").split()
        ),
        open_alerts=frozenset((os.fsdecode(row[0]), row[1], row[2]) for row in alerts if row[5] is None),
        raised=len(alerts),
        artifacts={
            os.fsdecode(path): evidence_id
            for path, evidence_id in connection.execute("SELECT path, evidence_id FROM artifacts")
        },
    )


@dataclass(frozen=True)
class Lines:
    """The log: whole lines by their evidence id, how often each stands there, and how many are torn."""

    counts: Counter[str]
    torn: int


def lines(log: Path) -> Lines:
    """A line that stands there twice is the same line."""
    whole: dict[str, bytes] = {}
    counts: Counter[str] = Counter()
    torn = 0
    for line in log.read_bytes().split(b"\n")[:-1] if log.exists() else ():
        try:
            evidence_id = json.loads(line)["evidence_id"]
        except ValueError:
            torn += 1
            continue
        assert whole.setdefault(evidence_id, line) == line
        counts[evidence_id] += 1
    return Lines(counts, torn)
