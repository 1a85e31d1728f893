"""A whole file is read, and its pages in the page cache are those that were there before.

What is in memory is asked of the kernel here, by another way than the package's: through Python's own mapping. On real
file systems, which are mounted for it: that takes root. The rest runs against a cache that is made up.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import mmap
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.record import Evidence, Producer, Read
from auditd.formats.writer import Entry, Tensor, write_gguf
from auditd.inspection import page_cache, residency
from auditd.inspection.inspector import inspect
from auditd.inspection.page_cache import TREATMENTS, PageCache
from auditd.inspection.request import HashMode, Request, carry_on

MIB = 1024 * 1024
PAGE = mmap.PAGESIZE
DONTCACHE = 0x80
PRODUCER = Producer(name="model-auditd", version="0", host="here", configuration="0")

BLOCK = random.Random(1).randbytes(MIB)


def observation(path: Path, mode: HashMode = "full", checkpoint: Callable[[], None] = carry_on) -> Evidence:
    return inspect(Request(os.fsencode(path), PRODUCER, hash_mode=mode), checkpoint)


def model(path: Path, mebibytes: int, header_bytes: int = 0) -> str:
    """A sound file with so much data, on the disk and not only in memory; its SHA-256."""
    text = Entry("note", "string", "x" * header_bytes)
    made = write_gguf((text,), [Tensor("w", (mebibytes * MIB // 4,), 0, BLOCK * mebibytes)], pad_tail=True).data
    with path.open("wb") as file:
        file.write(made)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(made).hexdigest()


def pages(path: Path) -> bytes:
    """One byte a page of the file, 1 if it is in memory. For a file of our own, or root."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapping:
        count = -(-len(mapping) // PAGE)
        answer = ctypes.create_string_buffer(count)
        first = ctypes.c_char.from_buffer(mapping)
        refused = libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(mapping)), answer)
        del first
    assert not refused
    return bytes(byte & 1 for byte in answer.raw[:count])


