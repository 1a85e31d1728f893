"""From the name that people use to the file, and what is said where there is none."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from auditd.errors import TargetError, UsageError
from auditd.model_stores.homes import Homes
from auditd.model_stores.locate import is_reference, locate
from tests.model_stores.trees import (
    COMMIT,
    LICENSE,
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


def ollama(*homes: Path) -> Homes:
    return Homes(ollama=tuple(bytes(home) for home in homes))


def hub(*homes: Path) -> Homes:
    return Homes(huggingface=tuple(bytes(home) for home in homes))


# --- homes


def test_the_environment_goes_before_the_usual_places() -> None:
    homes = Homes.of(
        {
            "HOME": "/home/me",
            "OLLAMA_MODELS": "/big/ollama",
            "HF_HUB_CACHE": "~/hub",
            "HF_HOME": "/big/hf",
            "XDG_CACHE_HOME": "/cache",
        }
    )
    assert homes.ollama == (b"/big/ollama", b"/home/me/.ollama/models", b"/usr/share/ollama/.ollama/models")
    assert homes.huggingface == (
        b"/home/me/hub",
        b"/big/hf/hub",
        b"/cache/huggingface/hub",
        b"/home/me/.cache/huggingface/hub",
    )


def test_an_empty_environment_leaves_the_place_of_the_service() -> None:
    assert Homes.of({}) == Homes(ollama=(b"/usr/share/ollama/.ollama/models",))


def test_only_these_are_references() -> None:
    assert is_reference("ollama:a")
    assert is_reference("hf:a/b/c")
    assert not is_reference("/models/ollama:a")
    assert not is_reference("model.gguf")
    with pytest.raises(UsageError, match="names no store"):
        locate("model.gguf", Homes())


# --- ollama:


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("qwen2.5:7b-instruct-q4_K_M", "registry.ollama.ai/library/qwen2.5/7b-instruct-q4_K_M"),
        ("qwen", "registry.ollama.ai/library/qwen/latest"),
        ("someone/qwen:7b", "registry.ollama.ai/someone/qwen/7b"),
        ("registry.ollama.ai/library/qwen:7b", "registry.ollama.ai/library/qwen/7b"),
        ("localhost:5000/a/qwen:7b", "localhost:5000/a/qwen/7b"),
        ("localhost:5000/a/qwen", "localhost:5000/a/qwen/latest"),
        ("hf.co/org/model-GGUF:Q4_K_M", "hf.co/org/model-GGUF/Q4_K_M"),
    ],
)
def test_a_model_of_ollama_is_found(name: str, place: str, tmp_path: Path) -> None:
    path = blob(tmp_path, b"weights")
    manifest(tmp_path, place, layer(b"licence", LICENSE), layer(b"weights"))
    assert locate(f"ollama:{name}", ollama(tmp_path / "no", tmp_path)) == bytes(path)


def test_a_blob_with_the_old_name_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "blobs" / f"sha256:{sha256(b'weights')}", b"weights")
    manifest(tmp_path, library("good"), layer(b"weights"))
    assert locate("ollama:good", ollama(tmp_path)) == bytes(path)


@pytest.mark.parametrize("name", ["", ":", "a:", "../x", "a/../b", "a//b", "a/b/c/d/e", "a\0b", ".", "..:.."])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no name of an Ollama model"):
        locate(f"ollama:{name}", ollama(tmp_path))


def test_near_names_are_shown(tmp_path: Path) -> None:
    for model in ("qwen", "llama", "gemma\x1b[31m"):
        manifest(tmp_path, library(model), layer(b"x"))
    with pytest.raises(TargetError, match=r'no model "qwne:latest".*for example: "qwen:latest"'):
        locate("ollama:qwne", ollama(tmp_path))
    with pytest.raises(TargetError) as caught:
        locate("ollama:zzz", ollama(tmp_path))
    assert str(caught.value).isprintable()
    assert "llama:latest" in str(caught.value)


def test_an_empty_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="looked in: " + str(tmp_path)):
        locate("ollama:qwen", ollama(tmp_path, tmp_path / "no"))
    with pytest.raises(TargetError, match="none of the places is there"):
        locate("ollama:qwen", ollama(tmp_path / "no"))


def test_a_place_that_is_hidden_is_not_called_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refused(path: bytes, flags: int, *rest: int) -> int:
        if b"/hidden" in path:
            raise PermissionError(errno.EACCES, "refused")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(TargetError, match=f"cannot be seen from here: {tmp_path}/hidden$"):
        locate("ollama:qwen", ollama(tmp_path / "hidden"))
    manifest(tmp_path, library("qwen"), layer(b"x"))
    with pytest.raises(TargetError, match=f'for example: "qwen:latest"; cannot be seen from here: {tmp_path}/hidden$'):
        locate("ollama:qwen:7b", ollama(tmp_path / "hidden", tmp_path))


def test_a_model_that_cannot_run_says_why(tmp_path: Path) -> None:
    manifest(tmp_path, library("gone"), layer(b"weights"))
    manifest(tmp_path, library("bare"), layer(b"licence", LICENSE))
    write(tmp_path / "manifests" / library("broken"), b"{")
    for name, words in (("gone", "listed and cannot run"), ("bare", "no layer with weights"), ("broken", "be read")):
        with pytest.raises(TargetError, match=words):
            locate(f"ollama:{name}", ollama(tmp_path))


# --- hf:


def test_a_file_of_a_snapshot_is_found_by_every_name_of_it(tmp_path: Path) -> None:
    repo = repository(tmp_path)
    link = snapshot(repo, "sub/model.gguf", b"weights")
    ref(repo)
    ref(repo, "refs/pr/1")
    for revision in ("", "@main", f"@{COMMIT}", "@1111", "@111111111111", "@refs/pr/1"):
        assert locate(f"hf:org/name{revision}/sub/model.gguf", hub(tmp_path / "no", tmp_path)) == bytes(link)


def test_a_link_copied_as_text_is_its_blob(tmp_path: Path) -> None:
    repo = repository(tmp_path)
    ref(repo)
    stored = snapshot(repo, "model.gguf", b"weights").resolve()
    write(repo / "snapshots" / COMMIT / "copy.gguf", f"../../blobs/{stored.name}".encode())
    assert locate("hf:org/name/copy.gguf", hub(tmp_path)) == bytes(stored)


@pytest.mark.parametrize("name", ["", "x", "a/b", "a/../c", "/b/c", "a/b/../../c", "a/b/c\0", "../b/c", "a/b//c"])
def test_a_file_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no file of a Hugging Face model"):
        locate(f"hf:{name}", hub(tmp_path))


def test_what_is_there_is_shown(tmp_path: Path) -> None:
    repo = repository(tmp_path)
    snapshot(repo, "model-Q4_K_M.gguf", b"weights")
    snapshot(repo, "model-Q8_0.gguf", b"more", commit=OTHER_COMMIT)
    with pytest.raises(TargetError, match=r'no model "org/nam" .*: "org/name"'):
        locate("hf:org/nam/model.gguf", hub(tmp_path))
    with pytest.raises(TargetError, match=r'"org/name" has no revision "main" here; commits that are: [12]{12}, [12]'):
        locate("hf:org/name/model.gguf", hub(tmp_path))
    ref(repo)
    with pytest.raises(TargetError, match=r'no file "model.gguf" in "org/name@1{12}".*"model-Q4_K_M.gguf"'):
        locate("hf:org/name/model.gguf", hub(tmp_path))


def test_the_begin_of_two_commits_is_none_of_them(tmp_path: Path) -> None:
    repo = repository(tmp_path)
    for commit in ("12345" + "0" * 35, "12345" + "f" * 35):
        snapshot(repo, "model.gguf", b"weights", commit=commit)
    with pytest.raises(TargetError, match="has no revision"):
        locate("hf:org/name@12345/model.gguf", hub(tmp_path))
    assert locate("hf:org/name@12345f/model.gguf", hub(tmp_path)).endswith(b"f/model.gguf")


def test_links_to_nowhere_and_out_of_the_cache_are_refused(tmp_path: Path) -> None:
    repo = repository(tmp_path / "hub")
    ref(repo)
    link = snapshot(repo, "model.gguf", b"weights")
    link.with_name("gone.gguf").symlink_to(f"../../blobs/{'d' * 64}")
    link.with_name("out.gguf").symlink_to(write(tmp_path / "secret", b"x"))
    with pytest.raises(TargetError, match=r"listed and not here: it is a link to .*/blobs/d{64}, where nothing is"):
        locate("hf:org/name/gone.gguf", hub(tmp_path / "hub"))
    with pytest.raises(TargetError, match="leads out of the cache"):
        locate("hf:org/name/out.gguf", hub(tmp_path / "hub"))
