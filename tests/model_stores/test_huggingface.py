"""Hugging Face caches: what a blob's name promises, what it is called, and how a repository stands."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from auditd.evidence.expectation import NOTHING, Expectation, Reference
from auditd.model_stores.files import Unknown
from auditd.model_stores.status import EntryStatus
from auditd.model_stores.stores import ModelStores
from tests.model_stores.trees import COMMIT, OTHER_COMMIT, git_sha1, ref, repository, sha256, snapshot, write
from tests.support import models

Asked = Callable[[Path], Expectation]

WEIGHTS = models.safetensors()


def kinds(stores: ModelStores, root: Path) -> dict[str, EntryStatus]:
    found = list(stores.survey(bytes(root)))
    by_name = {os.path.basename(item.path).decode(): item for item in found}
    assert len(by_name) == len(found)
    return by_name


def test_a_large_blob_is_named_for_its_sha256(tmp_path: Path, expectation: Asked) -> None:
    repo = repository(tmp_path)
    link = snapshot(repo, "model.safetensors", WEIGHTS)
    ref(repo)
    assert expectation(link.resolve()) == Expectation(
        store="huggingface",
        names=("org/name@111111111111/model.safetensors", "org/name@main/model.safetensors"),
        references=(Reference("sha256", sha256(WEIGHTS), "blob name"),),
    )


def test_a_small_blob_is_named_as_git_names_it(tmp_path: Path, expectation: Asked) -> None:
    link = snapshot(repository(tmp_path), "config.json", b"{}", etag=git_sha1(b"{}"))
    known = expectation(link.resolve())
    assert known.references == (Reference("git-sha1", git_sha1(b"{}"), "blob name"),)
    assert known.role == "other"


def test_a_blob_with_another_name_has_no_reference(tmp_path: Path, expectation: Asked) -> None:
    link = snapshot(repository(tmp_path), "model.safetensors", WEIGHTS, etag="W-0123abc")
    known = expectation(link.resolve())
    assert (known.references, known.remarks) == ((), ())
    assert known.names == ("org/name@111111111111/model.safetensors",)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("models--gpt2", "gpt2"),
        ("datasets--org--set", "datasets/org/set"),
        ("models--org--a--b", "org/a/b"),
    ],
)
def test_a_repository_is_called_by_its_folder(folder: str, name: str, tmp_path: Path, expectation: Asked) -> None:
    link = snapshot(tmp_path / folder, "sub/m.gguf", WEIGHTS)
    assert expectation(link.resolve()).names == (f"{name}@111111111111/sub/m.gguf",)


def test_names_of_commits_with_a_ref_go_first(tmp_path: Path, expectation: Asked) -> None:
    repo = repository(tmp_path)
    link = snapshot(repo, "model.safetensors", WEIGHTS, commit=COMMIT)
    snapshot(repo, "renamed.safetensors", WEIGHTS, commit=OTHER_COMMIT)
    ref(repo, "main", OTHER_COMMIT)
    ref(repo, "refs/pr/1", OTHER_COMMIT)
    assert expectation(link.resolve()).names == (
        "org/name@222222222222/renamed.safetensors",
        "org/name@main/renamed.safetensors",
        "org/name@refs/pr/1/renamed.safetensors",
        "org/name@111111111111/model.safetensors",
    )


def test_a_plain_file_in_a_snapshot_has_a_name_and_no_reference(tmp_path: Path, expectation: Asked) -> None:
    path = write(repository(tmp_path) / "snapshots" / COMMIT / "model.gguf", models.gguf())
    assert expectation(path) == Expectation(store="huggingface", names=("org/name@111111111111/model.gguf",))


def test_a_link_that_was_copied_as_text_still_names_its_blob(
    tmp_path: Path, expectation: Asked, stores: ModelStores
) -> None:
    repo = repository(tmp_path)
    link = snapshot(repo, "model.safetensors", WEIGHTS)
    blob, text = link.resolve(), os.readlink(link).encode()
    link.unlink()
    link.write_bytes(text)
    write(link.with_name("gone.safetensors"), b"../../blobs/" + b"d" * 64)
    assert expectation(blob).names == ("org/name@111111111111/model.safetensors",)
    assert expectation(blob).remarks == ()
    known = expectation(link)
    assert (known.role, [remark.code for remark in known.remarks]) == ("other", ["leftover"])
    assert {name: item.kind for name, item in kinds(stores, tmp_path).items()} == {"gone.safetensors": "missing_target"}
    (facts,) = stores.models(bytes(tmp_path))
    assert [(item.path, item.size) for item in facts.members] == [(bytes(blob), len(WEIGHTS))]


def test_a_blob_that_no_snapshot_leads_to_is_an_orphan(tmp_path: Path, expectation: Asked, stores: ModelStores) -> None:
    repo = repository(tmp_path)
    snapshot(repo, "model.safetensors", WEIGHTS)
    path = write(repo / "blobs" / sha256(b"stray"), b"stray")
    assert [remark.code for remark in expectation(path).remarks] == ["orphan"]
    assert kinds(stores, tmp_path)[path.name].kind == "orphan"


def test_nothing_is_an_orphan_while_a_snapshot_is_behind_a_link(tmp_path: Path, expectation: Asked) -> None:
    repo = repository(tmp_path / "hub")
    link = snapshot(repo, "model.safetensors", WEIGHTS)
    (repo / "snapshots").rename(tmp_path / "elsewhere")
    (repo / "snapshots").symlink_to(tmp_path / "elsewhere")
    assert expectation(link.resolve().parent / sha256(WEIGHTS)).remarks == ()


# --- downloads


def test_an_unfinished_download_beside_its_blob_is_a_leftover(
    tmp_path: Path, expectation: Asked, stores: ModelStores
) -> None:
    repo = repository(tmp_path)
    blob = snapshot(repo, "model.safetensors", WEIGHTS).resolve()
    for name in (f"{blob.name}.incomplete", f"{blob.name}.8f3a01bc.incomplete"):
        known = expectation(write(blob.with_name(name), b"part"))
        assert [remark.code for remark in known.remarks] == ["leftover"]
        assert (known.references, known.size) == ((), None)
        assert known.names == ("org/name@111111111111/model.safetensors",)
        assert kinds(stores, tmp_path)[name].kind == "leftover"


def test_an_unfinished_download_says_whether_it_can_be_resumed(
    tmp_path: Path, expectation: Asked, stores: ModelStores
) -> None:
    repo = repository(tmp_path)
    old = write(repo / "blobs" / f"{'e' * 64}.incomplete", bytes(60))
    new = write(repo / "blobs" / f"{'e' * 64}.8f3a01bc.incomplete", bytes(70))
    ref(repo)
    found = kinds(stores, tmp_path)
    assert {found[path.name].kind for path in (old, new)} == {"unfinished"}
    assert (found[old.name].size, found[new.name].size) == (60, 70)
    assert "resumes it" in found[old.name].message
    assert "nothing resumes it" in found[new.name].message
    assert expectation(old) == expectation(new) == Expectation(store="huggingface")
    (facts,) = stores.models(bytes(tmp_path))
    assert facts.in_progress
    assert set(facts.unfinished) == {os.fsencode(old.name), os.fsencode(new.name)}


def test_refs_alone_are_no_download(tmp_path: Path, stores: ModelStores) -> None:
    repo = repository(tmp_path)
    ref(repo)
    assert [(item.kind, item.size) for item in stores.survey(bytes(tmp_path))] == [("nothing_downloaded", None)]
    (facts,) = stores.models(bytes(tmp_path))
    assert (facts.kind, facts.name, facts.members) == ("hf_snapshot", "org/name@main", ())
    assert [remark.code for remark in facts.remarks] == ["set_incomplete"]
    assert not facts.in_progress


def test_a_link_to_nowhere_is_a_missing_target(tmp_path: Path, stores: ModelStores) -> None:
    repo = repository(tmp_path)
    link = snapshot(repo, "model.safetensors", WEIGHTS)
    dangling = link.with_name("dangling.safetensors")
    dangling.symlink_to(f"../../blobs/{'d' * 64}")
    loop = link.with_name("loop.safetensors")
    loop.symlink_to("loop.safetensors")
    ref(repo)
    found = kinds(stores, tmp_path)
    assert {name: item.kind for name, item in found.items()} == {
        "dangling.safetensors": "missing_target",
        "loop.safetensors": "missing_target",
    }
    assert found["dangling.safetensors"].names[1] == "org/name@main/dangling.safetensors"
    assert found["dangling.safetensors"].size is None
    (facts,) = stores.models(bytes(tmp_path))
    assert [(item.name, item.path, item.size) for item in facts.members] == [
        (b"model.safetensors", bytes(link.resolve()), len(WEIGHTS))
    ]
    assert {item.name: item.digest for item in facts.missing} == {
        b"dangling.safetensors": "sha256:" + "d" * 64,
        b"loop.safetensors": None,
    }
    assert all(item.dangling for item in facts.missing)


def test_a_few_files_of_a_repository_are_a_whole_snapshot(tmp_path: Path, stores: ModelStores) -> None:
    snapshot(repository(tmp_path), "model-Q4_K_M.gguf", models.gguf())
    assert list(stores.survey(bytes(tmp_path))) == []
    (facts,) = stores.models(bytes(tmp_path))
    assert (facts.name, facts.missing, facts.remarks) == ("org/name@111111111111", (), ())
    assert facts.found.members == 1


# --- links that lead elsewhere


def test_a_link_out_of_the_cache_is_not_followed(tmp_path: Path, expectation: Asked, stores: ModelStores) -> None:
    secret = write(tmp_path / "secret.gguf", models.gguf())
    link = repository(tmp_path / "hub") / "snapshots" / COMMIT / "model.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    assert expectation(secret) == NOTHING
    (facts,) = stores.models(bytes(tmp_path / "hub"))
    assert [(item.path, item.size) for item in facts.members] == [(bytes(link), None)]


def test_a_name_that_climbs_out_is_no_blob(tmp_path: Path, expectation: Asked) -> None:
    repo = repository(tmp_path)
    blob = snapshot(repo, "model.safetensors", WEIGHTS).resolve()
    for number, target in enumerate(("../../blobs/..", "../../blobs/../../x", "/etc/passwd", "../../refs/main", "..")):
        (repo / "snapshots" / COMMIT / f"{number}.gguf").symlink_to(target)
    assert expectation(blob).names == ("org/name@111111111111/model.safetensors",)


# --- blobs that repositories share


def shared(hub: Path, content: bytes, *repos: Path) -> Path:
    """The shared blob, with a link in each of ``repos`` and its list; its own name is a hash of another kind."""
    xet = sha256(b"another kind" + content)
    write(hub / "blobs" / ".huggingface-shared-blobs", b"1\n")
    stored = write(hub / "blobs" / xet[:2] / xet, content)
    for repo in repos:
        link = snapshot(repo, "model.safetensors", content)
        blob = repo / "blobs" / sha256(content)
        assert link.resolve() == blob
        blob.unlink()
        blob.symlink_to(f"../../blobs/{xet[:2]}/{xet}")
    lines = [f"{repo.name}/blobs/{sha256(content)}\n" for repo in repos]
    write(stored.with_name(f"{xet}.refs"), "".join(lines).encode())
    return stored


def test_a_shared_blob_is_what_its_links_are_named(tmp_path: Path, expectation: Asked, stores: ModelStores) -> None:
    stored = shared(tmp_path, WEIGHTS, repository(tmp_path, "org/a"), repository(tmp_path, "org/b"))
    assert expectation(stored) == Expectation(
        store="huggingface",
        names=("org/a@111111111111/model.safetensors", "org/b@111111111111/model.safetensors"),
        references=(Reference("sha256", sha256(WEIGHTS), "blob name"),),
    )
    assert list(stores.survey(bytes(tmp_path))) == []
    assert [facts.members[0].path for facts in stores.models(bytes(tmp_path))] == [bytes(stored)] * 2


def test_a_roundabout_path_leads_to_the_same(
    tmp_path: Path, expectation: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = shared(tmp_path / "hub", WEIGHTS, repository(tmp_path / "hub"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    relative = Path("..") / stored.relative_to(tmp_path)
    assert expectation(relative) == expectation(stored)
    own = snapshot(repository(tmp_path / "hub", "org/own"), "own.gguf", b"own").resolve()
    assert expectation(Path("..") / own.relative_to(tmp_path)) == expectation(own)


def test_a_line_whose_link_leads_elsewhere_counts_for_nothing(tmp_path: Path, expectation: Asked) -> None:
    stored = shared(tmp_path, WEIGHTS, repository(tmp_path, "org/a"))
    other = snapshot(repository(tmp_path, "org/b"), "other.safetensors", b"other").resolve()
    for line in (f"models--org--b/blobs/{other.name}", "../../etc/passwd", "models--org--b/blobs/\0", "x"):
        write(stored.with_name(stored.name + ".refs"), line.encode())
        known = expectation(stored)
        assert known.references == ()
        assert [remark.code for remark in known.remarks] == ["orphan"]


def test_a_shared_blob_without_its_list_is_unknown(tmp_path: Path, expectation: Asked, stores: ModelStores) -> None:
    stored = shared(tmp_path, WEIGHTS, repository(tmp_path))
    stored.with_name(stored.name + ".refs").unlink()
    assert expectation(stored) == Expectation(store="huggingface")
    link = repository(tmp_path) / "snapshots" / COMMIT / "model.safetensors"
    known = stores.expectation(bytes(stored), given=bytes(link))
    assert known.references == (Reference("sha256", sha256(WEIGHTS), "blob name"),)
    stored.write_bytes(b"text")
    assert expectation(stored) == Expectation(store="huggingface", role="other")


def test_a_name_of_64_digits_alone_promises_nothing(tmp_path: Path, expectation: Asked) -> None:
    assert expectation(write(tmp_path / "blobs" / "ab" / ("ab" * 32))) == NOTHING
    assert expectation(write(tmp_path / "blobs" / ("ab" * 32))) == NOTHING


def test_a_snapshot_that_cannot_be_read_whole_leaves_the_others_theirs(tmp_path: Path, stores: ModelStores) -> None:
    repo = repository(tmp_path)
    snapshot(repo, "/".join("d" * 40) + "/m.gguf", b"x")  # deeper than anybody nests
    snapshot(repo, "m.gguf", b"x", commit=OTHER_COMMIT)
    store = stores.rooted_at(bytes(repo))
    assert store is not None
    found = store.models(lambda: None)
    assert next(found).name == "org/name@222222222222"
    with pytest.raises(Unknown):
        next(found)
    assert [facts.name for facts in stores.models(bytes(tmp_path))] == ["org/name@222222222222"]
