"""A byte rate for reading: sleeping between chunks, never longer than a stop may wait.

Only the rate is held here. How the reading yields to others on the same disk and processor is for the service manager to
say (``IOSchedulingClass=idle`` and ``Nice=`` in the unit): a class counts only where the disk's scheduler knows classes,
and who starts the program by hand has ``ionice`` and ``nice``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Longest sleep without a checkpoint.
_SLEEP_SECONDS: Final = 0.05
#: Smaller pieces than these make no smoother reading, only more calls.
_LEAST_PIECE_BYTES: Final = 64 * 1024
#: A chunk takes no more of the rate than this, so that progress is seen and the disk is taken in small portions.
_PIECE_SECONDS: Final = 0.5


class Pace:
    """Holds reading to ``bytes_per_second``; 0 is no limit.

    In any span of time no more is read than the rate allows for it and the two chunks at its ends: time in which nothing
    was read, because something more urgent was or the disk was slow, is not made up for.
    """

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
        #: When the bytes that were read so far are paid for, on ``clock``.
        self._due = clock()

    def piece(self, most: int) -> int:
        """How many bytes to read at once, at most ``most``."""
        if not self._rate:
            return most
        return min(most, max(_LEAST_PIECE_BYTES, int(self._rate * _PIECE_SECONDS)))

    def after(self, count: int) -> None:
        """Account for ``count`` bytes, which have just been read, and wait until they are due.

        Raises what the checkpoint raises, which is called between short sleeps.
        """
        if not self._rate:
            return
        self._due = max(self._due + count / self._rate, self._clock())
        while (left := self._due - self._clock()) > 0:
            self._checkpoint()
            self._sleep(min(left, _SLEEP_SECONDS))
