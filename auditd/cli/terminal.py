"""Where output goes: records and reports to standard output, everything else to standard error."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Final, TextIO

import msgspec

from auditd.errors import AuditError
from auditd.evidence.canonical import encode
from auditd.evidence.record import Evidence
from auditd.evidence.text import harmless_json
from auditd.inspection.request import Progress, unwatched
from auditd.report.paint import Paint, coloured, plain
from auditd.report.progress import ProgressLine

PROGRAM: Final = "model-auditd"
_FALLBACK_COLUMNS: Final = 80
#: Narrower than this no table can be read; cut lines are better than none.
_LEAST_COLUMNS: Final = 40


class OutputError(AuditError):
    """Standard output takes no more; ``reader_left`` if only because whoever read it has enough."""

    def __init__(self, cause: OSError) -> None:
        self.reader_left = isinstance(cause, BrokenPipeError)
        super().__init__(f"standard output cannot be written: {cause.strerror}")


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error) from None


@dataclass(frozen=True, slots=True)
class Terminal:
    """The two streams of a command. ``out`` must be a text stream over bytes, as ``sys.stdout`` is."""

    out: TextIO
    err: TextIO

    @classmethod
    def standard(cls) -> Terminal:
        """The process's own; what their encoding does not have is shown as an escape."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        return cls(sys.stdout, sys.stderr)

    @property
    def columns(self) -> int | None:
        """How wide standard output is: COLUMNS, else the terminal; None for a file or a pipe."""
        if not os.environ.get("COLUMNS") and not self.out.isatty():
            return None
        return max(_LEAST_COLUMNS, shutil.get_terminal_size((_FALLBACK_COLUMNS, 24)).columns)

    @property
    def paint(self) -> Paint:
        """Colour on a terminal whose user did not forbid it (NO_COLOR)."""
        wanted = self.out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return coloured if wanted else plain

    def record(self, evidence: Evidence) -> None:
        """One record as a line of JSON, at once: a reader may be waiting for it."""
        with _writing():
            self.out.flush()
            self.out.buffer.write(encode(evidence) + b"\n")
            self.out.buffer.flush()

    def json(self, value: object) -> None:
        """One line of JSON with nothing in it that a terminal would act upon."""
        with _writing():
            self.out.flush()
            self.out.buffer.write(harmless_json(msgspec.json.encode(value)) + b"\n")
            self.out.buffer.flush()

    def lines(self, lines: Iterable[str]) -> None:
        """A report for people."""
        with _writing():
            self.out.writelines(f"{line}\n" for line in lines)

    def flush(self) -> None:
        """Have everything written."""
        with _writing():
            self.out.flush()

    def abandon(self) -> None:
        """Give standard output up, so that Python does not fail once more when it flushes at its end."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.out.fileno())
        os.close(null)

    def say(self, text: str) -> None:
        """A word to the person who started the command."""
        self.err.write(f"{PROGRAM}: {text}\n")
        self.err.flush()

    def progress_line(self) -> ProgressLine | None:
        """A progress line on standard error, if somebody can see it."""
        if not self.err.isatty() or os.environ.get("TERM") == "dumb":
            return None
        columns = os.get_terminal_size(self.err.fileno()).columns or _FALLBACK_COLUMNS
        return ProgressLine(self._draw, max(_LEAST_COLUMNS, columns), time.monotonic)

    def _draw(self, text: str) -> None:
        self.err.write(text)
        self.err.flush()


def progress_of(line: ProgressLine | None) -> Progress:
    """What an inspection reports its progress to."""
    return line.update if line else unwatched
