"""The disk of the daemon's own files is full, fails or may not be written, and its log is rotated under it."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.service.processes import HARD_LIMIT_SECONDS, Daemon, House
from tests.support.calls import why_not
from tests.support.models import gguf
from tests.support.wreckage import kept, lines

pytestmark = pytest.mark.system

SOUND = gguf()

_WHY_NOT_TRACED = why_not()
needs_tracing = pytest.mark.skipif(bool(_WHY_NOT_TRACED), reason=_WHY_NOT_TRACED or "it can")


def _may_mount() -> bool:
    return shutil.which("unshare") is not None and (
        subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    )


needs_mounts = pytest.mark.skipif(not _may_mount(), reason="needs the privilege of mounting")


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[None]:
    """A file system of its own at ``place``."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take every byte that is left."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def whole(house: House, *models: str) -> None:
    """Each model has one record and one line, and there is nothing else."""
    left, written = kept(house.store), lines(house.log)
    assert sorted(left.artifacts) == sorted(str(house.models / name) for name in models)
    assert len(left.records) == len(models)
    assert written.counts == dict.fromkeys(left.records, 1)
    assert written.torn == 0
    assert not left.untold


@needs_mounts
def test_a_full_disk_is_said_and_everything_is_recorded_once_there_is_room(house: House) -> None:
    with small_disk(house.store.parent, "size=1m"):
        (house.models / "before.gguf").write_bytes(SOUND)
        daemon = house.start()
        daemon.wait_for("inspection_finished")
        daemon.wait_for("daemon_ready")
        ballast = fill(house.store.parent)
        names = [f"{number}.gguf" for number in range(3)]
        for name in names:
            (house.models / name).write_bytes(SOUND + bytes(100))
        reason = daemon.wait_for("store_failed")["reason"]
        assert "full" in reason
        assert str(house.store) in reason
        assert not [event for event in daemon.events if event["event"] == "alert_raised"]
        ballast.unlink()
        daemon.wait_for("store_recovered")
        for _ in names:
            daemon.wait_for("alert_raised")
        assert daemon.stop() == 0
        whole(house, "before.gguf", *names)


@needs_mounts
def test_a_disk_that_nobody_may_write_is_told_at_the_begin(house: House) -> None:
    with small_disk(house.store.parent, "size=1m,ro"):
        daemon = house.start()
        assert daemon.process.wait(HARD_LIMIT_SECONDS) == 3
        assert os.strerror(errno.EROFS) in daemon.errors()


@contextmanager
def failing(daemon: Daemon, call: str, error: str) -> Iterator[None]:
    """Each such call of the daemon fails, for as long as the block runs."""
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:error={error}"]
    tracer = subprocess.Popen(
        ["strace", "-f", "-o", "/dev/null", "-p", str(daemon.process.pid), *inject],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert tracer.stderr is not None
    try:
        assert b"attached" in tracer.stderr.readline()
        yield
    finally:
        tracer.terminate()
        tracer.communicate()


@needs_tracing
def test_a_disk_that_takes_bytes_and_does_not_keep_them(house: House) -> None:
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    with failing(daemon, "fdatasync", "EIO"):
        (house.models / "model.gguf").write_bytes(SOUND)
        daemon.wait_for("store_failed")
        assert not daemon.named("inspection_finished")
    daemon.wait_for("store_recovered")
    daemon.wait_for("inspection_finished")
    assert daemon.stop() == 0
    whole(house, "model.gguf")


# --- the log ---------------------------------------------------------------------------------------------


def move(log: Path) -> None:
    log.rename(log.with_name("log.1"))


def copy_and_truncate(log: Path) -> None:
    shutil.copyfile(log, log.with_name("log.1"))
    os.truncate(log, 0)


@pytest.mark.parametrize("rotate", [move, copy_and_truncate])
def test_a_log_that_is_rotated_without_a_word(house: House, rotate: Callable[[Path], None]) -> None:
    (house.models / "first.gguf").write_bytes(SOUND)
    daemon = house.start()
    first = daemon.wait_for("inspection_finished")["evidence_id"]
    daemon.wait_for("daemon_ready")
    rotate(house.log)
    (house.models / "second.gguf").write_bytes(SOUND)
    second = daemon.wait_for("inspection_finished")["evidence_id"]
    assert daemon.stop() == 0
    assert lines(house.log.with_name("log.1")).counts == {first: 1}
    assert lines(house.log).counts == {second: 1}
    assert house.log.read_bytes().startswith(b"{")  # and no hole where the lines were
    assert not daemon.named("log_failed")


def test_a_directory_in_the_place_of_the_log_and_back(house: House) -> None:
    (house.models / "first.gguf").write_bytes(SOUND)
    daemon = house.start()
    first = daemon.wait_for("inspection_finished")["evidence_id"]
    daemon.wait_for("daemon_ready")
    house.log.rename(house.log.with_name("log.1"))
    house.log.mkdir()
    (house.models / "second.gguf").write_bytes(SOUND)
    daemon.wait_for("log_failed")
    second = daemon.wait_for("inspection_finished")["evidence_id"]
    house.log.rmdir()
    daemon.wait_for("log_recovered")
    assert daemon.stop() == 0
    assert lines(house.log.with_name("log.1")).counts == {first: 1}
    assert lines(house.log).counts == {second: 1}
