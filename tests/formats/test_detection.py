"""What a file is that is no model: hand-made heads, files that other libraries make, and any bytes at all."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.formats.detection import detect, kind_of
from auditd.formats.foreign import foreign_as, foreign_of, pointer_target
from auditd.formats.kinds import KIND_BYTES, KINDS
from tests.builders import CASES, property_test

OID = "abab" * 16
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize 4683073952\n".encode()

#: Heads as the formats' own descriptions give them.
HEADS = {
    "empty": [b""],
    "lfs_pointer": [POINTER, b"version https://hawser.github.com/spec/v1\n"],
    "html_page": [
        b"<!DOCTYPE html>\n<html>",
        b"\xef\xbb\xbf  <HTML lang=de>",
        b"<!-- served by x -->\n<html>",
        b'<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0">',
    ],
    "xml_text": [b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code></Error>', b"<Error><Code>"],
    "shard_index": [b'{"metadata": {"total_size": 16}, "weight_map": {"a": "model-00001-of-00002.safetensors"}}'],
    "json_text": [b'{"error":"Repository not found"}', b' \n["x"]', b"\xef\xbb\xbf{}"],
    "text": [
        b"Internal Error - the host said no\n",
        b"Entry not found",
        b"# ninja log v5\n",
        "Größe".encode("latin-1"),
    ],
    "utf16_text": [b"\xff\xfeG\0G\0U\0F\0\3\0\0\0", b"\xfe\xff\0n\0o"],
    "gzip": [b"\x1f\x8b\x08\0\0\0\0\0\0\x03"],
    "bzip2": [b"BZh91AY&SY"],
    "xz": [b"\xfd7zXZ\0\0\4"],
    "zstd": [b"\x28\xb5\x2f\xfd\x04\x00"],
    "lz4": [b"\x04\x22\x4d\x18\x64"],
    "7z": [b"7z\xbc\xaf\x27\x1c\0\4"],
    "rar": [b"Rar!\x1a\x07\x01\x00"],
    "ggml": [b"lmgg" + struct.pack("<I", 51865)],
    "ggjt": [b"tjgg" + struct.pack("<I", 3)],
    "ggmf": [b"fmgg" + struct.pack("<I", 1)],
    "ggla": [b"algg" + struct.pack("<I", 1)],
    "executable": [
        b"MZqFpD='\n",
        b"jartsr='\n",
        b"MZ\x90\0",
        b"\x7fELF\2\1\1",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
    ],
    "hdf5": [b"\x89HDF\r\n\x1a\n\0"],
    "parquet": [b"PAR1\x15\4"],
    "arrow": [b"ARROW1\0\0"],
    "sqlite": [b"SQLite format 3\0"],
    "pdf": [b"%PDF-1.7\n"],
    "image": [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF\x24\0\0\0WEBPVP8 "],
    "torrent": [b"d8:announce35:udp://"],
    "apple_double": [b"\0\5\x16\7\0\2\0\0Mac OS X        "],
    "tflite": [b"\x1c\0\0\0TFL3\x14\0\x20\0"],
    "onnx": [
        b"\x08\x07\x12\x07pytorch\x1a\x051.8.0",
        b"\x08\x0a:\x80\x01\x0a\x10",
        b"\x08\x03\x12\x0cbackend-test",
        b"\x08\x08B\x02\x10\x11",
    ],
    "coreml": [b"\x08\x04\x12\x2c\x0a\x0f\x0a\x05image\x1a\x06\x22\x04\x08\x01\x10\x02"],
    "pytorch": [b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."],
    "zeros": [bytes(16), bytes(KIND_BYTES), bytes(3), bytes(100) + b"x"],
    "gguf_reversed": [b"FUGG\3\0\0\0"],
    "unknown": [b"\x1b]0;x\x07\x1b[31m", b"\x01\x02\x03", b"\x08\x96\x01\x10\x01", b"\x08\x01\x12\x03\xff\xff\xff"],
}


@pytest.mark.parametrize(("word", "head"), [(word, head) for word, heads in HEADS.items() for head in heads])
def test_heads(word: str, head: bytes) -> None:
    assert kind_of(head).word == word
    assert detect(head, len(head)) is None


def test_every_kind_is_told_from_some_head_and_has_a_next_step() -> None:
    by_libraries = {"npz", "numpy", "tar", "pickle", "zip", "apk", "keras"}
    assert set(HEADS) | by_libraries == set(KINDS)
    for word, kind in KINDS.items():
        assert kind.word == word
        assert kind.meaning
        assert kind.advice[-1] == "."


def test_a_sound_frame_goes_before_every_mark() -> None:
    for mark in (b"\x1f\x8b", b"\x80\x02", b"MZ", b"\x78\x9c"):
        head = mark + bytes(8 - len(mark)) + b'{"a":{"d'
        assert detect(head, 100_000) == "safetensors"


# --- files that other libraries make


def zipped(names: list[str], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name in names:
            archive.writestr(name, b"some bytes")
    return out.getvalue()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("weights/model.gguf"))
    return out.getvalue()


def saved(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def saved_together() -> bytes:
    out = io.BytesIO()
    np.savez(out, weight=np.zeros(3))
    return out.getvalue()


#: ``[1, "x"]`` and ``OrderedDict(a=1)`` as CPython's own writer has them, protocols 0 to 5, and a call.
PICKLES = [
    b"(lp0\nI1\naVx\np1\na.",
    b"]q\0(K\1X\1\0\0\0xq\1e.",
    b"\x80\2]q\0(K\1X\1\0\0\0xq\1e.",
    b"\x80\3]q\0(K\1X\1\0\0\0xq\1e.",
    b"\x80\4\x95\x0b\0\0\0\0\0\0\0]\x94(K\1\x8c\1x\x94e.",
    b"\x80\5\x95\x0b\0\0\0\0\0\0\0]\x94(K\1\x8c\1x\x94e.",
    b"ccollections\nOrderedDict\np0\n(tRp1\nVa\np2\nI1\ns.",
    b"ccollections\nOrderedDict\nq\0)Rq\1X\1\0\0\0aq\2K\1s.",
    b"(dp0\nVw\np1\n(lp2\nI1\nas.",
    b"}q\0X\1\0\0\0wq\1]q\2K\1as.",
    b"cposix\nsystem\n(S'true'\ntR.",
]

MADE = [
    ("gzip", gzip.compress(b"GGUF", mtime=0)),
    ("bzip2", bz2.compress(b"GGUF")),
    ("bzip2", bz2.compress(b"")),
    ("xz", lzma.compress(b"GGUF")),
    ("tar", tarred()),
    ("numpy", saved(np.zeros((2, 3), np.float32))),
    ("npz", saved_together()),
    ("zip", zipped([])),
    ("zip", zipped(["readme.txt", "model.gguf"])),
    ("zip", zipped(["mydata.pkl.txt"])),
    ("pytorch", zipped(["archive/data.pkl", "archive/data/0"])),
    ("pytorch", zipped(["weight.npy", "model/constants.pkl"])),
    ("apk", zipped(["META-INF/com/android/build/gradle/app-metadata.properties", "classes.dex"])),
    ("apk", zipped(["AndroidManifest.xml"], zipfile.ZIP_DEFLATED)),
    ("keras", zipped(["model.weights.h5"])),
    *(("pickle", data) for data in PICKLES),
]


@pytest.mark.parametrize(("word", "data"), MADE)
def test_files_that_others_make(word: str, data: bytes) -> None:
    assert kind_of(data[:KIND_BYTES]).word == word


def test_a_word_list_is_no_pickle() -> None:
    for text in (b"config\nvalue\nproblem\n", b"(c) somebody\n", b"lpq\n", b"]\n", b"cat\ndog\n"):
        assert kind_of(text).word == "text"


# --- details


def told(data: bytes, size: int | None = None) -> str:
    return foreign_of(data[:KIND_BYTES], len(data) if size is None else size).details


def test_a_pointer_names_what_it_stands_for() -> None:
    assert told(POINTER) == f"the model has 4,683,073,952 bytes and SHA-256 {OID}"
    assert pointer_target(POINTER) == (OID, 4683073952)
    assert pointer_target(POINTER.replace(b"\n", b"\r\n")) == (OID, 4683073952)


@pytest.mark.parametrize(
    "broken",
    [POINTER[:60], POINTER.replace(b"size 4", b"size -4"), POINTER.replace(b"sha256:ab", b"sha256:AB"), b""],
    ids=range(4),
)
def test_a_pointer_that_does_not_say(broken: bytes) -> None:
    assert pointer_target(broken) is None


def test_a_page_tells_its_title_escaped_and_cut() -> None:
    assert told(b"<html><head><title>\n 503 &amp; more\n</title>") == 'its title is "503 & more"'
    hostile = told(b"<html><title>\x1b]0;owned\x07\xe2\x80\xae" + b"long " * 90 + b"</title>")
    assert hostile.isascii()
    assert hostile.isprintable()
    assert hostile.startswith('its title is "\\x1b]0;owned\\x07\\u202elong long')
    assert len(hostile) < 200
    assert told(b"<html><body>no title") == ""


def test_a_reply_tells_its_first_words() -> None:
    assert told(b'{"error":\n  "Repository not found"}') == 'it begins "{\\"error\\": \\"Repository not found\\"}"'
    assert told(b"Entry\r\nnot   found") == 'it begins "Entry not found"'
    assert told(b"word " * 100) == f'it begins "{("word " * 100)[:80]}" and so on'
    reply = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>'
    assert told(reply) == 'it says "AccessDenied: Request has expired"'


def test_what_a_shell_makes_of_a_model() -> None:
    mangled = b"\xff\xfe" + "GGUF\3".encode("utf-16-le")
    assert told(mangled) == "it was a GGUF file before it was rewritten as text, which cannot be undone"
    assert told("\ufeffnicht gefunden".encode("utf-16-be")) == 'it begins "nicht gefunden"'


def test_an_empty_file_has_a_digest_too() -> None:
    assert hashlib.sha256(b"").hexdigest() in told(b"")
    assert "e3b0c442" in told(b"")


def test_how_much_of_the_head_is_zero() -> None:
    assert told(bytes(100)) == "all of its 100 bytes are zero"
    assert told(bytes(4096)) == "its first 1,024 bytes are zero, and no more were looked at"
    assert told(bytes(128) + b"rest" * 100) == "its first 128 bytes are zero and the next is not"


def test_names_inside() -> None:
    assert told(zipped(["archive/data.pkl"])) == 'its first entry is "archive/data.pkl"'
    assert told(tarred()) == 'its first entry is "weights/model.gguf"'
    named = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03model.gguf\0..."
    assert told(named) == 'it was packed from "model.gguf"'
    assert told(named[:15]) == ""


def test_versions_and_writers() -> None:
    assert told(b"lmgg" + struct.pack("<I", 51865)) == "its vocabulary of 51,865 entries is that of Whisper"
    assert told(b"lmgg" + struct.pack("<I", 32000)) == ""
    assert told(b"algg" + struct.pack("<I", 1)) == "it is of version 1"
    assert told(b"tjgg") == ""
    assert told(HEADS["onnx"][0]) == 'it is of IR version 7, written by "pytorch"'
    assert told(HEADS["coreml"][0]) == "it is of specification version 4"
    assert told(PICKLES[4]) == "it is of protocol 4"
    assert told(PICKLES[0]) == "it is of protocol 0 or 1"
    assert "'descr': '<f4'" in told(saved(np.zeros((2, 3), np.float32)))
    assert "'descr': '|O'" in told(saved(np.array([{}], dtype=object)))
    assert told(HEADS["pytorch"][0]) == "it is of the form that was used before PyTorch 1.6"


def test_words_are_meaning_and_details() -> None:
    foreign = foreign_of(b"Entry not found", 15)
    assert foreign.words == f'{KINDS["text"].meaning}; it begins "Entry not found"'
    assert foreign_as("unknown").words == KINDS["unknown"].meaning
    with pytest.raises(KeyError):
        foreign_as("no such kind")


# --- any bytes


_STARTS = st.sampled_from([b"", *(head for heads in HEADS.values() for head in heads), *(data for _, data in MADE)])


@property_test(200)
@given(_STARTS, st.binary(max_size=80), st.integers(0, 1100), st.integers(0, 1 << 63))
def test_any_bytes_are_of_some_kind_and_safe_to_print(start: bytes, rest: bytes, cut: int, more: int) -> None:
    head = (start + rest)[:cut]
    foreign = foreign_of(head, len(head) + more)
    assert foreign.kind == kind_of(head) == KINDS[foreign.kind.word]
    assert foreign.words.isascii()
    assert foreign.words.isprintable()
    assert len(foreign.words) < 700


# --- the collection of input files, if it is at hand

CASE_WORDS = {
    "notmodel/pointer.gguf": ("lfs_pointer", "4,683,073,952 bytes"),
    "notmodel/pointer.safetensors": ("lfs_pointer", "4,683,073,952 bytes"),
    "notmodel/page.gguf": ("html_page", '"503"'),
    "notmodel/error_text.gguf": ("text", "the host said no"),
    "notmodel/escape_magic.gguf": ("unknown", ""),
    "notmodel/gzipped.gguf": ("gzip", ""),
    "notmodel/ggla_lora.bin": ("ggla", "version 1"),
    "notmodel/tiny.llamafile": ("executable", "llamafiles"),
    "gguf/cut/head_zeroed.gguf": ("zeros", "first 134 bytes"),
}


@pytest.mark.parametrize("file", CASE_WORDS)
def test_cases(file: str) -> None:
    path: Path = CASES / "field" / file
    if not path.is_file():
        pytest.skip(f"no collection of input files at {CASES}")
    foreign = foreign_of(path.read_bytes()[:KIND_BYTES], path.stat().st_size)
    word, said = CASE_WORDS[file]
    assert foreign.kind.word == word
    assert said in foreign.details
