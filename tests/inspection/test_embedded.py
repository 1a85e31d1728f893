"""Models inside archives: found where another program put them, and hostile archives in any shape."""

from __future__ import annotations

import io
import os
import random
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.errors import InspectionStopped
from auditd.formats.archives import (
    DIRECTORY_BYTES,
    TAIL_BYTES,
    ZipDirectory,
    data_begin,
    entries_of,
    find_directory,
    local_names,
)
from auditd.formats.detection import kind_of
from auditd.formats.foreign import foreign_of
from auditd.inspection.descriptor import Descriptor
from auditd.inspection.embedded import CONTAINERS, Contents, inspect_contents
from tests.builders import CASES, F32, Tensor, gguf, property_test, safetensors, st_entry

SOUND = gguf([], [Tensor("w", (8,), F32)]).data
LONGER = SOUND + b"payload!"
TENSORS = safetensors({"a": st_entry("U8", [4], 0, 4)}, b"abcd")


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        made.comment = comment
        for name, data in members:
            made.writestr(name, data)
    return out.getvalue()


def inside(path: Path, data: bytes) -> Contents | None:
    path.write_bytes(data)
    descriptor = Descriptor(os.fsencode(path))
    try:
        place = len(descriptor.read(7))
        found = inspect_contents(descriptor, len(data), kind_of(data[:1024]).word)
        assert descriptor.offset == place
        return found
    finally:
        assert descriptor.close() is None


def contents(path: Path, data: bytes) -> Contents:
    found = inside(path, data)
    assert found is not None
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "container"


# --- sound containers


def test_a_stored_model_is_accounted_from_its_own_first_byte(path: Path) -> None:
    data = archive(("readme.txt", b"some text"), ("dir/model.gguf", SOUND), ("b.safetensors", TENSORS))
    found = contents(path, data)
    assert (found.word, found.entries, found.packed, found.skipped) == ("zip", 3, 0, 0)
    assert not found.is_partial
    assert not found.overlaps
    gguf_model, tensors = found.models
    assert (gguf_model.name, gguf_model.form, gguf_model.verdict, gguf_model.residue) == (
        b"dir/model.gguf",
        "gguf",
        "sound",
        0,
    )
    assert data[gguf_model.begin :][: gguf_model.length] == SOUND
    assert (tensors.name, tensors.form, tensors.residue) == (b"b.safetensors", "safetensors", 0)
    assert data[tensors.begin :][: tensors.length] == TENSORS


def test_residue_inside_is_told_with_its_place(path: Path) -> None:
    data = archive(("model.gguf", LONGER))
    found = contents(path, data)
    (inner,) = found.models
    assert (inner.verdict, inner.residue) == ("residue", 8)
    words = found.told(foreign_of(data[:1024], len(data))).words
    assert f'it holds "model.gguf", {len(LONGER)} bytes of gguf at byte {inner.begin}: residue, residue 8' in words
    assert "8 bytes belong to nothing" in words


@pytest.mark.parametrize(("name", "length"), [("model.gguf", 70), ("model.safetensors", 40)])
def test_a_model_that_is_cut_inside(path: Path, name: str, length: int) -> None:
    model = SOUND if name.endswith("gguf") else TENSORS
    (inner,) = contents(path, archive((name, model[:length]))).models
    assert inner.verdict == "truncated"
    assert inner.trouble


def test_a_program_in_front_moves_all_offsets(path: Path) -> None:
    stub = b"MZqFpD='\n" + bytes(4000)
    for data in (stub + archive(("model.gguf", SOUND)), stub_known(stub, ("model.gguf", SOUND))):
        found = contents(path, data)
        assert found.word == "executable"
        (inner,) = found.models
        assert data[inner.begin :][: inner.length] == SOUND
        assert inner.begin > len(stub)


def stub_known(stub: bytes, *members: tuple[str, bytes]) -> bytes:
    """An archive whose own offsets count the program in front of it."""
    out = io.BytesIO(stub)
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "a") as made:
        for name, data in members:
            made.writestr(name, data)
    return out.getvalue()


