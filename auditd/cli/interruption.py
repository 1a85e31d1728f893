"""SIGINT and SIGTERM end an inspection at its next chunk, and what it knows by then is still printed."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

from auditd.errors import InspectionStopped

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """A context in which the first signal is remembered; a second one ends the process as usual.

    ``checkpoint`` is for inspections and walks: it raises ``InspectionStopped`` once a signal has come.
    """

    def __init__(self) -> None:
        self._received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def happened(self) -> bool:
        """Whether a signal has come."""
        return self._received is not None

    def checkpoint(self) -> None:
        """Raise if a signal has come."""
        if self._received is not None:
            raise InspectionStopped(f"stopped by {self._received.name}")

    def _remember(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of handlers
        self._received = signal.Signals(number)
        # A disk that does not answer never comes to its next chunk: whoever asks twice is obeyed.
        for name in _SIGNALS:
            signal.signal(name, signal.SIG_DFL)

    def __enter__(self) -> Self:
        self._before = {name: signal.signal(name, self._remember) for name in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)
