"""All sources together: what is kept between two questions, what is joined, and that hostile stores cost little."""

from __future__ import annotations

import errno
import itertools
import json
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.expectation import NOTHING, Expectation
from auditd.model_stores import cache
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.stores import ModelStores
from tests.model_stores.trees import (
    COMMIT,
    OTHER_COMMIT,
    blob,
    layer,
    library,
    manifest,
    ref,
    repository,
    sha256,
    snapshot,
    write,
)
from tests.support import models

Asked = Callable[[Path], Expectation]


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were just written count as old, so that nothing is read again for its youth alone."""
    monkeypatch.setattr(cache, "YOUNG_NS", 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The paths of the manifests that are opened."""
    opened: list[bytes] = []
    real = os.open

    def counted(path: bytes, flags: int, *rest: int) -> int:
        if b"/manifests/" in path and not flags & os.O_DIRECTORY:
            opened.append(path)
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", counted)
    return opened


# --- what is kept


@pytest.mark.usefixtures("_settled")
def test_a_store_is_read_once(tmp_path: Path, expectation: Asked, reads: list[bytes]) -> None:
    path = blob(tmp_path, b"x")
    for number in range(10):
        manifest(tmp_path, library(f"m{number}"), layer(b"x"))
    first = expectation(path)
    assert len(reads) == 10
    assert all(expectation(path) == first for _ in range(20))
    assert len(reads) == 10


@pytest.mark.usefixtures("_settled")
def test_a_manifest_that_changes_is_seen_at_the_next_question(tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path, b"x")
    place = manifest(tmp_path, library("a"), layer(b"x"))
    assert expectation(path).names == ("a:latest",)
    place.write_bytes(place.read_bytes().replace(sha256(b"x").encode(), sha256(b"y").encode()))
    assert expectation(path).names == ()
    manifest(tmp_path, library("a", "7b"), layer(b"x"))
    assert expectation(path).names == ("a:7b",)
    (tmp_path / "manifests" / library("a", "7b")).unlink()
    assert expectation(path).names == ()