def test_an_android_package_and_a_name_that_says_nothing(path: Path) -> None:
    found = contents(path, archive(("AndroidManifest.xml", b"x" * 20), ("assets/weights.bin", SOUND)))
    assert found.word == "apk"
    assert [inner.name for inner in found.models] == [b"assets/weights.bin"]


def test_a_pickle_further_in_makes_it_a_pytorch_file(path: Path) -> None:
    data = archive(("a.npy", b"\x93NUMPY" * 4), ("x/data.pkl", b"\x80\2." * 9))
    assert kind_of(data[:30]).word == "zip"
    found = contents(path, data)
    assert found.word == "pytorch"
    assert found.told(foreign_of(data, len(data))).kind.word == "pytorch"


def test_a_compressed_entry_is_named_and_not_opened(path: Path) -> None:
    data = archive(("a.gguf", SOUND), ("b.gguf", SOUND), method=zipfile.ZIP_DEFLATED)
    found = contents(path, data)
    assert found.models == ()
    assert (found.packed, found.first_packed) == (2, b"a.gguf")
    words = found.told(foreign_of(data, len(data))).details
    assert 'it holds "a.gguf" and 1 more like it; a compressed entry is not opened' in words


def test_an_encrypted_entry_is_not_opened(path: Path) -> None:
    data = bytearray(archive(("a.gguf", SOUND)))
    data[data.rindex(b"PK\1\2") + 8] |= 1
    found = contents(path, bytes(data))
    assert (found.models, found.packed) == ((), 1)


def test_large_archives_have_64_bit_records(path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made, made.open("model.gguf", "w", force_zip64=True) as member:
        member.write(SOUND)
    assert widened(out.getvalue()) != out.getvalue()
    for data in (out.getvalue(), widened(out.getvalue()), b"MZ" + bytes(77) + widened(out.getvalue())):
        found = contents(path, data)
        (inner,) = found.models
        assert data[inner.begin :][: inner.length] == SOUND
        assert not found.is_partial


def widened(data: bytes) -> bytes:
    """The same archive of one entry with every figure in its 64-bit place."""
    directory = bytearray(data[data.rindex(b"PK\1\2") : data.rindex(b"PK\5\6")])
    begin = data.rindex(b"PK\1\2")
    packed, size, name, extra = struct.unpack_from("<2I2H", directory, 20)
    offset = struct.unpack_from("<I", directory, 42)[0]
    field = struct.pack("<HH3Q", 1, 24, size, packed, offset)
    struct.pack_into("<2I2H", directory, 20, 0xFFFFFFFF, 0xFFFFFFFF, name, len(field))
    struct.pack_into("<I", directory, 42, 0xFFFFFFFF)
    directory = directory[: 46 + name] + field + directory[46 + name + extra :]
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(directory), begin)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, begin + len(directory), 1)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return data[:begin] + bytes(directory) + end64 + locator + end


@pytest.mark.parametrize("comment", [b"made by hand", b"PK\5\6" * 9, b"PK\5\6" + b"x" * 65_000])
def test_comments_are_passed_over(path: Path, comment: bytes) -> None:
    (inner,) = contents(path, archive(("model.gguf", SOUND), comment=comment)).models
    assert inner.verdict == "sound"


def test_the_readers_of_the_standard_library_see_the_same(path: Path) -> None:
    maker = random.Random(3)
    members = [(f"{maker.randrange(1 << 30)}.bin", maker.randbytes(maker.randrange(90))) for _ in range(40)]
    data = b"#!/bin/sh\n" + archive(*members, comment=b"x" * 300)
    directory = find_directory(data[-TAIL_BYTES:], len(data))
    assert directory is not None
    rows = list(entries_of(data[directory.begin :][: directory.size], directory.shift))
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert [(row.name.decode(), row.size, row.header_at) for row in rows] == [
            (info.filename, info.file_size, info.header_offset) for info in read.infolist()
        ]
    for row, (_, content) in zip(rows, members, strict=True):
        begin = data_begin(data[row.header_at :][:30], row.header_at)
        assert begin is not None
        assert data[begin : begin + row.size] == content
    assert [name.decode() for name in local_names(data[10:1000])] == [name for name, _ in members][
        : len(list(local_names(data[10:1000])))
    ]


