"""Every system call of an inspection fails once with every error: the right class, the errno, nothing left open."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.record import Evidence, Producer
from auditd.formats.writer import Tensor, write_gguf
from auditd.inspection.inspector import inspect
from auditd.inspection.request import HashMode, Request

PRODUCER = Producer(name="model-auditd", version="0", host="here", configuration="0")

PATH_ERRNOS = (errno.EACCES, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EPERM)
HOST_ERRNOS = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ENOMEM, errno.ETIMEDOUT)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A sound file whose header takes several reads and whose data takes one more in full mode."""
    tensors = [Tensor(f"blk.{number}.weight.{'x' * 40}", (8,), 0, b"\1" * 32) for number in range(600)]
    path = tmp_path / "model.gguf"
    path.write_bytes(write_gguf((), tensors, pad_tail=True).data)
    return path


def observation(path: Path, mode: HashMode = "full") -> Evidence:
    return inspect(Request(os.fsencode(path), PRODUCER, hash_mode=mode))


def open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


class Failing:
    """One of ``os``'s calls: its ``turn``-th call fails, all others are the real ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, turn: int, number: int) -> None:
        self._real: Callable[..., Any] = getattr(os, name)
        self._left = turn
        self._number = number
        self.failed = False
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            self.failed = True
            raise OSError(self._number, os.strerror(self._number))
        return self._real(*arguments, **named)


#: (call, which of them, whether the header was validated by then). lstat: to see a link, to see a regular file, and at
#: the end; fstat: before and after.
STEPS = [
    ("lstat", 1, False),
    ("lstat", 2, False),
    ("open", 1, False),
    ("fstat", 1, False),
    ("pread", 1, False),
    ("pread", 2, False),
    ("fstat", 2, True),
    ("lstat", 3, True),
]


@pytest.mark.parametrize("number", [*PATH_ERRNOS, *HOST_ERRNOS])
@pytest.mark.parametrize(("call", "turn", "validated"), STEPS)
def test_a_call_fails(
    model: Path, monkeypatch: pytest.MonkeyPatch, call: str, turn: int, validated: bool, number: int
) -> None:
    # The name's own question whether aria2 is at work asks lexists(), which is an lstat, too.
    monkeypatch.setattr("auditd.inspection.inspector.is_unfinished", lambda path: False)
    before = open_files()
    with monkeypatch.context() as patch:
        failing = Failing(patch, call, turn, number)
        evidence = observation(model, "header")
    assert failing.failed
    assert open_files() == before
    if (call, turn) == ("lstat", 3) and number in (errno.ENOENT, errno.ENOTDIR):
        assert evidence.identity.status == "replaced"  # the path is gone: that is an answer, not a failure
        return
    assert evidence.error is not None
    assert evidence.error.errno == number
    opened = (call, turn) not in (("lstat", 1), ("lstat", 2), ("open", 1))
    about_path = number in PATH_ERRNOS and not opened
    assert evidence.error.category == ("path" if about_path else "host")
    assert evidence.error.code == ("target_unavailable" if about_path else "execution_failure")
    assert evidence.outcome == ("unavailable" if about_path else "partial" if validated else "failed")
    assert evidence.read.header_sha256 is None
    assert evidence.artifact.sha256 is None
    assert (evidence.coverage.header.status == "complete") is validated


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EINTR])
def test_a_close_that_fails_is_said_and_not_tried_again(
    model: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    closed: list[int] = []
    real = os.close

    def close(descriptor: int) -> None:
        closed.append(descriptor)
        real(descriptor)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", close)
        evidence = observation(model)
    assert len(closed) == 1
    assert evidence.verdict == "sound"
    assert evidence.artifact.sha256 is not None
    (limitation,) = evidence.limitations
    assert limitation.code == "close_failed"
    assert f"errno {number}" in limitation.message


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def shrink(path: Path) -> None:
    os.truncate(path, 100)


def replace(path: Path) -> None:
    other = path.with_name("other")
    shutil.copyfile(path, other)
    os.replace(other, path)


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def remove(path: Path) -> None:
    path.unlink()


CHANGES: dict[Callable[[Path], None], str] = {
    grow: "modified",
    shrink: "modified",
    replace: "replaced",
    replace_by_directory: "replaced",
    replace_by_fifo: "replaced",
    replace_by_link: "replaced",
    remove: "replaced",
}


def turns(path: Path, mode: HashMode) -> int:
    """How many checkpoints an undisturbed look passes."""
    count = 0

    def checkpoint() -> None:
        nonlocal count
        count += 1

    inspect(Request(os.fsencode(path), PRODUCER, hash_mode=mode), checkpoint)
    return count


@pytest.mark.parametrize("mode", ["header", "full"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_between_any_two_steps(model: Path, change: Callable[[Path], None], mode: HashMode) -> None:
    """The change comes before each checkpoint in turn; only the first one is before the identity is taken."""
    saved = model.with_name("saved")
    shutil.copyfile(model, saved)
    before = open_files()
    for at in range(2, turns(model, mode) + 1):
        if model.is_dir():
            model.rmdir()
        model.unlink(missing_ok=True)
        shutil.copyfile(saved, model)
        steps: Iterator[int] = iter(range(1, 1000))

        def checkpoint(steps: Iterator[int] = steps, at: int = at) -> None:
            if next(steps) == at:
                change(model)

        evidence = inspect(Request(os.fsencode(model), PRODUCER, hash_mode=mode), checkpoint)
        assert evidence.identity.status == CHANGES[change], at
        assert [finding.code for finding in evidence.findings] == ["identity_changed"]
        assert (evidence.verdict, evidence.artifact.sha256, evidence.read.header_sha256) == ("unknown", None, None)
        assert open_files() == before


def test_a_stop_keeps_the_close(model: Path) -> None:
    """A stop at each checkpoint closes exactly once what was opened."""
    before = open_files()
    for at in range(1, turns(model, "full") + 1):
        steps = iter(range(1, 1000))

        def checkpoint(steps: Iterator[int] = steps, at: int = at) -> None:
            if next(steps) == at:
                raise InspectionStopped("enough")

        evidence = inspect(Request(os.fsencode(model), PRODUCER, hash_mode="full"), checkpoint)
        assert (evidence.outcome, evidence.identity.status) == ("partial", "unverified")
        assert open_files() == before
