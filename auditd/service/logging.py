"""What the daemon says on standard output: one JSON object a line, whatever a file is named.

Under the journal (``JOURNAL_STREAM`` is set) every line begins with ``<N>``, its priority. Text from outside gets in
through :func:`path_fields` or as JSON text with everything that a terminal would act upon escaped; a line has at most
16 KiB, so that no collector splits or drops it.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, Protocol, TextIO

import structlog

from auditd.evidence.text import harmless_json, printable

#: Fluent Bit stops following a file at 32 KiB, journald splits at 48: half of the smaller.
LINE_BYTES: Final = 16 * 1024

#: A path of PATH_MAX bytes fits as base64; its printable form is cut.
_SHOWN_CHARACTERS: Final = 1_000

#: syslog's priorities of structlog's level names.
_PRIORITIES: Final[Mapping[str, int]] = {"critical": 2, "error": 3, "warning": 4, "notice": 5, "info": 6, "debug": 7}


class Events(Protocol):
    """Where events go: the part of a structlog logger that is used here."""

    def info(self, event: str, **fields: Any) -> Any:
        """Something happened as it should."""

    def warning(self, event: str, **fields: Any) -> Any:
        """Something that a person may have to look at."""

    def error(self, event: str, **fields: Any) -> Any:
        """Something that keeps the daemon from its work."""


def path_fields(path: bytes, name: str = "path") -> dict[str, str]:
    """``path`` for an event: printable, and in base64 as well when that is not the exact path."""
    shown = printable(path, _SHOWN_CHARACTERS)
    fields = {name: shown}
    if shown.encode("utf-8", "surrogateescape") != path:
        fields[f"{name}_base64"] = base64.b64encode(path).decode("ascii")
    return fields


#: What a person looks for stands in front.
_FIRST: Final = ("event", "level", "timestamp")


def render(fields: Mapping[str, Any]) -> str:
    """One line of ASCII JSON of at most :data:`LINE_BYTES`; what makes it longer is cut, longest text first."""
    kept = {name: fields[name] for name in _FIRST if name in fields} | dict(fields)
    line = _encode(kept)
    while len(line) > LINE_BYTES:
        longest = max(kept, key=lambda name: len(_encode({name: kept[name]})))
        kept[longest] = printable(str(kept[longest]), 100) if isinstance(kept[longest], str) else None
        kept["cut"] = True
        line = _encode(kept)
    return line


def _encode(fields: Mapping[str, Any]) -> str:
    return harmless_json(json.dumps(fields, default=repr).encode("ascii")).decode("ascii")


def _with_priority(_: Any, __: str, fields: MutableMapping[str, Any]) -> str:
    return f"<{_PRIORITIES.get(fields.get('level', ''), 6)}>{render(fields)}"


def _plain(_: Any, __: str, fields: MutableMapping[str, Any]) -> str:
    return render(fields)


class _Standard:
    """Standard output without a buffer: what it did not take must not come back at the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._torn = False

    def write(self, text: str) -> None:
        """Write all of it. After an error the next line begins on a new one."""
        rest = memoryview(("\n" * self._torn + text).encode("ascii"))
        self._torn = False
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
                self._torn = bool(rest)
        except BlockingIOError:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from None

    def flush(self) -> None:
        """Nothing is held back."""


class _Stream(Protocol):
    def write(self, text: str, /) -> Any: ...

    def flush(self) -> Any: ...


def _standard_output() -> _Stream:
    try:
        return _Standard(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return sys.stdout


class Output:
    """Where event lines go. A reader that went away, or a disk that is full, is no reason to stop auditing.

    ``lost`` counts the lines that were not taken; ``reason`` is why the last of them was not.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.lost = 0
        self.reason: str | None = None
        self._stream: _Stream = stream or _standard_output()

    def msg(self, line: str) -> None:
        """Write one line, or count it."""
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError) as error:
            self.lost += 1
            self.reason = (error.strerror if isinstance(error, OSError) else None) or type(error).__name__

    info = warning = error = critical = debug = msg


def open_events(output: TextIO | Output | None = None, environment: Mapping[str, str] = os.environ) -> Events:
    """The event log on ``output`` (standard output)."""
    logger: Events = structlog.wrap_logger(
        output if isinstance(output, Output) else Output(output),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _with_priority if "JOURNAL_STREAM" in environment else _plain,
        ],
        wrapper_class=structlog.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return logger
