"""``inspect``: one file, its record, its exit status."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from auditd.evidence.canonical import decode, evidence_id
from tests.builders import Tensor, gguf
from tests.model_stores.trees import blob, layer, library, manifest
from tests.support import models
from tests.support.commands import Command, Start, Write
from tests.support.sets import sharded

BAD = {
    "residue": models.gguf(tail=b"x"),
    "truncated": models.gguf(cut=1),
    "foreign": b"hello, world",
    "unsupported": models.gguf(version=9),
    "malformed": models.gguf()[:24] + b"\xff" * 72,
}


def test_a_sound_file(command: Command, model: Write) -> None:
    done = command("inspect", model())
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("sound: ")
    assert "residue                   0" in done.out


def test_safetensors(command: Command, model: Write) -> None:
    assert command("inspect", model("m.safetensors", models.safetensors())).status == 0
    assert command("inspect", model("m.safetensors", models.safetensors(b"x"))).status == 1


@pytest.mark.parametrize("verdict", BAD)
def test_a_bad_file(command: Command, model: Write, verdict: str) -> None:
    done = command("inspect", model(content=BAD[verdict]))
    assert done.status == 1
    assert done.out.startswith(f"{verdict}: ")


def test_one_of_something_is_called_one(command: Command, model: Write) -> None:
    assert "1 byte belongs to nothing" in command("inspect", model(content=BAD["residue"])).out
    cut = command("inspect", model(content=BAD["truncated"])).out
    assert '1 byte is missing: 1 tensor is cut; "a" is the first' in cut
    assert "needs 96, has 95" in cut
    short = " ".join(command("inspect", model(content=models.gguf()[:47])).out.split())
    assert "1 item of at least 24 bytes declared, 23 bytes left in the file" in short
    assert short.count("23 bytes left in the file") == 1


def test_the_mark_of_gguf_is_no_news_for_whoever_expects_another_format(command: Command, model: Write) -> None:
    for name, told in (("a.gguf", True), ("a", True), ("a.safetensors", False)):
        out = command("inspect", model(name, BAD["foreign"])).out
        assert ('a GGUF file opens "GGUF"' in " ".join(out.split())) is told


def test_a_file_of_zeros_behind_a_good_header_is_not_called_whole(command: Command, model: Write) -> None:
    dims = [1024, 2048]
    content = gguf(tensors=[Tensor("w", dims)]).data
    done = command("inspect", "--hash", "full", model(content=content))
    assert done.out.splitlines()[0] == "notice: no rule is broken, and there is something that a person should know"
    assert "zero_run" in done.out


def test_what_is_not_there(command: Command, tmp_path: Path) -> None:
    done = command("inspect", tmp_path / "missing.gguf")
    assert done.status == 3
    assert done.out.startswith("unknown: ")


def test_an_unfinished_download(command: Command, model: Write) -> None:
    path = model("model.gguf.part")
    assert command("inspect", path).out.startswith("in_progress: ")
    assert command("inspect", path).status == 0
    assert command("inspect", "--unfinished", path).out.startswith("sound: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["inspect"],
        ["inspect", "--hash", "some", "f"],
        ["inspect", "--layout", "k65", "f"],
        ["inspect", "--detail", "all", "f"],
        ["inspect", "a", "b"],
        ["unknown"],
        ["audit"],
    ],
    ids=" ".join,
)
def test_wrong_usage(command: Command, arguments: list[str]) -> None:
    done = command(*arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err


def test_json_is_one_line_and_nothing_else(command: Command, model: Write) -> None:
    done = command("inspect", "--json", model())
    assert done.out.count("\n") == 1
    record = decode(done.out.encode())
    assert record.detail == "complete"
    assert record.evidence_id == evidence_id(record)
    assert record.read.scope == "header"
    assert done.err == ""


def test_json_of_a_path_that_is_not_there(command: Command, tmp_path: Path) -> None:
    done = command("inspect", "--json", tmp_path / "missing")
    assert done.status == 3
    assert json.loads(done.out)["outcome"] == "unavailable"


def test_options_reach_the_inspection(command: Command, model: Write) -> None:
    record = json.loads(command("inspect", "--json", "--hash", "full", "--layout", "k64", model()).out)
    assert record["read"]["scope"] == "full"
    assert record["artifact"]["sha256"]
    assert record["trigger"] == "command"


def test_detail(command: Command, model: Write) -> None:
    path = model()
    summary = json.loads(command("inspect", "--json", "--detail", "summary", path).out)
    assert (summary["detail"], summary["gguf"]["tensors"], summary["gguf"]["tensor_count"]) == ("summary", None, 1)
    assert "0 a (F32) 8, 32 bytes at 64" in command("inspect", "--detail", "complete", path).out
    assert "0 a (F32)" not in command("inspect", path).out


def test_evidence_output_is_complete_whatever_is_shown(command: Command, model: Write, tmp_path: Path) -> None:
    output = tmp_path / "evidence.json"
    output.write_text("older")
    done = command("inspect", "--json", "--detail", "summary", "--evidence-output", output, model())
    assert decode(output.read_bytes()).detail == "complete"
    assert output.read_bytes().endswith(b"}\n")
    assert json.loads(done.out)["evidence_id"] == json.loads(output.read_text())["evidence_id"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evidence.json", "model.gguf"]


def test_evidence_output_never_overwrites_the_model(command: Command, model: Write, tmp_path: Path) -> None:
    path = model()
    before = path.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(path)
    for output in (path, link):
        done = command("inspect", "--evidence-output", output, path)
        assert (done.status, done.out) == (2, "")
    assert path.read_bytes() == before


def test_evidence_output_that_cannot_be_written_is_said(command: Command, model: Write, tmp_path: Path) -> None:
    done = command("inspect", "--json", "--evidence-output", tmp_path / "no" / "evidence.json", model())
    assert done.status == 3
    assert "cannot be written: No such file or directory" in done.err
    assert json.loads(done.out)["verdict"] == "sound"


def test_evidence_output_may_have_the_longest_name(command: Command, model: Write, tmp_path: Path) -> None:
    output = tmp_path / ("e" * 250 + ".json")
    assert command("inspect", "--evidence-output", output, model()).status == 0
    assert sorted(tmp_path.iterdir()) == [output, model()]


@pytest.mark.parametrize("content", [models.gguf(), models.safetensors(), b"GGUF"], ids=["gguf", "safetensors", "cut"])
def test_evidence_output_never_overwrites_another_model(
    command: Command, model: Write, tmp_path: Path, content: bytes
) -> None:
    other = model("other", content)
    link = tmp_path / "link"
    link.symlink_to(other)
    for output in (other, link):
        done = command("inspect", "--evidence-output", output, model())
        assert (done.status, done.out) == (2, "")
        assert "is a model, and is not overwritten" in done.err
    assert other.read_bytes() == content


def test_evidence_output_into_a_pipe(command: Command, model: Write, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    done = command("inspect", "--evidence-output", pipe, model())
    assert done.status == 3
    assert "pipe: the evidence cannot be written: nobody reads this pipe" in done.err
    assert done.out.startswith("sound: ")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert command("inspect", "--evidence-output", pipe, model()).status == 0
    assert decode(os.read(reading, 2**20)).detail == "complete"
    os.close(reading)


def test_evidence_output_into_a_device_leaves_it_a_device(command: Command, model: Write) -> None:
    assert command("inspect", "--evidence-output", "/dev/null", model()).status == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_names_that_are_not_text(start: Start, model: Write) -> None:
    path = os.fsencode(model()) + b"-\xff\x1b[2J.gguf"
    os.rename(model(), path)
    process = start("inspect", path)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert b"\x1b" not in out
    assert rb"\x1b[2J.gguf" in out


def test_a_directory_is_for_the_audit(command: Command, tmp_path: Path) -> None:
    done = command("inspect", tmp_path)
    assert done.status == 3
    assert "model-auditd audit looks at" in done.out
    assert "size" not in done.out.split("warning")[0]


def test_an_index_is_told_from_a_reply_of_a_server(command: Command, tmp_path: Path) -> None:
    sharded(tmp_path, ["a"], ["b"])
    done = command("inspect", tmp_path / "model.safetensors.index.json")
    assert done.status == 1
    assert "found shard_index" in done.out
    assert "that judges the set" in " ".join(done.out.split())


def test_a_view_is_a_page_under_a_short_head(command: Command, model: Write) -> None:
    done = command("inspect", "--view", '{"collection": "tensors"}', model(content=BAD["residue"]))
    lines = done.out.splitlines()
    assert done.status == 1
    assert lines[:3] == ["residue: bytes in the file that belong to nothing", "critical: unowned_bytes", ""]
    assert lines[3].startswith("tensors of ")
    assert lines[-1] == "1 of 1 row from offset 0"
    assert len(lines) == 6


def test_a_name_of_a_store(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    content = models.gguf()
    blob(tmp_path, content)
    manifest(tmp_path, library("good"), layer(content))
    manifest(tmp_path, library("gone"), layer(b"weights"))
    done = command("inspect", "ollama:good")
    assert done.status == 0
    assert "known as    good:latest" in done.out
    assert "not compared: inspect --hash expected" in " ".join(done.out.split())
    assert "and the content has it" in command("inspect", "--hash", "expected", "ollama:good").out
    done = command("inspect", "ollama:gone")
    assert (done.status, done.out) == (3, "")
    assert done.err.count(str(tmp_path)) == 1
    assert command("inspect", "ollama:never-heard-of").status == 3
    assert command("inspect", "ollama:a//b").status == 2


def test_help_says_what_else_is_3(command: Command) -> None:
    for name in ("inspect", "audit"):
        assert "also 3: whoever reads standard output leaves" in " ".join(command(name, "--help").out.split())
    assert "--evidence-output cannot be written" in " ".join(command("inspect", "--help").out.split())


def test_the_help_of_a_list_names_each_verdict_once(command: Command) -> None:
    words = command("evidence", "list", "--help").out.replace(",", " ").split()
    assert words.count("malformed") == 1


def test_version_and_help(command: Command) -> None:
    assert command("--version").out.startswith("model-auditd ")
    for words in (
        ["--help"],
        ["inspect", "--help"],
        ["audit", "--help"],
        ["run", "--help"],
        ["check-config", "--help"],
    ):
        done = command(*words)
        assert done.status == 0
        assert "exit status: 0" in done.out
