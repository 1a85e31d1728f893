"""Signals in the first moments, while a command is still being imported."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from auditd.cli import signals
from tests.support.commands import Write

_PATIENCE_SECONDS = 60

#: Sends itself signals when it comes to import a module.
_PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
module, numbers, *words = sys.argv[1:]
class Early:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            for number in numbers.split(","):
                os.kill(os.getpid(), int(number))
sys.meta_path.insert(0, Early())
from auditd.__main__ import main
sys.exit(main(words))
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    path = tmp_path / "config.toml"
    path.write_text(f"[[root]]\npath = '{tmp_path}/models'\n[store]\npath = '{tmp_path}/state/evidence.sqlite'\n")
    return path


def begin(module: str, numbers: list[signal.Signals], *words: object) -> subprocess.Popen[bytes]:
    sent = ",".join(str(int(number)) for number in numbers)
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, module, sent, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize(
    "module",
    ["auditd.cli.signals", "auditd.cli.application", "msgspec", "auditd.evidence.record", "auditd.cli.inspect"],
)
def test_an_early_interruption_is_quiet(model: Write, module: str) -> None:
    process = begin(module, [signal.SIGINT], "inspect", model())
    assert process.communicate(timeout=_PATIENCE_SECONDS) == (b"", b"")
    assert process.returncode == 3


@pytest.mark.parametrize(
    "module", ["auditd.cli.application", "auditd.cli.run", "trio", "auditd.service.watching.watcher"]
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_that_is_ended_early_ends_as_later(config: Path, module: str, number: signal.Signals) -> None:
    process = begin(module, [number], "run", "--config", config)
    out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    assert (process.returncode, err) == (0, b"")
    events = [json.loads(line)["event"] for line in out.splitlines()]
    assert events[-1] == "daemon_stopped"
    assert "daemon_stopping" in events


@pytest.mark.parametrize("module", ["auditd.cli.application", "trio"])
def test_a_daemon_that_is_told_to_reload_early_lives(config: Path, module: str) -> None:
    process = begin(module, [signal.SIGHUP], "run", "--config", config)
    assert process.stdout
    seen = set()
    for line in process.stdout:
        seen.add(json.loads(line)["event"])
        if {"daemon_ready", "config_reloaded"} <= seen:
            break
    process.terminate()
    _, err = process.communicate(timeout=_PATIENCE_SECONDS)
    assert (process.returncode, err) == (0, b"")
    assert {"daemon_ready", "config_reloaded"} <= seen


def test_who_asks_twice_is_obeyed(config: Path) -> None:
    process = begin("trio", [signal.SIGTERM, signal.SIGTERM], "run", "--config", config)
    assert process.communicate(timeout=_PATIENCE_SECONDS)[1] == b""
    # One signal that is pending twice is one; told apart, the second ends it.
    assert process.returncode in {0, -signal.SIGTERM}


def test_a_bad_configuration_is_said_all_the_same(tmp_path: Path) -> None:
    process = begin("auditd.cli.run", [signal.SIGTERM], "run", "--config", tmp_path / "none.toml")
    assert b"there is no such file" in process.communicate(timeout=_PATIENCE_SECONDS)[1]
    assert process.returncode == 2


def test_what_is_ignored_stays_ignored(own_signals: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signals.guard(["inspect"])
    signals.over()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_interruption_is_an_exception_again_once_a_command_runs(own_signals: None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals.guard(["inspect"])
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    signals.over()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_daemon_without_standard_output_lives(config: Path) -> None:
    line = f'exec {sys.executable} -m auditd run --config "$1" >&-'
    process = subprocess.Popen(["sh", "-c", line, "sh", str(config)], stderr=subprocess.PIPE)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(2)
    process.terminate()
    _, err = process.communicate(timeout=_PATIENCE_SECONDS)
    assert (process.returncode, err) == (0, b"")
