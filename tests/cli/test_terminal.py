"""What a terminal gets and a pipe does not: colour, progress, its own width."""

from __future__ import annotations

import os
import pty
import struct
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from auditd.cli.terminal import Terminal
from auditd.report.progress import ProgressLine
from auditd.report.style import coloured, plain


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """Both streams on a pseudo-terminal of 100 columns."""
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        yield Terminal(stream, stream)
    os.close(ours)


def test_a_terminal_is_coloured_and_shows_progress(terminal: Terminal) -> None:
    assert terminal.style is coloured
    assert isinstance(terminal.progress_line(), ProgressLine)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_forbidden(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert terminal.style is plain


def test_a_file_is_neither_wide_nor_coloured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with open(tmp_path / "out", "w") as stream:
        terminal = Terminal(stream, stream)
        assert terminal.columns is None
        assert terminal.style is plain
        assert terminal.progress_line() is None


@pytest.mark.parametrize(("given", "columns"), [("120", 120), ("7", 40)])
def test_columns_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", given)
    with open(tmp_path / "out", "w") as stream:
        assert Terminal(stream, stream).columns == columns
