"""``model-auditd inspect FILE``: one artifact, for a person or as one line of JSON."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

import msgspec

from auditd.cli.interruption import Interruption
from auditd.cli.options import Observation, add_inspection_options, add_json, also_not_seen, detailed, located
from auditd.cli.output_file import refusal, write
from auditd.cli.status import Status, status_of, worst
from auditd.cli.terminal import Terminal, progress_of
from auditd.errors import UsageError
from auditd.evidence.canonical import encode
from auditd.evidence.record import Evidence
from auditd.evidence.summary import summary as short_record
from auditd.evidence.text import printable
from auditd.evidence.view import ViewError, parse_request, view
from auditd.inspection.inspector import inspect
from auditd.report.declarations import declarations
from auditd.report.summary import short_head, summary
from auditd.report.view_page import view_page


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "file", metavar="FILE", type=os.fsencode, help="a path, ollama:NAME[:TAG], or hf:ORG/NAME[@REV]/FILE"
    )
    add_inspection_options(parser, default_hash="header")
    add_json(parser, "the evidence as one line of JSON")
    parser.add_argument(
        "--view",
        metavar="JSON",
        help="show one page of rows instead of the whole record, such as "
        """'{"collection": "tensors", "names": ["output.weight"], "fields": ["shape"]}'; summary detail only""",
    )
    parser.add_argument(
        "--evidence-output", metavar="FILE", type=os.fsencode, help="also write the complete evidence into this file"
    )
    also_not_seen(parser, "whoever reads standard output leaves before its end, or --evidence-output cannot be written")


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Inspect, write, show."""
    path = located(arguments.file)
    output = arguments.evidence_output
    if arguments.view is not None:
        _check_view(arguments)
    if output is not None:
        refused = refusal(output, path)
        if refused:
            raise UsageError(f"--evidence-output {printable(output)}: {refused}")
    line = terminal.progress_line()
    if line:
        line.begin(printable(path))
    with Interruption() as interruption:
        evidence = inspect(Observation.of(arguments).at(path), interruption.checkpoint, progress_of(line))
    if line:
        line.clear()
    status = status_of(evidence)
    if output is not None:
        status = worst((status, _write(output, evidence, terminal)))
    if arguments.view is not None:
        return worst((status, _show_page(evidence, arguments, terminal)))
    if arguments.json:
        terminal.record(detailed(evidence, arguments.detail))
    else:
        terminal.lines(summary(evidence, terminal.columns, terminal.style))
        if arguments.detail == "complete":
            terminal.lines(declarations(evidence))
    return status


def _check_view(arguments: Namespace) -> None:
    """Refuse a view that cannot be meant before the file is opened."""
    if arguments.detail == "complete":
        raise UsageError("inspect: --view shows selected rows, --detail complete shows all of them; take one")
    try:
        parse_request(arguments.view)
    except ViewError as error:
        raise UsageError(f"inspect: --{error}") from None


def _show_page(evidence: Evidence, arguments: Namespace, terminal: Terminal) -> Status:
    """The page: in JSON with the summary of the record that it is taken from, for a person with its verdict."""
    try:
        page = view(evidence, arguments.view)
    except ViewError as error:
        if arguments.json:
            terminal.record(short_record(evidence))
        terminal.say(f"inspect: {error}")
        return Status.USAGE if evidence.gguf or evidence.safetensors else Status.CLEAR
    if arguments.json:
        terminal.json({"evidence": msgspec.to_builtins(short_record(evidence)), "view": page})
    else:
        terminal.lines([*short_head(evidence, terminal.columns, terminal.style), "", *view_page(page)])
    return Status.CLEAR


def _write(output: bytes, evidence: Evidence, terminal: Terminal) -> Status:
    try:
        write(output, (encode(evidence), b"\n"))
    except OSError as error:
        terminal.say(f"{printable(output)}: the evidence cannot be written: {error.strerror}")
        return Status.NOT_SEEN
    return Status.CLEAR
