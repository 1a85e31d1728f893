# ruff: noqa: T201 - a program that prints
"""What the daemon costs when there is nothing to do: ``python -m tests.benchmark --idle FILES``. Not a test.

Makes that many small models, has the daemon look at all of them, and then counts the processor time of this one process
while nothing happens, and that of one more look through the tree, which a reload of the configuration asks for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from auditd.formats.writer import Tensor, write_gguf

FILES_IN_A_DIRECTORY = 1000
QUIET_SECONDS = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


def make_models(directory: Path, files: int) -> None:
    """So many files in directories of a thousand."""
    raw = write_gguf((), [Tensor("w", (8,), 0, bytes(32))], pad_tail=True).data
    for index in range(files):
        place = directory / f"{index // FILES_IN_A_DIRECTORY:04d}"
        if index % FILES_IN_A_DIRECTORY == 0:
            place.mkdir(parents=True)
        (place / f"model-{index % FILES_IN_A_DIRECTORY:04d}.gguf").write_bytes(raw)


def _cpu_seconds(process: int) -> float:
    """User and system time so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mebibytes(process: int, field: str) -> float:
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field))) / 1024


def _status(place: Path) -> dict[str, Any]:
    try:
        status: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status


def _wait_for_pass(place: Path, daemon: subprocess.Popen[bytes], before: str | None = None) -> str:
    """Until everything was looked at once more than at ``before``; when that was."""
    while daemon.poll() is None:
        for root in _status(place).get("roots", ()):
            if root["pass_at"] is not None and root["pass_at"] != before:
                return str(root["pass_at"])
        time.sleep(0.2)
    raise SystemExit("the daemon has ended")


def measure(directory: Path, files: int) -> None:
    """Print the figures of one daemon over so many files, all of them made below ``directory``."""
    make_models(directory / "models", files)
    config = directory / "config.toml"
    config.write_text(
        f'[[root]]\npath = "{directory}/models"\n[store]\npath = "{directory}/evidence.sqlite"\n'
        "[schedule]\nsettle_seconds = 0\nrescan_seconds = 86400\n"
    )
    place = directory / "status.json"
    command = [sys.executable, "-m", "auditd", "run", "--config", str(config)]
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(directory)}
    with (directory / "events").open("wb") as events:
        daemon = subprocess.Popen(command, env=environment, stdout=events, stderr=events)
    try:
        began = time.monotonic()
        first = _wait_for_pass(place, daemon)
        print(f"daemon with {files:,} files")
        print(
            f"  first pass       {time.monotonic() - began:10.1f} s    {_cpu_seconds(daemon.pid):7.1f} s of processor time"
        )
        _print_quiet(daemon.pid)
        used = _cpu_seconds(daemon.pid)
        # A configuration that has changed is followed by a look at everything; this change concerns no file.
        config.write_text(config.read_text(encoding="utf-8") + "[alert]\nrepeat_hours = 23\n", encoding="utf-8")
        daemon.send_signal(signal.SIGHUP)
        _wait_for_pass(place, daemon, first)
        print(f"  one more look                   {_cpu_seconds(daemon.pid) - used:7.2f} s of processor time")
        print(
            f"  memory           {_mebibytes(daemon.pid, 'VmRSS'):10.1f} MiB, peak {_mebibytes(daemon.pid, 'VmHWM'):.1f} MiB"
        )
    finally:
        daemon.terminate()
        daemon.wait()


def _print_quiet(process: int) -> None:
    time.sleep(2)
    used = _cpu_seconds(process)
    time.sleep(QUIET_SECONDS)
    spent = _cpu_seconds(process) - used
    print(
        f"  idle                            {spent:7.2f} s in {QUIET_SECONDS:g} s, {spent / QUIET_SECONDS:.2%} of a processor"
    )
