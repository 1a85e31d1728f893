"""Which directories are listed and armed, and what is made of what they send."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from watchfiles import Change

from auditd.errors import InspectionStopped
from auditd.inspection.request import carry_on
from auditd.inspection.scan import Exclusion
from auditd.service.bell import Bell
from auditd.service.watching import arming, listening
from auditd.service.watching.arming import Arming
from auditd.service.watching.directories import Survey, survey, topmost
from auditd.service.watching.listening import Listener
from auditd.settings import Root

pytestmark = pytest.mark.system

BAD_NAME = os.fsdecode(b"\xff")


def listed(place: Path, *, most: int = 1000, any_names: bool = True, **settings: Any) -> Survey:
    root = Root(str(place), **settings)
    return survey(root, Exclusion.of(root.exclude), carry_on, any_names=any_names, most=most)


def names(found: Survey, place: Path) -> list[str]:
    return [os.path.relpath(path, place) for path in found.paths]


def armed(place: Path, **changes: Any) -> Arming:
    return Arming(Root(str(place)), Exclusion(), carry_on, **changes)


def test_each_directory_stands_after_the_one_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "d").mkdir()
    (tmp_path / "file").touch()
    found = names(listed(tmp_path), tmp_path)
    assert sorted(found) == [".", "a", "a/b", "a/b/c", "d"]
    assert all(found.index(os.path.dirname(name) or ".") < found.index(name) for name in found if name != ".")


def test_past_the_most_the_walk_ends_and_the_root_is_polled(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
    assert listed(tmp_path, most=6).why_poll == ""
    found = listed(tmp_path, most=3)
    assert (found.why_poll, found.watched) == ("more than 3 directories", 4)
    assert armed(tmp_path, most=3).begin() is None


def test_a_walk_can_be_stopped(tmp_path: Path) -> None:
    def stop() -> None:
        raise InspectionStopped("stopped")

    with pytest.raises(InspectionStopped):
        survey(Root(str(tmp_path)), Exclusion(), stop)


def test_links_that_are_followed_end_even_through_directories_that_are_left_out(tmp_path: Path) -> None:
    (tmp_path / BAD_NAME).mkdir()
    for name in ("one", "two", "three"):
        (tmp_path / BAD_NAME / name).symlink_to(tmp_path)
    found = listed(tmp_path, follow_links=True)
    assert (found.watched, found.unwatched, found.why_unwatched) == (0, 2, "a name that is not UTF-8")


def test_a_file_whose_name_is_not_utf8_is_let_in_or_not_and_a_directory_never(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / BAD_NAME).touch()
    assert names(listed(tmp_path), tmp_path) == [".", "files"]
    assert names(listed(tmp_path, any_names=False), tmp_path) == ["."]
    (tmp_path / BAD_NAME).mkdir()
    found = listed(tmp_path)
    assert names(found, tmp_path) == ["files"]
    assert found.first_unwatched == os.fsencode(tmp_path)


def test_topmost() -> None:
    paths = ["/r/a", "/r/a/b", "/r/a b", "/r/a-b/c", "/r/a", "/r/a/b/c", "/r/a-b"]
    assert topmost(paths) == ["/r/a b", "/r/a-b", "/r/a"]
    assert topmost([]) == []


def test_a_directory_that_goes_before_it_is_armed_costs_one_more_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "goes").mkdir()
    (tmp_path / "stays").mkdir()

    def late(*arguments: Any, **settings: Any) -> Survey:
        found = survey(*arguments, **settings)
        shutil.rmtree(tmp_path / "goes", ignore_errors=True)
        return found

    monkeypatch.setattr(arming, "survey", late)
    made = armed(tmp_path)
    ear = made.begin()
    assert ear is not None
    ear.close()
    assert made.survey.watched == 2


def test_directories_that_no_event_told_of_are_missed_once(tmp_path: Path) -> None:
    made = armed(tmp_path)
    first = made.begin()
    assert first is not None
    (tmp_path / "new/deep").mkdir(parents=True)
    missed = made.missed()
    assert missed is not None
    assert sorted(missed) == [str(tmp_path / "new"), str(tmp_path / "new/deep")]
    extension = made.extend(missed)
    assert extension is not None
    assert extension.ear is not None
    assert extension.tops == [str(tmp_path / "new")]
    assert made.missed() == []
    shutil.rmtree(tmp_path / "new")
    assert made.missed() == []
    assert len(made.survey.identities) == 1
    for ear in (first, extension.ear):
        ear.close()


def test_a_directory_that_is_made_anew_appears_whatever_its_number_is(tmp_path: Path) -> None:
    """The kernel's watch went with the old one, and the file system may give the new one the same inode number."""
    sub = str(tmp_path / "sub")
    os.mkdir(sub)
    (tmp_path / "file").touch()
    made = armed(tmp_path)
    ear = made.begin()
    assert ear is not None
    ear.close()
    assert made.appeared({(Change.added, sub), (Change.added, str(tmp_path / "file"))}) == [sub]
    assert made.appeared({(Change.modified, sub), (Change.deleted, sub)}) == []


def test_a_second_watch_that_would_be_large_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arming, "_FEW", 2)
    made = armed(tmp_path)
    ear = made.begin()
    assert ear is not None
    ear.close()
    for number in range(3):
        (tmp_path / str(number)).mkdir()
    assert made.extend(str(tmp_path / str(number)) for number in range(3)) is None


def test_what_stands_behind_a_link_is_not_watched(tmp_path: Path) -> None:
    """A directory was there as its event came, and a link out of the root took the place of its parent."""
    (tmp_path / "outside/sub").mkdir(parents=True)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/parent").symlink_to(tmp_path / "outside")
    extension = armed(tmp_path / "models").extend([str(tmp_path / "models/parent/sub")])
    assert extension == (None, [])


def changes(count: int) -> listening.Changes:
    return {(int(Change.added), f"/r/{number}") for number in range(count)}


async def test_a_burst_is_gathered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_MOST_CHANGES", 10)
    listener = Listener(Bell())
    listener._gather(changes(10), 0.0)
    assert listener.take() == listening.Heard(changes(10))
    for _ in range(3):
        listener._gather(changes(11), 0.0)
    assert listener.take() == listening.Heard(crowded=True)
    assert listener.take() == listening.Heard()


async def test_a_process_that_stood_still_may_have_lost_events_and_surely_has_if_many_waited() -> None:
    listener = Listener(Bell())
    listener._gather(changes(1), 5.0)
    assert listener.take() == listening.Heard(changes(1), stood_still=True)
    listener._gather(set(), 6.0)
    assert listener.take() == listening.Heard()
    # They need not come at once.
    enough = listening.queued_events() // 8
    listener._gather(changes(enough - 1), 0.1)
    listener._gather(changes(1), 0.1)
    assert listener.take().lost == f"stood still for 6.0 s, and {enough:,} changes waited at its end"


async def test_many_changes_alone_are_no_sign_of_a_loss() -> None:
    listener = Listener(Bell())
    many = changes(min(listening.queued_events() // 8, 10_000))
    listener._gather(many, 0.5)
    assert listener.take() == listening.Heard(many)
