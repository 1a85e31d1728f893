"""Threats that belong to no single part: what is exchanged under the reader, pictures, packed records, recursion."""

from __future__ import annotations

import ast
import os
import sys
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import pytest

from auditd.evidence_store import records
from auditd.evidence_store.records import RecordError, unpack
from auditd.inspection.descriptor import Descriptor, Unreadable
from auditd.report.show.byte_map import lines as byte_map
from auditd.report.show.byte_map.picture import picture
from tests.builders import F32, Entry, Tensor, gguf, safetensors, simple
from tests.fuzz import seeds
from tests.fuzz.changes import TEXTS
from tests.fuzz.invariant import check_printable
from tests.fuzz.readings import read
from tests.support.looks import looked_at
from tests.test_architecture import MODULES

SVG = "{http://www.w3.org/2000/svg}"


# --- exchanged under the reader --------------------------------------------------------------------------


def lies(monkeypatch: pytest.MonkeyPatch, regular: Path) -> None:
    """``lstat`` sees a regular file, whatever stands there by the time of the open."""
    status = os.lstat(regular)
    monkeypatch.setattr("auditd.inspection.descriptor.os.lstat", lambda _path: status)


def test_a_fifo_in_place_of_the_file_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    regular, fifo = tmp_path / "model.gguf", tmp_path / "fifo"
    regular.write_bytes(simple(Tensor("w", [1])).data)
    os.mkfifo(fifo)
    lies(monkeypatch, regular)
    descriptor = Descriptor(os.fsencode(fifo))
    with pytest.raises(Unreadable, match="a FIFO"):
        descriptor.status()
    assert descriptor.close() is None


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    regular, link = tmp_path / "model.gguf", tmp_path / "link.gguf"
    regular.write_bytes(simple(Tensor("w", [1])).data)
    link.symlink_to(regular)
    lies(monkeypatch, regular)
    with pytest.raises(Unreadable) as refused:
        Descriptor(os.fsencode(link))
    assert refused.value.stop.category == "path"


# --- pictures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:20]))
def test_no_name_gets_out_of_its_place_in_a_picture(tmp_path: Path, text: bytes) -> None:
    """An SVG is a document: a name may be text in it, never an element, an attribute or a reference."""
    name = text + b"<script>"
    files = [gguf([Entry(name, "string", name)], [Tensor(name, [4], F32)]).data + b"more"]
    if b"\\" not in text and b'"' not in text and text.isascii() and text.decode().isprintable():
        files.append(safetensors(b'{"%b":{"dtype":"%b","shape":[1],"data_offsets":[0,1]}}' % (name, name), b"x"))
    for data in files:
        drawn = picture(byte_map.sheet(looked_at(tmp_path, data, os.fsdecode(b"<b>&.gguf"))))
        root = ET.fromstring(drawn)  # noqa: S314
        tags = {element.tag for element in root.iter()}
        assert all(tag.startswith(SVG) for tag in tags)
        assert not tags & {f"{SVG}script", f"{SVG}image", f"{SVG}a", f"{SVG}foreignObject", f"{SVG}use"}
        assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
        check_printable(line for words in root.itertext() for line in words.splitlines())


# --- packed records --------------------------------------------------------------------------------------


def test_a_packed_record_that_unpacks_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that somebody else wrote: unpacking ends at the longest record there can be, and says so."""
    monkeypatch.setattr(records, "LONGEST_RECORD", 1 << 16)
    with pytest.raises(RecordError, match="cannot be unpacked"):
        unpack(zlib.compress(bytes(1 << 24)))
    assert unpack(zlib.compress(bytes(1 << 15))) == bytes(1 << 15)


# --- recursion and allocation ----------------------------------------------------------------------------


def test_no_input_makes_a_reader_recurse() -> None:
    """With hardly any stack left, a header a thousand levels deep is refused like any other."""
    depth = len(list(frames()))
    limit = sys.getrecursionlimit()
    deep = {name: data for name, data in seeds.pointed().items() if name.startswith("5000 ")}
    deep["open objects"] = seeds.adversarial(2000)["open objects"]
    try:
        sys.setrecursionlimit(depth + 120)
        said = {name: read(data).header for name, data in deep.items()}
    finally:
        sys.setrecursionlimit(limit)
    stopped = {name: header.stopped.constraint for name, header in said.items() if header and header.stopped}
    assert stopped == dict.fromkeys(deep, "nesting")


def frames() -> list[object]:
    found, frame = [], sys._getframe()
    while frame is not None:
        found.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    return found


#: Functions that open what others packed, or run a program that could.
UNPACKERS = frozenset(
    {"decompress", "decompressobj", "ZipFile", "TarFile", "GzipFile", "BZ2File", "LZMAFile", "extractall"}
    | {"system", "popen", "Popen"}
)


def callers() -> dict[str, set[str]]:
    """The files of the package that call one of :data:`UNPACKERS`, by its last name."""
    found: dict[str, set[str]] = {}
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if any(name in text for name in UNPACKERS) else "")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                found.setdefault(name, set()).add(path.name)
    return {name: files for name, files in found.items() if name in UNPACKERS}


def test_nothing_is_unpacked_but_what_the_store_packed_itself() -> None:
    """Compressed content of others is named and never opened."""
    found = callers()
    assert found["decompress"] <= {"records.py", "packed_names.py"}
    assert found["decompressobj"] == {"records.py"}
    assert set(found) == {"decompress", "decompressobj"}