def forget(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert not any(pages(path))


def bring_in(path: Path, *ranges: tuple[int, int]) -> bytes:
    """Have exactly these bytes' pages in memory, and say which those are."""
    forget(path)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for begin, end in ranges:
            os.pread(file.fileno(), end - begin, begin)
    found = pages(path)
    assert 0 < sum(found) < len(found)
    return found


def refusing(monkeypatch: pytest.MonkeyPatch, error: Exception, after: int = 0) -> list[int]:
    """Uncached reads are refused once ``after`` of them came back; the flags of all reads."""
    real: Callable[..., int] = os.preadv
    flags: list[int] = []

    def preadv(descriptor: int, buffers: list[Any], offset: int, flag: int = 0) -> int:
        flags.append(flag)
        if flag and flags.count(DONTCACHE) > after:
            raise error
        return real(descriptor, buffers, offset, flag)

    monkeypatch.setattr(os, "preadv", preadv)
    return flags


# --- on real file systems


def mounted(directory: Path, kind: str) -> None:
    """Mount a fresh file system, or skip."""
    if os.geteuid():
        pytest.skip("mounting takes root")
    if kind == "tmpfs":
        command = ["mount", "-t", "tmpfs", "-o", "size=96m", "none", str(directory)]
    else:
        maker = shutil.which(f"mkfs.{kind}")
        if maker is None:
            pytest.skip(f"there is no mkfs.{kind}")
        image = directory.with_name("image")
        with image.open("wb") as file:
            file.truncate({"ext4": 160, "xfs": 320, "btrfs": 320}[kind] * MIB)
        subprocess.run([maker, "-q", str(image)], check=True, capture_output=True)
        command = ["mount", "-o", "loop", str(image), str(directory)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip(f"{kind} cannot be mounted here")


@pytest.fixture(scope="module", params=["ext4", "xfs", "btrfs", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path, str]]:
    """The kind of file system, a model of 64 MiB on it, and its SHA-256."""
    directory = tmp_path_factory.mktemp(request.param) / "mounted"
    directory.mkdir()
    mounted(directory, request.param)
    try:
        path = directory / "model.gguf"
        yield request.param, path, model(path, 64, header_bytes=600_000)
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def half(path: Path) -> bytes:
    """Half of the file in memory, in runs that end within windows, and a page here and there."""
    dice = random.Random(2)
    scattered = [(page * PAGE, page * PAGE + 1) for page in dice.sample(range(32 * MIB // PAGE), 50)]
    return bring_in(path, (0, PAGE), (33 * MIB + PAGE, 61 * MIB), (63 * MIB, 63 * MIB + 3 * PAGE), *scattered)


def on_disk(disk: tuple[str, Path, str]) -> tuple[Path, str]:
    kind, path, digest = disk
    if kind == "tmpfs":
        pytest.skip("pages are the file")
    return path, digest


def takes_uncached_reads(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, DONTCACHE) == 1
        except (OSError, NotImplementedError):
            return False


def test_a_whole_look_leaves_what_it_found(disk: tuple[str, Path, str]) -> None:
    path, digest = on_disk(disk)
    expected = "uncached" if takes_uncached_reads(path) else "dropped"
    found = half(path)
    evidence = observation(path)
    assert (evidence.artifact.sha256, evidence.read.cache) == (digest, expected)
    assert pages(path) == found


@pytest.mark.parametrize("after", [0, 5])
def test_without_uncached_reads_too(disk: tuple[str, Path, str], monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """From the beginning, or refused in the middle."""
    path, digest = on_disk(disk)
    found = half(path)
    with monkeypatch.context() as patch:
        flags = refusing(patch, OSError(errno.EOPNOTSUPP, "not here"), after)
        evidence = observation(path)
    if takes_uncached_reads(path):
        assert flags.count(DONTCACHE) == after + 1
    assert (evidence.artifact.sha256, evidence.read.cache) == (digest, "dropped")
    assert pages(path) == found


def test_a_look_that_is_stopped_leaves_no_more_than_what_was_under_way(
    disk: tuple[str, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel is reading ahead at that moment cannot be dropped; it is less than two windows."""
    path, _ = on_disk(disk)
    found = half(path)
    read = 0

    def checkpoint() -> None:
        if read > 20 * MIB:
            raise InspectionStopped("enough")

    def progress(done: int, _: int) -> None:
        nonlocal read
        read = done

    with monkeypatch.context() as patch:
        refusing(patch, OSError(errno.EOPNOTSUPP, "not here"))
        evidence = inspect(Request(os.fsencode(path), PRODUCER, hash_mode="full"), checkpoint, progress)
    assert (evidence.outcome, evidence.read.cache) == ("partial", "dropped")
    left = [page for page, (now, before) in enumerate(zip(pages(path), found, strict=True)) if now != before]
    assert all(evidence.read.bytes_read <= page * PAGE < 40 * MIB for page in left)
    assert not any(now < before for now, before in zip(pages(path), found, strict=True))


def test_what_is_all_in_memory_stays(disk: tuple[str, Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, path, digest = disk
    path.read_bytes()
    for _ in range(2):
        assert observation(path).artifact.sha256 == digest
        assert all(pages(path))
        refusing(monkeypatch, OSError(errno.EOPNOTSUPP, "not here"))


def test_a_header_look_brings_in_the_header_alone(disk: tuple[str, Path, str]) -> None:
    """Not the megabytes around it that the kernel would read ahead."""
    path, _ = on_disk(disk)
    forget(path)
    evidence = observation(path, "header")
    assert evidence.read.cache == "left"
    assert evidence.read.bytes_read < MIB
    assert sum(pages(path)) * PAGE == evidence.read.bytes_read


def test_memory_is_not_dropped_from_memory(disk: tuple[str, Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    kind, path, digest = disk
    if kind != "tmpfs":
        pytest.skip("the others are no memory")
    refusing(monkeypatch, OSError(errno.EOPNOTSUPP, "not here"))
    evidence = observation(path)
    assert (evidence.artifact.sha256, evidence.read.cache) == (digest, "memory")


def test_the_kernel_says_nothing_of_anothers_file(disk: tuple[str, Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It then says that all of it is in memory; nothing is dropped, and no one is told that it was."""
    path, _ = on_disk(disk)
    size = path.stat().st_size
    refusing(monkeypatch, OSError(errno.EOPNOTSUPP, "not here"))
    half(path)
    buffer = bytearray(MIB)
    with path.open("rb") as file:
        assert residency.tells_the_truth(file.fileno(), size)
        os.seteuid(65534)
        try:
            assert residency.absent(file.fileno(), 0, size) == []
            assert not residency.tells_the_truth(file.fileno(), size)
            reading = PageCache(file.fileno(), size)
            for offset in range(0, size, MIB):
                reading.read_into(buffer, offset)
            reading.finish()
        finally:
            os.seteuid(0)
    assert reading.treatment == "filled"
    assert all(pages(path))


# --- on any file system


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "model.gguf"
    return path, model(path, 9)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, None])
def test_a_kernel_without_the_flag(
    small: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, number: int | None
) -> None:
    path, digest = small
    refused = NotImplementedError() if number is None else OSError(number, os.strerror(number))
    flags = refusing(monkeypatch, refused)
    evidence = observation(path)
    assert (evidence.verdict, evidence.artifact.sha256) == ("sound", digest)
    assert evidence.read.cache in {"memory", "dropped", "filled"}
    assert flags.count(DONTCACHE) == 1


@pytest.mark.parametrize("number", [errno.EIO, errno.EINTR, errno.ESTALE])
def test_a_read_that_fails_is_no_flag_that_is_unknown(
    small: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path, _ = small
    flags = refusing(monkeypatch, OSError(number, os.strerror(number)), after=2)
    if not takes_uncached_reads(path):
        pytest.skip("this file system has no uncached reads")
    flags.clear()
    evidence = observation(path)
    assert evidence.error is not None
    assert (evidence.outcome, evidence.error.errno) == ("partial", number)
    assert evidence.read.cache == "uncached"
    assert flags[-1] == DONTCACHE
    assert 0 not in flags


@pytest.mark.parametrize("refused", [True, False])
def test_reads_that_come_short(small: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    path, digest = small
    if refused:
        refusing(monkeypatch, OSError(errno.EOPNOTSUPP, "not here"))
    real: Callable[..., int] = os.preadv

    def preadv(descriptor: int, buffers: list[Any], offset: int, *flags: int) -> int:
        return real(descriptor, [memoryview(buffers[0])[:100_003]], offset, *flags)

    monkeypatch.setattr(os, "preadv", preadv)
    assert observation(path).artifact.sha256 == digest


def test_a_header_is_read_as_ever(small: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "preadv")
    evidence = observation(small[0], "header")
    assert (evidence.verdict, evidence.read.cache) == ("sound", "left")


def test_no_advice_is_no_failure(small: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.EINVAL, "no advice")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    refusing(monkeypatch, OSError(errno.EOPNOTSUPP, "not here"))
    assert observation(small[0]).artifact.sha256 == small[1]


def test_a_file_that_was_cut_can_still_be_asked_about(tmp_path: Path) -> None:
    """Nothing touches the mapping: the pages that are gone raise no signal."""
    path = tmp_path / "file"
    path.write_bytes(bytes(8 * PAGE))
    with path.open("rb") as file:
        os.truncate(path, 0)
        assert residency.absent(file.fileno(), 0, 8 * PAGE) == [(0, 8 * PAGE)]


def test_a_kernel_that_refuses_to_say(small: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As a filter of system calls does."""
    monkeypatch.setattr(residency, "is_memory", lambda _: False)
    monkeypatch.setattr(residency._libc, "mincore", lambda *_: -1)
    refusing(monkeypatch, OSError(errno.EOPNOTSUPP, "not here"))
    evidence = observation(small[0])
    assert (evidence.artifact.sha256, evidence.read.cache) == (small[1], "filled")


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        ("", []),
        ("1", []),
        ("0", [(0, 1)]),
        ("0110", [(0, 1), (3, 4)]),
        ("100101", [(1, 3), (4, 5)]),
    ],
)
def test_runs_of_absent_pages(answer: str, runs: list[tuple[int, int]]) -> None:
    begin = 3 * PAGE
    found = residency._runs(bytes(map(int, answer)), begin)
    assert found == [(begin + first * PAGE, begin + last * PAGE) for first, last in runs]


def test_every_treatment_is_told_where_the_record_is_described() -> None:
    assert Read.__doc__ is not None
    for word in TREATMENTS:
        assert f"``{word}``" in Read.__doc__


# --- a cache that is made up


class MadeUp:
    """The cache of one file, by pages, with a kernel that reads ahead by less than a window."""

    def __init__(self, pages: int, resident: set[int], ahead: int) -> None:
        self.pages = pages
        self.resident = resident
        self._ahead = ahead

    def absent(self, descriptor: int, begin: int, end: int) -> list[tuple[int, int]]:
        wanted = range(begin // PAGE, -(-end // PAGE))
        return [(page * PAGE, (page + 1) * PAGE) for page in wanted if page not in self.resident]

    def drop(self, descriptor: int, runs: list[tuple[int, int]]) -> None:
        for begin, end in runs:
            self.resident -= set(range(begin // PAGE, end // PAGE))

    def preadv(self, descriptor: int, buffers: list[bytearray], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "not here")
        count = max(0, min(len(buffers[0]), self.pages * PAGE - offset))
        last = min(self.pages, -(-(offset + count) // PAGE) + self._ahead)
        self.resident |= set(range(offset // PAGE, last))
        return count


@pytest.mark.parametrize("number", range(30))
def test_whatever_was_there_and_wherever_it_ends(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(number)
    count = dice.randint(1, 60)
    found = set(dice.sample(range(count), dice.randint(0, count)))
    kernel = MadeUp(count, set(found), ahead=dice.randint(0, 8))
    monkeypatch.setattr(page_cache, "WINDOW_BYTES", 8 * PAGE)
    monkeypatch.setattr(os, "preadv", kernel.preadv)
    for name in ("absent", "drop"):
        monkeypatch.setattr(residency, name, getattr(kernel, name))
    monkeypatch.setattr(residency, "is_memory", lambda _: False)
    monkeypatch.setattr(residency, "tells_the_truth", lambda *_: True)
    size = count * PAGE
    reading = PageCache(-1, size)
    for _ in range(dice.randint(1, 3)):  # from the beginning each time, as a second reading is
        offset, end = 0, dice.choice([size, dice.randint(0, size)])
        while offset < end:
            offset += reading.read_into(bytearray(dice.randint(1, 20 * PAGE)), offset)
        if offset >= size:
            assert kernel.resident == found, "at the end of the file, before anybody says that it is the end"
    reading.finish()
    assert kernel.resident == found
