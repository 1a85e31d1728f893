"""Picks a command, runs it, and turns how it ended into an exit status."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any, Final

from auditd import __version__
from auditd.cli import signals
from auditd.cli.commands import COMMANDS
from auditd.cli.status import Status
from auditd.cli.terminal import PROGRAM, OutputError, Terminal
from auditd.errors import AuditError, SettingsError, UsageError
from auditd.evidence.text import printable

_DESCRIPTION: Final = "Is every byte of your model files accounted for?"
_STATUSES: Final = (
    "exit status: 0 nothing wrong; 1 findings; 2 the command line or the configuration is wrong; "
    "3 could not look, or not to the end"
)


class _Parser(ArgumentParser):
    """A parser that refuses what it does not know itself, so that the usage is that of the command that was given."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """What is known; nothing else may be left."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(map(printable, left))}")
        return found, left


def _parser(arguments: Sequence[str]) -> ArgumentParser:
    parser = _Parser(prog=PROGRAM, description=_DESCRIPTION, epilog=_STATUSES)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        below = commands.add_parser(command.name, help=command.does, description=f"{command.does}.", epilog=_STATUSES)
        # Only what can be meant is imported: most of a short command's time is imports.
        if command.name in arguments:
            module = command.load()
            module.configure(below)
            below.set_defaults(run=module.run)
    return parser


def _parsed(arguments: Sequence[str], terminal: Terminal) -> Namespace:
    try:
        return _parser(arguments).parse_args(arguments)
    except SystemExit:
        # What argparse said is still on its way.
        terminal.flush()
        raise


def _exit_status(error: AuditError) -> Status:
    return Status.USAGE if isinstance(error, UsageError | SettingsError) else Status.NOT_SEEN


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    terminal = Terminal.standard()
    try:
        chosen = _parsed(arguments, terminal)
        signals.over()
        status: int = chosen.run(chosen, terminal)
        terminal.flush()
    except OutputError as error:
        terminal.abandon()
        if not error.reader_left:
            terminal.say(str(error))
        return Status.NOT_SEEN
    except AuditError as error:
        terminal.say(str(error))
        return _exit_status(error)
    except KeyboardInterrupt:
        # Whoever read it was very likely interrupted, too.
        terminal.abandon()
        return Status.NOT_SEEN
    return status
