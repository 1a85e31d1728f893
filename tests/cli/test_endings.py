"""How a command ends when somebody else ends it, and what it imports to begin."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from auditd.cli.interruption import Interruption
from auditd.errors import InspectionStopped
from tests.support import models
from tests.support.commands import Start, Write

#: A sparse file: long to hash, nothing to store. Eight gigabytes take seconds anywhere.
_SPARSE_BYTES = 8 * 2**30
_PATIENCE_SECONDS = 60
#: More than a header and its chunk.
_WELL_PAST_BYTES = 8 * 2**20


@pytest.fixture
def endless(model: Write) -> Path:
    path = model("endless.gguf")
    os.truncate(path, _SPARSE_BYTES)
    return path


def _is_open(pid: int, path: Path) -> bool:
    descriptors = f"/proc/{pid}/fd"
    for name in os.listdir(descriptors):
        with suppress(OSError):  # closed meanwhile
            if os.readlink(f"{descriptors}/{name}") == str(path):
                return True
    return False


def _bytes_read(pid: int) -> int:
    return int(re.findall(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())[0])


def wait_until_reading(process: subprocess.Popen[bytes], path: Path) -> None:
    """Until the process is well past the header of the file; its handlers are in place by then."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not _is_open(process.pid, path):
        assert time.monotonic() < deadline, "the file was never opened"
        time.sleep(0.005)
    begun = _bytes_read(process.pid)
    while _bytes_read(process.pid) < begun + _WELL_PAST_BYTES:
        assert time.monotonic() < deadline, "the file was never read"
        time.sleep(0.005)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_what_is_known(start: Start, endless: Path, number: signal.Signals) -> None:
    process = start("inspect", "--json", "--hash", "full", endless)
    wait_until_reading(process, endless)
    process.send_signal(number)
    out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    record = json.loads(out)
    assert (process.returncode, err) == (3, b"")
    assert (record["outcome"], record["error"]["code"]) == ("partial", "cancelled")
    assert record["gguf"]["tensor_count"] == 1
    assert record["artifact"]["sha256"] is None


def test_a_signal_ends_an_audit_with_the_files_so_far(start: Start, endless: Path, model: Write) -> None:
    first, last = model("a.gguf"), model("z.gguf")
    process = start("audit", "--json", "--hash", "full", first, endless, last)
    wait_until_reading(process, endless)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    outcomes = [json.loads(line)["outcome"] for line in out.splitlines()]
    assert outcomes == ["complete", "partial"]
    assert process.returncode == 3
    assert b"stopped by SIGTERM" in err


def test_the_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        interruption.checkpoint()
        signal.raise_signal(signal.SIGINT)
        assert interruption.happened
        with pytest.raises(InspectionStopped, match="SIGINT"):
            interruption.checkpoint()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is before


def test_a_reader_that_has_enough_is_no_error(start: Start, model: Write, tmp_path: Path) -> None:
    for number in range(300):
        model(f"{number}.gguf")
    process = start("audit", "--json", tmp_path)
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=_PATIENCE_SECONDS) == 3
    assert process.stderr.read() == b""
    process.stdout = None


def test_a_reader_that_never_reads_is_no_error(start: Start, model: Write) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("inspect", model(), stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=_PATIENCE_SECONDS)
    assert (process.returncode, err) == (3, b"")


@pytest.mark.parametrize("words", [["inspect"], ["inspect", "--json"]], ids=" ".join)
def test_a_full_disk_is_said(start: Start, model: Write, words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        process = start(*words, model(), stdout=full)
        _, err = process.communicate(timeout=_PATIENCE_SECONDS)
    assert process.returncode == 3
    assert err == b"model-auditd: standard output cannot be written: No space left on device\n"


@pytest.mark.parametrize("words", [["inspect"], ["audit"], ["inspect", "--json"]], ids=" ".join)
def test_looking_at_one_file_imports_little(model: Write, words: list[str]) -> None:
    program = (
        "import sys; from auditd.__main__ import main; main(sys.argv[1:]);"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words, model()], capture_output=True, check=True, encoding="utf-8"
    )
    heavy = {"trio", "structlog", "asyncio", "sqlite3", "watchfiles", "rich", "numpy", "socket"}
    assert heavy & set(done.stderr.split()) == set()


def test_other_encodings_show_escapes(start: Start, model: Write) -> None:
    model("模.gguf", models.gguf(tail=b"x"))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    process = start("audit", model("模.gguf", models.gguf(tail=b"x")), env=environment)
    out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    assert (process.returncode, err) == (1, b"")
    assert rb"\u6a21.gguf" in out
