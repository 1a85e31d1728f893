"""What is there instead of a name that is not: for a person who mistyped it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Final

from auditd.errors import UsageError
from auditd.evidence.text import quoted

#: Names are compared letter by letter, so only as many and as long ones as that takes no time for.
_MOST_NAMES: Final = 2000
_MOST_CHARACTERS: Final = 80
_NAMED: Final = 3
#: How alike two names are from 0 to 1; below this a proposal is noise.
_ALIKE: Final = 0.5


def absent(what: str, asked: bytes, names: Iterable[bytes], where: str) -> UsageError:
    """The error of a ``what`` that is not there, with up to three names like it, or the first ones that are."""
    known = [name.decode("utf-8", "backslashreplace") for name in islice(names, _MOST_NAMES)]
    message = f"there is no {what} {quoted(asked)} in {where}"
    if not known:
        return UsageError(f"{message}, which has none")
    word = asked.decode("utf-8", "backslashreplace")[:_MOST_CHARACTERS]
    short = [name for name in known if len(name) <= _MOST_CHARACTERS]
    near = _inside(word, short) or get_close_matches(word, short, _NAMED, _ALIKE)
    if near:
        return UsageError(f"{message}; near it: {', '.join(map(quoted, near))}")
    return UsageError(f"{message}; its first: {', '.join(quoted(name) for name in known[:_NAMED])}")


def _inside(word: str, names: list[str]) -> list[str]:
    """Names that the word is a whole part of: people leave prefixes out."""
    return [name for name in names if word and word in name][:_NAMED]
