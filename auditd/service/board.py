"""What the daemon is doing right now: plain values that the tasks keep up to date and the status is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from auditd.service.cancellation import Watch
from auditd.service.queue import Job
from auditd.service.scanner import Tally

RootState: TypeAlias = Literal["starting", "events", "poll", "blind"]


@dataclass(slots=True)
class RootBoard:
    """One root. Times are wall-clock seconds; ``pass_at`` is when a scan last saw all of it."""

    path: bytes
    state: RootState = "starting"
    reason: str | None = None
    scanned_at: float | None = None
    pass_at: float | None = None
    overdue: bool = False
    tally: Tally = field(default_factory=Tally)


@dataclass(slots=True)
class Board:
    """The whole daemon. Written and read in the loop's thread only, the watch of an inspection apart."""

    started_at: float
    roots: list[RootBoard]
    ready: bool = False
    state: Literal["starting", "running", "stopping", "stopped"] = "starting"
    #: What the inspecting thread is at, and what it brought back and is being stored.
    current: tuple[Job, Watch] | None = None
    keeping: Job | None = None
    inspections: int = 0
    #: Inspections by outcome, since the start.
    outcomes: dict[str, int] = field(default_factory=dict)
    open_alerts: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Events that standard output did not take, and why the last of them was not taken.
    lost_events: int = 0
    lost_reason: str | None = None
