"""Elements of an SVG picture as text: escaped, rounded, filled with colours that a pattern tells apart as well.

The colours are those of Okabe and Ito, which people with any colour vision can tell apart; every class has a pattern of
its own besides. No script, no link, no font and no picture from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, Literal, NamedTuple, TypeAlias

Pattern: TypeAlias = Literal["solid", "rising", "falling", "dots", "lines", "grid", "cross"]
Anchor: TypeAlias = Literal["start", "middle", "end"]

#: What an average character takes, in parts of the font size; rather too much, so that labels stay inside.
_CHARACTER: Final = 0.6

_BLUE, _SKY, _GREEN, _PURPLE, _YELLOW, _ORANGE = "#0072b2", "#56b4e9", "#009e73", "#cc79a7", "#f0e442", "#e69f00"

#: Of a tile of 8 by 8.
_STROKES: Final[dict[Pattern, str]] = {
    "rising": "M-2 2L2-2M0 8L8 0M6 10L10 6",
    "falling": "M-2 6L2 10M0 0L8 8M6-2L10 2",
    "dots": "M2 1v2M6 5v2",
    "lines": "M0 2H8M0 6H8",
    "grid": "M0 4H8M4 0V8",
    "cross": "M0 0L8 8M8 0L0 8",
}

#: On a light and on a dark page.
STYLE: Final = (
    ".paper{fill:#fff}.ink{fill:#1c2430}.dim{fill:#5b6675}.rule{stroke:#9aa4b2;fill:none}.band{fill:#9aa4b2}"
    ".edge{stroke:#fff}.b{font-weight:600}"
    "@media(prefers-color-scheme:dark){.paper{fill:#12161c}.ink{fill:#e8edf3}.dim{fill:#a3aebd}"
    ".rule{stroke:#6b7684}.band{fill:#6b7684}.edge{stroke:#12161c}}"
)


class Fill(NamedTuple):
    """A colour, what is drawn over it, and the colour of that."""

    colour: str
    pattern: Pattern = "solid"
    over: str = "#fff"


#: For types of tensors, those with the most bytes first; neighbours differ in both.
TYPE_FILLS: Final = (
    Fill(_BLUE),
    Fill(_SKY, "rising", "#0b3c5d"),
    Fill(_GREEN, "dots"),
    Fill(_YELLOW, "lines", "#6b6200"),
    Fill(_PURPLE, "falling"),
    Fill(_ORANGE, "grid", "#5c3d00"),
    Fill(_BLUE, "cross"),
    Fill(_GREEN, "falling"),
    Fill(_SKY, "lines", "#0b3c5d"),
    Fill(_PURPLE, "dots"),
    Fill(_YELLOW, "rising", "#6b6200"),
    Fill(_ORANGE, "dots", "#5c3d00"),
)


def number(value: float) -> str:
    """A length in user units, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def characters(room: float, size: float) -> int:
    """How many characters of a font of ``size`` fit into ``room``."""
    return max(0, int(room / (size * _CHARACTER)))


def text(
    x: float, y: float, words: str, size: float = 13, names: str = "ink", anchor: Anchor = "start", fill: str = ""
) -> str:
    """Printable ``words`` with their base line at ``y``."""
    colour = f' fill="{fill}"' if fill else f' class="{names}"'
    held = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}"{held}{colour}>{escape(words)}</text>'


def box(x: float, y: float, wide: float, high: float, rest: str) -> str:
    """A rectangle; ``rest`` are its other attributes."""
    return f'<rect x="{number(x)}" y="{number(y)}" width="{number(wide)}" height="{number(high)}" {rest}/>'


def boxes(spans: Iterable[tuple[float, float]], y: float, high: float, rest: str) -> str:
    """Many rectangles of one height, from ``x`` to ``x``, as one element."""
    path = "".join(f"M{number(x)} {number(y)}H{number(end)}v{number(high)}H{number(x)}z" for x, end in spans)
    return f'<path d="{path}" {rest}/>'


def path(points: str, rest: str) -> str:
    """A path of these commands."""
    return f'<path d="{points}" {rest}/>'


def definition(name: str, fill: Fill) -> str:
    """The pattern called ``name``."""
    strokes = _STROKES.get(fill.pattern)
    over = "" if strokes is None else f'<path d="{strokes}" stroke="{fill.over}" stroke-width="1.4" fill="none"/>'
    return (
        f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect width="8" height="8" fill="{fill.colour}"/>{over}</pattern>'
    )


def document(wide: float, high: float, title: str, description: str, definitions: str, body: Iterable[str]) -> str:
    """The whole picture, which takes the width that it is given; ``title`` and ``description`` are read aloud."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(wide)} {number(high)}" role="img" '
        'aria-labelledby="map-title map-description" '
        "font-family=\"system-ui,-apple-system,'Segoe UI','DejaVu Sans',Helvetica,Arial,sans-serif\">\n"
        f'<title id="map-title">{escape(title)}</title>\n<desc id="map-description">{escape(description)}</desc>\n'
        f"<style>{STYLE}</style>\n<defs>{definitions}</defs>\n"
        + box(0, 0, wide, high, 'class="paper"')
        + "\n"
        + "\n".join(body)
        + "\n</svg>\n"
    )
