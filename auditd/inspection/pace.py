"""A byte rate for reading: sleeping between chunks, never longer than a stop may wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Longest sleep without a checkpoint.
_SLEEP_SECONDS: Final = 0.05


class Pace:
    """Holds reading to ``bytes_per_second`` on average since the start; 0 is no limit."""

    def __init__(
        self,
        bytes_per_second: int,
        checkpoint: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._checkpoint = checkpoint
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._read = 0

    def after(self, count: int) -> None:
        """Account for ``count`` bytes and wait until they are due."""
        if not self._rate:
            return
        self._read += count
        due = self._began + self._read / self._rate
        while (left := due - self._clock()) > 0:
            self._checkpoint()
            self._sleep(min(left, _SLEEP_SECONDS))
