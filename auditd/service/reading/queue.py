"""The one queue of due files: bounded, each file once, the most urgent first. Pure."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from enum import IntEnum
from itertools import count

from auditd.evidence.record import Trigger
from auditd.evidence_store.artifact_state import Fingerprint


class Urgency(IntEnum):
    """What is done first."""

    #: The header of a new or changed file: milliseconds, and it tells most of what can be wrong.
    HEADER = 0
    #: The digest that somebody wants of a file whose header is known.
    DIGEST = 1
    #: A second look at what has not changed.
    RECHECK = 2


@dataclass(frozen=True, slots=True)
class Job:
    """One file to inspect: ``root`` is the index of its root in the settings, ``seen`` the state it was seen in."""

    path: bytes
    root: int
    seen: Fingerprint
    trigger: Trigger
    urgency: Urgency = Urgency.HEADER


class WorkQueue:
    """Due files. When it is full it forgets what it is offered and remembers, in :attr:`overflowed`, that it did."""

    def __init__(self, limit: int) -> None:
        self.overflowed = False
        self._limit = limit
        self._jobs: dict[bytes, tuple[int, int, Job]] = {}
        self._heap: list[tuple[int, int, bytes]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, path: bytes) -> bool:
        return path in self._jobs

    def has(self, job: Job) -> bool:
        """Whether this file is due in this state."""
        there = self._jobs.get(job.path)
        return there is not None and there[2].seen == job.seen

    def holds(self, root: int) -> bool:
        """Whether a file of this root is due; one that came to nothing and is tried again does not count."""
        return any(job.root == root and job.urgency is not Urgency.RECHECK for _, _, job in self._jobs.values())

    def put(self, job: Job) -> bool:
        """Add a file, or replace what was known of it; False if there was no room.

        It keeps its place unless it became more urgent; what is less urgent than what is known changes nothing.
        """
        there = self._jobs.get(job.path)
        if there is None and len(self._jobs) >= self._limit:
            self.overflowed = True
            return False
        if there is not None and there[0] <= job.urgency:
            if there[0] == job.urgency:
                self._jobs[job.path] = (there[0], there[1], job)
            return True
        place = (int(job.urgency), next(self._order))
        self._jobs[job.path] = (*place, job)
        heapq.heappush(self._heap, (*place, job.path))
        return True

    def take(self) -> Job | None:
        """Take out the most urgent file, among equals the one that was there first; None if there is none."""
        while self._heap:
            urgency, order, path = heapq.heappop(self._heap)
            there = self._jobs.get(path)
            if there is not None and there[:2] == (urgency, order):
                del self._jobs[path]
                return there[2]
        return None

    def has_urgent(self, urgency: Urgency) -> bool:
        """Whether a file is due that is as urgent as ``urgency``."""
        while self._heap:
            due, order, path = self._heap[0]
            there = self._jobs.get(path)
            if there is not None and there[:2] == (due, order):
                return due <= urgency
            heapq.heappop(self._heap)
        return False

    def take_urgent(self, urgency: Urgency) -> Job | None:
        """Take out the next file if it is as urgent as ``urgency``."""
        return self.take() if self.has_urgent(urgency) else None

    def discard(self, path: bytes) -> None:
        """The file is gone, or is changing again."""
        self._jobs.pop(path, None)
