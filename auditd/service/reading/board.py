"""What the daemon is doing right now: plain values that the tasks keep up to date and the status is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from auditd.service.reading.cancellation import Watch
from auditd.service.reading.queue import Job
from auditd.service.watching.scanner import Tally

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
    #: Inspections in a thread: the last one reads, one before it is held meanwhile.
    reading: list[tuple[Job, Watch]] = field(default_factory=list)
    #: What is in hand, from its turn in the queue until it is stored.
    in_hand: list[Job] = field(default_factory=list)
    #: The watches of all threads that inspect, with the device that each reads from; those that were let go of are
    #: among them. Outlives a change of the configuration.
    threads: dict[Watch, int] = field(default_factory=dict)
    #: Reads that did not come back in time, since the start.
    abandoned: int = 0
    inspections: int = 0
    #: Inspections by outcome, since the start.
    outcomes: dict[str, int] = field(default_factory=dict)
    open_alerts: dict[tuple[str, str], int] = field(default_factory=dict)
    #: Sets by verdict.
    sets: dict[str, int] = field(default_factory=dict)
    #: Events that standard output did not take, and why the last of them was not taken.
    lost_events: int = 0
    lost_reason: str | None = None

    @property
    def current(self) -> tuple[Job, Watch] | None:
        """The inspection that reads."""
        return self.reading[-1] if self.reading else None

    @property
    def lost_devices(self) -> list[int]:
        """The device of each thread whose read has not come back and is waited for no more."""
        waited_for = {watch for _, watch in self.reading}
        return [device for watch, device in list(self.threads.items()) if watch not in waited_for]
