"""sd_notify over trio: datagrams to the socket that ``NOTIFY_SOCKET`` names, sent without ever blocking the loop.

The protocol is one datagram of ``NAME=value`` lines (sd_notify(3)). A full queue is waited for cancellably; without
the variable every message goes nowhere.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

import trio

_MICROSECONDS: Final = 1_000_000


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often systemd wants to hear from us at least; None if it does not, or means another process."""
    try:
        interval = int(environment["WATCHDOG_USEC"])
        meant = int(environment.get("WATCHDOG_PID") or os.getpid())
    except (KeyError, ValueError):
        return None
    return interval / _MICROSECONDS if interval > 0 and meant == os.getpid() else None


def _address(name: str) -> str | None:
    """The socket's address: a path, or ``@name`` in the abstract name space, where the first byte is NUL."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else None


class Notifier:
    """Tells the service manager how we are."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self._socket: trio.socket.SocketType | None = None
        self._status = ""

    async def send(self, *assignments: str) -> None:
        """Send one datagram; a manager that is not there is none of our faults."""
        if self._address is None:
            return
        if self._socket is None:
            self._socket = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_DGRAM)
        try:
            await self._socket.sendto("\n".join(assignments).encode("utf-8", "replace"), self._address)
        except OSError:
            await trio.lowlevel.checkpoint()

    async def ready(self) -> None:
        """Every root was armed and scanned once, or declared blind; or a reload is done."""
        await self.send("READY=1")

    async def status(self, text: str) -> None:
        """One line on what is being done; said again only when it changes."""
        if text != self._status:
            self._status = text
            await self.send(f"STATUS={text}")

    async def alive(self) -> None:
        """Feed the watchdog."""
        await self.send("WATCHDOG=1")

    async def more_time(self, seconds: float) -> None:
        """Starting or stopping takes up to ``seconds`` more from now."""
        await self.send(f"EXTEND_TIMEOUT_USEC={int(seconds * _MICROSECONDS)}")

    async def reloading(self) -> None:
        """The configuration is being read again."""
        await self.send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    async def stopping(self) -> None:
        """The end has begun."""
        await self.send("STOPPING=1")

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
