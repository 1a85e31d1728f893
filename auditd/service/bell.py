"""A doorbell between tasks of one loop: any number of rings before somebody listens count as one."""

from __future__ import annotations

import trio


class Bell:
    """Ring from the loop's thread; one task waits."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def ring(self) -> None:
        """Wake whoever waits, now or next."""
        self._event.set()

    async def wait(self, at_most_seconds: float = float("inf")) -> bool:
        """Wait for a ring, or until the time is over; whether there was one."""
        with trio.move_on_after(max(0.0, at_most_seconds)):
            await self._event.wait()
        rung = self._event.is_set()
        if rung:
            self._event = trio.Event()
        return rung