def test_a_change_within_one_tick_of_the_clock_is_seen(
    tmp_path: Path, expectation: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that never ticks, only the youth of a file tells that it may have changed."""
    monkeypatch.setattr(cache, "signature_of", lambda status: None if status is None else (0, 0, status.st_size, 0, 0))
    monkeypatch.setattr(cache, "YOUNG_NS", 3600 * 10**9)
    path = blob(tmp_path, b"x")
    place = manifest(tmp_path, library("a"), layer(b"x"))
    for name in (b"x", b"y", b"x"):
        place.write_bytes(json.dumps({"layers": [layer(name)]}).encode())
        assert expectation(path).names == (("a:latest",) if name == b"x" else ())
    monkeypatch.setattr(cache, "YOUNG_NS", 0)
    assert expectation(path).names == ("a:latest",)
    place.write_bytes(json.dumps({"layers": [layer(b"y")]}).encode())
    assert expectation(path).names == ("a:latest",)


@pytest.mark.usefixtures("_settled")
def test_a_ref_that_moves_and_a_link_that_comes_are_seen(tmp_path: Path, expectation: Asked) -> None:
    repo = repository(tmp_path)
    path = snapshot(repo, "m.gguf", b"x").resolve()
    ref(repo, "main", OTHER_COMMIT)
    assert expectation(path).names == ("org/name@111111111111/m.gguf",)
    ref(repo, "main", COMMIT)
    assert expectation(path).names[1:] == ("org/name@main/m.gguf",)
    snapshot(repo, "again.gguf", b"x")
    assert len(expectation(path).names) == 4


@pytest.mark.usefixtures("_settled")
def test_a_list_that_comes_changes_and_goes_is_seen(tmp_path: Path, expectation: Asked) -> None:
    path = write(tmp_path / "m.gguf", b"x")
    assert expectation(path) == NOTHING
    sums = write(tmp_path / "SHA256SUMS", f"{sha256(b'x')}  m.gguf\n".encode())
    assert [item.value for item in expectation(path).references] == [sha256(b"x")]
    sums.write_bytes(f"{sha256(b'y')}  m.gguf\n".encode())
    assert [item.value for item in expectation(path).references] == [sha256(b"y")]
    sums.unlink()
    assert expectation(path) == NOTHING


def test_a_large_store_is_checked_once_a_second_or_when_asked_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(cache, "YOUNG_NS", 0)
    paths = [bytes(write(tmp_path / str(number))) for number in range(cache.CHECKED_EACH_TIME + 1)]
    kept = ReadCache()
    numbers = itertools.count(1)

    def read(watch: Dependencies) -> int:
        for path in paths:
            watch.add(path)
        return next(numbers)

    assert kept.recall("a", b"", read) == 1
    Path(os.fsdecode(paths[7])).write_bytes(b"changed")
    assert kept.recall("a", b"", read) == 1
    now[0] += cache.CHECK_SECONDS
    assert kept.recall("a", b"", read) == 2
    Path(os.fsdecode(paths[7])).unlink()
    kept.refresh()
    assert kept.recall("a", b"", read) == 3


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "READINGS", 4)
    monkeypatch.setattr(cache, "ITEMS", 100)
    kept = ReadCache()
    for number in range(50):
        assert kept.recall("a", b"%d" % number, lambda watch: len(watch.signatures)) == 0
    assert len(kept._readings) == 4

    def heavy(watch: Dependencies) -> str:
        watch.items += 90
        return "heavy"

    kept.recall("a", b"heavy", heavy)
    kept.recall("a", b"heavy too", heavy)
    assert [key for _, key in kept._readings] == [b"heavy too"]
    assert kept._items == 91


def test_a_reading_that_is_stopped_is_not_kept(tmp_path: Path, stores: ModelStores) -> None:
    path = blob(tmp_path, b"x")
    manifest(tmp_path, library("a"), layer(b"x"))

    def stop() -> None:
        raise InspectionStopped("told to")

    with pytest.raises(InspectionStopped):
        stores.expectation(bytes(path), checkpoint=stop)
    with pytest.raises(InspectionStopped):
        list(stores.survey(bytes(tmp_path), stop))
    assert stores.expectation(bytes(path)).names == ("a:latest",)


# --- what is joined


def test_a_link_of_ones_own_has_sidecars_of_its_own(tmp_path: Path, stores: ModelStores) -> None:
    content = models.gguf()
    path = blob(tmp_path / "store", content)
    manifest(tmp_path / "store", library("good"), layer(content))
    link = tmp_path / "mine" / "model.gguf"
    sums = write(tmp_path / "mine" / "model.gguf.sha256", sha256(b"else").encode())
    link.symlink_to(path)
    known = stores.expectation(bytes(path), given=bytes(link))
    assert (known.store, known.names) == ("ollama", ("good:latest",))
    assert [(item.value, item.source) for item in known.references] == [
        (sha256(content), "blob name"),
        (sha256(b"else"), str(sums)),
    ]


def test_a_relative_path_is_known_by_the_directories_above(
    tmp_path: Path, stores: ModelStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = blob(tmp_path, b"x")
    manifest(tmp_path, library("good"), layer(b"x"))
    for directory, relative in (
        (path.parent, path.name),
        (tmp_path, f"blobs/{path.name}"),
        (tmp_path, f"./blobs/{path.name}"),
    ):
        monkeypatch.chdir(directory)
        assert stores.expectation(relative.encode()).names == ("good:latest",)


def test_stores_are_found_wherever_they_are_in_a_tree(tmp_path: Path, stores: ModelStores) -> None:
    manifest(tmp_path / "a" / "b" / "models", library("one"), layer(b"x"))
    (tmp_path / "a" / "b" / "models" / "blobs").mkdir()
    snapshot(repository(tmp_path / "c" / "hub"), "m.gguf", b"y")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert sorted(facts.name for facts in stores.models(bytes(tmp_path))) == ["one:latest", "org/name@111111111111"]
    assert [item.kind for item in stores.survey(bytes(tmp_path))] == ["missing_target"]
    assert list(stores.survey(bytes(tmp_path / "nothing"))) == []


def test_a_root_and_a_directory_of_blobs_may_be_links(tmp_path: Path, stores: ModelStores) -> None:
    store, link = tmp_path / "store", tmp_path / "link"
    path = blob(store, b"x")
    manifest(store, library("good"), layer(b"x"))
    (store / "blobs").rename(tmp_path / "disk")
    (store / "blobs").symlink_to(tmp_path / "disk")
    link.symlink_to(store)
    stray = write(store / "blobs" / f"sha256-{sha256(b'stray')}", b"stray")
    for root in (store, link):
        (facts,) = stores.models(bytes(root))
        assert [member.path for member in facts.members] == [bytes(root / "blobs" / path.name)]
        assert [os.path.basename(item.path) for item in stores.survey(bytes(root))] == [os.fsencode(stray.name)]


def test_a_survey_streams(tmp_path: Path, stores: ModelStores) -> None:
    for number in range(3):
        manifest(tmp_path, library(f"m{number}"), layer(b"%d" % number))
    (tmp_path / "blobs").mkdir()
    steps: list[None] = []
    found = stores.survey(bytes(tmp_path), lambda: steps.append(None))
    next(found)
    before = len(steps)
    assert len(list(found)) == 2
    assert before < len(steps)


# --- hostile stores


HOSTILE = {
    "nesting": b"[" * 1_000_000,
    "nested layers": b'{"layers":' + b"[" * 900_000,
    "not an object": b"[]",
    "no layers": b"{}",
    "null": b'{"config": null, "layers": null}',
    "a number for a digest": b'{"layers": [{"mediaType": "x", "digest": 5, "size": 1}]}',
    "a short digest": b'{"layers": [{"mediaType": "x", "digest": "sha256:00", "size": 1}]}',
    "a path for a digest": b'{"layers": [{"mediaType": "x", "digest": "../../../etc/passwd", "size": 1}]}',
    "a NUL in a digest": b'{"layers": [{"mediaType": "x", "digest": "sha256:' + b"0" * 63 + b'\\u0000", "size": 1}]}',
    "a digest and more": b'{"layers": [{"mediaType": "x", "digest": "sha256:' + b"0" * 64 + b'/../x", "size": 1}]}',
    "a negative size": b'{"layers": [{"mediaType": "x", "digest": "sha256:' + b"0" * 64 + b'", "size": -1}]}',
    "a size of 2^63": b'{"layers": [{"mediaType": "x", "digest": "sha256:' + b"0" * 64 + b'", "size": 9223372036854775808}]}',
    "a fraction": b'{"layers": [{"mediaType": "x", "digest": "sha256:' + b"0" * 64 + b'", "size": 1.5}]}',
    "a name twice": b'{"layers": [], "layers": []}',
    "no UTF-8": b'{"layers": [], "x": "\xff"}',
    "more than one value": b'{"layers": []} {}',
    "too long": b" " * (1 << 20) + b"{}",
    "empty": b"",
}  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_manifest_of_anything_is_not_understood_and_harms_nothing(
    content: bytes, tmp_path: Path, stores: ModelStores
) -> None:
    path = blob(tmp_path, b"x")
    manifest(tmp_path, library("good"), layer(b"x"))
    write(tmp_path / "manifests" / library("bad"), content)
    assert stores.expectation(bytes(path)).names == ("good:latest",)
    assert [item.kind for item in stores.survey(bytes(tmp_path))] == ["unreadable"]
    assert [facts.name for facts in stores.models(bytes(tmp_path))] == ["good:latest"]


def test_things_that_are_no_files_are_not_waited_for(tmp_path: Path, stores: ModelStores) -> None:
    path = blob(tmp_path, b"x")
    manifest(tmp_path, library("good"), layer(b"x"))
    directory = tmp_path / "manifests" / library("odd")
    directory.parent.mkdir(parents=True)
    os.mkfifo(directory)
    (directory.with_name("loop")).symlink_to("loop")
    (directory.with_name("out")).symlink_to("/etc/passwd")
    os.mkfifo(path.with_name(path.name + ".sha256"))
    os.mkfifo(path.with_name("SHA256SUMS"))
    os.mkfifo(tmp_path / "model.sig")
    os.mkfifo(path.with_name(path.name + ".dl-meta"))
    os.mkfifo(path.with_name(f"sha256-{'0' * 64}-partial"))
    os.mkfifo(path.with_name(f"sha256-{'0' * 64}-partial-0"))
    os.mkfifo(path.with_name(f"sha256-{'1' * 64}"))
    assert stores.expectation(bytes(path)).names == ("good:latest",)
    assert stores.expectation(bytes(path.with_name(f"sha256-{'1' * 64}"))).role == "other"
    found = [item.kind for item in stores.survey(bytes(tmp_path))]
    assert found.count("unreadable") == 3
    assert found.count("unfinished") == 1


def test_names_with_controls_stay_names(tmp_path: Path, stores: ModelStores) -> None:
    path = blob(tmp_path, b"x")
    manifest(tmp_path, "registry.ollama.ai/library/\x1b[2J\u202e/\udcff", layer(b"x"))
    assert stores.expectation(bytes(path)).names == ("\x1b[2J\u202e:\\xff",)


def test_a_blob_of_a_thousand_models_has_so_many_names(tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path, b"x")
    for number in range(100):
        manifest(tmp_path, library("m", f"{number:03d}"), layer(b"x"))
    assert expectation(path).names == tuple(f"m:{number:03d}" for number in range(32))


@pytest.mark.parametrize("bound", ["MANIFESTS", "LAYERS"])
def test_past_the_bound_of_manifests_nothing_is_an_orphan(
    bound: str, tmp_path: Path, expectation: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = blob(tmp_path, b"stray")
    for number in range(5):
        manifest(tmp_path, library(f"m{number}"), layer(b"x"))
    assert [remark.code for remark in expectation(path).remarks] == ["orphan"]
    monkeypatch.setattr(f"auditd.model_stores.ollama_manifests.{bound}", 2)
    assert ModelStores().expectation(bytes(path)).remarks == ()


def test_past_the_bound_of_links_nothing_is_an_orphan(
    tmp_path: Path, expectation: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path)
    for number in range(5):
        snapshot(repo, f"{number}.gguf", b"%d" % number)
    path = write(repo / "blobs" / sha256(b"stray"), b"stray")
    assert [remark.code for remark in expectation(path).remarks] == ["orphan"]
    monkeypatch.setattr("auditd.model_stores.huggingface_links.LINKS", 2)
    assert ModelStores().expectation(bytes(path)).remarks == ()


def test_a_file_of_a_gigabyte_in_place_of_a_manifest_is_not_read(tmp_path: Path, stores: ModelStores) -> None:
    (tmp_path / "blobs").mkdir()
    path = write(tmp_path / "manifests" / library("huge"), b"{")
    with path.open("r+b") as sparse:
        sparse.truncate(1 << 30)
    tracemalloc.start()
    try:
        assert [item.kind for item in stores.survey(bytes(tmp_path))] == ["unreadable"]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_directories_deep_inside_each_other_are_not_followed_for_ever(tmp_path: Path, stores: ModelStores) -> None:
    repo = repository(tmp_path)
    path = snapshot(repo, "/".join(["d"] * 60) + "/m.gguf", b"x")
    stored = write(repo / "blobs" / sha256(b"x"), b"x")
    assert stores.expectation(bytes(stored)).remarks == ()
    assert path.exists()
    assert [item.kind for item in stores.survey(bytes(tmp_path))] == ["unreadable"]


def test_what_cannot_be_seen_is_not_missing(
    tmp_path: Path, stores: ModelStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob(tmp_path, b"x")
    manifest(tmp_path, library("good"), layer(b"x"))
    real = os.lstat

    def refused(path: bytes) -> os.stat_result:
        if b"/blobs/" in path:
            raise OSError(errno.EACCES, "refused")
        return real(path)

    monkeypatch.setattr(os, "lstat", refused)
    assert [item.kind for item in stores.survey(bytes(tmp_path))] == ["unreadable"]
    assert list(stores.models(bytes(tmp_path))) == []


@pytest.mark.usefixtures("_settled")
def test_a_look_through_a_tree_asks_for_a_directory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each file only its own sidecars are looked for; who speaks of the directory is found once for all of them."""
    files = [write(tmp_path / f"{number}.gguf", b"x") for number in range(50)]
    asked: list[bytes] = []
    real = os.lstat

    def counted(path: bytes) -> os.stat_result:
        asked.append(path)
        return real(path)

    stores = ModelStores(trust_seconds=3600.0)
    monkeypatch.setattr(os, "lstat", counted)
    assert {stores.expectation(bytes(file), real(file)) for file in files} == {NOTHING}
    own = {bytes(file) + suffix for file in files for suffix in (b".sha256", b".dl-meta")}
    assert own <= set(asked)
    others = [path for path in asked if path not in own]
    assert len(others) == len(set(others))


@pytest.mark.usefixtures("_settled")
def test_a_list_that_comes_behind_a_link_is_seen(tmp_path: Path, stores: ModelStores) -> None:
    model = write(tmp_path / "real" / "m.gguf", b"x")
    (tmp_path / "link").symlink_to("real")
    asked = bytes(tmp_path / "link" / "m.gguf")
    assert stores.expectation(asked).references == ()
    write(model.with_name("SHA256SUMS"), f"{sha256(b'x')}  m.gguf\n".encode())
    stores.refresh()
    assert [reference.value for reference in stores.expectation(asked).references] == [sha256(b"x")]
