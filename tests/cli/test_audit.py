"""``audit``: trees and lists, each file once, the worst first."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from auditd.report.columns import width
from tests.model_stores.trees import LICENSE, blob, layer, library, manifest, sha256
from tests.support import models
from tests.support.commands import Command, Done, Write
from tests.support.lines import harmless


def paths_of(done: Done) -> list[str]:
    return sorted(json.loads(line)["artifact"]["path"] for line in done.out.splitlines())


def test_a_tree(command: Command, model: Write, tmp_path: Path) -> None:
    model("a/sound.gguf")
    model("a/b/tail.gguf", models.gguf(tail=b"x"))
    model("a/README.md", b"words")
    done = command("audit", tmp_path)
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[0].split() == ["VERDICT", "RESIDUE", "SIZE", "FILE"]
    assert lines[1].split()[:4] == ["residue", "+1", "97", "B"]
    assert lines[-1] == "2 files, 193 B: 1 residue, 1 sound; 1 other file"
    assert all(width(line) <= 80 for line in lines)


def test_nothing_wrong(command: Command, model: Write) -> None:
    assert command("audit", model()).status == 0


def test_an_empty_tree_is_said_to_be_empty(command: Command, tmp_path: Path) -> None:
    done = command("audit", tmp_path)
    assert (done.status, done.out) == (0, "0 files, 0 B\n")


def test_not_seen_wins_over_findings(command: Command, model: Write, tmp_path: Path) -> None:
    bad = model("bad.gguf", b"hello, world")
    done = command("audit", bad, tmp_path / "missing.gguf")
    assert done.status == 3
    assert "1 foreign" in done.out


def test_a_file_on_the_command_line_is_always_inspected(command: Command, model: Write) -> None:
    assert "1 foreign" in command("audit", model("notes.txt", b"hello, world")).out


def test_each_file_once(command: Command, model: Write, tmp_path: Path) -> None:
    path = model("a.gguf")
    os.link(path, tmp_path / "b.gguf")
    (tmp_path / "c.gguf").symlink_to(path)
    done = command("audit", path, path, tmp_path, tmp_path / "c.gguf")
    assert done.out.splitlines()[-1].startswith("1 file, ")


def test_names_of_one_file_in_one_tree_are_one_file(command: Command, model: Write, tmp_path: Path) -> None:
    path = model("a.gguf")
    os.link(path, tmp_path / "b.gguf")
    for target in (tmp_path, path):
        assert command("audit", target).out.splitlines()[-1].startswith("1 file, ")


def test_an_unknown_layout_is_answered_shortly(command: Command) -> None:
    done = command("audit", "--layout", "nonsense", "f")
    assert done.status == 2
    last = done.err.splitlines()[-1]
    assert 'no layout "nonsense"; there are auto, strict, ' in last
    assert last.endswith("which --layout help lists")
    assert len(last) < 200


def test_layouts_are_listed_when_asked_for_and_not_in_every_help(command: Command) -> None:
    for words in (["audit", "--layout", "help"], ["inspect", "--layout", "list"], ["show", "head", "--layout", "help"]):
        done = command(*words)
        assert (done.status, done.err) == (0, "")
        assert {"auto", "strict", "ggml-current", "k64"} <= set(done.out.splitlines())
    assert "ggml-removed" not in command("audit", "--help").out


def test_a_place_that_is_not_there_is_answered_with_those_that_are(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    done = command("audit", tmp_path / "models")
    assert done.status == 3
    assert f"nothing is at {tmp_path}/models; models of this machine are in {tmp_path}" in done.err


def test_the_parts_of_a_model_are_told_apart(command: Command, tmp_path: Path) -> None:
    weights, licence = models.gguf(), b"a licence"
    for content in (weights, licence):
        blob(tmp_path, content)
    manifest(tmp_path, library("good"), layer(weights), layer(licence, LICENSE))
    manifest(tmp_path, library("second"), layer(licence, LICENSE))
    lines = command("audit", tmp_path).out.splitlines()
    assert "sound          0  96 B  good:latest (model)" in lines
    assert "sound          -   9 B  good:latest and 1 more (license)" in lines
    blob(tmp_path, licence).write_bytes(b"another")
    done = command("audit", tmp_path)
    assert done.status == 1
    assert ["mismatch", "-", "7", "B", "good:latest", "and", "1", "more", "(license)"] in [
        line.split() for line in done.out.splitlines()
    ]
    assert str(tmp_path / "blobs" / f"sha256-{sha256(licence)}") in "".join(map(str.strip, done.out.splitlines()))


def test_links_out_of_a_tree_are_followed_when_asked_for(command: Command, model: Write, tmp_path: Path) -> None:
    model("elsewhere/a.gguf")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "elsewhere")
    assert command("audit", tmp_path / "tree").out.startswith("0 files")
    assert "1 file, 96 B: 1 sound" in command("audit", "--follow-links", tmp_path / "tree").out


def test_json_has_a_record_a_line_and_nothing_else(command: Command, model: Write, tmp_path: Path) -> None:
    model("a.gguf")
    model("b.gguf", models.gguf(tail=b"x"))
    model("c.txt", b"words")
    done = command("audit", "--json", tmp_path)
    assert (done.status, done.err) == (1, "")
    assert paths_of(done) == [str(tmp_path / "a.gguf"), str(tmp_path / "b.gguf")]
    assert all(json.loads(line)["detail"] == "complete" for line in done.out.splitlines())
    short = command("audit", "--json", "--detail", "summary", tmp_path)
    assert all(json.loads(line)["detail"] == "summary" for line in short.out.splitlines())


@pytest.mark.parametrize("separator", [b"\n", b"\0"], ids=["lines", "NUL"])
def test_files_from_a_list(command: Command, model: Write, tmp_path: Path, separator: bytes) -> None:
    names = [os.fsencode(model("a.gguf")), os.fsencode(model("b.gguf"))]
    listed = model("list", separator.join(names) + separator)
    assert paths_of(command("audit", "--json", "--files-from", listed)) == sorted(map(os.fsdecode, names))


def test_a_name_with_a_line_feed_needs_nul(command: Command, model: Write) -> None:
    name = os.fsencode(model("two\nlines.gguf"))
    listed = model("list", name + b"\0")
    assert paths_of(command("audit", "--json", "--files-from", listed)) == [os.fsdecode(name)]


def test_files_from_standard_input(command: Command, model: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = model()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(os.fsencode(path))))
    assert paths_of(command("audit", "--json", "--files-from", "-")) == [str(path)]


def test_an_empty_list_is_no_error(command: Command, model: Write) -> None:
    assert command("audit", "--files-from", model("list", b"\n")).status == 0


def test_a_list_that_is_not_there(command: Command, tmp_path: Path) -> None:
    done = command("audit", "--files-from", tmp_path / "list")
    assert (done.status, done.out) == (2, "")
    assert "No such file or directory" in done.err


def listed(command: Command, monkeypatch: pytest.MonkeyPatch, source: object) -> Done:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=source))
    return command("audit", "--files-from", "-")


class Endless:
    """Gives the same bytes for ever, and says how much was taken."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.taken = 0

    def read1(self, size: int) -> bytes:
        self.taken += len(self.content)
        assert self.taken < 2**20
        return self.content


