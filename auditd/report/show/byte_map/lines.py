"""``show map``: what every byte of a file is for, drawn to scale with letters and shades, which need no colour."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from auditd.accounting.segments import SegmentKind
from auditd.evidence.text import printable, quoted
from auditd.report.columns import ELLIPSIS, cut_left, right, width
from auditd.report.figures import UNKNOWN, counted, exact, percent, rounded
from auditd.report.show.byte_map.bins import Stretch, cells
from auditd.report.show.byte_map.sheet import ByteClass, Lens, MapSheet, Neighbour, Piece, Region, sheet
from auditd.report.show.layout import Align, grid, section, sentence, title, within_columns
from auditd.report.show.outcome import ending_lines
from auditd.report.style import Style, plain

__all__ = ["MapSheet", "lines", "sheet"]


class Appearance(NamedTuple):
    """How a kind of bytes is called, drawn in a cell, and painted."""

    words: str
    glyph: str
    tone: str


#: Tensors are drawn by their type, see :data:`_SHADES`.
APPEARANCES: Final[Mapping[SegmentKind, Appearance]] = {
    "head": Appearance("head", "h", "notice"),
    "json": Appearance("JSON header", "j", "notice"),
    "metadata": Appearance("metadata", "m", "notice"),
    "directory": Appearance("tensor directory", "d", "notice"),
    "header_padding": Appearance("header padding", ":", "label"),
    "tensor": Appearance("tensors", "", ""),
    "padding": Appearance("alignment padding", ".", "label"),
    "gap": Appearance("gap", "!", "residue"),
    "trailing": Appearance("trailing bytes", "+", "residue"),
    "padding_partial": Appearance("padding cut short", "~", "residue"),
    "overlap": Appearance("claimed twice", "X", "residue"),
    "missing": Appearance("missing", "-", "truncated"),
    "unknown": Appearance("of unknown owner", "?", "undetermined"),
    "unread": Appearance("unread", "_", "undetermined"),
}

#: Of the types with the most bytes; the others have letters, and the last one stands for all that have none.
_SHADES: Final = "█▓▒░"
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ*"
_MARKS: Final = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ#"

_ROWS: Final = 8
#: Cells of a row: whole eights, so that offsets are as round as can be, and never more than a picture resolves.
_CELL_GROUP: Final = 8
_MOST_CELLS: Final = 256
_END: Final = "|"
_TYPE_CHARACTERS: Final = 18
_NAME_CHARACTERS: Final = 60
#: A header that takes less than one part in so many of the picture is magnified.
_SMALL_HEADER: Final = 8
#: The character, the words and the bytes stay in every table.
_LEAST_TABLE: Final = 3
#: What a row with a piece of the header needs beside its words, and what these have at least.
_FIGURES: Final = 40
_LEAST_WORDS: Final = 20

_LEGEND: Final = ("", "WHAT", "BYTES", "SHARE", "PIECES", "FIRST AT")
_LEGEND_ALIGNS: Final[tuple[Align, ...]] = ("left", "left", "right", "right", "right", "right")
_PIECES: Final = ("", "WHAT", "BYTES", "AT")
_PIECE_ALIGNS: Final[tuple[Align, ...]] = ("left", "left", "right", "right")


def words(one: ByteClass) -> str:
    """A class in words, printable."""
    if one.kind != "tensor":
        return APPEARANCES[one.kind].words
    return f"{printable(one.type or UNKNOWN, _TYPE_CHARACTERS)} tensors"


def glyphs(classes: Sequence[ByteClass]) -> list[str]:
    """The character of each class."""
    kinds = iter(_SHADES + _LETTERS)
    return [next(kinds, _LETTERS[-1]) if one.kind == "tensor" else APPEARANCES[one.kind].glyph for one in classes]


def header_is_small(sheet: MapSheet) -> bool:
    """Whether the header cannot be made out in the whole picture."""
    return bool(sheet.header_length) and (sheet.header_length or 0) * _SMALL_HEADER < sheet.drawn


@within_columns
def lines(sheet: MapSheet, columns: int, style: Style) -> Iterator[str]:
    """The picture for a terminal."""
    yield title("map of", sheet.file, columns, style)
    if sheet.drawn:
        yield from _whole(sheet, columns, style)
        yield from _legend(sheet, columns, style)
        yield from _header(sheet, columns, style)
        yield from _regions(sheet, columns, style)
    yield from ending_lines(sheet.ending, columns, style)


# -- bars -------------------------------------------------------------------------------------------


def _room(columns: int, label: int) -> int:
    """Cells of a row that begins with a label."""
    return max(_CELL_GROUP, min(_MOST_CELLS, (columns - label - 4) // _CELL_GROUP * _CELL_GROUP))


def _runs(marks: Sequence[tuple[str, str]], style: Style) -> str:
    """Characters with their tones, those of one tone painted together."""
    return "".join(
        style("".join(mark for mark, _ in run), tone) for tone, run in groupby(marks, key=lambda one: one[1])
    )


def _marks(stretches: Sequence[Stretch], sheet: MapSheet, begin: int, cell: int, count: int) -> list[tuple[str, str]]:
    drawn = glyphs(sheet.classes)
    tones = [APPEARANCES[one.kind].tone for one in sheet.classes]
    found = cells(stretches, begin, cell, count)
    return [(" ", "") if of is None else (drawn[of], tones[of]) for of in found]


def _whole(sheet: MapSheet, columns: int, style: Style) -> Iterator[str]:
    """The whole file in a few rows, each with the offset of its first cell."""
    label = width(exact(sheet.drawn))
    row = _room(columns, label)
    cell = max(1, -(-sheet.drawn // (row * _ROWS)))
    count = -(-sheet.drawn // cell)
    size = sheet.file.size
    yield from sentence(f"{counted(size, 'byte')}; one cell is {_cell_words(cell)}", columns)
    yield ""
    marks = _marks(sheet.stretches, sheet, 0, cell, count)
    if size is not None and size < sheet.drawn:
        marks[size // cell] = (_END, "truncated")
    for begin in range(0, count, row):
        yield f"  {style(right(exact(begin * cell), label), 'label')}  {_runs(marks[begin : begin + row], style)}"
    if size is not None and size < sheet.drawn:
        further = f"; it goes on to byte {exact(sheet.reach)}" if sheet.reach != sheet.drawn else ""
        yield from (
            "",
            *sentence(f"{_END} is the end of the file; what is drawn behind it is missing{further}", columns),
        )


def _cell_words(cell: int) -> str:
    about = f" ({rounded(cell)})" if cell >= 1 << 10 else ""
    return f"{counted(cell, 'byte')}{about}"


def _bar(marks: Sequence[tuple[str, str]], begin: int, label: int, style: Style) -> str:
    return f"  {style(right(exact(begin), label), 'label')}  {_runs(marks, style)}"


# -- legend -----------------------------------------------------------------------------------------


def _legend(sheet: MapSheet, columns: int, style: Style) -> Iterator[str]:
    yield ""
    rows = [
        (glyph, words(one), exact(one.bytes), share(one, sheet.file.size), exact(one.pieces), exact(one.first_at))
        for glyph, one in zip(glyphs(sheet.classes), sheet.classes, strict=True)
    ]
    tones = [APPEARANCES[one.kind].tone for one in sheet.classes]
    yield from _table(_LEGEND, rows, _LEGEND_ALIGNS, tones, columns, style)


def _table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    aligns: Sequence[Align],
    tones: Sequence[str],
    columns: int,
    style: Style,
) -> Iterator[str]:
    """A table whose first cell is one character, which is painted; with fewer columns where it does not fit."""
    kept = len(titles)
    set_rows = list(grid(titles, rows, aligns, plain))
    while max(map(width, set_rows)) > columns and kept > _LEAST_TABLE:
        kept -= 1
        set_rows = list(grid(titles[:kept], [row[:kept] for row in rows], aligns[:kept], plain))
    heading, *others = (cut_right(line, columns) for line in set_rows)
    yield style(heading, "label")
    for line, tone in zip(others, tones, strict=True):
        yield line[:2] + style(line[2:3], tone) + line[3:]


def cut_right(text: str, cells_: int) -> str:
    """``text`` in at most so many cells; its beginning stays."""
    if width(text) <= cells_:
        return text
    while width(text) >= cells_:
        text = text[:-1]
    return text + ELLIPSIS


def share(one: ByteClass, size: int | None) -> str:
    """How much of the file a class is; nothing for what is not in it."""
    if one.kind == "missing":
        return ""
    if one.bytes is None or not size:
        return UNKNOWN
    return percent(one.bytes / size)


# -- the header -------------------------------------------------------------------------------------


def _header(sheet: MapSheet, columns: int, style: Style) -> Iterator[str]:
    if not sheet.header:
        return
    marks = piece_marks(sheet.header)
    tones = [APPEARANCES[piece.kind].tone for piece in sheet.header]
    small = header_is_small(sheet)
    yield from section(f"the header, {'magnified' if small else 'piece by piece'}", style)
    if small:
        yield from _magnified(sheet.header, sheet.header_length or 0, columns, style)
    rows = [
        (mark, piece_words(piece, max(_LEAST_WORDS, columns - _FIGURES)), exact(piece.length), exact(piece.begin))
        for mark, piece in zip(marks, sheet.header, strict=True)
    ]
    yield from _table(_PIECES, rows, _PIECE_ALIGNS, tones, columns, style)
    for lens in sheet.lenses:
        if lens.region.kind == "header_padding":
            yield ""
            yield from _lens(lens, sheet, columns, style)


def _magnified(pieces: Sequence[Piece], length: int, columns: int, style: Style) -> Iterator[str]:
    """The header in one row, with the marks of its pieces."""
    label = width(exact(pieces[-1].begin))
    cell = max(1, -(-length // _room(columns, label)))
    drawn = list(zip(piece_marks(pieces), (APPEARANCES[piece.kind].tone for piece in pieces), strict=True))
    stretches = [Stretch(piece.begin, piece.begin + piece.length, of) for of, piece in enumerate(pieces)]
    found = cells(stretches, 0, cell, -(-length // cell))
    yield from sentence(f"{counted(length, 'byte')}; one cell is {_cell_words(cell)}", columns)
    yield ""
    yield _bar([(" ", "") if of is None else drawn[of] for of in found], 0, label, style)
    yield ""


def piece_marks(pieces: Sequence[Piece]) -> list[str]:
    """Large entries are numbered, all else has the character of its kind."""
    numbers = iter(_MARKS)
    return [APPEARANCES[piece.kind].glyph if piece.key is None else next(numbers, _MARKS[-1]) for piece in pieces]


def piece_words(piece: Piece, cells_: int) -> str:
    """A piece of the header in at most so many cells, printable."""
    if piece.key is not None:
        key = base64.b64decode(piece.key_base64) if piece.key_base64 else piece.key
        return cut_left(printable(key, _NAME_CHARACTERS), cells_)
    said = APPEARANCES[piece.kind].words
    if piece.kind == "metadata":
        said = counted(piece.entries, "metadata entry", "metadata entries")
    elif piece.kind in ("directory", "json"):
        said = f"{said}, {counted(piece.entries, 'tensor')}"
    return cut_right(said, cells_)


# -- regions ----------------------------------------------------------------------------------------


def _regions(sheet: MapSheet, columns: int, style: Style) -> Iterator[str]:
    if not sheet.regions:
        return
    heading = section("what is not plain, magnified where it is too small to be seen", style)
    lenses = {(lens.region.kind, lens.region.begin): lens for lens in sheet.lenses}
    for number, region in enumerate(sheet.regions):
        yield from heading if number == 0 else ("",)
        lens = lenses.get((region.kind, region.begin))
        yield from sentence(region_words(region), columns) if lens is None else _lens(lens, sheet, columns, style)
    hidden = (sheet.region_count or 0) - len(sheet.regions)
    if hidden > 0:
        yield from sentence(f"and {exact(hidden)} more", columns)


def described(neighbour: Neighbour) -> str:
    """A tensor by its name, printable; by its index if that was not kept."""
    if neighbour.name is None:
        return f"tensor {exact(neighbour.index)}"
    name = base64.b64decode(neighbour.name_base64) if neighbour.name_base64 else neighbour.name
    return quoted(name, _NAME_CHARACTERS)


def region_words(region: Region) -> str:
    """A region in one sentence, printable."""
    kind = region.kind.replace("_", " ")
    after = f", after {described(region.after)}" if region.after else ""
    before = f", before {described(region.before)}" if region.before else ""
    return f"{kind}: {counted(region.length, 'byte')} at {exact(region.begin)}{after}{before}"


def _lens(lens: Lens, sheet: MapSheet, columns: int, style: Style) -> Iterator[str]:
    """What is under the lens, and one row; a byte takes several cells where there are fewer bytes than cells."""
    label = width(exact(lens.end))
    row = _room(columns, label)
    length = lens.end - lens.begin
    cell, times = max(1, -(-length // row)), max(1, row // length)
    marks = _marks(lens.stretches, sheet, lens.begin, cell, -(-length // cell))
    scale = f"one byte is {times} cells" if times > 1 else f"one cell is {_cell_words(cell)}"
    yield from sentence(f"{region_words(lens.region)}; {scale}", columns)
    yield _bar([mark for mark in marks for _ in range(times)], lens.begin, label, style)
