"""``evidence import``, ``verify``, ``prune``: what comes in, whether it holds, what goes."""

from __future__ import annotations

import math
import os
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from auditd.cli.evidence_files import beginning, opened
from auditd.cli.evidence_place import place
from auditd.cli.status import Status, worst
from auditd.cli.terminal import Terminal
from auditd.errors import UsageError
from auditd.evidence.text import printable
from auditd.evidence_store import pruning
from auditd.evidence_store.bundle import Line, lines
from auditd.evidence_store.connection import reading, writing
from auditd.evidence_store.importing import import_records
from auditd.evidence_store.records import RecordError
from auditd.evidence_store.statements import transaction
from auditd.evidence_store.verifying import Broken, Tally
from auditd.evidence_store.verifying import verify as broken_in
from auditd.report.figures import counted, exact, rounded

_DAY: Final = 86_400.0

#: What a store begins with, wherever it was copied to.
_SQLITE: Final = b"SQLite format 3\0"


def import_(arguments: Namespace, terminal: Terminal) -> Status:
    """Take records in, all of them or none."""
    store = place(arguments).path
    with ExitStack() as stack:
        sources = [(printable(path), stack.enter_context(opened(path))) for path in arguments.files]
        try:
            done = import_records(store, sources, bundle=arguments.bundle)
        except RecordError as error:
            terminal.say(f"{error}; nothing was taken in")
            return Status.FINDINGS
    there = f", {exact(done.present)} were there already" if done.present else ""
    terminal.lines([f"{counted(done.added, 'record')} taken into {printable(store)}{there}"])
    return Status.CLEAR


# --- verify ----------------------------------------------------------------------------------------------


def verify(arguments: Namespace, terminal: Terminal) -> Status:
    """Check the store, or each of the files."""
    if arguments.files and arguments.store is not None:
        raise UsageError("evidence verify: --store or a FILE, not both")
    if arguments.files:
        return worst([_verify_file(path, arguments, terminal) for path in arguments.files])
    return _verify_store(place(arguments).path, arguments, terminal)


def _verify_store(store: str, arguments: Namespace, terminal: Terminal) -> Status:
    tally = Tally()
    with reading(store) as connection:
        found = _said(broken_in(connection, tally), arguments, terminal)
    _conclude(printable(store), tally, found, arguments, terminal)
    return Status.FINDINGS if tally.broken else Status.CLEAR


def _verify_file(path: bytes, arguments: Namespace, terminal: Terminal) -> Status:
    if beginning(path, len(_SQLITE)) == _SQLITE:
        return _verify_store(os.fsdecode(path), arguments, terminal)
    tally = Tally()
    with opened(path) as file:
        found = _said(_broken_lines(lines(file), tally), arguments, terminal)
    _conclude(printable(path), tally, found, arguments, terminal)
    return Status.FINDINGS if tally.broken else Status.CLEAR


def _broken_lines(drafts: Iterator[Line], tally: Tally) -> Iterator[Broken]:
    for line in drafts:
        if line.problem is None:
            tally.records += 1
        else:
            tally.broken += 1
            yield Broken(line.number, None, line.problem)


def _said(broken: Iterator[Broken], arguments: Namespace, terminal: Terminal) -> list[Broken]:
    """What is broken, said at once to a person, or kept for the one JSON object."""
    if arguments.json:
        return list(broken)
    for item in broken:
        where = "" if item.sequence is None else f" {item.sequence}"
        which = f" ({item.evidence_id})" if item.evidence_id else ""
        terminal.lines([f"broken:{where}{which}: {item.problem}"])
    return []


def _conclude(source: str, tally: Tally, found: list[Broken], arguments: Namespace, terminal: Terminal) -> None:
    if arguments.json:
        terminal.json(
            {
                "source": source,
                "sound": not tally.broken,
                "records": tally.records,
                "links": tally.links,
                "pruned": tally.pruned,
                "first_break": tally.first_break,
                "broken": [
                    {"sequence": item.sequence, "evidence_id": item.evidence_id, "problem": item.problem}
                    for item in found
                ],
            }
        )
        return
    links = f", {counted(tally.links, 'link')}, {exact(tally.pruned)} of them pruned" if tally.links else ""
    verdict = f"{counted(tally.broken, 'thing')} broken" if tally.broken else "all as it was written"
    terminal.lines([f"{source}: {counted(tally.records, 'record')}{links}: {verdict}"])


# --- prune -----------------------------------------------------------------------------------------------


def prune(arguments: Namespace, terminal: Terminal) -> Status:
    """Let go of what nothing needs; the same rule as the daemon's."""
    where = place(arguments)
    days = where.retention_days if arguments.retention_days is None else arguments.retention_days
    if not 0 <= days < math.inf:
        raise UsageError("evidence prune: --retention-days is a number of days, 0 or more")
    before = time.time() - days * _DAY
    if arguments.dry_run:
        _would_go(where.path, before, terminal)
    else:
        gone = _prune(where.path, before)
        terminal.lines([f"{counted(gone, 'record')} pruned from {printable(where.path)}"])
    return Status.CLEAR


def _prune(store: str, before: float) -> int:
    gone, after, done = 0, 0, False
    with reading(store):
        pass  # what is not there is not made in order to be pruned
    with writing(store) as connection:
        while not done:
            with transaction(connection):
                batch = pruning.prune(connection, before, after)
            gone, after, done = gone + batch.records, batch.last, batch.done
    return gone


def _would_go(store: str, before: float, terminal: Terminal) -> None:
    with reading(store) as connection:
        going = pruning.unneeded(connection, before)
    for path, count in sorted(Counter(item.path for item in going).items()):
        terminal.lines([f"{counted(count, 'record')} of {printable(path)}"])
    size = rounded(sum(item.stored_bytes for item in going))
    terminal.lines([f"{counted(len(going), 'record')} would be pruned from {printable(store)}, {size}"])
