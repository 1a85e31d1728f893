"""``show map``: the picture drawn from bytes whose places are known beforehand, in a terminal and as an SVG."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.evidence.observation import Observation
from auditd.report.columns import width
from auditd.report.show.byte_map import lines as byte_map
from auditd.report.show.byte_map.bins import Bins, cells
from auditd.report.show.byte_map.picture import picture
from auditd.report.show.byte_map.sheet import MapSheet, sheet
from auditd.report.style import coloured, plain
from tests.builders import (
    ARCHITECTURE,
    F16,
    F32,
    Q8_0,
    Entry,
    Tensor,
    gguf,
    property_test,
    safetensors,
    simple,
    sketch,
    st_entry,
)
from tests.models import hero
from tests.support.looks import looked_at, twin_at

SVG = "{http://www.w3.org/2000/svg}"


def lines(found: MapSheet, columns: int = 80) -> list[str]:
    """None of them wider than the columns."""
    set_lines = list(byte_map.lines(found, columns, plain))
    assert max(map(width, set_lines)) <= columns
    return set_lines


def rows(found: MapSheet, columns: int = 80) -> list[str]:
    """The rows of the whole picture, without their offsets."""
    page = lines(found, columns)
    body = page[page.index("") + 1 :]
    label = len(f"{found.drawn:,}")
    return [line[label + 4 :] for line in body[: body.index("")]]


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - made here


def words_of(text: str) -> str:
    return "\n".join(element.text or "" for element in parsed(text).iter())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> MapSheet:
    return sheet(twin_at(tmp_path_factory.mktemp("hero"), hero()))


def damaged(tmp_path: Path, name: str = "model.gguf") -> Observation:
    """A gap of 64 bytes, and 100 bytes behind the last tensor, of which 16 are padding."""
    tensors = [
        Tensor("first", [100_000], F32, 0),
        Tensor("second", [100_000], F16, 400_064),
        Tensor("third", [32_000], Q8_0, 600_064),
    ]
    return looked_at(tmp_path, simple(*tensors, data_length=634_064 + 100).data, name)


# -- the sketch, byte by byte -----------------------------------------------------------------------

SKETCH = "h" * 24 + "m" * 244 + "d" * 59 + ":" * 57 + "█" * 24


@pytest.mark.parametrize("columns", [80, 132, 200])
def test_every_byte_of_the_small_known_file_is_a_cell(columns: int, tmp_path: Path) -> None:
    found = sheet(looked_at(tmp_path, sketch().data))
    assert "".join(rows(found, columns)) == SKETCH
    assert "408 bytes; one cell is 1 byte" in lines(found, columns)[1]


def test_each_row_says_where_it_begins(tmp_path: Path) -> None:
    found = lines(sheet(looked_at(tmp_path, sketch().data)))
    offsets = [int(line.split()[0]) for line in found[3:9]]
    row = len(found[3].split()[1])
    assert offsets == [row * number for number in range(6)]


def test_the_header_of_the_small_known_file_piece_by_piece(tmp_path: Path) -> None:
    found = sheet(looked_at(tmp_path, sketch().data))
    assert [(piece.kind, piece.key, piece.begin, piece.length) for piece in found.header] == [
        ("head", None, 0, 24),
        ("metadata", "general.architecture", 24, 46),
        ("metadata", "general.name", 70, 55),
        ("metadata", "general.alignment", 125, 33),
        ("metadata", "counts.block_count", 158, 34),
        ("metadata", "counts.tokens", 192, 76),
        ("directory", None, 268, 59),
        ("header_padding", None, 327, 57),
    ]
    assert found.lenses == []


# -- a published model ------------------------------------------------------------------------------


def test_the_classes_of_a_published_model_add_up_to_the_file(whole: MapSheet) -> None:
    assert [(one.kind, one.type, one.bytes, one.pieces) for one in whole.classes] == [
        ("head", None, 24, 1),
        ("metadata", None, 5_934_607, 34),
        ("directory", None, 19_304, 1),
        ("header_padding", None, 17, 1),
        ("tensor", "Q4_K", 3_427_909_632, 169),
        ("tensor", "Q6_K", 1_247_877_120, 29),
        ("tensor", "F32", 1_333_248, 141),
    ]
    assert sum(one.bytes or 0 for one in whole.classes) == whole.file.size == 4_683_073_952
    assert (whole.drawn, whole.reach) == (4_683_073_952, 4_683_073_952)


def test_a_header_too_small_to_be_seen_is_magnified_with_its_large_arrays_by_name(whole: MapSheet) -> None:
    keys = [piece.key for piece in whole.header if piece.key]
    assert keys == ["tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"]
    assert sum(piece.length for piece in whole.header) == 5_953_952
    assert [piece.entries for piece in whole.header if piece.kind == "metadata"] == [25, 1, 1, 1, 6]
    page = "\n".join(lines(whole))
    assert "the header, magnified" in page
    assert re.search(r"^ +0  1{23}2{6}3{35}$", page, re.MULTILINE)  # ends at 22.9, 29.4, 63.6 cells


def test_seventeen_bytes_of_padding_have_a_lens(whole: MapSheet) -> None:
    (lens,) = whole.lenses
    assert (lens.begin, lens.end) == (5_953_918, 5_953_969)
    kinds = [(whole.classes[of].kind, begin, end) for begin, end, of in map(msgspec.structs.astuple, lens.stretches)]
    assert kinds == [
        ("directory", 5_953_918, 5_953_935),
        ("header_padding", 5_953_935, 5_953_952),
        ("tensor", 5_953_952, 5_953_969),
    ]
    assert any("d" * 17 + ":" * 17 + "█" * 17 in line for line in lines(whole))


@pytest.mark.parametrize(("columns", "least"), [(40, 30), (80, 70), (200, 180)])
def test_rows_are_few_and_use_the_room(columns: int, least: int, whole: MapSheet) -> None:
    drawn = rows(whole, columns)
    assert len(drawn) <= 8
    assert max(map(width, lines(whole, columns))) > least
    assert "".join(drawn).count("█") > "".join(drawn).count("▓") > 0


def test_colour_changes_no_letter(whole: MapSheet) -> None:
    in_colour = "\n".join(byte_map.lines(whole, 80, coloured))
    assert "\x1b[36m" in in_colour
    assert re.sub(r"\x1b\[\d+m", "", in_colour) == "\n".join(lines(whole))


# -- what is wrong ----------------------------------------------------------------------------------


def test_a_gap_and_what_is_behind_the_last_tensor_have_lenses_between_their_neighbours(tmp_path: Path) -> None:
    found = sheet(damaged(tmp_path))
    data = next(one.first_at for one in found.classes if one.type == "F32") or 0
    gap, trailing = found.lenses[1:]
    assert (gap.region.kind, gap.region.begin, gap.region.length) == ("gap", data + 400_000, 64)
    assert (gap.begin, gap.end) == (data + 400_000 - 64, data + 400_000 + 128)
    assert [
        found.classes[of].type or found.classes[of].kind for _, _, of in map(msgspec.structs.astuple, gap.stretches)
    ] == [
        "F32",
        "gap",
        "F16",
    ]
    assert (trailing.region.begin, trailing.region.length, trailing.end) == (data + 634_080, 84, found.file.size)
    page = "\n".join(lines(found, 120))
    assert f'gap: 64 bytes at {data + 400_000:,}, after "first", before "second"' in page
    assert f'trailing: 84 bytes at {data + 634_080:,}, after "third"' in page
    assert re.search(r"█+!+▓+\n", page)
    assert re.search(r"▒+\.+\++$", page, re.MULTILINE)


def test_what_is_missing_is_drawn_behind_the_end(tmp_path: Path) -> None:
    cut = sheet(looked_at(tmp_path, hero().header, size=hero().file_size // 2))
    assert cut.drawn == hero().file_size
    picture_ = "".join(rows(cut))
    before, behind = picture_.split("|")
    assert set(behind) == {"-"}
    assert "-" not in before
    assert len(before) == 2_341_536_976 // 10_453_291 == 223
    assert any("missing" in line and "blk." in line for line in lines(cut))


def test_a_tensor_that_ends_where_no_file_does_leaves_the_file_to_be_seen(tmp_path: Path) -> None:
    built = simple(Tensor("near", [1000], F32, 0), Tensor("far", [8], F32, 2**62), data_length=4000)
    found = sheet(looked_at(tmp_path, built.data))
    assert found.drawn == len(built.data) * 8
    assert found.reach is None
    assert "█" in rows(found)[0]
    assert [one.bytes for one in found.classes if one.kind == "missing"] == [32]


@pytest.mark.parametrize("size", [0, 3, 30, 100, 200, 300, 330, 407])
def test_a_file_cut_anywhere_is_drawn_as_far_as_it_was_followed(size: int, tmp_path: Path) -> None:
    found = sheet(looked_at(tmp_path, sketch().data[:size]))
    assert sum(one.bytes or 0 for one in found.classes if one.kind != "missing") == size
    assert found.ending is not None
    assert found.ending.stopped == (size < 327)
    page = lines(found)
    if size:
        assert "".join(rows(found))[:24] == ("h" * 24 if size >= 24 else "_" * size)
    if size < 327:
        assert found.ending is not None
        assert any(found.ending.outcome in line for line in page)
    parsed(picture(found))


def test_a_foreign_file_is_all_unread(tmp_path: Path) -> None:
    found = sheet(looked_at(tmp_path, b"<html>no model here</html>", "page.gguf"))
    assert [(one.kind, one.bytes) for one in found.classes] == [("unread", 26)]
    assert any("foreign" in line for line in lines(found))


def test_a_safetensors_file(tmp_path: Path) -> None:
    header = {"a": st_entry("BF16", [500], 0, 1000), "b": st_entry("I8", [1000], 1000, 2000)}
    data = safetensors(header, bytes(2000))
    found = sheet(looked_at(tmp_path, data, "model.safetensors"))
    assert [(one.kind, one.type, one.bytes) for one in found.classes] == [
        ("head", None, 8),
        ("json", None, len(data) - 2008),
        ("tensor", "BF16", 1000),
        ("tensor", "I8", 1000),
    ]
    assert re.fullmatch(r"h+j+█+▓+", "".join(rows(found)))


# -- bounds -----------------------------------------------------------------------------------------


def test_thousands_of_tensors_make_no_larger_a_picture(tmp_path: Path) -> None:
    """Types in turn, a gap behind each: the finest mixture there is."""
    tensors = [Tensor(f"t{i}", [8], (F32, F16, 26, 28)[i % 4], i * 96) for i in range(3000)]
    found = sheet(looked_at(tmp_path, gguf([ARCHITECTURE], tensors, data_length=3000 * 96).data))
    assert len(found.stretches) <= 4096
    assert len(found.regions) == 8
    assert found.region_count == 3000
    assert any("and 2,992 more" in line for line in lines(found))
    assert len(lines(found)) < 80
    assert len(msgspec.json.encode(found)) < 150_000
    assert len(picture(found)) < 200_000


@pytest.mark.parametrize("cut", [0, 5])
def test_thousands_of_metadata_entries_are_few_pieces(cut: int, tmp_path: Path) -> None:
    entries = [Entry(f"key.{i:05}", "u32", i) for i in range(2000)]
    data = gguf([*entries, Entry("large", "string", "x" * 20_000), *entries[:3]]).data
    found = sheet(looked_at(tmp_path, data[: len(data) - cut]))
    pieces = [(piece.entries, piece.key) for piece in found.header if piece.kind == "metadata"]
    assert pieces == [(2000, None), (1, "large"), (3 if not cut else 2, None)]


def test_a_new_type_for_each_tensor_makes_no_larger_a_legend(tmp_path: Path) -> None:
    header = {f"t{i}": st_entry(f"X{i}", [1], i, i + 1) for i in range(200)}
    found = sheet(looked_at(tmp_path, safetensors(header, bytes(200)), "model.safetensors"))
    tensors = [one for one in found.classes if one.kind == "tensor"]
    assert len(tensors) == 31
    assert sum(one.bytes or 0 for one in tensors) == 200
    assert max(tensors, key=lambda one: one.bytes or 0).type == "other types"
    lines(found)
    parsed(picture(found))


@property_test(30)
@given(st.integers(0, 50), st.integers(1, 200), st.integers(1, 40), st.randoms())
def test_bins_have_what_most_of_each_step_is(begin: int, length: int, steps: int, dice: Random) -> None:
    end = begin + length
    classes = [dice.randrange(3) for _ in range(end + 20)]
    bins = Bins(begin, end, steps)
    for at, of in enumerate(classes):
        bins.take(at, at + 1, of)
    shown = {at: s.of for s in bins.stretches() for at in range(s.begin, s.end)}
    assert sorted(shown) == list(range(begin, end))
    assert -(-length // bins.step) <= steps
    for first in range(begin, end, bins.step):
        step = classes[first : min(first + bins.step, end)]
        assert step.count(shown[first]) == max(map(step.count, step))


def test_cells_without_a_byte_are_empty() -> None:
    bins = Bins(0, 40, 40)
    bins.take(10, 20, 3)
    assert cells(list(bins.stretches()), 0, 10, 4) == [None, 3, None, None]


# -- hostile text -----------------------------------------------------------------------------------

NASTY = b'\x1b[31m</text><script>alert(1)</script>&"\xff'


def test_names_are_harmless_in_both_pictures(tmp_path: Path) -> None:
    tensors = [Tensor(NASTY, [64], F32, 0), Tensor(NASTY + b"2", [64], F32, 320)]
    found = sheet(looked_at(tmp_path, simple(*tensors, data_length=576).data, "<b>&amp;.gguf"))
    page = "\n".join(lines(found, 200))
    assert "\x1b" not in page
    assert r"\x1b[31m</text>" in page
    root = parsed(picture(found))
    assert not list(root.iter(f"{SVG}script"))
    assert "<b>&amp;.gguf" in words_of(picture(found))
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(found))
    assert decoded["regions"][0]["after"]["name_base64"]


# -- the SVG ----------------------------------------------------------------------------------------


def test_the_svg_stands_alone_and_can_be_read_aloud(whole: MapSheet) -> None:
    text = picture(whole)
    root = parsed(text)
    assert root.get("viewBox", "").startswith("0 0 1000 ")
    assert (root.get("width"), root.get("role")) == (None, "img")
    assert root.findtext(f"{SVG}title") == "Map of the bytes of model.gguf"
    assert "Q4_K tensors: 3,427,909,632 bytes" in (root.findtext(f"{SVG}desc") or "")
    assert re.findall(r"https?://[^\"]+", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<(script|image|use|foreignObject|a)\b|href|@import|\son\w+=", text)
    for words in ("tokenizer.ggml.merges", "3,179,172", "at 2,738,435", "17 bytes at 5,953,935", "73.2 %"):
        assert words in words_of(text)


def test_the_svg_says_the_verdict_and_the_residue(tmp_path: Path, whole: MapSheet) -> None:
    assert "4,683,073,952 bytes · sound: everything" in words_of(picture(whole))
    assert "residue 0" in words_of(picture(whole))
    bad = words_of(picture(sheet(damaged(tmp_path))))
    # 64 bytes between the tensors, and 100 behind them without their 16 of padding
    assert "residue: bytes in the file that belong to nothing · residue +148" in bad
    assert "magnified 787 times" in words_of(picture(whole))


def test_the_ticks_are_round(whole: MapSheet, tmp_path: Path) -> None:
    assert [word for word in below_the_bar(whole) if word.endswith(" GiB")] == ["1.0 GiB", "2.0 GiB", "3.0 GiB"]
    assert below_the_bar(sheet(looked_at(tmp_path, sketch().data))) == ["0", "100", "200", "300", "408"]


def below_the_bar(found: MapSheet) -> list[str]:
    """The words at the ticks: those on the line of the file's own size, at its end."""
    texts = list(parsed(picture(found)).iter(f"{SVG}text"))
    end = next(each for each in texts if each.text == f"{found.drawn:,}" and each.get("text-anchor") == "end")
    return [each.text or "" for each in texts if each.get("y") == end.get("y")]


