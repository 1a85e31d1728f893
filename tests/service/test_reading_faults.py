"""What goes wrong while a model is read: the evidence says it, the daemon lives and looks again, later."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from auditd.evidence.record import Evidence
from auditd.evidence_store.artifact_state import RETRY_FIRST_SECONDS, RETRY_LONGEST_SECONDS, ArtifactState
from auditd.inspection.inspector import inspect
from auditd.service.reading import scheduler as scheduler_module
from auditd.service.recording import recorder as recorder_module
from auditd.service.recording.alerts import Policy
from tests.service.processes import House
from tests.service.test_scheduler import Bench
from tests.service.test_scheduler import bench as bench  # noqa: PLC0414 - the fixture
from tests.support.models import gguf

pytestmark = pytest.mark.system

SOUND = gguf()

#: Behind the header, in more than one piece of what is hashed at a time.
_LARGE_BYTES = 9 * 1024 * 1024
_HASHED_AT_A_TIME = 4 * 1024 * 1024


@dataclass
class Clock:
    """The wall clock of everything under test."""

    now: float

    def time(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(1_700_000_000.0)
    for module in (recorder_module, scheduler_module):
        monkeypatch.setattr(module, "time", made)
    return made


async def worked(bench: Bench, *, times: int = 1) -> None:
    """Put the model into the queue so often and have it inspected, or not."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.scheduler.work)
        for _ in range(times):
            bench.scheduler.queue.put(bench.job())
            bench.scheduler._work.ring()
            await bench.until(lambda: not len(bench.scheduler.queue) and not bench.board.in_hand)
        nursery.cancel_scope.cancel()


def evidence_of(bench: Bench) -> list[Evidence]:
    return [stored.evidence for stored in bench.store.records()]


def known_of(bench: Bench) -> ArtifactState:
    known = bench.store.known(os.fsencode(bench.model))
    assert known is not None
    return known


# --- the file is not what it was under the read ----------------------------------------------------------


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def cut(path: Path) -> None:
    os.truncate(path, _HASHED_AT_A_TIME)


