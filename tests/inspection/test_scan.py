"""The walk over a tree: what it reports, what it never opens, and where it does not go."""

from __future__ import annotations

import errno
import os
import socket
import stat
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest

from auditd.errors import InspectionStopped
from auditd.inspection import scan
from auditd.inspection.scan import Found, Gone, Other, Unfinished, Unseen, scan_paths, walk
from tests.support.models import gguf, safetensors

MODEL = gguf()


def put(root: Path, name: str | bytes, content: bytes = MODEL) -> Path:
    path = Path(os.fsdecode(os.path.join(os.fsencode(root), os.fsencode(name))))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def names(root: Path, sightings: Iterable[object], kind: type = Found) -> list[bytes]:
    """The paths of one kind of sighting, below the root."""
    below = os.fsencode(root) + b"/"
    return sorted(item.path.removeprefix(below) for item in sightings if isinstance(item, kind))  # type: ignore[attr-defined]


def walked(root: Path, kind: type = Found, **options: object) -> list[bytes]:
    return names(root, walk(os.fsencode(root), **options), kind)  # type: ignore[arg-type]


def test_a_model_suffix_or_a_model_head_makes_an_artifact(tmp_path: Path) -> None:
    put(tmp_path, "a.gguf", b"anything")
    put(tmp_path, "b/c/d.safetensors", b"")
    put(tmp_path, "blobs/sha256-0", MODEL)
    put(tmp_path, "blobs/sha256-1", safetensors())
    put(tmp_path, "blobs/sha256-2", b"a licence text")
    put(tmp_path, "README.md", MODEL)  # no writer of models names one so
    assert walked(tmp_path) == [b"a.gguf", b"b/c/d.safetensors", b"blobs/sha256-0", b"blobs/sha256-1"]
    assert walked(tmp_path, Other) == [b"README.md", b"blobs/sha256-2"]


def test_names_that_are_not_text(tmp_path: Path) -> None:
    hostile = [b"\xff\xfe.gguf", b"line\nfeed.gguf", b"\x1b[2J.gguf"]
    for name in hostile:
        put(tmp_path, name)
    assert walked(tmp_path) == sorted(hostile)


def test_what_is_no_regular_file_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo.gguf")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dangling.gguf").symlink_to("nowhere")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    (tmp_path / "directory.gguf").mkdir()
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.gguf")

        def refuse(path: bytes, status: os.stat_result) -> bool:
            raise AssertionError(path)

        sightings = list(walk(os.fsencode(tmp_path), sniffed=refuse))
    assert names(tmp_path, sightings, Other) == [
        b"dangling.gguf",
        b"fifo",
        b"fifo.gguf",
        b"loop.gguf",
        b"socket.gguf",
    ]
    assert len(sightings) == 5


def test_a_name_that_becomes_a_fifo_before_it_is_opened_does_not_block(tmp_path: Path) -> None:
    path = put(tmp_path, "blob")
    status = path.stat()
    path.unlink()
    os.mkfifo(path)
    assert scan.sniff(os.fsencode(path), status) is False


def test_a_name_that_becomes_a_link_before_it_is_opened_is_not_followed(tmp_path: Path) -> None:
    path = put(tmp_path, "blob")
    status = path.stat()
    path.rename(tmp_path / "elsewhere")
    path.symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        scan.sniff(os.fsencode(path), status)


def test_downloads_under_way_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path, "a.gguf.part")
    put(tmp_path, "sha256-0-partial-3")
    put(tmp_path, "b.gguf")
    put(tmp_path, "b.gguf.aria2", b"")
    assert walked(tmp_path, Unfinished) == [b"a.gguf.part", b"b.gguf", b"sha256-0-partial-3"]
    assert walked(tmp_path) == []


def test_a_link_inside_the_root_is_a_second_name(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root, "blobs/0")
    put(root, "blobs/1", b"no model, but a link says so")
    (root / "snapshot").mkdir()
    (root / "snapshot" / "model.gguf").symlink_to("../blobs/0")
    (root / "snapshot" / "bad.gguf").symlink_to("../blobs/1")
    (root / "snapshot" / "again.gguf").symlink_to("../blobs/1")
    assert walked(root) == [b"blobs/0", b"blobs/1"]


