"""What one kind of ``show`` is: its arguments, how its sheet is made and shown, and what is done in the end."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgspec

from auditd.cli.status import Status
from auditd.cli.terminal import Terminal
from auditd.evidence.observation import Observation
from auditd.inspection.request import Checkpoint
from auditd.report.show.not_found import Part


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: what was seen, the command line, the streams, and what ends a reading early."""

    observation: Observation
    arguments: Namespace
    terminal: Terminal
    checkpoint: Checkpoint


def _nothing(parser: ArgumentParser) -> None:
    """A kind without arguments of its own."""


def _anything(arguments: Namespace) -> None:
    """A kind whose arguments always go together."""


def _no_more(module: Any, asked: Asked) -> Iterator[str]:  # noqa: ARG001 - one signature for all
    """A kind whose lines are all made of its sheet."""
    return iter(())


def _done(asked: Asked, sheet: msgspec.Struct) -> Status:  # noqa: ARG001 - one signature for all
    """A kind that writes nothing beside its sheet."""
    return Status.CLEAR


def _plain(module: Any, asked: Asked) -> msgspec.Struct:
    sheet: msgspec.Struct = module.sheet(asked.observation)
    return sheet


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. ``from_dump`` says whether a dumped header suffices.

    ``more`` are lines behind those of the sheet that are too many to be kept in one. ``check`` refuses a command line
    before anything is opened, ``finish`` does what is to be done in the end. What a kind looks for may not have been
    come to: ``heading`` (with the arguments) is what it is called then, ``part`` where in the header it would be.
    """

    name: str
    does: str
    module: str
    configure: Callable[[ArgumentParser], None] = _nothing
    make: Callable[[Any, Asked], msgspec.Struct] = _plain
    more: Callable[[Any, Asked], Iterator[str]] = _no_more
    check: Callable[[Namespace], None] = _anything
    finish: Callable[[Asked, msgspec.Struct], Status] = _done
    from_dump: bool = True
    heading: str = ""
    part: Part = "tensors"

    def sheet(self, asked: Asked) -> msgspec.Struct:
        """The sheet. Raises ``UsageError`` for what is not there."""
        return self.make(self._load(), asked)

    def lines(self, asked: Asked, sheet: msgspec.Struct, columns: int) -> Iterator[str]:
        """The sheet for a terminal of so many columns, and what stands behind it."""
        module = self._load()
        yield from module.lines(sheet, columns, asked.terminal.style)
        yield from self.more(module, asked)

    def _load(self) -> Any:
        """The module: what else than ``sheet`` and ``lines`` it has is between it and the kind's row below."""
        return import_module(f"auditd.report.show.{self.module}")
