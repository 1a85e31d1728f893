"""``model-auditd diff A B``: what differs between two models, dumped headers or records, mixed as one likes."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, replace
from typing import Final

from auditd.cli.evidence_files import FileError, beginning, opened
from auditd.cli.interruption import Interruption
from auditd.cli.options import Observation as InspectionOptions
from auditd.cli.options import add_inspection_options, also_not_seen, located
from auditd.cli.show_source import schema_of
from auditd.cli.status import Status
from auditd.cli.terminal import Terminal, progress_of
from auditd.comparison.compare import LIMIT, difference
from auditd.comparison.difference import Difference, Source
from auditd.comparison.elements import element_change, with_elements
from auditd.comparison.subject import Subject
from auditd.errors import UsageError
from auditd.evidence.observation import Observation
from auditd.evidence.record import SCHEMA as RECORD_SCHEMA
from auditd.evidence.record import Evidence
from auditd.evidence.text import exact, printable, quoted
from auditd.evidence_store.bundle import lines as record_lines
from auditd.formats.declarations import ArrayValue, GgufHeader, MetadataEntry
from auditd.header_dump import codec as dump
from auditd.header_dump.forms import SCHEMA as DUMP_SCHEMA
from auditd.inspection.composition import compose
from auditd.inspection.inspector import observe_artifact
from auditd.inspection.reread import array_digests, elements
from auditd.inspection.timestamps import now_text
from auditd.report.difference import lines

_BEGINNING_BYTES: Final = 4096

_STATUSES: Final = {True: Status.CLEAR, False: Status.FINDINGS, None: Status.NOT_SEEN}

#: Of these a record says that there is no header to compare.
_NOT_SEEN: Final = frozenset({"unavailable", "failed", "skipped"})


@dataclass(frozen=True, slots=True)
class _Taken:
    """One side: its record, and the look that it was made of, unless it came as a record."""

    source: Source
    evidence: Evidence
    observation: Observation | None = None


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    what = "a model (a path, ollama:NAME[:TAG], hf:ORG/NAME[@REV]/FILE), a header that dump wrote, or a record"
    parser.add_argument("a", metavar="A", type=os.fsencode, help=what)
    parser.add_argument("b", metavar="B", type=os.fsencode, help="the same")
    add_inspection_options(parser, default_hash="header")
    # Whoever has all bytes read wants to know which tensors differ.
    parser.set_defaults(digests="tensors")
    parser.add_argument("--json", action="store_true", help="print the comparison as one line of JSON and nothing else")
    parser.add_argument(
        "--limit", metavar="N", type=int, default=LIMIT, help="list at most N of each kind (default: %(default)s)"
    )
    parser.epilog = (
        "exit status: 0 the same declarations and the same size; 1 they differ; 2 the command line is wrong, or a dump "
        "or record is none; 3 one of them could not be looked at, or nothing differs and not all could be compared"
    )
    also_not_seen(parser, "whoever reads standard output leaves before its end")


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Take both, compare, show."""
    if arguments.limit < 1:
        raise UsageError("diff: --limit is 1 or more")
    with Interruption() as interruption:
        a, b = (_taken(located(given), arguments, terminal, interruption) for given in (arguments.a, arguments.b))
        if _needs_arrays(a.evidence, b.evidence):
            a, b = (_with_arrays(side, interruption) for side in (a, b))
        result = difference(_subject(a), _subject(b), arguments.limit)
        if a.source == b.source == "file":
            result = _with_elements(result, a, b, interruption)
    if arguments.json:
        terminal.json(result)
    else:
        terminal.lines(lines(result, terminal.columns, terminal.style))
    return _STATUSES[result.same]


# -- taking a side ----------------------------------------------------------------------------------


