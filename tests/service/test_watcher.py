"""A root stays in sight whatever happens in it: trees that come and go, links, names, closed directories."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.service.keeping import home_of_nobody, kept
from tests.support.models import gguf

pytestmark = pytest.mark.system

SOUND = gguf()

#: A byte that no UTF-8 text has.
BAD_NAME = os.fsdecode(b"\xff.gguf")


async def test_a_file_in_a_tree_that_is_made_at_once(tmp_path: Path) -> None:
    async with kept(tmp_path) as keeping:
        (keeping.models / "a/b/c").mkdir(parents=True)
        (keeping.models / "a/b/c/at-once.gguf").write_bytes(SOUND)
        await keeping.has_offered("a/b/c/at-once.gguf")
        (keeping.models / "a/b/c/later.gguf").write_bytes(SOUND)
        await keeping.has_offered("a/b/c/later.gguf")
        assert len(keeping.named("scan_finished")) == 1


async def test_a_tree_that_is_moved_in_is_watched_to_its_leaves(tmp_path: Path) -> None:
    (tmp_path / "outside/x/y").mkdir(parents=True)
    (tmp_path / "outside/x/y/came.gguf").write_bytes(SOUND)
    async with kept(tmp_path) as keeping:
        (tmp_path / "outside").rename(keeping.models / "inside")
        await keeping.has_offered("inside/x/y/came.gguf")
        (keeping.models / "inside/x/y/later.gguf").write_bytes(SOUND)
        await keeping.has_offered("inside/x/y/later.gguf")
        assert len(keeping.named("scan_finished")) == 1


async def test_directories_that_are_renamed_or_made_anew_stay_watched(tmp_path: Path) -> None:
    (tmp_path / "models/old/deep").mkdir(parents=True)
    async with kept(tmp_path) as keeping:
        (keeping.models / "old").rename(keeping.models / "new")
        (keeping.models / "new/deep/one.gguf").write_bytes(SOUND)
        await keeping.has_offered("new/deep/one.gguf")
        (keeping.models / "new/deep/two.gguf").write_bytes(SOUND)
        await keeping.has_offered("new/deep/two.gguf")
        shutil.rmtree(keeping.models / "new")
        (keeping.models / "new").mkdir()  # the file system may well give it the same inode number
        (keeping.models / "new/three.gguf").write_bytes(SOUND)
        await keeping.has_offered("new/three.gguf")
        (keeping.models / "new/four.gguf").write_bytes(SOUND)
        await keeping.has_offered("new/four.gguf")
        assert len(keeping.named("scan_finished")) == 1


async def test_many_directories_that_appear_one_after_another(tmp_path: Path) -> None:
    async with kept(tmp_path) as keeping:
        names = [f"{number}/m.gguf" for number in range(300)]
        for name in names:
            (keeping.models / name).parent.mkdir()
            (keeping.models / name).write_bytes(SOUND)
        await keeping.has_offered(*names)
        (keeping.models / "0/later.gguf").write_bytes(SOUND)
        (keeping.models / "299/later.gguf").write_bytes(SOUND)
        await keeping.has_offered("0/later.gguf", "299/later.gguf")
        assert not keeping.named("events_lost", "root_blind")


async def test_links_are_neither_followed_nor_watched_and_loops_are_harmless(tmp_path: Path) -> None:
    outside, models = tmp_path / "outside", tmp_path / "models"
    outside.mkdir()
    (models / "in").mkdir(parents=True)
    (models / "loop").symlink_to(models)
    (models / "in/up").symlink_to("..")
    (models / "away").symlink_to(outside)
    async with kept(tmp_path) as keeping:
        assert keeping.named("root_armed")[0]["directories"] == 2
        (models / "late").symlink_to(outside)
        (outside / "not-ours.gguf").write_bytes(SOUND)
        (models / "in/ours.gguf").write_bytes(SOUND)
        await keeping.has_offered("in/ours.gguf")
        assert set(keeping.offered) == {"in/ours.gguf"}


async def test_followed_links_are_watched_once_and_loops_are_harmless(tmp_path: Path) -> None:
    outside, models = tmp_path / "outside", tmp_path / "models"
    outside.mkdir()
    models.mkdir()
    (models / "away").symlink_to(outside)
    (models / "again").symlink_to(outside)
    (models / "loop").symlink_to(models)
    async with kept(tmp_path, follow_links=True) as keeping:
        assert keeping.named("root_armed")[0]["directories"] == 2
        (outside / "ours.gguf").write_bytes(SOUND)
        await keeping.until(lambda: keeping.offered)
        assert {os.path.basename(path) for path in keeping.offered} == {"ours.gguf"}


async def test_a_name_that_is_not_utf8_breaks_the_watch_twice_at_most(tmp_path: Path) -> None:
    (tmp_path / "models/good").mkdir(parents=True)
    bad = tmp_path / "models" / BAD_NAME
    async with kept(tmp_path) as keeping:
        await keeping.is_watched()
        for breaks in (1, 2):
            bad.write_bytes(SOUND + bytes(breaks))
            await keeping.has_said("events_lost", breaks)
            await keeping.has_said("scan_finished", breaks + 1)
        remark = await keeping.has_said("root_armed", 2)
        assert (remark["directories"], remark["unwatched"], remark["reason"]) == (1, 1, "a name that is not UTF-8")
        for number in range(20):
            bad.write_bytes(SOUND + bytes(number))
        (keeping.models / "good/one.gguf").write_bytes(SOUND)  # by its event
        (keeping.models / "beside.gguf").write_bytes(SOUND)  # by the scan on the shorter period
        await keeping.has_offered("good/one.gguf", "beside.gguf", BAD_NAME)
        assert len(keeping.named("events_lost")) == 2
        assert not keeping.named("root_blind")
        assert keeping.board.reason is not None
        assert keeping.board.reason.startswith("1 directory cannot be watched")


async def test_a_directory_whose_name_is_not_utf8_costs_its_siblings_nothing(tmp_path: Path) -> None:
    inside = tmp_path / "models" / BAD_NAME
    inside.mkdir(parents=True)
    (tmp_path / "models/good").mkdir()
    async with kept(tmp_path) as keeping:
        armed = keeping.named("root_armed")[0]
        assert (armed["directories"], armed["unwatched"], armed["level"]) == (1, 2, "warning")
        (inside / "seen.gguf").write_bytes(SOUND)  # by a scan on the shorter period
        await keeping.has_offered(f"{BAD_NAME}/seen.gguf")
        (keeping.models / "good/one.gguf").write_bytes(SOUND)
        await keeping.has_offered("good/one.gguf")
        assert not keeping.named("events_lost", "root_blind")


async def test_a_closed_directory_does_not_blind_its_siblings() -> None:
    with home_of_nobody() as home:
        for name in ("after", "closed", "before"):
            (home / "models" / name).mkdir(parents=True)
        (home / "models/closed/hidden.gguf").write_bytes(SOUND)
        (home / "models/closed").chmod(0)
        async with kept(home) as keeping:
            armed = keeping.named("root_armed")[0]
            assert (armed["directories"], armed["unwatched"], armed["reason"]) == (3, 1, "Permission denied")
            assert keeping.named("scan_finished")[0]["unseen"] == 1
            assert keeping.board.tally.unseen == 1
            for name in ("after", "before"):
                (keeping.models / name / "seen.gguf").write_bytes(SOUND)
            await keeping.has_offered("after/seen.gguf", "before/seen.gguf")
            (keeping.models / "closed").chmod(0o755)
            await keeping.has_offered("closed/hidden.gguf")
            opened = await keeping.has_said("root_armed", 2)
            assert (opened["directories"], opened["unwatched"], opened["level"]) == (4, 0, "info")
            (keeping.models / "closed/later.gguf").write_bytes(SOUND)
            await keeping.has_offered("closed/later.gguf")
            assert keeping.board.reason is None
            assert not keeping.named("root_blind", "events_lost")


async def test_a_directory_that_is_closed_while_it_is_watched_is_counted_and_nothing_is_gone() -> None:
    with home_of_nobody() as home:
        sub = home / "models/sub"
        sub.mkdir(parents=True)
        (sub / "model.gguf").write_bytes(SOUND)
        async with kept(home, rescan_seconds=0.5) as keeping:
            sub.chmod(0)
            await keeping.until(lambda: keeping.board.tally.unseen == 1 and keeping.board.reason)
            assert keeping.board.state == "events"
            sub.chmod(0o755)
            await keeping.until(lambda: keeping.board.tally.unseen == 0 and keeping.board.reason is None)
            assert not keeping.removed
            assert not keeping.named("root_blind")


async def test_a_closed_root_is_blind_until_it_is_opened() -> None:
    with home_of_nobody() as home:
        async with kept(home) as keeping:
            await keeping.is_watched()
            keeping.models.chmod(0)
            assert (await keeping.has_said("root_blind"))["reason"] == "Permission denied"
            assert (keeping.board.state, keeping.board.reason) == ("blind", "Permission denied")
            keeping.models.chmod(0o755)
            (keeping.models / "seen.gguf").write_bytes(SOUND)
            await keeping.has_said("root_restored")
            await keeping.has_offered("seen.gguf")
            assert len(keeping.named("root_blind")) == 1
            assert keeping.board.state == "events"


@pytest.mark.parametrize("made_anew", [False, True])
async def test_a_root_that_goes_and_comes(tmp_path: Path, *, made_anew: bool) -> None:
    async with kept(tmp_path) as keeping:
        await keeping.is_watched()
        keeping.models.rename(tmp_path / "away")
        await keeping.has_said("root_blind")
        if made_anew:
            keeping.models.mkdir()
        else:
            (tmp_path / "away").rename(keeping.models)
        await keeping.has_said("root_restored")
        (keeping.models / "later.gguf").write_bytes(SOUND)
        await keeping.has_offered("later.gguf")
        assert len(keeping.named("root_blind")) == 1


@pytest.mark.parametrize("how", ["replaced", "made anew"])
async def test_another_directory_in_the_place_of_the_root(tmp_path: Path, how: str) -> None:
    """At once: nobody could see that the path led nowhere. Made anew it may well have the same inode number."""
    (tmp_path / "models").mkdir()
    (tmp_path / "other").mkdir()
    async with kept(tmp_path) as keeping:
        await keeping.is_watched()
        keeping.models.rmdir()
        if how == "replaced":
            (tmp_path / "other").rename(keeping.models)
        else:
            keeping.models.mkdir()
        (keeping.models / "one.gguf").write_bytes(SOUND)
        await keeping.has_offered("one.gguf")
        await keeping.has_said("scan_finished", 2)
        (keeping.models / "two.gguf").write_bytes(SOUND)
        await keeping.has_offered("two.gguf")


async def test_polling_was_asked_for(tmp_path: Path) -> None:
    async with kept(tmp_path, watch="poll") as keeping:
        assert keeping.named("root_armed")[0]["watch"] == "poll"
        (keeping.models / "one.gguf").write_bytes(SOUND)
        await keeping.has_offered("one.gguf")
        assert keeping.board.state == "poll"
        await keeping.until(lambda: len(keeping.named("scan_finished")) > 2)


async def test_excluded_directories_and_those_below_a_flat_root_are_not_watched(tmp_path: Path) -> None:
    (tmp_path / "models/skip/deep").mkdir(parents=True)
    (tmp_path / "models/keep/tmp").mkdir(parents=True)
    async with kept(tmp_path, exclude=("skip", "keep/tmp")) as keeping:
        assert keeping.named("root_armed")[0]["directories"] == 2
    async with kept(tmp_path, recursive=False) as keeping:
        assert keeping.named("root_armed")[0]["directories"] == 1
        (keeping.models / "below").mkdir()
        (keeping.models / "below/not-ours.gguf").write_bytes(SOUND)
        (keeping.models / "ours.gguf").write_bytes(SOUND)
        await keeping.has_offered("ours.gguf")
        assert set(keeping.offered) == {"ours.gguf"}
