"""Numbers in words: bytes, signed bytes, seconds. ``?`` is a figure that is not known."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "?"
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_STEP: Final = 1024
#: From here on a tenth of a unit tells nobody anything.
_WHOLE_FROM: Final = 99.95
#: Smaller shares would be rounded to nothing, or to a tenth that they are not.
_LEAST_SHARE: Final = 0.001
_MINUTE: Final = 60
_HOUR: Final = 3600


def rounded(size: int | None) -> str:
    """A size for the eye, at most 8 characters: ``712 B``, ``4.1 GiB``, ``1023 MiB``."""
    if size is None:
        return UNKNOWN
    if size < _STEP:
        return f"{size} B"
    value, unit = size / _STEP, 0
    # Half a unit early: 1023.7 MiB would be rounded to 1024 MiB.
    while value >= _STEP - 0.5 and unit + 1 < len(_UNITS):
        value, unit = value / _STEP, unit + 1
    return f"{value:.{0 if value >= _WHOLE_FROM else 1}f} {_UNITS[unit]}"


def exact(count: int | None) -> str:
    """A count to the last digit: ``4,404,019,200``."""
    return UNKNOWN if count is None else f"{count:,}"


def signed(count: int | None) -> str:
    """A difference with its sign: ``+96``, ``-1,048,576``, ``0``."""
    if count is None:
        return UNKNOWN
    return f"{count:+,}" if count else "0"


def counted(count: int | None, noun: str, plural: str = "") -> str:
    """``1 file``, ``2 files``, ``? files``."""
    return f"{exact(count)} {noun if count == 1 else plural or noun + 's'}"


def percent(share: float | None) -> str:
    """A part of a whole, from 0 to 1: ``28.9 %``, ``<0.1 %``, ``0 %``, ``100 %``; ``?``."""
    if share is None:
        return UNKNOWN
    if 0 < share < _LEAST_SHARE:
        return "<0.1 %"
    text = f"{share:.1%}".removesuffix("%")
    return ("100" if text == "100.0" and share == 1 else "0" if share == 0 else text) + " %"


def duration(seconds: float) -> str:
    """A time that is still to pass, in two units at most: ``6 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR:,} h {whole % _HOUR // _MINUTE} min"
