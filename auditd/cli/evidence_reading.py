"""``evidence list``, ``show``, ``view``, ``export``: they open the store beside its writer and change nothing."""

from __future__ import annotations

import os
import sqlite3
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from auditd.cli.evidence_files import beginning, opened, put
from auditd.cli.evidence_place import find, place
from auditd.cli.status import Status
from auditd.cli.terminal import Terminal
from auditd.errors import UsageError
from auditd.evidence.record import Evidence
from auditd.evidence.summary import summary as short_record
from auditd.evidence.text import printable
from auditd.evidence.view import ViewError, parse_request
from auditd.evidence.view import view as page_of
from auditd.evidence_store import listing
from auditd.evidence_store.bundle import lines, looks_like_record, manifest
from auditd.evidence_store.columns import moment
from auditd.evidence_store.connection import reading
from auditd.evidence_store.listing import Listed
from auditd.evidence_store.records import RecordError, decode
from auditd.report import evidence_list
from auditd.report.declarations import declarations
from auditd.report.summary import summary
from auditd.report.view_page import view_page

_MICROSECONDS = 1_000_000


# --- list ------------------------------------------------------------------------------------------------


def list_(arguments: Namespace, terminal: Terminal) -> Status:
    """One line a record."""
    since = None if arguments.since is None else _since(arguments.since)
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError("evidence list: --limit is 1 or more")
    store, now, count = place(arguments).path, time.time(), 0
    columns, style = terminal.columns, terminal.style
    with reading(store) as connection:
        for item in listing.listed(
            connection,
            verdicts=arguments.verdict,
            since=since,
            wanted=None if arguments.path is None else _matching(arguments.path),
            limit=arguments.limit,
        ):
            count += 1
            row = _row(item, now)
            if arguments.json:
                terminal.json(evidence_list.as_json(row))
            else:
                terminal.lines([evidence_list.head(style)] * (count == 1))
                terminal.lines([evidence_list.line(row, columns, style)])
    if not arguments.json:
        terminal.lines(evidence_list.foot(count, store))
    return Status.CLEAR


def _since(text: str) -> int:
    try:
        return moment(text)
    except RecordError:
        raise UsageError(f"evidence list: --since {printable(text)}: such as 2024-05-01T00:00:00Z") from None


def _matching(glob: str) -> Callable[[bytes], bool]:
    """Whether a path matches, or is below a directory that does."""
    below = glob.rstrip("/") + "/*"

    def matches(path: bytes) -> bool:
        text = os.fsdecode(path)
        return fnmatchcase(text, glob) or fnmatchcase(text, below)

    return matches


def _row(item: Listed, now: float) -> evidence_list.Row:
    return evidence_list.Row(
        evidence_id=item.evidence_id,
        recorded_at=item.recorded_at,
        age_seconds=now - item.moment / _MICROSECONDS,
        verdict=item.verdict,
        outcome=item.outcome,
        residue=item.residue,
        path=item.path,
        imported=bool(item.imported),
    )


# --- one record ------------------------------------------------------------------------------------------


def _load(connection: sqlite3.Connection, sequence: int, store: str) -> bytes:
    try:
        return listing.load(connection, sequence)
    except RecordError as error:
        raise RecordError(f"{printable(store)}: record {sequence} is damaged: {error}; see evidence verify") from error


def _stored(arguments: Namespace) -> bytes:
    """The record that the command line means."""
    store = place(arguments).path
    with reading(store) as connection:
        return _load(connection, find(connection, arguments.target, store), store)


def show(arguments: Namespace, terminal: Terminal) -> Status:
    """One record, for a person or as it is stored."""
    record = _stored(arguments)
    if arguments.json and arguments.detail != "summary":
        put((record, b"\n"), None, terminal)
        return Status.CLEAR
    evidence = decode(record)
    if arguments.json:
        terminal.record(short_record(evidence))
        return Status.CLEAR
    terminal.lines(_age(evidence))
    terminal.lines(summary(evidence, terminal.columns, terminal.style))
    if arguments.detail == "complete":
        terminal.lines(declarations(evidence))
    return Status.CLEAR


def _age(evidence: Evidence) -> Iterator[str]:
    age = evidence_list.age(time.time() - moment(evidence.recorded_at) / _MICROSECONDS)
    yield printable(evidence.evidence_id)
    yield f"age {age}: looked at {printable(evidence.recorded_at)}, and not again now"
    yield ""


def view(arguments: Namespace, terminal: Terminal) -> Status:
    """A page of rows of a stored or an exported record."""
    try:
        parse_request(arguments.view)
        page = page_of(_stored_or_given(arguments), arguments.view)
    except ViewError as error:
        raise UsageError(f"evidence view: --{error}") from None
    if arguments.json:
        terminal.json(page)
    else:
        terminal.lines(view_page(page))
    return Status.CLEAR


def _stored_or_given(arguments: Namespace) -> Evidence:
    """A file that begins like a record is one; every other name is looked for in the store."""
    if not looks_like_record(beginning(arguments.target, 64)):
        return decode(_stored(arguments))
    with opened(arguments.target) as file:
        line, *others = lines(file, bundle=False)
    for problem in (line.problem, *(other.problem for other in others)):
        if problem is not None:
            raise RecordError(f"{printable(arguments.target)}: {problem}")
    return decode(line.record)


# --- export ----------------------------------------------------------------------------------------------


def export(arguments: Namespace, terminal: Terminal) -> Status:
    """Records, byte for byte: one as a line, or any number as a bundle."""
    if bool(arguments.targets) == arguments.all:
        raise UsageError("evidence export: give the ID of a record, or --all")
    if not arguments.bundle and (arguments.all or len(arguments.targets) > 1):
        raise UsageError("evidence export: without --bundle one record is written; several are a bundle")
    store = place(arguments).path
    with reading(store) as connection:
        wanted = (
            listing.in_order(connection)
            if arguments.all
            else sorted({find(connection, target, store) for target in arguments.targets})
        )

        def records() -> Iterator[bytes]:
            return (_load(connection, sequence, store) for sequence in wanted)

        put(_written(records, bundle=arguments.bundle), arguments.output, terminal)
    return Status.CLEAR


def _written(records: Callable[[], Iterator[bytes]], *, bundle: bool) -> Iterator[bytes]:
    """The bytes of an export; a manifest goes through the records once before them."""
    if bundle:
        yield manifest(records())
    for record in records():
        yield record + b"\n"
