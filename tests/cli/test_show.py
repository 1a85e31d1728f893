"""``show``: every kind from a file and from a dumped header, its exit status, and what cannot be asked for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditd.header_dump import codec as dump
from tests.builders import Array, Entry, Tensor, gguf, sketch
from tests.cli.test_endings import wait_until_reading
from tests.cli.test_streams import shell
from tests.support import models
from tests.support.commands import Command, Start, Write
from tests.support.looks import looked

#: Words for each kind that suffice on the small known file.
KINDS: dict[str, list[str]] = {
    "head": [],
    "meta": [],
    "fields": [],
    "stack": [],
    "block": ["0"],
    "account": [],
    "floats": ["blk.0.counts.weight"],
    "map": [],
}
#: Those that need no byte of the file.
FROM_DUMP = [kind for kind in KINDS if kind != "floats"]
SCHEMA = "model-auditd/show-{}/1"


@pytest.fixture
def known(model: Write) -> Path:
    return model("sketch.gguf", sketch().data)


@pytest.fixture
def dumped(known: Path, tmp_path: Path) -> Path:
    path = tmp_path / "sketch.json"
    path.write_bytes(dump.encode(looked(known)))
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_file(command: Command, known: Path, kind: str) -> None:
    done = command("show", kind, *KINDS[kind], known)
    assert (done.status, done.err) == (0, "")
    assert "sketch.gguf" in done.out.splitlines()[0]
    assert all(len(line) <= 80 for line in done.out.splitlines())


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_one_line_with_its_schema(command: Command, known: Path, kind: str) -> None:
    done = command("show", kind, "--json", *KINDS[kind], known)
    assert (done.status, done.err, done.out.count("\n")) == (0, "", 1)
    made = json.loads(done.out)
    assert next(iter(made)) == "schema"
    assert made["schema"] == SCHEMA.format(kind)
    assert made["file"]["size"] == 408
    assert made["ending"] is None


@pytest.mark.parametrize("kind", [kind for kind in FROM_DUMP if kind != "fields"])
@pytest.mark.parametrize("form", ["--json", "--layout=auto"])
def test_from_a_dump_it_is_the_same(command: Command, known: Path, dumped: Path, kind: str, form: str) -> None:
    from_file = command("show", kind, form, *KINDS[kind], known)
    assert from_file.status == 0
    known.unlink()
    assert command("show", kind, form, *KINDS[kind], "--from", dumped) == from_file


def test_fields_from_a_dump_have_all_but_the_bytes(command: Command, known: Path, dumped: Path) -> None:
    from_file = json.loads(command("show", "fields", "--json", known).out)
    from_dump = json.loads(command("show", "fields", "--json", "--from", dumped).out)
    assert {row.pop("first_bytes") for row in from_dump["fields"]} == {None}
    assert "47 47 55 46" in {row.pop("first_bytes") for row in from_file["fields"]}
    assert from_dump["fields"] == from_file["fields"]


def test_a_dump_on_standard_input(dumped: Path) -> None:
    done = shell('$M show account --from - < "$1"', dumped)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"327" not in done.stdout.splitlines()[0]
    assert b"384" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["show"],
        ["show", "nothing", "FILE"],
        ["show", "head"],
        ["show", "head", "FILE", "--from", "DUMP"],
        ["show", "head", "--from", "FILE"],
        ["show", "head", "--layout", "k65", "FILE"],
        ["show", "block", "FILE"],
        ["show", "block", "one", "FILE"],
        ["show", "block", "7", "FILE"],
        ["show", "block", "0", "--stack", "none", "FILE"],
        ["show", "floats", "none", "FILE"],
        ["show", "floats", "blk.0.counts.weight", "--from", "DUMP"],
        ["show", "fields", "--range", "8", "FILE"],
        ["show", "fields", "--range", "8:4", "FILE"],
        ["show", "fields", "--range", "a:b", "FILE"],
        ["show", "fields", "--limit", "0", "FILE"],
        ["show", "fields", "--tensor", "none", "FILE"],
        ["show", "meta", "--key", "none", "FILE"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_asked_for(command: Command, known: Path, dumped: Path, words: list[str]) -> None:
    paths = {"FILE": known, "DUMP": dumped}
    done = command(*[paths.get(word, word) for word in words])
    assert (done.status, done.out) == (2, "")
    assert done.err


def test_options_stand_anywhere(command: Command, known: Path, dumped: Path) -> None:
    orders: list[list[Any]] = [
        ["--json", "0", known],
        ["0", "--json", known],
        ["0", known, "--json"],
        ["0", "--json", "--from", dumped],
        ["--from", dumped, "--json", "0"],
    ]
    outputs = {command("show", "block", *words).out for words in orders}
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["block"] == 0


BAD = {
    "residue": sketch().data + b"x",
    "truncated": sketch().data[:200],
    "missing": sketch().data[:390],
    "foreign": b"hello, world",
    "unsupported": models.gguf(version=9),
    "malformed": models.gguf()[:24] + b"\xff" * 72,
    "empty": b"",
}


#: Its verdict, and the finding that makes it.
SAID = {
    "residue": ("residue", "critical: unowned_bytes"),
    "truncated": ("truncated", "critical: header_truncated"),
    "missing": ("truncated", "critical: tensor_bytes_missing"),
    "foreign": ("foreign", "warning: not_a_model"),
    "unsupported": ("unsupported", "warning: unsupported_version"),
    "malformed": ("malformed", "critical: header_malformed"),
    "empty": ("foreign", "warning: not_a_model"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_file_is_shown_as_far_as_it_goes_and_what_is_wrong_is_said(
    command: Command, model: Write, kind: str, bad: str
) -> None:
    path = model(content=BAD[bad])
    done = command("show", kind, *KINDS[kind], path)
    # the numbers of a tensor that is cut were not read to their end
    assert done.status == (3 if (kind, bad) == ("floats", "missing") else 1)
    assert "model.gguf" in done.out.splitlines()[0]
    verdict, finding = SAID[bad]
    lines = done.out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(f"{verdict}: "))
    assert lines[at + 1].strip().startswith(finding)
    assert any(line.strip().startswith("-> ") for line in lines[at:])
    assert all(len(line) <= 80 for line in lines)
    made = json.loads(command("show", kind, "--json", *KINDS[kind], path).out)
    assert (made["ending"]["verdict"], made["ending"]["code"]) == (verdict, finding.split()[-1])


@pytest.mark.parametrize(
    "words", [["block", "0"], ["floats"], ["floats", "w"], ["fields", "--tensor", "w"]], ids=" ".join
)
def test_what_was_not_come_to_is_not_called_absent(command: Command, model: Write, words: list[str]) -> None:
    path = model(content=sketch().data[:200])
    done = command("show", *words, path)
    assert done.status == 1
    assert "the header was not read to its tensors" in " ".join(done.out.split())
    assert "there is no" not in done.out + done.err
    heading = {"block": "block 0", "floats": "numbers", "fields": "fields"}[words[0]]
    assert done.out.startswith(f"{heading} of model.gguf\n")
    made = json.loads(command("show", words[0], "--json", *words[1:], path).out)
    assert (made["schema"], made["kind"]) == ("model-auditd/show-nothing/1", words[0])
    assert made["file"]["name"] == "model.gguf"
    assert made["reason"].startswith("the header was not read to its tensors")


def test_a_key_behind_the_place_where_the_reading_ended(command: Command, model: Write) -> None:
    path = model(content=sketch().data[:200])
    made = json.loads(command("show", "meta", "--key", "counts.tokens", "--json", path).out)
    assert "it may stand behind the 4 metadata entries that were read" in made["reason"]
    assert command("show", "meta", "--key", "general.name", path).out.startswith("general.name in model.gguf")


@pytest.mark.parametrize(
    ("words", "usage", "why"),
    [
        (["floats", "--from", "DUMP"], "show floats", "a dumped header has no weights"),
        (["fields", "FILE", "FILE"], "show fields", "unrecognized arguments"),
        (["block", "FILE"], "show block", "N is the number of a block"),
        (["block", "x", "FILE"], "show block", "N is the number of a block"),
        (["block", "0"], "show block", "required: FILE"),
        (["head", "--no", "FILE"], "show head", "unrecognized arguments: --no"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_usage_is_that_of_the_command_that_was_given(
    command: Command, known: Path, dumped: Path, words: list[str], usage: str, why: str
) -> None:
    paths = {"FILE": known, "DUMP": dumped}
    done = command("show", *[paths.get(word, word) for word in words])
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"usage: model-auditd {usage} ")
    assert why in " ".join(done.err.split())


def test_a_range_without_an_end(command: Command, known: Path) -> None:
    made = json.loads(command("show", "fields", "--json", "--range", "300:", known).out)
    assert [row["offset"] for row in made["fields"]] == [268, 327, 384]
    assert command("show", "fields", "--json", "--range", ":1", known).out.count('"offset":0') == 1


@pytest.mark.parametrize("kind", ["map", "fields"])
def test_a_sheet_that_takes_long_can_be_interrupted(
    command: Command, model: Write, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditd.cli import show_kinds

    asked_for = show_kinds.KINDS[kind].make

    def interrupted(module: Any, asked: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return asked_for(module, asked)

    monkeypatch.setitem(show_kinds.KINDS, kind, replace(show_kinds.KINDS[kind], make=interrupted))
    for content in (models.gguf(), models.safetensors()):
        done = command("show", kind, model(content=content))
        assert (done.status, done.out) == (3, "")
        assert "stopped by SIGINT" in done.err


@pytest.mark.parametrize("kind", KINDS)
def test_json_of_a_bad_file_has_its_ending(command: Command, model: Write, kind: str) -> None:
    made = json.loads(command("show", kind, "--json", *KINDS[kind], model(content=BAD["truncated"])).out)
    assert (made["ending"]["outcome"], made["ending"]["offset"]) == ("truncated", 192)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_there(command: Command, tmp_path: Path, kind: str) -> None:
    done = command("show", kind, *KINDS[kind], tmp_path / "none.gguf")
    assert done.status == 3
    assert "unavailable: " in done.out
    assert "No such file" in done.out


@pytest.mark.parametrize("kind", KINDS)
def test_an_unfinished_download(command: Command, known: Path, kind: str) -> None:
    part = known.rename(known.with_name("sketch.gguf.part"))
    done = command("show", kind, *KINDS[kind], part)
    assert done.status == 0
    assert "unfinished: " in done.out
    assert "unfinished: " not in command("show", kind, "--unfinished", *KINDS[kind], part).out


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["--json", "--layout=auto"])
def test_hostile_names_move_no_cursor(command: Command, model: Write, kind: str, form: str) -> None:
    hostile = "\x1b[2J\x9b\u202e\u2028\x7f"
    metadata = [
        Entry("general.architecture", "string", hostile),
        Entry(hostile, "string", hostile),
        Entry(hostile.encode() + b"\xff", "string", b"\xff" + hostile.encode()),
    ]
    tensors = [Tensor(f"blk.0.{hostile}", [8]), Tensor("blk.0.counts.weight", [8])]
    path = model(f"{hostile}.gguf", gguf(metadata, tensors, data_length=65).data)
    out = command("show", kind, form, *KINDS[kind], path).out
    assert out
    assert not set(out) & set(hostile.replace("[2J", ""))


@pytest.mark.parametrize("words", [["account"], ["head", "--json"]], ids=" ".join)
def test_a_reader_that_leaves_is_no_error(start: Start, known: Path, words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("show", *words, known, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (3, b"")


def test_a_picture_is_written_whole(command: Command, known: Path, tmp_path: Path) -> None:
    output = tmp_path / "map.svg"
    done = command("show", "map", "--svg", output, known)
    assert (done.status, done.err) == (0, "")
    assert done.out == command("show", "map", known).out
    picture = output.read_text()
    assert picture.startswith("<svg ")
    assert picture.rstrip().endswith("</svg>")


def test_a_picture_never_overwrites_a_model(command: Command, known: Path, tmp_path: Path) -> None:
    before = known.read_bytes()
    assert command("show", "map", "--svg", known, known).status == 2
    assert known.read_bytes() == before
    done = command("show", "map", "--svg", tmp_path / "no" / "map.svg", known)
    assert done.status == 3
    assert "the picture cannot be written: No such file or directory" in done.err


def test_one_value_whole(command: Command, model: Write) -> None:
    words = [f"word {number}" for number in range(40)]
    path = model(content=gguf([Entry("list", "array", Array("string", words))]).data)
    made = json.loads(command("show", "meta", "--json", "--key", "list", path).out)
    assert made["elements"] == words
    shown = command("show", "meta", "--key", "list", path).out
    assert all(f'"{word}"' in shown for word in words)


def test_an_interrupted_reading_shows_what_it_has(start: Start, model: Write) -> None:
    """A sparse tensor of eight gigabytes: long to read, nothing to store."""
    built = gguf([], [Tensor("long", [2**31])], data_length=0)
    path = model("long.gguf", built.data)
    os.truncate(path, built.data_offset + 2**33)
    process = start("show", "floats", "--json", "long", path)
    wait_until_reading(process, path)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (3, b"")
    reading = json.loads(out)["reading"]
    assert reading["numbers"] == 2**31
    assert 0 < reading["read"] < 2**31
    assert reading["stopped_because"] == "stopped by SIGINT"


def test_a_full_disk_is_said(known: Path) -> None:
    done = shell('$M show head "$1" > /dev/full', known)
    assert done.returncode == 3
    assert done.stderr == b"model-auditd: standard output cannot be written: No space left on device\n"


def test_no_kind_imports_what_is_slow(known: Path) -> None:
    program = (
        "import sys; from auditd.__main__ import main; main(sys.argv[1:]);"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, "show", "head", str(known)]
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8")
    heavy = {"trio", "structlog", "asyncio", "sqlite3", "watchfiles", "numpy", "socket"}
    assert heavy & set(done.stderr.split()) == set()


@pytest.mark.parametrize("columns", [40, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_lines_keep_to_their_columns(
    command: Command, known: Path, monkeypatch: pytest.MonkeyPatch, kind: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = command("show", kind, *KINDS[kind], known)
    assert done.status == 0
    assert all(len(line) <= columns for line in done.out.splitlines())


def test_whoever_waits_for_a_dump_ends_it_at_the_first_signal(start: Start, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start("show", "head", "--from", pipe)
    with open(pipe, "wb"):  # returns once it reads
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 3


def test_help_lists_the_kinds(command: Command) -> None:
    shown = command("show", "--help").out
    assert all(f"\n    {kind} " in shown for kind in KINDS)
    assert "exit status: 0" in command("show", "block", "--help").out
