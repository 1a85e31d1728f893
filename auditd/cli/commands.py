"""The commands, in the order in which help lists them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast

from auditd.cli.terminal import Terminal


class CommandModule(Protocol):
    """What the module of a command has."""

    def configure(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, arguments: Namespace, terminal: Terminal) -> int:
        """Do it and return the exit status. Raises ``AuditError``."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command; its module is imported only when it is asked for."""

    name: str
    does: str
    module: str

    def load(self) -> CommandModule:
        """The module."""
        return cast("CommandModule", import_module(self.module))


COMMANDS: Final[tuple[Command, ...]] = (
    Command("inspect", "look at one file", "auditd.cli.inspect"),
    Command("audit", "look at many files and trees", "auditd.cli.audit"),
    Command("show", "read a model: its head, metadata, tensors, bytes", "auditd.cli.show"),
    Command("dump", "write a header as JSON, or compare a dumped one with a file", "auditd.cli.dump"),
    Command("diff", "compare two models, dumped headers or records", "auditd.cli.diff"),
    Command("sketch", "write the small known file and read it back", "auditd.cli.sketch"),
    Command("run", "watch model directories: the daemon", "auditd.cli.run"),
    Command("evidence", "the records that are kept: find, show, check, hand on", "auditd.cli.evidence"),
    Command("check-config", "check a configuration", "auditd.cli.check_config"),
)
