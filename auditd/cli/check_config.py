"""``model-auditd check-config``: whether the daemon would take this configuration."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from auditd.cli.configuration import DEFAULT_PATH, load
from auditd.cli.status import Status
from auditd.cli.terminal import Terminal
from auditd.evidence.text import printable
from auditd.report.figures import counted


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", default=DEFAULT_PATH, help="(default: %(default)s)")


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Say that it is right; what is wrong is an error that says where."""
    settings = load(arguments.file)
    terminal.lines([f"{printable(arguments.file)}: right, {counted(len(settings.roots), 'root')}"])
    # No error: a mount may come later, and the daemon says that it is blind until then.
    for index, root in enumerate(settings.roots):
        if not os.path.isdir(root.path):
            terminal.say(f"note: root[{index}].path: {printable(root.path)}: there is no such directory now")
    return Status.CLEAR