def test_the_svg_draws_the_small_known_file_to_scale(tmp_path: Path) -> None:
    found = sheet(looked_at(tmp_path, sketch().data))
    root = parsed(picture(found))
    fills = [f"url(#map-{of})" for of in range(5)]
    bar = {
        element.get("fill"): element.get("d", "") for element in root.iter(f"{SVG}path") if element.get("fill") in fills
    }
    ends = [0, 24, 268, 327, 384, 408]
    for fill, begin, end in zip(fills, ends, ends[1:], strict=False):
        left, right = re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", bar[fill])[0]
        assert float(left) == pytest.approx(32 + 936 * begin / 408, abs=0.01)
        assert float(right) == pytest.approx(32 + 936 * end / 408, abs=0.01)


def test_classes_differ_in_more_than_their_colour(tmp_path: Path) -> None:
    header = {f"t{i}": st_entry(f"X{i}", [1], i, i + 1) for i in range(12)}
    found = sheet(looked_at(tmp_path, safetensors(header, bytes(12)), "model.safetensors"))
    patterns = [ET.tostring(element) for element in parsed(picture(found)).iter(f"{SVG}pattern")]
    drawn = [re.sub(rb'id="[^"]*"', b"", pattern) for pattern in patterns[: len(found.classes)]]
    assert len(set(drawn)) == len(found.classes)


def test_the_svg_numbers_each_lens_where_it_is(tmp_path: Path) -> None:
    found = sheet(damaged(tmp_path))
    root = parsed(picture(found))
    discs = list(root.iter(f"{SVG}circle"))
    assert len(discs) == 2 * len(found.lenses) == 6
    above = sorted(float(disc.get("cx", "")) for disc in discs[:3])
    gap = found.lenses[1].region.begin or 0
    assert above[1] == pytest.approx(32 + 936 * gap / found.drawn, abs=0.01)
    assert all(b - a >= 17 for a, b in pairwise(above))


def test_a_cut_file_has_its_end_marked(tmp_path: Path) -> None:
    cut = sheet(looked_at(tmp_path, hero().header, size=hero().file_size // 2))
    assert "end of the file" in words_of(picture(cut))
    assert "missing: 2,341,536,976 bytes at 2,341,536,976" in words_of(picture(cut))
