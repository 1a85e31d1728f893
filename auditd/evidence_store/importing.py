"""Records from elsewhere, taken into a store: all of them, or none and the reason."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, Final

from auditd.evidence.text import printable
from auditd.evidence_store import statements
from auditd.evidence_store.bundle import lines
from auditd.evidence_store.columns import columns, might_alert
from auditd.evidence_store.connection import writing
from auditd.evidence_store.records import RecordError, decode, divide

#: Records that wait for the last one to be judged; more of them wait in a file.
_IN_MEMORY: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Imported:
    """How many records were new, and how many the store had."""

    added: int
    present: int


def import_records(store_path: str, sources: Iterable[tuple[str, BinaryIO]], *, bundle: bool) -> Imported:
    """Take in the records of all ``sources`` (a name and a stream each) in their order.

    Every record is judged before the store is touched: :class:`RecordError` with the first reason against one.
    Then they come in as one transaction, under the daemon's lock. Their alerts are not known, so those that could
    have raised one are kept as if they had; what is known of artifacts here does not change.
    """
    with ExitStack() as stack:
        waiting: IO[bytes] = stack.enter_context(SpooledTemporaryFile(max_size=_IN_MEMORY))
        for name, source in sources:
            _judge(name, source, waiting, bundle=bundle)
        connection = stack.enter_context(writing(store_path))
        waiting.seek(0)
        with statements.transaction(connection):
            added = [_add(connection, line.removesuffix(b"\n")) for line in waiting]
    return Imported(added.count(True), added.count(False))


def _judge(name: str, source: BinaryIO, waiting: IO[bytes], *, bundle: bool) -> None:
    for line in lines(source, bundle=bundle):
        if line.problem is not None:
            raise RecordError(f"{printable(name)}: line {line.number}: {line.problem}")
        waiting.write(line.record + b"\n")


def _add(connection: sqlite3.Connection, record: bytes) -> bool:
    """Add a record unless it is there."""
    evidence = decode(record)
    if statements.sequence_of(connection, evidence.evidence_id) is not None:
        return False
    statements.append(connection, columns(evidence), divide(record), alerted=might_alert(evidence), imported=True)
    return True