@pytest.mark.parametrize("content", [b"\0" * 4096, b"\n" * 4096, b"a" * 4096], ids=["NUL", "lines", "one path"])
def test_a_list_that_never_names_a_path_is_refused(
    command: Command, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    done = listed(command, monkeypatch, Endless(content))
    assert (done.status, done.out) == (2, "")
    assert "--files-from -: no list of paths" in done.err
    assert command("audit", "--files-from", "/dev/zero").status == 2


def test_a_list_is_read_as_it_comes(command: Command, monkeypatch: pytest.MonkeyPatch, model: Write) -> None:
    path = os.fsencode(model())
    assert listed(command, monkeypatch, io.BytesIO((path + b"\n") * 10_000)).out.splitlines()[-1].startswith("1 file")
    # What was seen before the list went bad is not lost.
    done = listed(command, monkeypatch, io.BytesIO(path + b"\n" * 200_000))
    assert (done.status, done.out.splitlines()[-1]) == (2, "1 file, 96 B: 1 sound")


def test_a_list_that_cannot_be_read(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def read1(self, size: int) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    done = listed(command, monkeypatch, Broken())
    assert (done.status, done.out) == (2, "")
    assert "--files-from -: Input/output error" in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every directory")
def test_a_closed_directory_is_not_an_empty_one(command: Command, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    done = command("audit", tmp_path)
    assert done.status == 3
    assert "0 files, 0 B; 1 not seen" in done.out


def test_unseen_places_have_a_record_in_json(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from auditd.cli import audit
    from auditd.inspection.scan import Unseen

    unseen = Unseen(os.fsencode(tmp_path / "closed"), 13)
    monkeypatch.setattr(audit, "targets", lambda *_, **__: iter([unseen]))
    done = command("audit", "--json", tmp_path)
    assert done.status == 3
    assert json.loads(done.out)["outcome"] == "unavailable"
    done = command("audit", tmp_path)
    assert done.status == 3
    assert "not seen: Permission denied" in done.out


def test_hostile_names_stay_on_their_line(command: Command, model: Write, tmp_path: Path) -> None:
    for name in ("two\nlines.gguf", "\x1b]0;title\x07.gguf", "\u202efugg.gguf", "模" * 60 + ".gguf"):
        model(name, models.gguf(tail=b"x"))
    done = command("audit", tmp_path)
    assert all(harmless(line) and width(line) <= 80 for line in done.out.splitlines())
    assert done.out.splitlines()[-1].startswith("4 files")