def exchange(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def withdraw(path: Path) -> None:
    path.chmod(0)


def write_again(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")


class Meanwhile:
    """An inspector under whose reading of all bytes something happens to the file, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]) -> None:
        self.done = False
        self._change = change
        monkeypatch.setattr(scheduler_module, "inspect", self.inspect)

    def inspect(self, request: Any, checkpoint: Callable[[], None], progress: Callable[..., None]) -> Evidence:
        def watch(read: int, *more: Any) -> None:
            if not self.done and read >= _HASHED_AT_A_TIME:
                self.done = True
                self._change(Path(os.fsdecode(request.path)))
            progress(read, *more)

        return inspect(request, checkpoint, watch)


@pytest.mark.parametrize(
    ("change", "status"),
    [(grow, "modified"), (cut, "modified"), (write_again, "modified"), (withdraw, "modified"), (exchange, "replaced")],
)
async def test_what_changes_under_the_read_has_no_digest_and_is_looked_at_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None], status: str
) -> None:
    bench.model.write_bytes(SOUND + bytes(_LARGE_BYTES))
    bench.scheduler._rules[0] = replace(bench.scheduler._rules[0], hash="full")
    meanwhile = Meanwhile(monkeypatch, change)
    before = bench.job()
    await worked(bench)
    assert meanwhile.done
    header, full = evidence_of(bench)
    assert (header.read.scope, full.read.scope) == ("header", "full")
    assert full.identity.status == status
    assert full.artifact.sha256 is None
    assert full.verdict in ("unknown", header.verdict)
    known = known_of(bench)
    assert (known.tried, known.failures) == (before.seen, 1)
    # In its new state it need not wait.
    assert bench.job().seen != before.seen
    bench.model.chmod(0o600)
    await worked(bench)
    last = evidence_of(bench)[-1]
    assert (last.outcome, last.identity.status) == ("complete", "unchanged")
    assert last.artifact.sha256 is not None


# --- the disk, and the process ---------------------------------------------------------------------------


class Broken:
    """A disk that fails behind a position."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, position: int) -> None:
        self.tries = 0
        self.whole = False
        self._position = position
        for name in ("pread", "preadv"):
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def read(descriptor: int, what: Any, offset: int, *more: Any) -> Any:
            if offset >= self._position and not self.whole:
                self.tries += 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(descriptor, what, offset, *more)

        return read


async def test_a_disk_that_fails_in_the_middle_is_said_and_asked_again_with_doubling_delays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    bench.model.write_bytes(SOUND + bytes(_LARGE_BYTES))
    bench.scheduler._rules[0] = replace(bench.scheduler._rules[0], hash="full")
    disk = Broken(monkeypatch, _HASHED_AT_A_TIME)
    await worked(bench, times=2)  # the second comes before its time
    header, failed = evidence_of(bench)
    assert header.read.scope == "header"
    assert failed.outcome == "partial"  # the header is known
    assert failed.error is not None
    assert (failed.error.errno, failed.error.category) == (errno.EIO, "host")
    assert failed.error.offset == _HASHED_AT_A_TIME or failed.error.offset is not None
    assert "read_failed" in {finding.code for finding in failed.findings}
    assert known_of(bench).retry_at == clock.now + RETRY_FIRST_SECONDS
    clock.now += RETRY_FIRST_SECONDS + 1
    await worked(bench)
    assert (known_of(bench).failures, known_of(bench).retry_at) == (2, clock.now + 2 * RETRY_FIRST_SECONDS)
    disk.whole = True
    clock.now += 2 * RETRY_FIRST_SECONDS + 1
    await worked(bench)
    assert evidence_of(bench)[-1].artifact.sha256 is not None
    assert known_of(bench).retry_at is None


def test_a_process_without_descriptors_is_blind_and_sees_again_once_it_has_some(house: House) -> None:
    house.configure(schedule="poll_seconds = 1")
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    path = house.models / "model.gguf"
    path.write_bytes(SOUND)
    assert daemon.wait_for("root_blind")["reason"] == os.strerror(errno.EMFILE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, limits)
    daemon.wait_for("root_restored")
    if not house.log.exists() or not any(line["outcome"] == "complete" for line in house.lines()):
        path.write_bytes(SOUND)  # looked at while nothing could be opened, it would wait for a minute
    assert daemon.wait_for("inspection_finished", outcome="complete")["verdict"] == "sound"
    assert daemon.stop() == 0
    assert not daemon.named("artifact_removed")


# --- the clock -------------------------------------------------------------------------------------------

_YEAR = 365 * 86_400.0


@pytest.mark.parametrize("jump", [-_YEAR, -RETRY_LONGEST_SECONDS - RETRY_FIRST_SECONDS, _YEAR])
async def test_a_clock_that_jumps_holds_no_further_try_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, clock: Clock, jump: float
) -> None:
    disk = Broken(monkeypatch, 0)
    await worked(bench)
    assert known_of(bench).retry_at == clock.now + RETRY_FIRST_SECONDS
    disk.whole = True
    clock.now += jump
    await worked(bench)
    assert [evidence.outcome for evidence in evidence_of(bench)] == ["failed", "complete"]


async def test_a_clock_that_was_set_back_a_little_delays_by_as_much_and_no_longer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    Broken(monkeypatch, 0)
    await worked(bench)
    clock.now -= 3600
    await worked(bench)
    assert len(evidence_of(bench)) == 1
    due = bench.scheduler.settler.next_due()
    assert due is not None
    assert due - trio.current_time() <= 3600 + RETRY_FIRST_SECONDS


@pytest.mark.parametrize("jump", [-_YEAR, -3600.0, _YEAR])
async def test_a_clock_that_jumps_reads_nothing_twice(bench: Bench, clock: Clock, jump: float) -> None:
    await worked(bench)
    clock.now += jump
    await worked(bench)
    assert len(evidence_of(bench)) == 1


@pytest.mark.parametrize(("jump", "again"), [(-_YEAR, 1), (0.0, 0), (100.0, 0), (3601.0, 1)])
async def test_an_alert_is_repeated_by_a_clock_that_was_set_back_too(
    bench: Bench, clock: Clock, jump: float, again: int
) -> None:
    bench.recorder._policy = Policy(repeat_seconds=3600)
    bench.model.write_bytes(SOUND + bytes(100))
    await worked(bench)
    clock.now += jump
    for _ in range(2):
        await bench.recorder.repeat_alerts()
    assert bench.said().count("alert_raised") == 1
    assert bench.said().count("alert_repeated") == again
