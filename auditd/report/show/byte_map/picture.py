"""``show map`` as an SVG: the file to scale, its header under a lens, and a lens for each place that is too small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from auditd.accounting.segments import SegmentKind
from auditd.report import svg
from auditd.report.columns import cut_left
from auditd.report.figures import counted, exact, rounded, signed
from auditd.report.show.byte_map.bins import Stretch, cells
from auditd.report.show.byte_map.lines import (
    cut_right,
    described,
    header_is_small,
    piece_marks,
    piece_words,
    region_words,
    share,
    words,
)
from auditd.report.show.byte_map.sheet import ByteClass, Lens, MapSheet, Piece
from auditd.report.show.layout import shown_name
from auditd.report.svg import Fill, box, boxes, characters, number, path, text
from auditd.rules.findings import VERDICT_MEANINGS

_WIDE: Final = 1000.0
_MARGIN: Final = 32.0
_ROOM: Final = _WIDE - 2 * _MARGIN
_BAR: Final = 72.0
_HEADER_BAR: Final = 48.0
_LENS_BAR: Final = 32.0
_LENSES_A_ROW: Final = 3
_GUTTER: Final = 24.0
_LENS_ROOM: Final = (_ROOM - (_LENSES_A_ROW - 1) * _GUTTER) / _LENSES_A_ROW
_LINE: Final = 20.0
_SMALL: Final = 12.0
_TINY: Final = 11.0
#: Bold letters are so much wider.
_BOLD: Final = 1.2
#: Round ticks, at most.
_TICKS: Final = 6
#: The part of the bar that the words at its end take.
_TICK_ROOM: Final = 0.16
#: Between the middles of two numbers above the bar.
_APART: Final = 20.0
#: Behind the words at the end of a file.
_END_PLATE: Final = 110.0
#: Narrower pieces have no letter.
_LETTER_ROOM: Final = 14.0
_AT_ROOM: Final = 104.0
#: A card under the lenses, and one that names the tensors beside the region.
_CARD: Final = 118.0
_NAMED_CARD: Final = 150.0

_FAULT: Final = "#d55e00"
_FILLS: Final[Mapping[SegmentKind, Fill]] = {
    "head": Fill("#3b4654"),
    "json": Fill("#7d8998", "lines"),
    "metadata": Fill("#7d8998", "lines"),
    "directory": Fill("#a9927a", "grid"),
    "header_padding": Fill("#dfe3e8", "dots", "#7d8998"),
    "padding": Fill("#dfe3e8", "dots", "#7d8998"),
    "gap": Fill(_FAULT, "cross"),
    "trailing": Fill(_FAULT, "rising"),
    "padding_partial": Fill(_FAULT, "dots"),
    "overlap": Fill("#1c2430", "cross", _FAULT),
    "missing": Fill("#fbe3d6", "falling", _FAULT),
    "unknown": Fill("#b9c0c9", "cross", "#3b4654"),
    "unread": Fill("#b9c0c9", "rising", "#3b4654"),
}


def picture(sheet: MapSheet) -> str:
    """The sheet as one SVG document, of at most a few hundred elements whatever the file holds."""
    page = _Page(sheet)
    page.heading()
    if sheet.drawn:
        page.whole()
        page.header()
        page.lenses()
        page.legend()
    name = shown_name(sheet.file)
    fills = _fills(sheet.classes)
    definitions = "".join(svg.definition(f"map-{of}", fill) for of, fill in enumerate(fills))
    return svg.document(
        _WIDE, page.y, f"Map of the bytes of {name}", _description(sheet), definitions + _LARGE_ENTRIES, page.body
    )


#: Large metadata entries beside each other, told apart.
_LARGE_ENTRIES: Final = svg.definition("map-even", Fill("#7d8998")) + svg.definition(
    "map-odd", Fill("#98a3b0", "rising")
)


def _fills(classes: Sequence[ByteClass]) -> list[Fill]:
    tensors = 0
    fills = []
    for one in classes:
        fills.append(_FILLS[one.kind] if one.kind != "tensor" else svg.TYPE_FILLS[tensors % len(svg.TYPE_FILLS)])
        tensors += one.kind == "tensor"
    return fills


def _description(sheet: MapSheet) -> str:
    parts = [f"{words(one)}: {counted(one.bytes, 'byte')}" for one in sheet.classes]
    return f"{counted(sheet.file.size, 'byte')}, drawn to scale. {'; '.join(parts)}."


class _Page:
    """Sections below each other; ``y`` is where the next one begins."""

    def __init__(self, sheet: MapSheet) -> None:
        self.sheet = sheet
        self.body: list[str] = []
        self.y = 0.0

    def heading(self) -> None:
        """The name of the file and its size."""
        name = cut_left(shown_name(self.sheet.file), characters(_ROOM, 22 * _BOLD))
        about = " · ".join((counted(self.sheet.file.size, "byte"), *_standing(self.sheet)))
        self.body.append(text(_MARGIN, 46, name, 22, "ink b"))
        self.body.append(text(_MARGIN, 70, cut_right(about, characters(_ROOM, 14)), 14, "dim"))
        self.y = 92

    # -- the whole file -----------------------------------------------------------------------------

    def whole(self) -> None:
        """The file to scale, with a number over each place that has a lens, and offsets below."""
        self._numbers()
        sheet, top = self.sheet, self.y
        self.body.extend(_bar(sheet.stretches, 0, sheet.drawn, _MARGIN, top, _ROOM, _BAR))
        self.body.append(box(_MARGIN, top, _ROOM, _BAR, 'class="rule"'))
        size = sheet.file.size
        if size is not None and size < sheet.drawn:
            self._end_of_file(_x(size, sheet.drawn), top)
        self.y = top + _BAR
        for at in _ticks(sheet.drawn):
            self._tick(at)
        self.y += 36

    def _tick(self, at: int) -> None:
        end = self.sheet.drawn
        x = _x(at, end)
        anchor: svg.Anchor = "start" if at == 0 else "end" if at == end else "middle"
        words_ = rounded(at) if 0 < at < end and at >= 1 << 10 else exact(at)
        self.body.append(path(f"M{number(x)} {number(self.y)}v6", 'class="rule"'))
        self.body.append(text(x, self.y + 20, words_, _SMALL, "dim", anchor))

    def _end_of_file(self, x: float, top: float) -> None:
        self.body.append(
            path(f"M{number(x)} {number(top - 8)}v{number(_BAR + 16)}", 'class="ink" stroke-width="3" stroke="#d55e00"')
        )
        anchor: svg.Anchor = "end" if x > _WIDE / 2 else "start"
        side = -8 if anchor == "end" else 8
        plate = x + side - (_END_PLATE - 6 if side < 0 else 6)
        self.body.append(box(plate, top + 25, _END_PLATE, 22, 'class="paper" rx="4"'))
        self.body.append(text(x + side, top + 40, "end of the file", _SMALL, "ink b", anchor))

    def _numbers(self) -> None:
        """A number for each lens, moved aside where two would stand on each other, with a line to its place."""
        places = sorted(
            (_x(lens.region.begin or 0, self.sheet.drawn), n) for n, lens in enumerate(self.sheet.lenses, 1)
        )
        if not places:
            return
        at = _MARGIN + _WIDE
        moved: list[tuple[float, float, int]] = []
        for x, n in reversed(places):
            at = min(x, at - _APART, _WIDE - _MARGIN - 8)
            moved.append((max(at, _MARGIN + 8), x, n))
        least = _MARGIN + 8.0
        for near, x, n in reversed(moved):
            shown = max(near, least)
            least = shown + _APART
            self.body.append(
                path(f"M{number(shown)} {number(self.y + 16)}L{number(x)} {number(self.y + 26)}", 'class="rule"')
            )
            self.body.extend(_disc(shown, self.y + 8, n))
        self.y += 26

    # -- the header ---------------------------------------------------------------------------------

    def header(self) -> None:
        """The pieces of the header to their own scale, under the place where they are in the file."""
        sheet = self.sheet
        if not sheet.header:
            return
        length = sheet.header_length or sheet.header[-1].begin + sheet.header[-1].length
        top, foot = self.y + 30, self.y - 36
        corner = _x(min(length, sheet.drawn), sheet.drawn)
        band = f"M{number(_MARGIN)} {number(foot)}H{number(max(corner, _MARGIN + 1))}L{number(_MARGIN + _ROOM)} {number(top)}H{number(_MARGIN)}z"
        self.body.insert(2, path(band, 'class="band" opacity="0.18"'))
        words_ = "the header" if sheet.header_length else "the header, as far as it was followed"
        scale = f", magnified {_times(sheet.drawn, length)} times" if header_is_small(sheet) else ""
        self.body.append(text(_MARGIN + 10, top - 11, f"{words_}: {counted(length, 'byte')}{scale}", 14, "ink b"))
        marks = piece_marks(sheet.header)
        for mark, piece, fill in zip(marks, sheet.header, _piece_fills(sheet), strict=True):
            self._piece(mark, piece, fill, length, top)
        self.body.append(box(_MARGIN, top, _ROOM, _HEADER_BAR, 'class="rule"'))
        self.y = top + _HEADER_BAR + 26
        self._list(marks)

    def _piece(self, mark: str, piece: Piece, fill: str, length: int, top: float) -> None:
        x, end = _x(piece.begin, length), _x(piece.begin + piece.length, length)
        wide = max(end - x, 0.75)
        edge = 'class="edge" stroke-width="1"' if wide > _LETTER_ROOM else 'stroke="none"'
        self.body.append(box(x, top, wide, _HEADER_BAR, f'fill="url(#{fill})" {edge}'))
        if wide >= _LETTER_ROOM:
            middle = x + wide / 2
            self.body.append(box(middle - 8, top + 14, 16, 20, 'class="paper" rx="3"'))
            self.body.append(text(middle, top + 29, mark, 13, "ink b", "middle"))

    def _list(self, marks: Sequence[str]) -> None:
        """The pieces in two columns, down the first and then down the second."""
        pieces, fills = self.sheet.header, _piece_fills(self.sheet)
        rows = -(-len(pieces) // 2)
        wide = (_ROOM - _GUTTER) / 2
        for order, (mark, piece) in enumerate(zip(marks, pieces, strict=True)):
            x = _MARGIN + (wide + _GUTTER) * (order // rows)
            y = self.y + _LINE * (order % rows)
            self.body.append(box(x, y - 10, 12, 12, f'fill="url(#{fills[order]})"'))
            self.body.append(text(x + 26, y, mark, _SMALL, "ink b", "middle"))
            self.body.append(text(x + 42, y, piece_words(piece, 36), _SMALL))
            self.body.append(text(x + wide - _AT_ROOM, y, exact(piece.length), _SMALL, "ink", "end"))
            self.body.append(text(x + wide, y, f"at {exact(piece.begin)}", _SMALL, "dim", "end"))
        self.y += _LINE * rows + 16

    # -- lenses -------------------------------------------------------------------------------------

    def lenses(self) -> None:
        """A card for each lens, then a line for each region that can be seen without one."""
        lenses = self.sheet.lenses
        for first in range(0, len(lenses), _LENSES_A_ROW):
            row = lenses[first : first + _LENSES_A_ROW]
            for column, lens in enumerate(row):
                self._lens(lens, first + column + 1, _MARGIN + column * (_LENS_ROOM + _GUTTER), self.y)
            named = any(lens.region.after or lens.region.before for lens in row)
            self.y += _NAMED_CARD if named else _CARD
        self._others()

    def _others(self) -> None:
        under = {(lens.region.kind, lens.region.begin) for lens in self.sheet.lenses}
        others = [region for region in self.sheet.regions if (region.kind, region.begin) not in under]
        said = [region_words(region) for region in others]
        hidden = (self.sheet.region_count or 0) - len(self.sheet.regions)
        said += [f"and {exact(hidden)} more that are not plain"] * (hidden > 0)
        for words_ in said:
            self.body.append(text(_MARGIN, self.y + 6, cut_right(words_, characters(_ROOM, 13)), 13))
            self.y += _LINE
        self.y += 14 if said else 0

    def _lens(self, lens: Lens, order: int, x: float, y: float) -> None:
        region, top = lens.region, y + 50
        self.body.extend(_disc(x + 8, y + 9, order))
        self.body.append(text(x + 24, y + 14, region.kind.replace("_", " "), 14, "ink b"))
        self.body.append(text(x, y + 36, f"{counted(region.length, 'byte')} at {exact(region.begin)}", _SMALL))
        self.body.extend(_bar(lens.stretches, lens.begin, lens.end, x, top, _LENS_ROOM, _LENS_BAR))
        self.body.append(box(x, top, _LENS_ROOM, _LENS_BAR, 'class="rule"'))
        self.body.append(text(x, top + _LENS_BAR + 15, exact(lens.begin), _TINY, "dim"))
        self.body.append(text(x + _LENS_ROOM, top + _LENS_BAR + 15, exact(lens.end), _TINY, "dim", "end"))
        sides = (("after", region.after), ("before", region.before))
        named = [f"{side} {described(tensor)}" for side, tensor in sides if tensor is not None]
        for line, words_ in enumerate(named):
            shown = cut_left(words_, characters(_LENS_ROOM, _TINY))
            self.body.append(text(x, top + _LENS_BAR + 31 + 15 * line, shown, _TINY))

    # -- legend -------------------------------------------------------------------------------------

    def legend(self) -> None:
        """Every class: how it is drawn, how many bytes it has, and how much of the file that is."""
        self.body.append(path(f"M{number(_MARGIN)} {number(self.y)}h{number(_ROOM)}", 'class="rule"'))
        self.y += 24
        classes, size = self.sheet.classes, self.sheet.file.size
        rows = -(-len(classes) // 2)
        wide = (_ROOM - _GUTTER) / 2
        for x in (_MARGIN + wide, _MARGIN + 2 * wide + _GUTTER)[: 2 if len(classes) > rows else 1]:
            self.body.append(text(x - 70, self.y, "bytes", _TINY, "dim", "end"))
            self.body.append(text(x, self.y, "of the file", _TINY, "dim", "end"))
        self.y += 26
        for of, one in enumerate(classes):
            x = _MARGIN + (wide + _GUTTER) * (of // rows)
            y = self.y + (_LINE + 4) * (of % rows)
            self.body.append(box(x, y - 13, 28, 16, f'fill="url(#map-{of})" class="edge"'))
            self.body.append(text(x + 40, y, words(one), 13))
            self.body.append(text(x + wide - 70, y, exact(one.bytes), 13, "ink", "end"))
            self.body.append(text(x + wide, y, share(one, size), 13, "dim", "end"))
        self.y += (_LINE + 4) * rows + 12


def _ticks(drawn: int) -> Iterator[int]:
    """Offsets below the bar: 0, round ones - 1, 2 or 5 times ten of a unit of 1,024 - and the end of the picture."""
    unit = 1024 ** max(0, (drawn.bit_length() - 1) // 10)
    steps = (digit * ten * below for below in (unit // 1024 or 1, unit) for ten in (1, 10, 100) for digit in (1, 2, 5))
    step = next((step for step in steps if step * _TICKS >= drawn), drawn)
    yield 0
    # The last one would stand on the words at the end.
    yield from (at for at in range(step, drawn, step) if drawn - at > drawn * _TICK_ROOM)
    yield drawn


def _standing(sheet: MapSheet) -> Iterator[str]:
    """The verdict, and the residue where it is known."""
    end = sheet.ending
    if sheet.verdict is not None:
        yield f"{sheet.verdict}: {VERDICT_MEANINGS[sheet.verdict]}"
    elif end is not None:
        yield f"{end.outcome}: {end.meaning}"
    if sheet.residue is not None:
        yield f"residue {signed(sheet.residue)}"


def _x(at: int, length: int) -> float:
    """Where a byte is on a bar that takes all the room."""
    return _MARGIN + _ROOM * at / length


def _times(whole: int, part: int) -> str:
    return exact(round(whole / part))


def _disc(x: float, y: float, order: int) -> Iterator[str]:
    yield f'<circle cx="{number(x)}" cy="{number(y)}" r="8.5" class="ink"/>'
    yield text(x, y + 4, str(order), _TINY, "paper b", "middle")


def _bar(
    stretches: Sequence[Stretch], begin: int, end: int, x: float, y: float, room: float, high: float
) -> Iterator[str]:
    """A window to scale: one element a class, no more rectangles than there are units of length."""
    cell = max(1, -(-(end - begin) // int(room)))
    count = -(-(end - begin) // cell)
    unit = room * cell / (end - begin)
    spans: dict[int, list[tuple[float, float]]] = {}
    last: int | None = None
    for place, of in enumerate(cells(stretches, begin, cell, count)):
        left, right = x + place * unit, min(x + room, x + (place + 1) * unit)
        if of is not None and of == last:
            spans[of][-1] = (spans[of][-1][0], right)
        elif of is not None:
            spans.setdefault(of, []).append((left, right))
        last = of
    for of, drawn in spans.items():
        yield boxes(drawn, y, high, f'fill="url(#map-{of})"')


def _piece_fills(sheet: MapSheet) -> list[str]:
    """The pattern of each piece of the header: that of its class, or for large entries one of two in turn."""
    places = {one.kind: of for of, one in enumerate(sheet.classes)}
    large = 0
    fills = []
    for piece in sheet.header:
        fills.append(f"map-{places[piece.kind]}" if piece.key is None else ("map-even", "map-odd")[large % 2])
        large += piece.key is not None
    return fills
