"""``model-auditd dump FILE``: its header as JSON that stands in for it, or compared with one that was kept."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from hashlib import sha256

from auditd.cli.evidence_files import FileError, beginning, opened, put
from auditd.cli.interruption import Interruption
from auditd.cli.options import Observation as InspectionOptions
from auditd.cli.options import add_reading, also_not_seen, located
from auditd.cli.output_file import refusal, write
from auditd.cli.show_source import observation_of, refuse_other, schema_of, status_of_observation
from auditd.cli.status import Status
from auditd.cli.terminal import Terminal
from auditd.comparison.compare import difference
from auditd.comparison.difference import Source
from auditd.comparison.subject import Subject
from auditd.errors import UsageError
from auditd.evidence.observation import Observation
from auditd.evidence.text import printable
from auditd.header_dump import codec as dump
from auditd.header_dump.forms import SCHEMA
from auditd.inspection.composition import compose
from auditd.inspection.reread import array_digests
from auditd.inspection.timestamps import now_text
from auditd.report.columns import defused
from auditd.report.dump import DumpSheet, Text, lines, sheet, text_of
from auditd.rules.evaluate import evaluate

#: Of a file that is there already so much says what it is.
_BEGINNING_BYTES = 4096

#: How wide lines are where nobody says how wide the paper is.
_COLUMNS = 80

_STATUSES = {True: Status.CLEAR, False: Status.FINDINGS, None: Status.NOT_SEEN}


@dataclass(frozen=True, slots=True)
class _Kept:
    """A dump that is compared with."""

    path: bytes
    text: bytes
    observation: Observation


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Write a model's header as JSON: about a hundred thousandth of the file, and all that show and diff need of it."
    )
    parser.add_argument(
        "file", metavar="FILE", type=os.fsencode, help="the model: a path, ollama:NAME[:TAG], or hf:ORG/NAME[@REV]/FILE"
    )
    parser.add_argument(
        "--output", metavar="DUMP", type=os.fsencode, help="write it into this file, not to standard output"
    )
    parser.add_argument(
        "--against",
        metavar="DUMP",
        type=os.fsencode,
        help="compare it with a header that was dumped before: exit status 0 if they declare the same, 1 if not, 3 if "
        "that cannot be said; - is standard input",
    )
    add_reading(parser)
    parser.add_argument(
        "--json", action="store_true", help="print what was written, or what differs, as a line of JSON"
    )
    also_not_seen(parser, "the header cannot stand in for the file, or the dump cannot be written")


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Look, compare, write."""
    arguments.file = located(arguments.file)
    if arguments.output is not None:
        _check_output(arguments)
    kept = None if arguments.against is None else _kept(arguments.against, arguments.layout)
    with Interruption() as interruption:
        observation = observation_of(arguments, terminal, interruption)
        if observation.foreign is not None and (kept is None or arguments.output is not None):
            terminal.say(f"{printable(observation.path)}: {observation.foreign.meaning} has no header to be dumped")
            return status_of_observation(observation)
        text = _encoded(observation, interruption)
    if arguments.output is not None:
        _write(arguments.output, text)
    elif kept is None:
        put((text,), None, terminal)
        return _told(observation, terminal)
    written = text_of(arguments.output, len(text), sha256(text).hexdigest())
    shown = sheet(observation, written) if kept is None else _compared(observation, text, written, kept, arguments)
    if arguments.json:
        terminal.json(shown)
    else:
        terminal.lines(lines(shown, terminal.columns or _COLUMNS, terminal.style))
    return _told(observation, terminal) if kept is None else _STATUSES[shown.same]


def _told(observation: Observation, terminal: Terminal) -> Status:
    """The status that the file itself has, and to whoever is there why it is not 0: the dump has it in its rows."""
    status = status_of_observation(observation)
    found = evaluate(observation)
    if status is not Status.CLEAR and found:
        terminal.say(f"{printable(observation.path)}: {defused(found[0].message)}")
    return status


def _check_output(arguments: Namespace) -> None:
    refused = refusal(arguments.output, arguments.file) or _other_file(arguments.output)
    if refused:
        raise UsageError(f"--output {printable(arguments.output)}: {refused}")


def _other_file(output: bytes) -> str | None:
    """Why a file that is there already is not overwritten: only an earlier dump is, or a file without a byte."""
    begun = beginning(output, _BEGINNING_BYTES)
    if not begun or schema_of(begun) == SCHEMA:
        return None
    return "is there already, is no dumped header, and is not overwritten"


def _kept(path: bytes, layout: str) -> _Kept:
    with opened(path) as file:
        text = file.read(dump.DUMP_BYTES + 1)
    refuse_other(path, text)
    return _Kept(path, text, dump.decode(text, layout=layout, name=os.fsdecode(path)))


def _encoded(observation: Observation, interruption: Interruption) -> bytes:
    """The dump, with the digests of what it does not hold; raises ``AuditError`` where there is none."""
    why_not = dump.obstacle(observation)
    if why_not is not None:
        raise dump.NotDumpable(f"{printable(observation.path)}: {why_not}")
    return dump.encode(array_digests(observation, interruption.checkpoint))


def _write(output: bytes, text: bytes) -> None:
    try:
        write(output, (text,))
    except OSError as error:
        raise FileError(f"{printable(output)}: the header cannot be written: {error.strerror}") from None


def _compared(observation: Observation, text: bytes, written: Text, kept: _Kept, arguments: Namespace) -> DumpSheet:
    """The header against the kept one; both sides are dumps, so that neither knows more than the other."""
    before = text_of(kept.path, len(kept.text), sha256(kept.text).hexdigest())
    if kept.text == text:
        return sheet(observation, written, before)
    now = dump.decode(text, layout=arguments.layout)
    return sheet(
        observation,
        written,
        before,
        difference(_side(kept.observation, "dump", arguments), _side(now, "file", arguments)),
    )


def _side(observation: Observation, source: Source, arguments: Namespace) -> Subject:
    recorded_at = now_text()
    producer = InspectionOptions.of(arguments).producer
    evidence = compose(observation, producer=producer, trigger="command", recorded_at=recorded_at, severities={})
    return Subject(evidence, source, observation.array_sha256)