def _taken(path: bytes, arguments: Namespace, terminal: Terminal, interruption: Interruption) -> _Taken:
    """What ``path`` stands for. Raises ``AuditError`` where there is nothing to compare."""
    schema = schema_of(beginning(path, _BEGINNING_BYTES))
    if schema is None:
        observation = _looked_at(path, arguments, terminal, interruption)
        taken = _Taken("file", _composed(observation, arguments), observation)
    elif schema == DUMP_SCHEMA:
        observation = _dumped(path, arguments)
        taken = _Taken("dump", _composed(observation, arguments), observation)
    elif schema == RECORD_SCHEMA:
        taken = _Taken("record", _record(path))
    else:
        raise UsageError(f"{printable(path)}: {quoted(schema)}: neither a dumped header nor an evidence record")
    _check(path, taken.evidence)
    return taken


def _looked_at(path: bytes, arguments: Namespace, terminal: Terminal, interruption: Interruption) -> Observation:
    line = terminal.progress_line()
    if line:
        line.begin(printable(path))
    observation = observe_artifact(InspectionOptions.of(arguments).at(path), interruption.checkpoint, progress_of(line))
    if line:
        line.clear()
    if observation.stop is not None:
        raise FileError(f"{printable(path)}: {observation.stop.message}")
    return observation


def _dumped(path: bytes, arguments: Namespace) -> Observation:
    with opened(path) as file:
        text = file.read(dump.DUMP_BYTES + 1)
    return dump.decode(text, layout=arguments.layout, name=os.fsdecode(path))


def _record(path: bytes) -> Evidence:
    with opened(path) as file:
        line, *others = record_lines(file, bundle=False)
    for problem in (line.problem, *(other.problem for other in others)):
        if problem is not None:
            raise UsageError(f"{printable(path)}: {problem}")
    if line.evidence is None:
        raise UsageError(f"{printable(path)}: no record")
    return line.evidence


def _composed(observation: Observation, arguments: Namespace) -> Evidence:
    return compose(
        observation,
        producer=InspectionOptions.of(arguments).producer,
        trigger="command",
        recorded_at=now_text(),
        severities={},
    )


def _check(path: bytes, evidence: Evidence) -> None:
    if evidence.detail == "summary":
        raise UsageError(f"{printable(path)}: a summary record has no rows to compare; take the complete one")
    if evidence.outcome in _NOT_SEEN:
        reason = "a download under way (--unfinished looks at it)" if evidence.outcome == "skipped" else "not read"
        raise FileError(f"{printable(path)}: nothing to compare: {reason}")


# -- long arrays ------------------------------------------------------------------------------------


def _needs_arrays(a: Evidence, b: Evidence) -> bool:
    """Whether long arrays have to be read: where the headers are the same, so are they."""
    digests = a.read.header_sha256, b.read.header_sha256
    return a.gguf is not None and b.gguf is not None and (None in digests or digests[0] != digests[1])


def _with_arrays(side: _Taken, interruption: Interruption) -> _Taken:
    """The side with digests of its long arrays, which only a file can still be asked for."""
    if side.source != "file" or side.observation is None:
        return side
    return replace(side, observation=array_digests(side.observation, interruption.checkpoint))


def _subject(side: _Taken) -> Subject:
    return Subject(side.evidence, side.source, {} if side.observation is None else side.observation.array_sha256)


def _with_elements(result: Difference, a: _Taken, b: _Taken, interruption: Interruption) -> Difference:
    """The comparison with the first element that differs of each long array that does."""
    ours, theirs = _arrays(a), _arrays(b)
    found = {}
    for change in result.metadata.changed:
        key = change.key, change.key_base64
        pair = ours.get(key), theirs.get(key)
        if (
            not change.array_differs
            or pair[0] is None
            or pair[1] is None
            or a.observation is None
            or b.observation is None
        ):
            continue
        found[key] = element_change(
            elements(a.observation, pair[0], interruption.checkpoint),
            elements(b.observation, pair[1], interruption.checkpoint),
        )
    return with_elements(result, found)


def _arrays(side: _Taken) -> dict[tuple[str, str | None], MetadataEntry]:
    """The long arrays by key; of equal keys the first, as the comparison pairs them."""
    header = None if side.observation is None else side.observation.header
    if not isinstance(header, GgufHeader):
        return {}
    return {exact(entry.key): entry for entry in reversed(header.metadata) if isinstance(entry.value, ArrayValue)}
