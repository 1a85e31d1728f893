"""What is mounted over a root or in it: file systems that come and go, two names for one directory, silent ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditd.service.watching import mounts
from tests.service.keeping import kept
from tests.support.models import gguf

pytestmark = pytest.mark.system

SOUND = gguf()


def _may_mount() -> bool:
    if os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not _may_mount(), reason="needs the privilege of mounting")


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def unmount(path: Path) -> None:
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def mounted(path: Path, *arguments: str | Path) -> Iterator[None]:
    mount(*arguments, path)
    try:
        yield
    finally:
        unmount(path)


TMPFS = ("-t", "tmpfs", "-o", "size=1m", "none")


@needs_mounts
async def test_a_file_system_that_comes_over_the_root_and_goes_again(tmp_path: Path) -> None:
    async with kept(tmp_path) as keeping:
        await keeping.is_watched()
        with mounted(keeping.models, *TMPFS):
            (keeping.models / "on-it.gguf").write_bytes(SOUND)
            await keeping.has_offered("on-it.gguf")
            (keeping.models / "heard.gguf").write_bytes(SOUND)
            await keeping.has_offered("heard.gguf")
        (keeping.models / "below-it.gguf").write_bytes(SOUND)
        await keeping.has_offered("below-it.gguf")
        assert not keeping.named("root_blind")


@needs_mounts
async def test_a_root_whose_file_system_goes_is_blind_and_nothing_is_gone(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    mount(*TMPFS, tmp_path / "models")
    try:
        async with kept(tmp_path) as keeping:
            model = keeping.models / "model.gguf"
            model.write_bytes(SOUND)
            await keeping.has_offered("model.gguf")
            keeping.know(model)
            unmount(keeping.models)
            assert "is it mounted?" in (await keeping.has_said("root_blind"))["reason"]
            assert keeping.board.state == "blind"
            mount(*TMPFS, keeping.models)
            model.write_bytes(SOUND)
            await keeping.has_said("root_restored")
            assert not keeping.removed
            assert len(keeping.named("root_blind")) == 1
    finally:
        unmount(tmp_path / "models")


@needs_mounts
async def test_a_file_system_that_comes_over_a_directory_is_watched_from_the_next_scan_on(tmp_path: Path) -> None:
    (tmp_path / "models/sub").mkdir(parents=True)
    async with kept(tmp_path) as keeping:
        await keeping.is_watched()
        with mounted(keeping.models / "sub", *TMPFS):
            keeping.rescan()
            await keeping.has_said("scan_finished", 2)
            (keeping.models / "sub/on-it.gguf").write_bytes(SOUND)
            await keeping.has_offered("sub/on-it.gguf")
            assert len(keeping.named("scan_finished")) == 2
            assert not keeping.named("root_blind", "events_lost")


@needs_mounts
async def test_both_names_of_one_directory_are_looked_at(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / "models" / name).mkdir(parents=True)
    one, two, three = (tmp_path / "models" / name for name in ("one", "two", "three"))
    with mounted(two, "--bind", one), mounted(three, "--bind", one):
        async with kept(tmp_path) as keeping:
            assert keeping.named("root_armed")[0]["directories"] == 4
            (one / "m.gguf").write_bytes(SOUND)
            await keeping.has_offered("one/m.gguf", "two/m.gguf", "three/m.gguf")
            assert len(keeping.named("scan_finished")) == 1


@needs_mounts
async def test_a_root_that_is_mounted_within_itself(tmp_path: Path) -> None:
    (tmp_path / "models/self").mkdir(parents=True)
    with mounted(tmp_path / "models/self", "--rbind", tmp_path / "models"):
        async with kept(tmp_path) as keeping:
            (keeping.models / "m.gguf").write_bytes(SOUND)
            await keeping.has_offered("m.gguf", "self/m.gguf")
            assert not keeping.named("root_blind", "events_lost")


async def test_a_silent_file_system_is_polled_unless_events_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "read", lambda: b"1 0 0:1 / / rw - nfs4 server:/ rw\n")
    async with kept(tmp_path) as keeping:
        armed = await keeping.has_said("root_armed")
        assert (armed["watch"], armed["reason"]) == ("poll", "nfs4 sends no events")
        assert keeping.board.reason == "nfs4 sends no events: scanned every 0.2 s"
        (keeping.models / "seen.gguf").write_bytes(SOUND)
        await keeping.has_offered("seen.gguf")
    async with kept(tmp_path, watch="events") as keeping:
        assert (await keeping.has_said("root_armed"))["watch"] == "events"


@needs_mounts
async def test_a_silent_file_system_within_the_root_is_polled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = tmp_path / "models/share"
    share.mkdir(parents=True)
    table = f"1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / {share} rw - cifs //server/share rw\n"
    monkeypatch.setattr(mounts, "read", table.encode)
    with mounted(share, *TMPFS):
        async with kept(tmp_path) as keeping:
            armed = await keeping.has_said("root_armed")
            assert (armed["watch"], armed["reason"]) == ("poll", "cifs sends no events")
            (share / "seen.gguf").write_bytes(SOUND)
            await keeping.has_offered("share/seen.gguf")
