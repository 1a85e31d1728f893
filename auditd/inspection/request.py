"""What is asked of one inspection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from auditd.accounting.candidates import AUTO, STRICT
from auditd.errors import UsageError
from auditd.evidence.record import Producer, Severity, Trigger
from auditd.formats.layouts import LAYOUTS

#: Called before every read, from the thread that reads; raises ``InspectionStopped`` to end the inspection.
Checkpoint: TypeAlias = Callable[[], None]

#: Called after every read with (bytes read so far, bytes that will be read if nothing stops it).
Progress: TypeAlias = Callable[[int, int], None]

HashMode: TypeAlias = Literal["header", "expected", "full"]


def carry_on() -> None:
    """The checkpoint of a caller that never stops."""


def unwatched(bytes_read: int, bytes_wanted: int) -> None:
    """The progress of a caller that shows none."""


@dataclass(frozen=True, slots=True)
class Request:
    """One artifact and how to look at it.

    ``path`` is the path as the operating system has it (bytes): names need not be UTF-8. ``hash_mode``
    ``expected`` reads like ``header`` unless a reference digest is known. ``layout`` is ``auto``,
    ``strict`` or the name of a layout. ``severities`` overrides the severity of finding codes.
    ``bytes_per_second`` 0 means as fast as the disk gives.
    """

    path: bytes
    producer: Producer
    trigger: Trigger = "command"
    hash_mode: HashMode = "header"
    layout: str = "auto"
    unfinished: bool = False
    bytes_per_second: int = 0
    severities: Mapping[str, Severity] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a layout that does not exist, before a file is touched; raises ``UsageError``."""
        if self.layout not in (AUTO, STRICT) and self.layout not in LAYOUTS:
            raise UsageError(f"no layout is called {self.layout!r}; there are {AUTO}, {STRICT}, {', '.join(LAYOUTS)}")
