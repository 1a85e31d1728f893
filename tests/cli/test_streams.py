"""Standard streams that are closed or full: neither a traceback nor another exit status than what was seen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import models
from tests.support.commands import Write

_PROGRAM = f"{sys.executable} -m auditd"


def shell(line: str, *words: object) -> subprocess.CompletedProcess[bytes]:
    """Run ``model-auditd`` with the redirections of ``line``, in which it is ``$M``."""
    line = line.replace("$M", _PROGRAM)
    # What is written late must fail well, too.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = ["sh", "-c", line, "sh", *map(str, words)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, env=buffered)


@pytest.mark.parametrize("words", ["inspect", "inspect --json", "audit", "audit --json", "inspect --detail complete"])
def test_a_closed_standard_output_is_said(model: Write, words: str) -> None:
    done = shell(f'$M {words} "$1" >&-', model())
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr == b"model-auditd: standard output cannot be written: Bad file descriptor\n"


def test_what_is_written_never_becomes_a_closed_standard_output(model: Write, tmp_path: Path) -> None:
    output = tmp_path / "evidence.json"
    assert shell('$M inspect --evidence-output "$2" "$1" >&-', model(), output).returncode == 3
    assert output.read_bytes().startswith(b"{")
    assert output.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("broken", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(("content", "status"), [(models.gguf(), 0), (models.gguf(tail=b"x"), 1)])
def test_without_standard_error_the_report_and_the_status_stay(
    model: Write, tmp_path: Path, broken: str, content: bytes, status: int
) -> None:
    model("a.gguf", content)
    (tmp_path / "dangling").symlink_to("nowhere")  # something to say
    done = shell(f'$M audit "$1" {broken}', tmp_path)
    assert (done.returncode, done.stderr) == (status, b"")
    assert done.stdout.splitlines()[-1].startswith(b"1 file")


@pytest.mark.parametrize("broken", ["2>&-", "2>/dev/full", ">&- 2>&-", ">/dev/full 2>/dev/full", ">&- 2>&- <&-"])
def test_what_cannot_even_be_said_has_its_status(model: Write, tmp_path: Path, broken: str) -> None:
    assert shell(f'$M inspect --evidence-output "$2/no/x" "$1" {broken}', model(), tmp_path).returncode == 3
    assert shell(f"$M inspect --nonsense {broken}").returncode == 2
    assert shell(f'$M check-config "$1/none" {broken}', tmp_path).returncode == 2


def test_help_that_cannot_be_written() -> None:
    done = shell("$M --help >/dev/full")
    assert (done.returncode, done.stderr) == (
        3,
        b"model-auditd: standard output cannot be written: No space left on device\n",
    )


def test_a_list_on_a_closed_standard_input() -> None:
    done = shell("$M audit --files-from - <&-")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"model-auditd: --files-from -: standard input is closed\n"