def test_a_root_that_is_reached_by_a_link(tmp_path: Path) -> None:
    put(tmp_path, "real/blobs/0", b"no model")
    (tmp_path / "real" / "model.gguf").symlink_to("blobs/0")
    (tmp_path / "root").symlink_to("real")
    assert walked(tmp_path / "root") == [b"blobs/0"]


def test_a_link_out_of_the_root_is_followed_only_if_asked(tmp_path: Path) -> None:
    put(tmp_path, "outside/blob")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "model.gguf").symlink_to("../outside/blob")
    (tmp_path / "root" / "directory").symlink_to("../outside")
    assert walked(tmp_path / "root") == []
    found = {item.path for item in walk(os.fsencode(tmp_path / "root"), follow_links=True) if isinstance(item, Found)}
    assert found == {os.fsencode(tmp_path / "outside" / "blob"), os.fsencode(tmp_path / "root" / "directory" / "blob")}


def test_links_that_make_a_loop_end(tmp_path: Path) -> None:
    put(tmp_path, "a/model.gguf")
    (tmp_path / "a" / "up").symlink_to("..")
    assert walked(tmp_path, follow_links=True) == [b"a/model.gguf"]


def test_not_recursive(tmp_path: Path) -> None:
    put(tmp_path, "a.gguf")
    put(tmp_path, "below/b.gguf")
    assert walked(tmp_path, recursive=False) == [b"a.gguf"]


def test_a_link_may_lead_where_the_walk_does_not_go(tmp_path: Path) -> None:
    blob = put(tmp_path, "blobs/0")
    put(tmp_path, "blobs/1", b"no model, but a link says so")
    put(tmp_path, "blobs/2", b"no model, and no link says so")
    for name, target in (("a.gguf", "0"), ("b", "0"), ("c.gguf", "1"), ("licence", "2")):
        (tmp_path / name).symlink_to(f"blobs/{target}")
    sightings = list(walk(os.fsencode(tmp_path), recursive=False))
    assert names(tmp_path, sightings) == [b"blobs/0", b"blobs/1"]
    assert names(tmp_path, sightings, Other) == [b"blobs/2"]
    assert all(item.status.st_size for item in sightings if isinstance(item, Found))
    root = os.fsencode(tmp_path)
    assert list(scan_paths(root + b"/a.gguf", root, recursive=False)) == [Found(os.fsencode(blob), blob.stat())]
    assert walked(tmp_path, recursive=False, exclude=("blobs",)) == []
    assert walked(tmp_path, exclude=("blobs",)) == []


