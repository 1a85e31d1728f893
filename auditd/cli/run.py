"""``model-auditd run``: the daemon, in the foreground, as systemd wants it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from auditd.cli.configuration import DEFAULT_PATH, load
from auditd.cli.terminal import Terminal


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--config", metavar="FILE", default=DEFAULT_PATH, help="the configuration (default: %(default)s)"
    )


def run(arguments: Namespace, terminal: Terminal) -> int:  # noqa: ARG001 - the signature of every command
    """Check the configuration, then hand over to the daemon, which reads it again when it is told to."""
    load(arguments.config)
    # Here and not above: trio and structlog cost what a hundred header inspections cost.
    from auditd.service import daemon  # noqa: PLC0415

    return daemon.run(partial(load, arguments.config))
