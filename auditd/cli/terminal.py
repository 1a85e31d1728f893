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
from auditd.report.progress import ProgressLine
from auditd.report.style import Style, coloured, plain

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


def _reserve_standard_descriptors() -> None:
    """Have no file that is opened later become standard output because that was closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, so this one. Not for writing: what is written there must fail.
            os.open(os.devnull, os.O_RDONLY)


def _closed(descriptor: int) -> TextIO:
    """The stream for a standard descriptor that the process was started without; writing to it is an error."""
    return open(descriptor, "w", encoding="utf-8", closefd=False)


def _let_go(stream: TextIO) -> None:
    """Give a stream up, so that Python does not fail once more when it flushes it at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


@dataclass(frozen=True, slots=True)
class Terminal:
    """The two streams of a command. ``out`` must be a text stream over bytes, as ``sys.stdout`` is."""

    out: TextIO
    err: TextIO

    @classmethod
    def standard(cls) -> Terminal:
        """The process's own; what their encoding does not have is shown as an escape. One that is closed takes nothing."""
        _reserve_standard_descriptors()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        return cls(sys.stdout or _closed(1), sys.stderr or _closed(2))

    @property
    def columns(self) -> int | None:
        """How wide standard output is: COLUMNS, else the terminal; None for a file or a pipe."""
        if not os.environ.get("COLUMNS") and not self.out.isatty():
            return None
        return max(_LEAST_COLUMNS, shutil.get_terminal_size((_FALLBACK_COLUMNS, 24)).columns)

    @property
    def style(self) -> Style:
        """Colour on a terminal whose user did not forbid it (NO_COLOR)."""
        wanted = self.out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return coloured if wanted else plain

    def record(self, evidence: Evidence) -> None:
        """One record as a line of JSON."""
        self.line(encode(evidence))

    def json(self, value: object) -> None:
        """One line of JSON with nothing in it that a terminal would act upon."""
        self.line(harmless_json(msgspec.json.encode(value)))

    def line(self, encoded: bytes) -> None:
        """One line of JSON that is harmless already, at once: a reader may be waiting for it."""
        with _writing():
            self.out.flush()
            self.out.buffer.write(encoded + b"\n")
            self.out.buffer.flush()

    def lines(self, lines: Iterable[str]) -> None:
        """A report for people."""
        with _writing():
            self.out.writelines(f"{line}\n" for line in lines)

    def flush(self) -> None:
        """Have everything written."""
        self._word("")
        with _writing():
            self.out.flush()

    def abandon(self) -> None:
        """Give standard output up, and what of it was not written."""
        _let_go(self.out)

    def say(self, text: str) -> None:
        """A word to the person who started the command; what becomes of it changes nothing."""
        self._word(f"{PROGRAM}: {text}\n")

    def _word(self, text: str) -> None:
        try:
            self.err.write(text)
            self.err.flush()
        except OSError:
            _let_go(self.err)

    def progress_line(self) -> ProgressLine | None:
        """A progress line on standard error, if somebody can see it."""
        if not self.err.isatty() or os.environ.get("TERM") == "dumb":
            return None
        columns = os.get_terminal_size(self.err.fileno()).columns or _FALLBACK_COLUMNS
        return ProgressLine(self._word, max(_LEAST_COLUMNS, columns), time.monotonic)


def progress_of(line: ProgressLine | None) -> Progress:
    """What an inspection reports its progress to."""
    return line.update if line else unwatched