def test_what_is_behind_a_link_is_not_looked_at(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    put(tmp_path, "real/below/a.gguf")
    (tmp_path / "link").symlink_to("real")
    for path in (b"/link/below/a.gguf", b"/link/below", b"/link/gone.gguf"):
        assert list(scan_paths(root + path, root)) == []
    assert names(tmp_path, scan_paths(root + b"/link/below/a.gguf", root, follow_links=True)) == [b"link/below/a.gguf"]
    # The root itself may be reached by one.
    (tmp_path / "root").symlink_to("real")
    assert names(tmp_path, scan_paths(root + b"/root/below/a.gguf", root + b"/root")) == [b"root/below/a.gguf"]


def test_links_that_are_passed_over_are_special(tmp_path: Path) -> None:
    put(tmp_path, "outside/a.gguf")
    root = tmp_path / "root"
    (root / "below").mkdir(parents=True)
    os.mkfifo(root / "fifo")
    links = {"dangling": "nowhere", "file": "../outside/a.gguf", "pipe": "fifo", "directory": "../outside", "up": ".."}
    for name, target in {**links, "itself": ".", "known": "below"}.items():
        (root / name).symlink_to(target)
    sightings = list(walk(os.fsencode(root)))
    assert names(root, sightings, Other) == sorted([*map(os.fsencode, links), b"fifo"])
    assert all(isinstance(item, Other) and item.special for item in sightings)


def test_exclusion(tmp_path: Path) -> None:
    for name in ("a.gguf", "old/b.gguf", "keep/old/c.gguf", "keep/d.gguf", "keep/e.gguf"):
        put(tmp_path, name)
    assert walked(tmp_path, exclude=("old",)) == [b"a.gguf", b"keep/d.gguf", b"keep/e.gguf"]
    assert walked(tmp_path, exclude=("keep/d.*", "/old/")) == [b"a.gguf", b"keep/e.gguf", b"keep/old/c.gguf"]


def test_a_directory_that_cannot_be_read_is_unseen_not_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "open/a.gguf")
    put(tmp_path, "closed/b.gguf")
    closed = os.fsencode(tmp_path / "closed")
    really = os.open

    def refuse(path: bytes, flags: int, mode: int = 0o777) -> int:
        if path == closed:
            raise PermissionError(errno.EACCES, "closed")
        return really(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)  # tests may run as root, who may read everything
    sightings = list(walk(os.fsencode(tmp_path)))
    assert names(tmp_path, sightings) == [b"open/a.gguf"]
    assert [item for item in sightings if isinstance(item, Unseen)] == [Unseen(closed, errno.EACCES)]


def test_a_root_that_is_not_there_is_unseen(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path / "nowhere")
    assert list(walk(root)) == [Unseen(root, errno.ENOENT)]


def test_every_entry_is_a_checkpoint_and_nothing_stays_open(tmp_path: Path) -> None:
    for number in range(20):
        put(tmp_path, f"{number}/model.gguf")
    before = len(os.listdir("/proc/self/fd"))
    left = 10

    def checkpoint() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise InspectionStopped("enough")

    with pytest.raises(InspectionStopped):
        list(walk(os.fsencode(tmp_path), checkpoint=checkpoint))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_walk_holds_one_descriptor_however_deep(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 200)
    put(deep, "model.gguf")
    before = len(os.listdir("/proc/self/fd"))
    most = 0
    for item in walk(os.fsencode(tmp_path)):
        most = max(most, len(os.listdir("/proc/self/fd")) - before)
        assert isinstance(item, Found)
    assert most <= 2  # the directory, and scandir's own


def test_looking_at_one_path(tmp_path: Path) -> None:
    root = os.fsencode(tmp_path)
    put(tmp_path, "a.gguf")
    put(tmp_path, "new/below/b.gguf")
    assert names(tmp_path, scan_paths(root + b"/a.gguf", root)) == [b"a.gguf"]
    assert names(tmp_path, scan_paths(root + b"/new", root)) == [b"new/below/b.gguf"]
    assert list(scan_paths(root + b"/gone.gguf", root)) == [Gone(root + b"/gone.gguf")]
    assert list(scan_paths(root + b"/new/below/b.gguf", root, exclude=("new",))) == []
    assert list(scan_paths(root + b"/new/below/b.gguf", root, recursive=False)) == []
    assert list(scan_paths(root + b"/new", root, recursive=False)) == []


def test_the_status_is_that_of_the_file(tmp_path: Path) -> None:
    put(tmp_path, "a.gguf")
    (item,) = walk(os.fsencode(tmp_path))
    assert isinstance(item, Found)
    assert stat.S_ISREG(item.status.st_mode)
    assert item.status.st_size == len(MODEL)


def test_a_tree_of_many_names_is_never_held(tmp_path: Path) -> None:
    """Names stream by: twice as many files in a directory take no more memory."""
    peaks = []
    for count in (2_000, 8_000):
        directory = tmp_path / str(count)
        directory.mkdir()
        for number in range(count):
            os.close(
                os.open(directory / f"{number:06d} of a long name that would be seen in the figures.py", os.O_CREAT)
            )
        tracemalloc.start()
        names = sum(isinstance(sighting, Other) for sighting in walk(os.fsencode(directory)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert names == count
    assert peaks[1] < peaks[0] + 64 * 1024
