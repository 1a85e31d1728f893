"""``model-auditd check-config``: whether the daemon would take this configuration."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from auditd.cli.configuration import DEFAULT_PATH, examine
from auditd.cli.status import Status
from auditd.cli.terminal import Terminal
from auditd.evidence.text import printable
from auditd.report.figures import counted


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", default=DEFAULT_PATH, help="(default: %(default)s)")


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Say that it is right, or all that is wrong and where."""
    found = examine(arguments.file)
    source = printable(arguments.file)
    for mistake in found.mistakes:
        terminal.say(str(mistake))
    for key in found.without_effect:
        terminal.say(f"note: {source}: {key}: is taken, but this version does not act on it yet")
    if found.settings is None:
        return Status.USAGE
    terminal.lines([f"{source}: right, {counted(len(found.settings.roots), 'root')}"])
    # No error: a mount may come later, and the daemon says that it is blind until then.
    for index, root in enumerate(found.settings.roots):
        if not os.path.isdir(root.path):
            terminal.say(f"note: {source}: root[{index}].path: {printable(root.path)}: there is no such directory now")
    return Status.CLEAR