# --- what is no archive, or a hostile one


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"MZ no archive at all",
        b"PK\5\6",
        archive(("a.gguf", SOUND))[:-1],
        struct.pack("<4s4H2IH", b"PK\5\6", 1, 1, 1, 1, 0, 0, 0),
        struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, 4096, 0, 0),
        struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, 0, 1, 0),
        struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0),
    ],
    ids=["nothing", "program", "mark", "cut", "several files", "longer than the file", "past the end", "no 64-bit end"],
)
def test_no_archive(path: Path, data: bytes) -> None:
    assert inside(path, data) is None


def patched(data: bytes, field: int, code: str, value: int) -> bytes:
    """The archive with one field of its first row in the directory replaced."""
    changed = bytearray(data)
    struct.pack_into(code, changed, data.index(b"PK\1\2") + field, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("field", "code", "value"),
    [
        (42, "<I", 7),
        (42, "<I", 0xFFFFFFF0),
        (42, "<I", 0xFFFFFFFF),
        (20, "<I", 1),
        (24, "<I", 0xFFFFFF00),
        (24, "<I", 0),
    ],
)
def test_an_entry_that_does_not_fit_is_no_model(path: Path, field: int, code: str, value: int) -> None:
    assert contents(path, patched(archive(("a.gguf", SOUND)), field, code, value)).models == ()


def test_sizes_that_reach_into_the_directory_are_no_model(path: Path) -> None:
    data = archive(("a.gguf", SOUND))
    longer = len(SOUND) + 1
    assert contents(path, patched(patched(data, 20, "<I", longer), 24, "<I", longer)).models == ()


def test_a_row_that_is_cut_ends_the_directory(path: Path) -> None:
    data = archive(("a.gguf", SOUND), ("b.gguf", SOUND))
    second = bytearray(data)
    second[data.rindex(b"PK\1\2")] = 0
    found = contents(path, bytes(second))
    assert [inner.name for inner in found.models] == [b"a.gguf"]
    assert found.is_partial
    assert "not all of its entries were looked at" in found.told(foreign_of(data, len(data))).details


def test_rows_that_name_the_same_bytes_are_said_to(path: Path) -> None:
    data = archive(("a.gguf", SOUND))
    at, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    row = data[at:end]
    twice = data[:at] + row * 100 + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 100, 100, len(row) * 100, at, 0)
    found = contents(path, twice)
    assert found.overlaps
    assert len(found.models) == 16
    assert found.skipped == 84
    assert "two of its entries claim the same bytes" in found.told(foreign_of(data, len(data))).details
    assert found.bytes_read < 1 << 20


def test_the_largest_of_many_entries_are_looked_at(path: Path) -> None:
    pictures = [(f"{number}.png", b"small image") for number in range(1100)]
    found = contents(path, archive(*pictures[:600], ("weights", SOUND), *pictures[600:], ("last.gguf", SOUND)))
    assert [inner.name for inner in found.models] == [b"last.gguf", b"weights"]
    assert found.skipped == 1101 - 1024


def test_a_directory_is_read_up_to_its_bound(path: Path) -> None:
    row = archive(("x" * 60_000, b""))
    row = row[row.index(b"PK\1\2") : row.index(b"PK\5\6")]
    count = DIRECTORY_BYTES // len(row) + 9
    data = b"MZ" + row * count + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(row) * count, 2, 0)
    found = contents(path, data)
    assert found.is_partial
    assert found.entries == DIRECTORY_BYTES // len(row)
    assert found.bytes_read <= DIRECTORY_BYTES + TAIL_BYTES


