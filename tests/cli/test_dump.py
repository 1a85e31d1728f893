"""``dump``: a header that stands in for its file, kept and compared."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from auditd.header_dump.codec import encode
from auditd.inspection.reread import array_digests
from tests.builders import ARCHITECTURE, Array, Entry, Tensor, gguf, sketch
from tests.models import hero
from tests.support import models
from tests.support.commands import Command, Write
from tests.support.looks import looked
from tests.test_twins import put

TOKENS = [f"t{index}" for index in range(20)]


def vocabulary(tokens: list[str], *, alignment: int = 32, name: str = "w") -> bytes:
    entries = [ARCHITECTURE, Entry("tokenizer.ggml.tokens", "array", Array("string", tokens))]
    return gguf(entries, [Tensor(name, [8])], data_length=32).data


def test_to_standard_output_the_dump_and_nothing_else(command: Command, model: Write) -> None:
    done = command("dump", model(content=sketch().data))
    assert (done.status, done.err) == (0, "")
    document = json.loads(done.out)
    assert (document["schema"], document["file"]["size"]) == ("model-auditd/header/1", 408)
    assert (document["data_offset"], len(document["metadata"]), len(document["tensors"])) == (384, 5, 1)


def test_into_a_file_and_compared_with_it(command: Command, tmp_path: Path) -> None:
    path, output = put(tmp_path, hero(), hero().file_size), tmp_path / "hero.json"
    done = command("dump", path, "--output", output)
    text = output.read_bytes()
    told = " ".join(done.out.split())
    assert (done.status, done.err) == (0, "")
    assert "the model 4,683,073,952 bytes" in told
    assert f"its header {len(text):,} bytes: 34 metadata entries and 339 tensors, and no weights" in told
    assert hashlib.sha256(text).hexdigest() in told
    done = command("dump", path, "--against", output)
    assert done.status == 0
    assert done.out.endswith("\nthe same bytes\n")
    assert command("dump", path).out.encode() == text


def test_a_token_far_inside_a_vocabulary(command: Command, model: Write, tmp_path: Path) -> None:
    output = tmp_path / "h.json"
    command("dump", model(content=vocabulary(TOKENS)), "--output", output)
    done = command("dump", model(content=vocabulary([*TOKENS[:15], "t-5", *TOKENS[16:]])), "--against", output)
    assert done.status == 1
    assert "tokenizer.ggml.tokens" in done.out


def test_what_differs_is_named(command: Command, model: Write, tmp_path: Path) -> None:
    output = tmp_path / "h.json"
    command("dump", model(content=vocabulary(TOKENS)), "--output", output)
    for content in (vocabulary(TOKENS, name="v"), vocabulary(TOKENS) + bytes(32), models.safetensors(), b"hello"):
        path = model(content=content)
        assert command("dump", path, "--against", output).status == 1
        document = json.loads(command("dump", path, "--against", output, "--json").out)
        assert (document["schema"], document["same"], document["same_bytes"]) == ("model-auditd/dump/1", False, False)
        assert document["difference"]["same"] is False


def test_a_renamed_file_declares_the_same(command: Command, model: Write, tmp_path: Path) -> None:
    output = tmp_path / "h.json"
    command("dump", model(content=vocabulary(TOKENS)), "--output", output)
    done = command("dump", model("other.gguf", vocabulary(TOKENS)), "--against", output)
    assert done.status == 0
    assert "the same declarations" in " ".join(done.out.split())


def test_json_of_what_was_written(command: Command, model: Write, tmp_path: Path) -> None:
    output = tmp_path / "h.json"
    done = command("dump", model(content=sketch().data), "--output", output, "--json")
    document = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert (document["metadata"], document["tensors"], document["against"], document["same"]) == (5, 1, None, None)
    assert document["dump"]["sha256"] == hashlib.sha256(output.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (sketch().data[:200], 1),
        (models.gguf(tail=b"x"), 1),
        (models.safetensors(), 0),
    ],
)
def test_a_broken_file_has_a_dump_and_its_findings(command: Command, model: Write, content: bytes, status: int) -> None:
    done = command("dump", model(content=content))
    assert done.status == status
    assert bool(done.err) == bool(status)
    assert json.loads(done.out)["schema"] == "model-auditd/header/1"


def test_what_is_no_model_has_no_header(command: Command, model: Write, tmp_path: Path) -> None:
    path, output = model("page.gguf", b"<!DOCTYPE html><html>"), tmp_path / "h.json"
    for words in ([], ["--output", output], ["--json", "--output", output]):
        done = command("dump", path, *words)
        assert (done.status, done.out) == (1, "")
        assert "has no header to be dumped" in done.err
    assert not output.exists()
    command("dump", model(), "--output", output)
    before = output.read_bytes()
    assert command("dump", path, "--against", output).status == 1
    assert command("dump", path, "--against", output, "--output", output).status == 1
    assert output.read_bytes() == before


def test_only_a_dump_is_overwritten(command: Command, model: Write, tmp_path: Path) -> None:
    path, output = model(), tmp_path / "h.json"
    for content in (b"notes", b'{"schema": "model-auditd/evidence/1"}', b"{}"):
        output.write_bytes(content)
        done = command("dump", path, "--output", output)
        assert (done.status, output.read_bytes()) == (2, content)
        assert "is no dumped header, and is not overwritten" in done.err
    output.write_bytes(b"")
    assert command("dump", path, "--output", output).status == 0
    assert command("dump", model(content=models.safetensors()), "--output", output).status == 0
    assert b"safetensors" in output.read_bytes()


def test_a_header_that_was_cut_has_fewer_entries_than_it_declares(
    command: Command, model: Write, tmp_path: Path
) -> None:
    done = command("dump", model(content=sketch().data[:200]), "--output", tmp_path / "h.json")
    assert "4 of 5 metadata entries and 0 of 1 tensor," in " ".join(done.out.split())


@pytest.mark.parametrize("content", [b"<!DOCTYPE html><html>", models.safetensors(), models.gguf(), b""])
def test_what_is_no_dump_is_said_in_plain_words(command: Command, model: Write, tmp_path: Path, content: bytes) -> None:
    other = model("other", content)
    for words in (("dump", model(), "--against", other), ("show", "head", "--from", other)):
        done = command(*words)
        assert (done.status, done.out) == (2, "")
        assert "other: not a dumped header, which is JSON" in done.err


def test_what_cannot_be_dumped(command: Command, model: Write, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "gone",), (model("m.gguf.part"),)):
        done = command("dump", *arguments)
        assert (done.status, done.out) == (3, "")
        assert done.err
    assert command("dump", "--unfinished", model("m.gguf.part")).status == 0


def test_a_model_is_not_overwritten(command: Command, model: Write, tmp_path: Path) -> None:
    path = model()
    link = tmp_path / "link"
    link.symlink_to(path)
    before = path.read_bytes()
    for output in (path, link, model("other", models.safetensors())):
        assert command("dump", path, "--output", output).status == 2
    assert path.read_bytes() == before
    assert command("dump", path, "--output", tmp_path / "no" / "h.json").status == 3


@pytest.mark.parametrize("text", [b"", b"{}", b"GGUF", b'{"schema":1,"schema":1}'])
def test_what_is_no_dump(command: Command, model: Write, tmp_path: Path, text: bytes) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(text)
    done = command("dump", model(), "--against", other)
    assert (done.status, done.out) == (2, "")
    assert "other.json" in done.err
    assert command("dump", model(), "--against", tmp_path / "gone.json").status == 3


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a large model and its dump."""
    directory = tmp_path_factory.mktemp("dumped")
    (directory / "h.json").write_bytes(encode(array_digests(looked(put(directory, hero(), hero().file_size)))))
    return directory


@pytest.mark.parametrize("words", [["head"], ["meta"], ["stack"], ["account"], ["block", "3"]], ids=" ".join)
def test_show_says_the_same_from_a_dump(
    command: Command, dumped: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(dumped)
    for more in ([], ["--json"]):
        from_file = command("show", *words, "model.gguf", *more)
        assert command("show", *words, "--from", "h.json", *more) == from_file
        assert from_file.status == 0


def test_a_broken_file_is_shown_the_same_from_its_dump(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for content in (sketch().data[:200], sketch().data[:390], models.safetensors(b"x")):
        Path("m").write_bytes(content)
        command("dump", "m", "--output", "h.json")
        for kind in ("head", "meta", "account"):
            assert command("show", kind, "--from", "h.json") == command("show", kind, "m")
