"""Ollama stores: names, digests and sizes of blobs; what is missing, orphaned, unfinished, left over."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from auditd.evidence.expectation import NOTHING, Expectation, Reference
from auditd.model_stores.files import Unknown
from auditd.model_stores.status import EntryStatus
from auditd.model_stores.stores import ModelStores
from tests.model_stores.trees import (
    ADAPTER,
    CONFIG,
    LICENSE,
    MODEL,
    PROJECTOR,
    blob,
    layer,
    library,
    manifest,
    sha256,
    write,
)
from tests.support import models

Asked = Callable[[Path], Expectation]

LICENCE_TEXT = b"do as you like"


def survey(stores: ModelStores, root: Path) -> dict[str, EntryStatus]:
    """The standings by the name of their path; no path stands in two ways."""
    found = list(stores.survey(bytes(root)))
    by_name = {os.path.basename(item.path).decode(): item for item in found}
    assert len(by_name) == len(found)
    return by_name


def test_a_blob_has_the_names_of_its_models_its_digest_and_its_size(tmp_path: Path, expectation: Asked) -> None:
    weights = models.gguf()
    path = blob(tmp_path, weights)
    manifest(tmp_path, library("qwen", "7b"), layer(weights))
    manifest(tmp_path, library("copy"), layer(weights))
    assert expectation(path) == Expectation(
        store="ollama",
        names=("copy:latest", "qwen:7b"),
        references=(Reference("sha256", sha256(weights), "blob name"),),
        size=len(weights),
        role="model",
    )


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("registry.ollama.ai/library/llama3/8b", "llama3:8b"),
        ("registry.ollama.ai/someone/llama3/8b", "someone/llama3:8b"),
        ("hf.co/org/model-GGUF/Q4_K_M", "hf.co/org/model-GGUF:Q4_K_M"),
        ("localhost:5000/library/mine/latest", "localhost:5000/library/mine:latest"),
    ],
)
def test_a_model_is_called_what_people_call_it(place: str, name: str, tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path, b"x")
    manifest(tmp_path, place, layer(b"x"))
    assert expectation(path).names == (name,)


@pytest.mark.parametrize(
    ("media_type", "role"), [(MODEL, "model"), (PROJECTOR, "model"), (ADAPTER, "model"), (LICENSE, "other")]
)
def test_layers_of_weights_are_models_and_all_others_are_not(
    media_type: str, role: str, tmp_path: Path, expectation: Asked
) -> None:
    path = blob(tmp_path, LICENCE_TEXT)
    manifest(tmp_path, library("good"), layer(LICENCE_TEXT, media_type))
    assert expectation(path).role == role


def test_the_config_is_a_part_of_the_model(tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path, b"{}")
    manifest(tmp_path, library("good"), config=layer(b"{}", CONFIG))
    assert expectation(path).names == ("good:latest",)
    assert expectation(path).role == "other"


def test_the_size_is_the_manifests_and_not_the_files(tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path, b"short")
    manifest(tmp_path, library("good"), layer(b"short", size=4_683_073_952))
    assert expectation(path).size == 4_683_073_952


def test_two_manifests_that_disagree_say_no_size(tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path, b"short")
    manifest(tmp_path, library("good"), layer(b"short"))
    manifest(tmp_path, library("bad"), layer(b"short", size=6))
    assert expectation(path).size is None


def test_an_orphan_is_a_model_only_if_it_looks_like_one(tmp_path: Path, expectation: Asked) -> None:
    manifest(tmp_path, library("good"), layer(b"else"))
    text, weights = expectation(blob(tmp_path, LICENCE_TEXT)), expectation(blob(tmp_path, models.gguf()))
    assert [remark.code for remark in text.remarks + weights.remarks] == ["orphan", "orphan"]
    assert (text.role, weights.role) == ("other", "model")
    assert text.names == ()


def test_nothing_is_an_orphan_while_a_manifest_is_not_understood(tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path, LICENCE_TEXT)
    broken = write(tmp_path / "manifests" / library("broken"), b'{"layers": [')
    assert expectation(path).remarks == ()
    broken.unlink()
    assert [remark.code for remark in expectation(path).remarks] == ["orphan"]


def test_without_manifests_only_the_digest_is_known(tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path, LICENCE_TEXT)
    known = expectation(path)
    assert known.references == (Reference("sha256", sha256(LICENCE_TEXT), "blob name"),)
    assert (known.names, known.size, known.remarks) == ((), None, ())


def test_a_link_in_place_of_the_manifests_is_not_an_empty_store(tmp_path: Path, expectation: Asked) -> None:
    path = blob(tmp_path / "store", LICENCE_TEXT)
    manifest(tmp_path / "elsewhere", library("good"), layer(LICENCE_TEXT))
    (tmp_path / "store" / "manifests").symlink_to(tmp_path / "elsewhere" / "manifests")
    assert expectation(path).remarks == ()


def test_a_manifest_that_is_kept_as_a_blob_is_no_orphan(tmp_path: Path, expectation: Asked) -> None:
    path = manifest(tmp_path, library("good"), layer(b"x"))
    assert expectation(blob(tmp_path, path.read_bytes())).remarks == ()


def test_files_of_a_file_manager_are_no_manifests(tmp_path: Path, expectation: Asked) -> None:
    write(tmp_path / "manifests" / "registry.ollama.ai" / "library" / "good" / ".DS_Store", b"\0\0\0\1Bud1")
    assert [remark.code for remark in expectation(blob(tmp_path, LICENCE_TEXT)).remarks] == ["orphan"]


def test_the_old_naming_is_a_reference_and_is_not_found_by_ollama(tmp_path: Path, expectation: Asked) -> None:
    path = write(tmp_path / "blobs" / f"sha256:{sha256(b'old')}", b"old")
    manifest(tmp_path, library("good"), layer(b"old"))
    known = expectation(path)
    assert known.references == (Reference("sha256", sha256(b"old"), "blob name"),)
    assert [remark.code for remark in known.remarks] == ["orphan"]
    assert "sha256-" in known.remarks[0].message
    blob(tmp_path, b"old")
    assert [remark.code for remark in expectation(path).remarks] == ["leftover"]


def test_an_unfinished_blob_has_names_and_no_reference(tmp_path: Path, expectation: Asked) -> None:
    partial = write(tmp_path / "blobs" / f"sha256-{sha256(b'whole')}-partial", b"wh")
    manifest(tmp_path, library("good"), layer(b"whole"))
    assert expectation(partial) == Expectation(store="ollama", names=("good:latest",))
    blob(tmp_path, b"whole")
    assert [remark.code for remark in expectation(partial).remarks] == ["leftover"]


def test_what_is_no_blob_is_nobodys(tmp_path: Path, expectation: Asked) -> None:
    for name in ("blobs/sha256-abc", "blobs/readme", f"sha256-{'0' * 64}", f"blobs/sha256-{'A' * 64}"):
        assert expectation(write(tmp_path / name)) == NOTHING


# --- the whole store


def test_a_layer_that_is_not_here_is_missing_with_its_size(tmp_path: Path, stores: ModelStores) -> None:
    (tmp_path / "blobs").mkdir()
    manifest(tmp_path, library("gone"), layer(b"weights", size=4_683_073_952))
    found = survey(stores, tmp_path)[f"sha256-{sha256(b'weights')}"]
    assert (found.kind, found.store, found.names, found.size) == (
        "missing_target",
        "ollama",
        ("gone:latest",),
        4_683_073_952,
    )
    (facts,) = stores.models(bytes(tmp_path))
    assert (facts.kind, facts.name, facts.members) == ("ollama_model", "gone:latest", ())
    assert [(item.size, item.digest) for item in facts.missing] == [(4_683_073_952, f"sha256:{sha256(b'weights')}")]
    assert not facts.in_progress


def test_a_whole_model_is_a_set_of_its_layers(tmp_path: Path, stores: ModelStores) -> None:
    contents = (b"weights", b"template", b"config")
    paths = {bytes(blob(tmp_path, content)) for content in contents}
    place = manifest(
        tmp_path,
        library("good"),
        layer(b"weights"),
        layer(b"template", LICENSE),
        layer(b"template", LICENSE),
        config=layer(b"config", CONFIG),
    )
    (facts,) = stores.models(bytes(tmp_path))
    assert {member.path for member in facts.members} == paths
    assert (facts.missing, facts.source, facts.directory) == ((), bytes(place), bytes(tmp_path))
    assert facts.declared == facts.found
    assert facts.found.size == sum(map(len, contents))
    assert survey(stores, tmp_path) == {}


def test_a_pull_says_how_much_is_done(tmp_path: Path, stores: ModelStores) -> None:
    partial = write(tmp_path / "blobs" / f"sha256-{sha256(b'whole')}-partial", bytes(4224))
    for number, (size, completed) in enumerate([(4000, 900), (224, 24)]):
        part = {"N": number, "Offset": 0, "Size": size, "Completed": completed}
        write(tmp_path / "blobs" / f"{partial.name}-{number}", json.dumps(part).encode())
    manifest(tmp_path, library("whole"), layer(b"whole"))
    found = survey(stores, tmp_path)
    unfinished = found.pop(partial.name)
    assert unfinished.kind == "unfinished"
    assert "924 of 4,224 bytes" in unfinished.message
    assert (unfinished.size, unfinished.mtime_ns) == (4224, partial.stat().st_mtime_ns)
    assert {item.kind for item in found.values()} == {"missing_target"}
    (facts,) = stores.models(bytes(tmp_path))
    assert facts.in_progress
    assert facts.unfinished == (partial.name.encode(),)


@pytest.mark.parametrize(
    "part", [b"", b"[]", b'{"Size": 10}', b'{"Size": 10, "Completed": 11}', b'{"Size": 10, "Completed": -1}']
)
def test_parts_that_do_not_add_up_say_nothing(part: bytes, tmp_path: Path, stores: ModelStores) -> None:
    partial = write(tmp_path / "blobs" / f"sha256-{'0' * 64}-partial", bytes(10))
    (tmp_path / "manifests").mkdir()
    write(tmp_path / "blobs" / f"{partial.name}-0", part)
    assert "not known" in survey(stores, tmp_path)[partial.name].message


def test_what_a_failed_create_left_is_a_leftover(tmp_path: Path, stores: ModelStores, expectation: Asked) -> None:
    path = write(tmp_path / "blobs" / "sha256-3939015911-partial", bytes(512))
    (tmp_path / "manifests").mkdir()
    assert [remark.code for remark in expectation(path).remarks] == ["leftover"]
    assert survey(stores, tmp_path)[path.name].kind == "leftover"


def test_a_manifest_that_is_not_understood_is_said(tmp_path: Path, stores: ModelStores) -> None:
    (tmp_path / "blobs").mkdir()
    write(tmp_path / "manifests" / library("broken"), b"<html>")
    found = survey(stores, tmp_path)["latest"]
    assert (found.kind, found.names) == ("unreadable", ("broken:latest",))
    assert list(stores.models(bytes(tmp_path))) == []


def test_a_manifest_that_is_not_understood_leaves_the_others_their_models(tmp_path: Path, stores: ModelStores) -> None:
    (tmp_path / "blobs").mkdir()
    write(tmp_path / "manifests" / library("broken"), b"<html>")
    for name in ("a", "z"):
        manifest(tmp_path, library(name), layer(b"x"))
    store = stores.rooted_at(bytes(tmp_path))
    assert store is not None
    found = store.models(lambda: None)
    assert sorted([next(found).name, next(found).name]) == ["a:latest", "z:latest"]
    with pytest.raises(Unknown):
        next(found)


@pytest.mark.parametrize("kind", ["dangling", "directory", "loop", "pipe"])
def test_what_is_no_file_is_no_member(tmp_path: Path, kind: str) -> None:
    """A link to nothing, a directory, a loop or a pipe has the blob's name and none of its content."""
    content = b"weights"
    digest = hashlib.sha256(content).hexdigest()
    manifest = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "m" / "latest"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": len(content)}
    manifest.write_text(json.dumps({"schemaVersion": 2, "config": layer, "layers": [layer]}))
    path = tmp_path / "blobs" / f"sha256-{digest}"
    path.parent.mkdir()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else tmp_path / "nowhere")
    (facts,) = ModelStores().models(os.fsencode(tmp_path))
    assert (facts.members, facts.all_missing) == ((), 1)
    if kind != "directory":
        path.unlink()
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
        (facts,) = ModelStores().models(os.fsencode(tmp_path))
        assert [member.size for member in facts.members] == [len(content)]
