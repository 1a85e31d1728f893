"""``model-auditd run``: the daemon, in the foreground, as systemd wants it."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from auditd.cli import signals
from auditd.cli.configuration import DEFAULT_PATH, load
from auditd.cli.terminal import Terminal
from auditd.settings import Settings


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--config", metavar="FILE", default=DEFAULT_PATH, help="the configuration (default: %(default)s)"
    )


def run(arguments: Namespace, terminal: Terminal) -> int:  # noqa: ARG001 - the signature of every command
    """Check the configuration, then hand over to the daemon, which reads it again when it is told to."""
    checked = [load(arguments.config)]
    if sys.stdout is None:  # closed: there is a log and a store, nobody wants the events
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    # Here and not above: trio and structlog cost what a hundred header inspections cost.
    from auditd.service import daemon  # noqa: PLC0415

    def settings() -> Settings:
        return checked.pop() if checked else load(arguments.config)

    signals.hand_over()
    return daemon.run(settings)
