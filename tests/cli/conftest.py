"""The command, in this process and in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from auditd.__main__ import main
from tests.support.commands import Command, Done, Start


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Signals as they were: a daemon's process keeps what it does to them until its end."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in numbers]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_signals: None) -> Command:
    """Run the command in this process, 80 columns wide."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments: object) -> Done:
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # argparse
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        return Done(status, captured.out, captured.err)

    return run


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command in a process of its own; whatever is still running at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def run(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        words = [word if isinstance(word, bytes) else os.fsencode(str(word)) for word in arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process: subprocess.Popen[bytes] = subprocess.Popen([sys.executable, "-m", "auditd", *words], **pipes)
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
