"""``sketch``: the small known file, written and read back."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.support import models
from tests.support.commands import Command

#: offset, length and what the field is, as published.
SPANS = [
    (0, 4, "magic"),
    (4, 4, "version"),
    (8, 8, "tensors"),
    (16, 8, "metadata entries"),
    (24, 46, "general.architecture (string)"),
    (70, 55, "general.name (string)"),
    (125, 33, "general.alignment (u32)"),
    (158, 34, "counts.block_count (u32)"),
    (192, 76, "counts.tokens (array)"),
    (268, 59, "blk.0.counts.weight"),
    (327, 57, "alignment of 64"),
    (384, 24, "tensor data"),
]
VALUES = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "sketch.gguf"


def test_the_published_file(command: Command, out: Path) -> None:
    done = command("sketch", out)
    assert (done.status, done.err) == (0, "")
    assert out.stat().st_size == 408
    told = [line.split() for line in done.out.splitlines()]
    for offset, length, name in SPANS:
        assert any(line[:2] == [str(offset), str(length)] and name in " ".join(line) for line in told)
    assert "327 + 57 + 24 = 408, and the file is 408" in done.out
    assert "6 of 6 came back the number that went in" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_its_bytes(command: Command, out: Path) -> None:
    command("sketch", out)
    data = out.read_bytes()
    assert struct.unpack_from("<4sIQQ", data) == (b"GGUF", 3, 1, 5)
    assert data[24:52] == struct.pack("<Q", 20) + b"general.architecture"
    assert data[94:102] == struct.pack("<Q", 23)
    assert data[102:109] == b"one pag"
    assert struct.unpack_from("<I", data, 154) == (64,)
    assert data[327:384] == bytes(57)
    assert list(struct.unpack_from("<6f", data, 384)) == VALUES


def test_as_json(command: Command, out: Path) -> None:
    done = command("sketch", out, "--json")
    sheet = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert [(row["offset"], row["length"]) for row in sheet["spans"]] == [span[:2] for span in SPANS]
    assert (sheet["sum"], sheet["matching"], sheet["same"]) == ([327, 57, 24], 6, True)
    assert sheet["numbers_written"] == sheet["numbers_read"] == VALUES
    assert all(check["written"] == check["found"] for check in sheet["checks"])


@pytest.mark.parametrize(
    ("alignment", "padding", "size"),
    [(4096, 3769, 4120), (16, 9, 360), (32, 25, 376), (1, 0, 351), (109, 0, 351), (3, 0, 351), (24, 9, 360)],
)
def test_other_alignments(command: Command, out: Path, alignment: int, padding: int, size: int) -> None:
    done = command("sketch", out, "--align", alignment)
    assert done.status == 0
    assert out.stat().st_size == size
    assert f"327 + {padding:,} + 24 = {size:,}, and the file is {size:,}" in done.out
    assert command("inspect", out).status == 0


def test_the_mistake_shows_zeros_and_no_error(command: Command, out: Path) -> None:
    done = command("sketch", out, "--ignore-alignment")
    assert (done.status, done.err) == (1, "")
    assert "0 of 6 came back the number that went in" in done.out
    assert "This is the mistake" in done.out
    sheet = json.loads(command("sketch", out, "--force", "--ignore-alignment", "--json").out)
    assert (sheet["numbers_read"], sheet["numbers_read_from"], sheet["matching"]) == ([0.0] * 6, 327, 0)
    assert all(check["written"] == check["found"] for check in sheet["checks"])


def test_without_padding_the_mistake_is_none(command: Command, out: Path) -> None:
    done = command("sketch", out, "--ignore-alignment", "--align", 109)
    assert done.status == 0
    assert "mistake" not in done.out


@pytest.mark.parametrize(
    "alignment", ["0", "-1", "4294967296", "4294967295", "1048600", "64.0", "", "\u0664", "9" * 5000]
)
def test_alignments_that_are_refused(command: Command, out: Path, alignment: str) -> None:
    done = command("sketch", out, f"--align={alignment}")
    assert (done.status, done.out) == (2, "")
    assert "--align" in done.err
    assert not out.exists()


def test_nothing_is_overwritten_but_an_earlier_sketch(command: Command, out: Path, tmp_path: Path) -> None:
    assert command("sketch", out).status == 0
    assert command("sketch", out).status == 2
    assert command("sketch", out, "--force", "--align", 4096).status == 0
    assert out.stat().st_size == 4120
    for content in (models.gguf(), b"notes", b"", out.read_bytes()[:-1], out.read_bytes() + b"\0"):
        out.write_bytes(content)
        done = command("sketch", out, "--force")
        assert done.status == 2
        assert "is not overwritten" in done.err
        assert out.read_bytes() == content
    assert command("sketch", tmp_path, "--force").status == 2
    assert command("sketch", tmp_path / "no" / "s.gguf").status == 3


@pytest.mark.parametrize(
    ("length", "offset", "said"),
    [(21, 53, "100,663,296"), (64, 101, "7,449,358,543,090,511,616"), (255, 287, "none of the thirteen")],
)
def test_one_byte_of_a_length_changed(command: Command, out: Path, length: int, offset: int, said: str) -> None:
    command("sketch", out)
    data = bytearray(out.read_bytes())
    assert data[24] == 20
    data[24] = length
    out.write_bytes(data)
    done = command("inspect", out)
    assert done.status == 1
    told = " ".join(done.out.split())
    assert f"byte {offset}" in told
    assert said in told
    if length == 255:
        assert "general.architecture" in told  # the key that is quoted is most of the header
