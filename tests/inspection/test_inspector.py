"""One inspection from outside: identity, digests, stopping at any read, and every way in which a path can fail."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import socket
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.record import Evidence
from auditd.inspection.request import Request, carry_on, unwatched
from tests.builders import (
    ARCHITECTURE,
    PRODUCER,
    Array,
    Entry,
    Tensor,
    codes,
    finding,
    gguf,
    observation,
    observe_artifact,
    safetensors,
    simple,
    sketch,
    st_entry,
)

inspector = pytest.importorskip("auditd.inspection.inspector", reason="there is no inspector")

CHUNK = 256 * 1024


def run(path: Path, checkpoint: Callable[[], None] = carry_on, **options: Any) -> Evidence:
    evidence = inspector.inspect(Request(path=os.fsencode(path), producer=PRODUCER, **options), checkpoint, unwatched)
    assert isinstance(evidence, Evidence)
    return evidence


def descriptors() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue  # the descriptor of the listing itself
    return {item for item in found if "/proc/" not in item}


class Acting:
    """A checkpoint that does something once, at its nth call."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        self.calls = 0
        self.at = at
        self.act = act

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.act()


def stop() -> None:
    raise InspectionStopped("asked to stop")


@cache
def big_gguf(metadata_bytes: int = 700_000, data_bytes: int = 900_000) -> bytes:
    """A header of several chunks and data of several more."""
    entries = [
        ARCHITECTURE,
        Entry("a.first", "u32", 1),
        Entry("a.bulk", "array", Array("u8", bytes(metadata_bytes))),
        Entry("a.last", "u32", 2),
    ]
    written = gguf(entries, [Tensor("w", [data_bytes // 4])]).data
    return written[:-data_bytes] + b"\1" * data_bytes


def count_calls(path: Path, **options: Any) -> int:
    counter = Acting(-1, stop)
    run(path, counter, **options)
    return counter.calls


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(big_gguf())
    return path


# --- identity and digests


def test_identity_is_what_the_file_system_says(model: Path) -> None:
    evidence = run(model)
    status = model.stat()
    assert evidence.identity.status == "unchanged"
    assert evidence.identity.before is not None
    assert evidence.identity.before == evidence.identity.after
    before = evidence.identity.before
    assert (before.device, before.inode, before.size) == (status.st_dev, status.st_ino, status.st_size)
    assert (before.mtime_ns, before.ctime_ns) == (str(status.st_mtime_ns), str(status.st_ctime_ns))
    assert (before.links, before.mode, before.uid, before.gid) == (
        status.st_nlink,
        status.st_mode,
        status.st_uid,
        status.st_gid,
    )


def test_the_artifact_is_named(model: Path) -> None:
    evidence = run(model)
    assert evidence.artifact.path == str(model)
    assert evidence.artifact.path_base64 is None
    assert evidence.artifact.name == "model.gguf"
    assert evidence.schema == "model-auditd/evidence/1"
    assert evidence.trigger == "command"
    assert evidence.recorded_at.endswith("Z")


def test_a_header_look_hashes_the_header_only(model: Path) -> None:
    data = model.read_bytes()
    evidence = run(model)
    length = evidence.read.header_length
    assert length is not None
    assert evidence.read.header_sha256 == hashlib.sha256(data[:length]).hexdigest()
    assert evidence.artifact.sha256 is None
    assert evidence.read.scope == "header"
    assert length <= evidence.read.bytes_read <= length + CHUNK
    assert evidence.read.bytes_hashed == length
    assert evidence.coverage.digest.status != "complete"


def test_a_full_look_hashes_everything(model: Path) -> None:
    data = model.read_bytes()
    evidence = run(model, hash_mode="full")
    assert evidence.artifact.sha256 == hashlib.sha256(data).hexdigest()
    assert evidence.read.scope == "full"
    assert evidence.read.bytes_read == len(data)
    assert evidence.read.bytes_hashed == len(data)
    assert evidence.coverage.digest.status == "complete"
    assert evidence.coverage.identity.status == "complete"
    assert evidence.read.header_sha256 == run(model).read.header_sha256


@pytest.mark.parametrize("size", [0, 1, 4, 8, 24, 32 * 1024 - 1, 32 * 1024, 32 * 1024 + 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_digests_at_the_edges_of_chunks(tmp_path: Path, size: int) -> None:
    header = gguf([ARCHITECTURE], [Tensor("w", [1])], data=b"").data
    data = (header + os.urandom(size))[: max(size, len(header))]
    evidence = observe_artifact(tmp_path, data, hash_mode="full")
    assert evidence.artifact.sha256 == hashlib.sha256(data).hexdigest()
    assert evidence.read.bytes_read == len(data)


def test_safetensors_in_full(tmp_path: Path) -> None:
    data = safetensors({"w": st_entry("U8", [600_000], 0, 600_000)}, os.urandom(600_000))
    evidence = observe_artifact(tmp_path, data, "model.safetensors", hash_mode="full")
    assert evidence.verdict == "sound"
    assert evidence.artifact.sha256 == hashlib.sha256(data).hexdigest()


def test_expected_without_a_reference_reads_the_header(model: Path) -> None:
    evidence = run(model, hash_mode="expected")
    assert evidence.artifact.sha256 is None
    assert evidence.read.scope == "header"


def test_progress_reaches_its_end(model: Path) -> None:
    seen: list[tuple[int, int]] = []
    request = Request(path=os.fsencode(model), producer=PRODUCER, hash_mode="full")
    inspector.inspect(request, carry_on, lambda done, wanted: seen.append((done, wanted)))
    assert seen
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert all(done <= wanted for done, wanted in seen)
    assert seen[-1][0] == model.stat().st_size


def test_the_checkpoint_comes_before_every_chunk(model: Path) -> None:
    size = model.stat().st_size
    assert count_calls(model, hash_mode="full") >= size // CHUNK
    assert count_calls(model) >= 700_000 // CHUNK


def test_a_look_leaves_the_file_alone(model: Path) -> None:
    before = model.stat()
    run(model, hash_mode="full")
    after = model.stat()
    assert (before.st_mtime_ns, before.st_ctime_ns, before.st_size) == (
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_size,
    )


def test_links_are_followed_to_the_file(model: Path) -> None:
    link = model.with_name("link.gguf")
    link.symlink_to(model)
    evidence = run(link)
    assert evidence.verdict == "sound"
    assert evidence.identity.before is not None
    assert evidence.identity.before.inode == model.stat().st_ino


# --- a file that changes under the reading


def rewrite_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    os.utime(path, ns=(1, 1))


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1000)


@pytest.mark.parametrize("mode", ["header", "full"])
@pytest.mark.parametrize(
    ("change", "status"),
    [(rewrite_in_place, "modified"), (replace, "replaced"), (grow, "modified"), (shrink, "modified")],
)
@pytest.mark.parametrize("when", [2, 3])
def test_a_change_while_reading(model: Path, change: Callable[[Path], None], status: str, when: int, mode: str) -> None:
    evidence = run(model, Acting(when, lambda: change(model)), hash_mode=mode)
    assert evidence.identity.status == status
    assert evidence.artifact.sha256 is None
    assert evidence.read.header_sha256 is None
    assert "identity_changed" in codes(evidence)
    assert evidence.verdict not in {"sound", "notice", "undetermined"}
    assert evidence.coverage.digest.status != "complete"
    assert finding(evidence, "identity_changed").severity == "warning"
    # the header was whole when it was read, and stays known
    assert evidence.gguf is not None
    assert evidence.gguf.metadata_count == 4


def test_a_change_right_before_the_last_read(model: Path) -> None:
    calls = count_calls(model, hash_mode="full")
    evidence = run(model, Acting(calls, lambda: grow(model)), hash_mode="full")
    assert evidence.identity.status == "modified"
    assert evidence.artifact.sha256 is None


def test_a_file_that_is_removed_while_reading(model: Path) -> None:
    evidence = run(model, Acting(2, model.unlink), hash_mode="full")
    assert evidence.identity.status != "unchanged"
    assert evidence.artifact.sha256 is None
    assert evidence.verdict not in {"sound", "notice", "undetermined"}


def test_a_file_that_shrinks_into_its_header(model: Path) -> None:
    evidence = run(model, Acting(2, lambda: os.truncate(model, 40_000)))
    assert evidence.identity.status == "modified"
    assert "identity_changed" in codes(evidence)
    assert evidence.read.header_sha256 is None
    assert evidence.verdict not in {"sound", "notice", "undetermined"}


def test_a_touch_alone_is_a_change(model: Path) -> None:
    """The content may be what it was; nobody can say so."""
    evidence = run(model, Acting(2, lambda: os.utime(model, ns=(5, 5))), hash_mode="full")
    assert evidence.identity.status == "modified"
    assert evidence.artifact.sha256 is None


# --- stopping


def knowledge(evidence: Evidence) -> tuple[int, int, int, int]:
    """How much a record knows: entries, tensors, whether the header is whole, figures."""
    declared = evidence.gguf
    account = evidence.accounting
    return (
        len(declared.metadata or []) if declared else -1,
        len(declared.tensors or []) if declared else -1,
        int(evidence.coverage.header.status == "complete"),
        int(account is not None and account.residue is not None),
    )


@pytest.mark.parametrize("mode", ["header", "full"])
def test_stopping_at_every_checkpoint(model: Path, mode: str) -> None:
    total = count_calls(model, hash_mode=mode)
    whole = run(model, hash_mode=mode)
    open_before = descriptors()
    known = (-1, -1, 0, 0)
    for at in range(1, total + 1):
        evidence = run(model, Acting(at, stop), hash_mode=mode)
        assert evidence.outcome == "partial"
        assert evidence.error is not None
        assert (evidence.error.code, evidence.error.category) == ("cancelled", "cancelled")
        assert "asked to stop" in evidence.error.message
        assert evidence.verdict == "unknown"
        assert evidence.artifact.sha256 is None
        assert evidence.read.header_sha256 is None
        assert evidence.identity.after is None
        assert evidence.identity.status == "unverified"
        assert descriptors() == open_before
        now = knowledge(evidence)
        assert all(new >= old for new, old in zip(now, known, strict=True)), (at, known, now)
        if now[2]:
            assert evidence.gguf is not None
            assert whole.gguf is not None
            assert evidence.gguf.metadata == whole.gguf.metadata
            assert evidence.gguf.tensors == whole.gguf.tensors
            assert evidence.accounting == whole.accounting
        known = now
    if mode == "full":
        assert known[2] == 1


def test_a_stopped_gguf_keeps_what_was_complete(model: Path) -> None:
    # stopped before the second read: the first two entries are whole, the third runs on
    evidence = next(found for at in range(1, 10) if (found := run(model, Acting(at, stop))).read.bytes_read > 0)
    assert evidence.read.bytes_read <= CHUNK
    assert evidence.gguf is not None
    assert [row.key for row in evidence.gguf.metadata or []][:2] == ["general.architecture", "a.first"]
    assert evidence.gguf.alignment is None
    assert evidence.coverage.header.status != "complete"
    assert evidence.coverage.metadata.status == "partial"
    assert evidence.read.header_length is None


def test_a_stopped_safetensors_shows_no_row(tmp_path: Path) -> None:
    header = {f"t{n:06}": st_entry("U8", [1], n, n + 1) for n in range(9_000)}
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(header, bytes(9_000)))
    total = count_calls(path)
    assert total > 3
    for at in {1, 2, 3, total // 2, total - 2, total - 1, total}:
        evidence = run(path, Acting(at, stop))
        assert evidence.outcome == "partial"
        if evidence.coverage.header.status != "complete":
            assert evidence.safetensors is None or evidence.safetensors.tensors is None


def test_a_bug_in_a_checkpoint_still_closes_the_file(model: Path) -> None:
    before = descriptors()

    def broken() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(model, Acting(2, broken))
    assert descriptors() == before


def test_nothing_leaks(model: Path) -> None:
    before = descriptors()
    for mode in ("header", "full"):
        run(model, hash_mode=mode)
    observation(model.with_name("absent"))
    observe_artifact(model.parent, b"GGUF", "short.gguf")
    assert descriptors() == before


# --- paths that cannot be looked at


def unavailable(evidence: Evidence, number: int | None) -> None:
    assert evidence.outcome == "unavailable"
    assert evidence.verdict == "unknown"
    error = evidence.error
    assert error is not None
    assert (error.code, error.category) == ("target_unavailable", "path")
    assert error.errno == number
    assert evidence.artifact.sha256 is None
    assert evidence.gguf is None
    assert evidence.accounting is None
    assert finding(evidence, "path_unavailable").severity == "warning"


def test_a_missing_file(tmp_path: Path) -> None:
    unavailable(observation(tmp_path / "absent.gguf"), errno.ENOENT)


def test_a_missing_directory(tmp_path: Path) -> None:
    unavailable(observation(tmp_path / "absent" / "model.gguf"), errno.ENOENT)


def test_a_file_as_a_directory(model: Path) -> None:
    unavailable(observation(model / "model.gguf"), errno.ENOTDIR)


def test_a_directory(tmp_path: Path) -> None:
    evidence = observation(tmp_path)
    assert evidence.outcome == "unavailable"
    assert evidence.error is not None
    assert evidence.error.code == "target_unavailable"


def test_a_dangling_link(tmp_path: Path) -> None:
    link = tmp_path / "model.gguf"
    link.symlink_to(tmp_path / "absent")
    unavailable(observation(link), errno.ENOENT)


def test_a_loop_of_links(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    first.symlink_to(second)
    second.symlink_to(first)
    unavailable(observation(first), errno.ELOOP)


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    unavailable(observation(tmp_path / ("n" * 300)), errno.ENAMETOOLONG)


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "pipe.gguf"
    os.mkfifo(path)
    evidence = observation(path)
    assert evidence.outcome == "unavailable"
    assert evidence.error is not None
    assert (evidence.error.code, evidence.error.category) == ("target_unavailable", "path")


def test_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.gguf"
    with socket.socket(socket.AF_UNIX) as made:
        monkeypatch.chdir(tmp_path)  # the path of a socket is short
        made.bind("s.gguf")
        evidence = observation(path)
    assert evidence.outcome == "unavailable"
    assert evidence.error is not None
    assert evidence.error.code == "target_unavailable"


def test_a_device() -> None:
    if not stat.S_ISCHR(os.stat("/dev/null").st_mode):
        pytest.skip("/dev/null is no device here")
    evidence = observation("/dev/null")
    assert evidence.outcome == "unavailable"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(model: Path) -> None:
    model.chmod(0)
    unavailable(observation(model), errno.EACCES)


def failing(monkeypatch: pytest.MonkeyPatch, path: Path, name: str, number: int, at: int = 1) -> None:
    """Let the nth call of ``os.<name>`` for this file fail."""
    real = getattr(os, name)
    calls = 0

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        target = arguments[0]
        if isinstance(target, int):
            try:
                mine = os.readlink(f"/proc/self/fd/{target}") == str(path)
            except OSError:
                mine = False
        else:
            mine = os.fsencode(target) == os.fsencode(path)
        if mine:
            calls += 1
            if calls >= at:
                raise OSError(number, os.strerror(number), os.fsencode(path))
        return real(*arguments, **options)

    monkeypatch.setattr(os, name, call)


#: About the path: somebody has to fix it there.
PATH_ERRORS = [errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG]
#: About this machine: the file may be fine.
HOST_ERRORS = [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOMEM, errno.ESTALE]


@pytest.mark.parametrize("number", PATH_ERRORS)
def test_open_fails_for_the_path(model: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    failing(monkeypatch, model, "open", number)
    unavailable(run(model), number)


@pytest.mark.parametrize("number", HOST_ERRORS)
def test_open_fails_for_the_host(model: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    failing(monkeypatch, model, "open", number)
    evidence = run(model)
    assert evidence.outcome == "failed"
    assert evidence.verdict == "unknown"
    assert evidence.error is not None
    assert (evidence.error.code, evidence.error.category) == ("execution_failure", "host")
    assert evidence.error.errno == number
    assert finding(evidence, "read_failed").severity == "warning"


def reads_with(monkeypatch: pytest.MonkeyPatch, model: Path, number: int, at: int) -> None:
    for name in ("pread", "preadv", "read", "readv"):
        failing(monkeypatch, model, name, number, at)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENODEV])
@pytest.mark.parametrize("mode", ["header", "full"])
def test_a_read_fails_at_once(model: Path, monkeypatch: pytest.MonkeyPatch, number: int, mode: str) -> None:
    reads_with(monkeypatch, model, number, 1)
    before = descriptors()
    evidence = run(model, hash_mode=mode)
    assert evidence.outcome == "failed"
    assert evidence.verdict == "unknown"
    assert evidence.error is not None
    assert (evidence.error.code, evidence.error.category, evidence.error.errno) == ("execution_failure", "host", number)
    assert evidence.artifact.sha256 is None
    assert "read_failed" in codes(evidence)
    assert descriptors() == before


def last_read(monkeypatch: pytest.MonkeyPatch, model: Path) -> int:
    """How many reads a full look takes."""
    counted = 0
    with monkeypatch.context() as patch:
        for name in ("pread", "preadv", "read", "readv"):
            real = getattr(os, name)

            def call(*arguments: Any, real: Any = real) -> Any:
                nonlocal counted
                counted += 1
                return real(*arguments)

            patch.setattr(os, name, call)
        run(model, hash_mode="full")
    return counted


@pytest.mark.parametrize("back", [0, 1])
def test_a_read_fails_after_the_header(model: Path, monkeypatch: pytest.MonkeyPatch, back: int) -> None:
    whole = run(model, hash_mode="full")
    last = last_read(monkeypatch, model)
    assert last > 3
    fail_at = last - back
    calls = 0
    for name in ("pread", "preadv", "read", "readv"):
        real = getattr(os, name)

        def call(*arguments: Any, real: Any = real) -> Any:
            nonlocal calls
            calls += 1
            if calls >= fail_at:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments)

        monkeypatch.setattr(os, name, call)
    evidence = run(model, hash_mode="full")
    assert evidence.outcome == "partial"
    assert evidence.verdict == "unknown"
    assert evidence.error is not None
    assert evidence.error.errno == errno.EIO
    assert evidence.gguf == whole.gguf
    assert evidence.accounting is not None
    assert whole.accounting is not None
    assert evidence.accounting.residue == whole.accounting.residue == 0
    assert evidence.artifact.sha256 is None
    assert evidence.read.header_sha256 is None


def test_reads_that_come_short_are_gone_on_with(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network mount may give fewer bytes than were asked for."""
    real, real_into = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: real(fd, min(length, 10_007), offset))
    monkeypatch.setattr(
        os,
        "preadv",
        lambda fd, buffers, offset, *flags: real_into(fd, [memoryview(buffers[0])[:10_007]], offset, *flags),
    )
    assert run(model, hash_mode="header").verdict == "sound"
    evidence = run(model, hash_mode="full")
    assert evidence.verdict == "sound"
    assert evidence.artifact.sha256 == hashlib.sha256(model.read_bytes()).hexdigest()


# --- names


def test_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/m\xff\n.gguf"
    with open(raw, "wb") as file:
        file.write(sketch().data)
    evidence = observation(raw)
    assert evidence.verdict == "sound"
    assert evidence.artifact.path_base64 is not None
    assert base64.b64decode(evidence.artifact.path_base64) == raw


@pytest.mark.parametrize(
    "name",
    [
        "model.gguf.part",
        "model.gguf.crdownload",
        "abc.incomplete",
        "sha256-00-partial",
        "sha256-00-partial-3",
        "model.gguf.tmp",
        "model.gguf.download",
    ],
)
def test_unfinished_downloads_are_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(sketch().data[:100])
    evidence = observation(path)
    assert (evidence.outcome, evidence.verdict) == ("skipped", "in_progress")
    assert finding(evidence, "unfinished").severity == "info"
    assert evidence.read.bytes_read == 0
    assert evidence.artifact.sha256 is None
    asked = observation(path, unfinished=True)
    assert asked.verdict == "truncated"


def test_aria2_beside_a_file_says_that_it_is_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(sketch().data)
    (tmp_path / "model.gguf.aria2").write_bytes(b"")
    assert observation(path).verdict == "in_progress"
    (tmp_path / "model.gguf.aria2").unlink()
    assert observation(path).verdict == "sound"


@pytest.mark.parametrize("name", ["part", "model.partial", "x.gguf.part2", "incomplete.gguf", "a-partial-x.gguf"])
def test_other_names_are_finished(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(sketch().data)
    assert observation(path).verdict == "sound"


# --- severities


def test_severities_can_be_configured(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(simple(Tensor("w", [8])).data + b"x")
    evidence = run(path, severities={"unowned_bytes": "notice"})
    assert finding(evidence, "unowned_bytes").severity == "notice"
    assert evidence.verdict == "residue"
