"""One line that says what is being read, how fast and for how long, redrawn in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from auditd.report.columns import cut_left, width
from auditd.report.figures import duration, rounded

#: Nothing is drawn for a run that is over sooner than this.
_PATIENCE_SECONDS: Final = 0.5
#: Ten lines a second are as many as an eye can use.
_INTERVAL_SECONDS: Final = 0.1
#: Before this a rate is noise.
_RATE_FROM_SECONDS: Final = 1.0
_SHORTEST_NAME: Final = 10

_START_OF_LINE: Final = "\r\x1b[K"


def progress_line(name: str, done: int, wanted: int, elapsed_seconds: float, columns: int) -> str:
    """Bytes, share, rate and time left for one file, then its printable name, in at most ``columns`` cells."""
    parts = [f"{rounded(done)} of {rounded(wanted)}"]
    if wanted > 0:
        parts.append(f"{min(100, done * 100 // wanted)}%")
    if elapsed_seconds >= _RATE_FROM_SECONDS and done > 0:
        rate = done / elapsed_seconds
        parts += [f"{rounded(int(rate))}/s", f"{duration((wanted - done) / rate)} left"]
    figures = "  ".join(parts)
    room = columns - width(figures) - 2
    return f"{figures}  {cut_left(name, room)}" if room >= _SHORTEST_NAME else figures[:columns]


class ProgressLine:
    """Draws :func:`progress_line` through ``write``, never too often, and wipes it when asked.

    ``clock`` gives seconds that only go forward. :meth:`begin` starts a file, :meth:`update` takes what a
    reader reports, :meth:`clear` gives the line back.
    """

    def __init__(self, write: Callable[[str], object], columns: int, clock: Callable[[], float]) -> None:
        self._write = write
        self._columns = columns
        self._clock = clock
        self._name = ""
        self._began = clock()
        self._next = self._began + _PATIENCE_SECONDS
        self._drawn = False

    def begin(self, name: str) -> None:
        """Another file; its printable ``name`` is shown from the next redraw on."""
        self._name = name
        self._began = self._clock()

    def update(self, bytes_read: int, bytes_wanted: int) -> None:
        """Redraw if it is time."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _INTERVAL_SECONDS
        self._drawn = True
        # One column less than there are: a full line would wrap on some terminals.
        line = progress_line(self._name, bytes_read, bytes_wanted, now - self._began, self._columns - 1)
        self._write(_START_OF_LINE + line)

    def clear(self) -> None:
        """Wipe the line, if there is one."""
        if self._drawn:
            self._write(_START_OF_LINE)
            self._drawn = False
