"""When a file that changed has stood still for long enough. Pure: clocks are given.

Two clocks: ``now`` is monotonic and counts the waiting; ``wall`` is the clock that file times are in, and is asked
only at first sight, because a file server's clock may be wrong by hours.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from auditd.evidence_store.artifact_state import Fingerprint
from auditd.service.reading.queue import Job, Urgency

_NANOSECONDS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    job: Job
    due_at: float


def first_wait(seen: Fingerprint, wall: float, settle_seconds: float) -> float:
    """Seconds to wait at first sight: the file's age counts, and a time in the future says nothing."""
    past = [ns / _NANOSECONDS for ns in (seen.mtime_ns, seen.ctime_ns) if ns / _NANOSECONDS <= wall]
    age = wall - max(past) if past else 0.0
    return max(0.0, settle_seconds - age)


class Settler:
    """Files that are waiting to stand still, or for another try; at most ``limit`` of them.

    When it is full it forgets what it is offered and remembers, in :attr:`overflowed`, that it did.
    """

    def __init__(self, settle_seconds: float, limit: int) -> None:
        self.settle_seconds = settle_seconds
        self.overflowed = False
        self._limit = limit
        self._waiting: dict[bytes, _Waiting] = {}
        self._heap: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether another file can wait."""
        return len(self._waiting) < self._limit

    def __contains__(self, path: bytes) -> bool:
        return path in self._waiting

    def holds(self, root: int) -> bool:
        """Whether a file of this root waits to stand still; one that came to nothing and is tried again does not count."""
        return any(
            waiting.job.root == root and waiting.job.urgency is not Urgency.RECHECK
            for waiting in self._waiting.values()
        )

    def observe(self, job: Job, now: float, wall: float) -> None:
        """A file was seen. Seen again unchanged it goes on waiting; changed, it waits from now on."""
        waiting = self._waiting.get(job.path)
        if waiting is None:
            self._put(job, now + first_wait(job.seen, wall, self.settle_seconds))
        elif waiting.job.seen != job.seen:
            self._put(job, now + self.settle_seconds)

    def unsettled(self, job: Job, now: float) -> None:
        """A due file had changed when it was taken up: its age is not to be trusted, it waits from now on."""
        self._put(job, now + self.settle_seconds)

    def later(self, job: Job, due_at: float) -> None:
        """Try again at ``due_at`` (monotonic), or earlier if the file changes."""
        waiting = self._waiting.get(job.path)
        if waiting is None and 2 * len(self._waiting) >= self._limit:
            # The next scan after that time finds it. Files that cannot be read must not keep out those that can.
            return
        if waiting is None or waiting.job.seen == job.seen:
            self._put(job, due_at)

    def discard(self, path: bytes) -> None:
        """The file is gone."""
        self._waiting.pop(path, None)

    def due(self, now: float) -> Iterator[Job]:
        """Take out the files that have stood still, the longest waiting first."""
        while self._heap and self._heap[0][0] <= now:
            due_at, path = heapq.heappop(self._heap)
            if self._is_current(due_at, path):
                yield self._waiting.pop(path).job

    def next_due(self) -> float | None:
        """When the next file is due, in the clock of ``now``; None if none is waiting."""
        while self._heap and not self._is_current(*self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_current(self, due_at: float, path: bytes) -> bool:
        """A file that moved leaves its earlier places in the heap behind."""
        waiting = self._waiting.get(path)
        return waiting is not None and waiting.due_at == due_at

    def _put(self, job: Job, due_at: float) -> None:
        if job.path not in self._waiting and not self.has_room:
            self.overflowed = True
            return
        self._waiting[job.path] = _Waiting(job, due_at)
        heapq.heappush(self._heap, (due_at, job.path))
        if len(self._heap) > 2 * len(self._waiting) + 64:
            # A file that changes all the time would fill the heap with places that it has left.
            self._heap = [(waiting.due_at, path) for path, waiting in self._waiting.items()]
            heapq.heapify(self._heap)
