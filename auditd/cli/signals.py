"""Signals that come while a command is still being imported. Imports nothing that takes time."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Final

#: What the daemon listens to.
_DAEMON_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NOT_SEEN: Final = 3


class _Memory:
    """Signals that came for the daemon before it listens. One that asks twice to end is obeyed."""

    def __init__(self) -> None:
        self._received: list[int] = []

    def begin(self) -> None:
        self._received.clear()
        for number in _DAEMON_SIGNALS:
            signal.signal(number, self._remember)

    def _remember(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of handlers
        if number in self._received and number != signal.SIGHUP:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self._received.append(number)

    def hand_over(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _DAEMON_SIGNALS)
        for number in set(self._received):
            signal.raise_signal(number)
        self._received.clear()


_memory: Final = _Memory()


def guard(arguments: Sequence[str]) -> None:
    """Have the first moments end well: the daemon's signals are remembered, Ctrl-C ends all else without a word."""
    if arguments[:1] == ["run"]:
        _memory.begin()
    # A shell's background jobs ignore SIGINT, and go on doing so.
    elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of handlers
    """Nothing has been begun; an exception might come out of an import as another one."""
    os._exit(_NOT_SEEN)


def over() -> None:
    """Ctrl-C is ``KeyboardInterrupt`` again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def hand_over() -> None:
    """Leave what came, and what comes from now on, pending for the daemon, which unblocks its signals once it listens."""
    _memory.hand_over()
