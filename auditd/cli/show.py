"""``model-auditd show KIND FILE``: a person reads a model, from the file or from a dumped header."""

from __future__ import annotations

import os
from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from auditd.cli.interruption import Interruption
from auditd.cli.options import add_reading, also_not_seen, located
from auditd.cli.show_kind import Asked, Kind
from auditd.cli.show_kinds import KINDS
from auditd.cli.show_source import dumped_observation, observation_of, status_of_observation
from auditd.cli.status import Status, worst
from auditd.cli.terminal import Terminal
from auditd.errors import InspectionStopped, UsageError
from auditd.report.show import not_found
from auditd.report.show.outcome import ending

#: How wide lines are where nobody says how wide the paper is.
_COLUMNS = 80


class _InPlaceOfFile(Action):
    """``--from DUMP``: FILE need not be given then."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, file: Action, **options: Any) -> None:
        super().__init__(option_strings, dest, **options)
        self._file = file

    def __call__(
        self,
        parser: ArgumentParser,  # noqa: ARG002 - the signature of actions
        namespace: Namespace,
        values: object,
        option: str | None = None,  # noqa: ARG002
    ) -> None:
        """Keep the path, and let FILE be missing."""
        setattr(namespace, self.dest, values)
        self._file.required = False


class _NeedsFile(Action):
    """``--from DUMP`` where a dump does not suffice: the end of the command, with the reason."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,  # noqa: ARG002 - the signature of actions
        values: object,  # noqa: ARG002
        option: str | None = None,  # noqa: ARG002
    ) -> None:
        """Refuse."""
        parser.error("--from: a dumped header has no weights, so no numbers; give FILE")


def configure(parser: ArgumentParser) -> None:
    """Declare the kinds and their arguments."""
    parser.description = (
        "Read a model: what its header says, and where every byte belongs. Nothing is loaded; from a dumped header "
        "(--from) not even the file is opened."
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for kind in KINDS.values():
        below = kinds.add_parser(kind.name, help=kind.does, description=f"{kind.does}.", epilog=parser.epilog)
        kind.configure(below)
        _add_common(below, kind)


def _add_common(parser: ArgumentParser, kind: Kind) -> None:
    # Required, so that options may stand between the positional arguments; --from takes that back.
    file = parser.add_argument(
        "file", metavar="FILE", type=os.fsencode, help="the model: a path, ollama:NAME[:TAG], or hf:ORG/NAME[@REV]/FILE"
    )
    if kind.from_dump:
        parser.add_argument(
            "--from",
            dest="dump",
            metavar="DUMP",
            type=os.fsencode,
            action=_InPlaceOfFile,
            file=file,
            help="a header that dump wrote, in place of FILE; - is standard input",
        )
    else:
        parser.add_argument("--from", action=_NeedsFile, help=SUPPRESS)
    parser.set_defaults(dump=None)
    add_reading(parser)
    parser.add_argument("--json", action="store_true", help="print the sheet as one line of JSON and nothing else")
    also_not_seen(parser, "whoever reads standard output leaves before its end")


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Look, compute the sheet, show it."""
    if arguments.file is not None and arguments.dump is not None:
        raise UsageError(f"show {arguments.kind}: give FILE or --from DUMP, not both")
    if arguments.file is not None:
        arguments.file = located(arguments.file)
    kind = KINDS[arguments.kind]
    kind.check(arguments)
    # A dump may come through a pipe: whoever waits for one ends it at the first signal, and nothing is lost.
    dumped = None if arguments.dump is None else dumped_observation(arguments.dump, arguments.layout)
    with Interruption() as interruption:
        observation = dumped or observation_of(arguments, terminal, interruption)
        asked = Asked(observation, arguments, terminal, interruption.checkpoint)
        try:
            shown = kind.sheet(asked)
        except UsageError as error:
            return worst((status_of_observation(observation), _unshown(asked, kind, error)))
        except InspectionStopped as stopped:
            terminal.say(f"show {kind.name}: {stopped.reason} before the sheet was made")
            return Status.NOT_SEEN
    if arguments.json:
        terminal.json(shown)
    else:
        terminal.lines(kind.lines(asked, shown, terminal.columns or _COLUMNS))
    return worst((status_of_observation(observation), kind.finish(asked, shown)))


def _unshown(asked: Asked, kind: Kind, error: UsageError) -> Status:
    """What is asked for is not there. If the reading ended early it may only not have been come to: then that is said."""
    end = ending(asked.observation)
    if end is None or not end.stopped:
        raise error
    words = kind.heading.format(**vars(asked.arguments))
    shown = not_found.sheet(asked.observation, kind.name, words, kind.part, str(error), end)
    if asked.arguments.json:
        asked.terminal.json(shown)
    else:
        asked.terminal.lines(not_found.lines(shown, asked.terminal.columns or _COLUMNS, asked.terminal.style))
    return Status.CLEAR
