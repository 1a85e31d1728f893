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

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait for a ring, for at most ``timeout`` seconds; whether there was one."""
        with trio.move_on_after(float("inf") if timeout is None else max(0.0, timeout)):
            await self._event.wait()
        rung = self._event.is_set()
        if rung:
            self._event = trio.Event()
        return rung