def test_names_are_escaped(path: Path) -> None:
    data = archive(("\x1b]0;x\x07\u202e.gguf", SOUND))
    words = contents(path, data).told(foreign_of(data, len(data))).words
    assert words.isascii()
    assert words.isprintable()


@property_test(150)
@given(
    st.binary(max_size=200),
    st.lists(st.tuples(st.integers(0, 900), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])), max_size=8),
)
def test_any_bytes_give_an_answer(tmp_path: Path, front: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(front + archive(("a.gguf", SOUND), ("b.bin", TENSORS), comment=b"c"))
    for place, value in changes:
        data[place % len(data)] = value
    found = inside(tmp_path / "container", bytes(data))
    if found is None:
        return
    for inner in found.models:
        assert 0 <= inner.begin <= inner.begin + inner.length <= len(data)
    words = found.told(foreign_of(bytes(data[:1024]), len(data))).words
    assert words.isascii()
    assert words.isprintable()


@property_test(150)
@given(st.binary(max_size=300), st.integers(0, 1 << 63), st.booleans())
def test_directories_of_any_bytes(noise: bytes, shift: int, marked: bool) -> None:
    rows = b"PK\1\2" + noise if marked else noise
    for entry in entries_of(rows, shift):
        assert entry.name in rows
    end = struct.pack("<4s", b"PK\5\6") + noise
    found = find_directory(end, len(end))
    assert found is None or (found.begin >= 0 and found.begin + found.size <= len(end) and found.shift >= 0)
    assert all(name in noise for name in local_names(b"PK\3\4" + noise))


def test_a_stop_passes_through(path: Path) -> None:
    data = archive(("a.gguf", SOUND))
    path.write_bytes(data)
    turns: list[int] = []

    def count() -> None:
        turns.append(0)

    descriptor = Descriptor(os.fsencode(path))
    inspect_contents(descriptor, len(data), "zip", count)
    for turn in range(len(turns)):
        left = iter(range(turn))

        def stop(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise InspectionStopped("asked to stop")

        with pytest.raises(InspectionStopped):
            inspect_contents(descriptor, len(data), "zip", stop)
    assert descriptor.close() is None


class Shrinking(Descriptor):
    """A file that ends at ``end`` from the third look on."""

    end = 1 << 40
    turns = 0

    def read_at(self, offset: int, size: int) -> bytes:
        self.turns += 1
        size = size if self.turns < 3 else max(0, min(size, self.end - offset))
        return super().read_at(offset, size)


def test_a_file_that_shrinks_meanwhile_is_not_called_sound(path: Path) -> None:
    data = archive(("a.gguf", SOUND))
    path.write_bytes(data)
    begin = data.index(b"GGUF")
    descriptor = Shrinking(os.fsencode(path))
    descriptor.end = begin + 40
    found = inspect_contents(descriptor, len(data), "zip")
    assert descriptor.close() is None
    assert found is not None
    assert [(inner.verdict, inner.residue) for inner in found.models] == [("unknown", None)]


def test_which_kinds_are_looked_into() -> None:
    assert {"zip", "apk", "executable"} <= CONTAINERS
    assert "pytorch" not in CONTAINERS


def test_case_of_a_llamafile() -> None:
    case = CASES / "field/notmodel/tiny.llamafile"
    if not case.is_file():
        pytest.skip(f"no collection of input files at {CASES}")
    descriptor = Descriptor(os.fsencode(case))
    found = inspect_contents(descriptor, case.stat().st_size, "executable")
    assert descriptor.close() is None
    assert found is not None
    (inner,) = found.models
    assert (inner.name, inner.begin, inner.length) == (b"model.gguf", 4096, 544)
    assert (inner.verdict, inner.residue) == ("sound", 0)


def test_a_directory_is_where_its_end_says() -> None:
    data = archive(("a.gguf", SOUND))
    at = data.index(b"PK\1\2")
    assert find_directory(data, len(data)) == ZipDirectory(at, data.index(b"PK\5\6") - at, 1, 0)
    assert find_directory(data[-30:], len(data)) == find_directory(data, len(data))
