"""What is asked of one inspection."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from auditd.accounting.candidates import AUTO, STRICT
from auditd.errors import UsageError
from auditd.evidence.expectation import NOTHING, Expectation
from auditd.evidence.history import Earlier
from auditd.evidence.record import Producer, Severity, Trigger
from auditd.formats.layouts import LAYOUTS
from auditd.inspection.parts import Parts

#: Called before every read, from the thread that reads; raises ``InspectionStopped`` to end the inspection.
Checkpoint: TypeAlias = Callable[[], None]

#: Called after every read with (bytes read so far, bytes that will be read if nothing stops it).
Progress: TypeAlias = Callable[[int, int], None]

#: What is said of an artifact beside its bytes: given its path, the name that it was asked for by, and its lstat. The
#: checkpoint is called while stores are read; raises nothing else.
ExpectationSource: TypeAlias = Callable[[bytes, bytes, os.stat_result, Checkpoint], Expectation]

HashMode: TypeAlias = Literal["header", "expected", "full"]


def carry_on() -> None:
    """The checkpoint of a caller that never stops."""


def unwatched(bytes_read: int, bytes_wanted: int) -> None:
    """The progress of a caller that shows none."""


def no_expectations(
    path: bytes,  # noqa: ARG001 - one signature for all
    given: bytes,  # noqa: ARG001
    status: os.stat_result,  # noqa: ARG001
    checkpoint: Checkpoint,  # noqa: ARG001
) -> Expectation:
    """The promises of a caller that asks no store."""
    return NOTHING


@dataclass(frozen=True, slots=True)
class Request:
    """One artifact and how to look at it.

    ``path`` is the path as the operating system has it (bytes): names need not be UTF-8. ``hash_mode``
    ``expected`` reads like ``header`` unless a reference digest is known. ``layout`` is ``auto``,
    ``strict`` or the name of a layout. ``severities`` overrides the severity of finding codes.
    ``bytes_per_second`` 0 means as fast as the disk gives. ``promises`` says what a store promises, ``earlier`` what
    was known of the artifact before; ``parts`` are digested beside the whole whenever all of the file is read.
    """

    path: bytes
    producer: Producer
    trigger: Trigger = "command"
    hash_mode: HashMode = "header"
    layout: str = "auto"
    unfinished: bool = False
    bytes_per_second: int = 0
    severities: Mapping[str, Severity] = field(default_factory=dict)
    expectations: ExpectationSource = no_expectations
    earlier: Earlier | None = None
    parts: Parts = "none"

    def __post_init__(self) -> None:
        """Refuse a layout that does not exist, before a file is touched; raises ``UsageError``."""
        if self.layout not in (AUTO, STRICT) and self.layout not in LAYOUTS:
            raise UsageError(f"no layout is called {self.layout!r}; there are {AUTO}, {STRICT}, {', '.join(LAYOUTS)}")
