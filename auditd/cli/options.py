"""Options that several commands share, and the request that they make."""

from __future__ import annotations

import os
import sys
from argparse import Action, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from auditd import __version__
from auditd.choices import HASH_CHOICES, LAYOUT_CHOICES, PARTS_CHOICES, choices_digest
from auditd.cli.terminal import PROGRAM
from auditd.evidence.record import Evidence, Producer
from auditd.evidence.summary import summary
from auditd.evidence.text import quoted
from auditd.inspection.expectations import expectations_of
from auditd.inspection.parts import Parts
from auditd.inspection.request import ExpectationSource, HashMode, Request
from auditd.model_stores.homes import Homes
from auditd.model_stores.locate import is_reference, locate
from auditd.model_stores.stores import ModelStores

Detail: TypeAlias = Literal["summary", "complete"]

#: What asks for the names of the layouts instead of naming one.
_LISTS: Final = ("help", "list")

#: How many layouts an answer to an unknown one names.
_FIRST_LAYOUTS: Final = 5


def add_inspection_options(parser: ArgumentParser, default_hash: HashMode) -> None:
    """How files are looked at."""
    parser.add_argument(
        "--hash",
        choices=HASH_CHOICES,
        default=default_hash,
        help="how much is read: the header; all of it where a published digest is known; all of it (default: %(default)s)",
    )
    parser.add_argument(
        "--digests",
        choices=PARTS_CHOICES,
        default="none",
        help="also digest the tensor data as a whole, or each tensor, whenever all of a file is read (default: %(default)s)",
    )
    _add_layout(parser)


def add_reading(parser: ArgumentParser) -> None:
    """How headers are taken, for commands that read nothing else."""
    parser.set_defaults(hash="header", digests="none")
    _add_layout(parser)


def _add_layout(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--layout",
        type=_layout,
        action=_Layout,
        default="auto",
        metavar="NAME",
        help="the table of tensor sizes that is believed: auto lets the bytes decide, strict believes none, any other "
        "name is taken at its word; help lists them all (default: %(default)s)",
    )
    parser.add_argument("--unfinished", action="store_true", help="also look at downloads that are not finished")


def _layout(name: str) -> str:
    if name not in LAYOUT_CHOICES and name not in _LISTS:
        first = ", ".join(LAYOUT_CHOICES[:_FIRST_LAYOUTS])
        more = len(LAYOUT_CHOICES) - _FIRST_LAYOUTS
        raise ArgumentTypeError(
            f"no layout {quoted(name, 40)}; there are {first} and {more} more, which --layout help lists"
        )
    return name


class _Layout(Action):
    """Takes a layout; ``help`` prints the names, one a line, and is the end of the command."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002 - the signature of actions
    ) -> None:
        if values in _LISTS:
            sys.stdout.writelines(f"{name}\n" for name in LAYOUT_CHOICES)
            parser.exit()
        setattr(namespace, self.dest, values)


def also_not_seen(parser: ArgumentParser, when: str) -> None:
    """Say in the help when else the exit status is 3."""
    parser.epilog = f"{parser.epilog or ''}; also 3: {when}"


def add_json(parser: ArgumentParser, what: str) -> None:
    """How results are shown."""
    parser.add_argument("--json", action="store_true", help=f"print {what} and nothing else")
    parser.add_argument("--detail", choices=("summary", "complete"), help="how much of a record is shown")


@dataclass(frozen=True, slots=True)
class Observation:
    """How a command looks at each of its files."""

    producer: Producer
    hash_mode: HashMode
    layout: str
    unfinished: bool
    parts: Parts
    expectations: ExpectationSource

    @classmethod
    def of(cls, arguments: Namespace) -> Observation:
        """The options of :func:`add_inspection_options`."""
        producer = Producer(
            name=PROGRAM,
            version=__version__,
            host=os.uname().nodename,
            configuration=choices_digest(arguments.hash, arguments.layout, arguments.digests),
        )
        parts, expectations = arguments.digests, expectations_of(ModelStores())
        return cls(producer, arguments.hash, arguments.layout, arguments.unfinished, parts, expectations)

    def at(self, path: bytes) -> Request:
        """The request for one file."""
        return Request(
            path,
            self.producer,
            hash_mode=self.hash_mode,
            layout=self.layout,
            unfinished=self.unfinished,
            parts=self.parts,
            expectations=self.expectations,
        )


def located(given: bytes) -> bytes:
    """The path that ``given`` is, or that it names in a store; a file that is really called so is that file."""
    text = os.fsdecode(given)
    if not is_reference(text) or os.path.lexists(given):
        return given
    return locate(text, Homes.of(os.environ))


def detailed(evidence: Evidence, detail: Detail | None) -> Evidence:
    """The record as JSON shows it: complete unless a summary was asked for."""
    return summary(evidence) if detail == "summary" else evidence
