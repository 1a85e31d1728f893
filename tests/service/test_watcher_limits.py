"""The kernel's limits, in a process of its own: each is said, none blinds for longer than to the next scan."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditd.service.watching.listening import queued_events
from tests.service.processes import Daemon
from tests.support.models import gguf

pytestmark = pytest.mark.system

SOUND = gguf()
PROGRAM = [sys.executable, "-m", "tests.service.keeping"]

#: An own user namespace, where limits may be set that hold for nobody else.
OWN = ["unshare", "--user", "--map-root-user"]


def _namespaces_work() -> bool:
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return False
    return subprocess.run([*OWN, "true"], capture_output=True, check=False).returncode == 0


needs_namespace = pytest.mark.skipif(not _namespaces_work(), reason="no user namespace of its own to be had")


@contextmanager
def kept(home: Path, *before: str, poll_seconds: float = 0.3) -> Iterator[Daemon]:
    process = subprocess.Popen(
        [*before, *PROGRAM, str(home), str(poll_seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield Daemon(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def limited(kind: str, limit: int) -> list[str]:
    return [*OWN, "sh", "-c", f'echo {limit} > /proc/sys/user/max_inotify_{kind} && exec "$@"', "limited"]


def lift(daemon: Daemon, kind: str) -> None:
    enter = ["nsenter", "--user", "--preserve-credentials", "--target", str(daemon.process.pid)]
    subprocess.run([*enter, "sh", "-c", f"echo 1000 > /proc/sys/user/max_inotify_{kind}"], check=True)


@needs_namespace
@pytest.mark.parametrize(("kind", "limit", "words"), [("watches", 3, "watch limit"), ("instances", 0, "Too many open")])
def test_a_limit_is_said_once_and_scanned_over_and_its_end_is_noticed(
    tmp_path: Path, kind: str, limit: int, words: str
) -> None:
    for number in range(5):
        (tmp_path / f"models/{number}").mkdir(parents=True)
    with kept(tmp_path, *limited(kind, limit)) as daemon:
        blind = daemon.wait_for("root_blind")
        assert blind["reason"].startswith("cannot be watched")
        assert words in blind["reason"]
        (tmp_path / "models/4/seen.gguf").write_bytes(SOUND)
        daemon.wait_for("offered", path="4/seen.gguf")
        lift(daemon, kind)
        assert daemon.wait_for("root_restored")["watch"] == "events"
        (tmp_path / "models/4/heard.gguf").write_bytes(SOUND)
        daemon.wait_for("offered", path="4/heard.gguf")
        assert len(daemon.named("root_blind")) == 1


@needs_namespace
def test_a_limit_that_is_reached_while_directories_appear_is_said(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    with kept(tmp_path, *limited("watches", 4)) as daemon:
        daemon.wait_for("root_armed")
        for number in range(8):
            (tmp_path / f"models/{number}").mkdir()
            (tmp_path / f"models/{number}/seen.gguf").write_bytes(SOUND)
        assert "watch limit" in daemon.wait_for("root_blind")["reason"]
        for number in range(8):
            daemon.wait_for("offered", path=f"{number}/seen.gguf")
        (tmp_path / "models/7/later.gguf").write_bytes(SOUND)
        daemon.wait_for("offered", path="7/later.gguf")
        assert len(daemon.named("root_blind")) == 1


@pytest.mark.skipif(queued_events() > 20_000, reason="it takes very many files to fill the queue of events here")
def test_a_queue_that_overflows_is_noticed_and_nothing_stays_unseen(tmp_path: Path) -> None:
    with kept(tmp_path, poll_seconds=60) as daemon:
        daemon.wait_for("root_armed")
        (tmp_path / "models/first.gguf").write_bytes(SOUND)
        daemon.wait_for("offered", path="first.gguf")  # somebody listens
        daemon.send(signal.SIGSTOP)
        # Made, opened, closed: three events for each of them.
        for number in range(queued_events() // 3 + 100):
            (tmp_path / f"models/{number}.part").touch()
        (tmp_path / "models/new").mkdir()
        (tmp_path / "models/new/unheard.gguf").write_bytes(SOUND)
        # What waits for less than a second is not taken for a process that stood still.
        time.sleep(1.2)
        daemon.send(signal.SIGCONT)
        assert "stood still" in daemon.wait_for("events_lost")["reason"]
        daemon.wait_for("offered", path="new/unheard.gguf")
        daemon.wait_for("scan_finished", trigger="rescan")
        (tmp_path / "models/new/heard.gguf").write_bytes(SOUND)
        daemon.wait_for("offered", path="new/heard.gguf")
        assert len(daemon.named("events_lost")) == 1
