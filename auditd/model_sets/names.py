"""What the names in a directory say about sets: numbered files, indexes, pieces, downloads under way. Pure.

A name is a hint and nothing more: what a header says comes first (``set_judge_gguf``). All names are bytes, as the
file system has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from auditd.formats.naming import is_unfinished_name

SeriesKind: TypeAlias = Literal["gguf", "safetensors", "pieces"]

#: ``m-00001-of-00003.gguf``, ``model.fp16-00001-of-000163.safetensors``, ``model-00001-of-00002.fp16.safetensors``.
_NUMBERED: Final = re.compile(
    rb"(?P<head>.+-)(?P<number>[0-9]{1,6})(?P<middle>-of-)(?P<count>[0-9]{1,6})"
    rb"(?P<tail>\.(?i:gguf)|(?:\.[A-Za-z0-9_]{1,32})?\.(?i:safetensors))",
    re.DOTALL,
)
#: Pieces that were cut without regard to the content, with and without a count: ``m.gguf.part1of2``, ``m.gguf.001``.
_PIECES: Final = (
    re.compile(
        rb"(?P<head>.+\.(?i:gguf)\.part)(?P<number>[0-9]{1,4})(?P<middle>of)(?P<count>[0-9]{1,4})(?P<tail>)", re.DOTALL
    ),
    re.compile(rb"(?P<head>.+\.(?i:gguf)\.)(?P<number>[0-9]{3})(?P<middle>)(?P<count>)(?P<tail>)", re.DOTALL),
)
#: ``m.gguf-split-a``.
_LETTERED: Final = re.compile(rb"(?P<head>.+\.(?i:gguf)-(?:split|part)-)(?P<letter>[a-z])", re.DOTALL)

#: ``model.safetensors.index.json``, and with a variant ``model.safetensors.index.fp16.json``.
_INDEX: Final = re.compile(rb"(?P<stem>.+)\.safetensors\.index(?P<variant>\.[A-Za-z0-9_]{1,32})?\.json", re.DOTALL)

#: What a downloader appends to the name that the file will have.
_UNFINISHED_TAIL: Final = re.compile(rb"(?:\.[A-Za-z]+|-partial(?:-[0-9]+)?)\Z")
_CONTROL_FILE: Final = b".aria2"
_SAFETENSORS: Final = b".safetensors"

#: Names that a listing keeps of one directory. Real sets have at most some thousands of files.
KEPT_NAMES: Final = 200_000


@dataclass(frozen=True, slots=True)
class Series:
    """The common part of the names of numbered files: all of it but the number. ``count`` None where no name tells it."""

    kind: SeriesKind
    head: bytes
    width: int
    middle: bytes = b""
    count_text: bytes = b""
    tail: bytes = b""

    @property
    def count(self) -> int | None:
        """How many files the names speak of."""
        return int(self.count_text) if self.count_text else None

    def member(self, number: int, count: int | None = None) -> bytes:
        """The name of the file with this number (from 1), in a set of another ``count`` if one is given."""
        total = self.count_text if count is None else b"%0*d" % (len(self.count_text), count)
        written = bytes([96 + min(number, 26)]) if self.width == 0 else b"%0*d" % (self.width, number)
        return self.head + written + self.middle + total + self.tail

    @property
    def stem(self) -> bytes:
        """What the index of the files would be named after: ``model``, ``model.fp16``."""
        variant = self.tail.rpartition(b".")[0]
        return self.head.removesuffix(b"-") + variant

    @property
    def label(self) -> bytes:
        """The names of all in one, with ``*`` for the number."""
        return self.head + b"*" + self.middle + self.count_text + self.tail


def series_of(name: bytes) -> tuple[Series, int] | None:
    """The series that a name belongs to and its number in it, from 1; None for a plain name."""
    if (match := _NUMBERED.fullmatch(name)) is not None:
        kind: SeriesKind = "gguf" if match["tail"].lower() == b".gguf" else "safetensors"
        return _series(kind, match), int(match["number"])
    for pattern in _PIECES:
        if (match := pattern.fullmatch(name)) is not None:
            return _series("pieces", match), int(match["number"])
    if (match := _LETTERED.fullmatch(name)) is not None:
        return Series("pieces", match["head"], 0), match["letter"][0] - 96
    return None


def _series(kind: SeriesKind, match: re.Match[bytes]) -> Series:
    return Series(kind, match["head"], len(match["number"]), match["middle"], match["count"], match["tail"])


def index_stem(name: bytes) -> bytes | None:
    """``model`` for ``model.safetensors.index.json``, ``model.fp16`` with a variant, None if it is no index's name."""
    match = _INDEX.fullmatch(name)
    return None if match is None else match["stem"] + (match["variant"] or b"")


def finished_name(name: bytes) -> bytes | None:
    """The name that a download under way will have, None for a name that says nothing of the kind."""
    if name.endswith(_CONTROL_FILE):
        return name[: -len(_CONTROL_FILE)] or None
    return _UNFINISHED_TAIL.sub(b"", name) if is_unfinished_name(name) else None


def _concerns_sets(name: bytes) -> bool:
    """Whether a listing keeps the name while it has room."""
    if name.lower().endswith(_SAFETENSORS) or series_of(name) is not None:
        return True
    return index_stem(name) is not None or finished_name(name) is not None


class Listing:
    """The names of one directory as they come, and of these only what has to do with sets."""

    def __init__(self) -> None:
        #: Number to name, for each series.
        self.series: dict[Series, dict[int, bytes]] = {}
        self.indexes: set[bytes] = set()
        #: Every safetensors file: an index is asked for those that it does not name.
        self.safetensors: set[bytes] = set()
        #: Downloads under way: the name that a file will have, and the one that it has until then.
        self.unfinished: dict[bytes, bytes] = {}
        #: The names that they will have, for each series.
        self.awaited: dict[Series, list[bytes]] = {}
        #: Not all names were kept.
        self.cut = False
        self._kept = 0

    def add(self, name: bytes) -> None:
        """Take one more name."""
        if self._kept >= KEPT_NAMES:
            self.cut = self.cut or _concerns_sets(name)
        elif self._take(name):
            self._kept += 1

    def _take(self, name: bytes) -> bool:
        finished = finished_name(name)
        if finished is not None:
            self.unfinished[finished] = name
            if (numbered := series_of(finished)) is not None:
                self.awaited.setdefault(numbered[0], []).append(finished)
            return True
        if index_stem(name) is not None:
            self.indexes.add(name)
            return True
        if (numbered := series_of(name)) is not None:
            series, number = numbered
            self.series.setdefault(series, {})[number] = name
        if name.lower().endswith(_SAFETENSORS):
            self.safetensors.add(name)
            return True
        return numbered is not None

    def preallocated(self, name: bytes) -> bool:
        """Whether the file is there in name and size, and a control file beside it says that it is being filled."""
        return self.unfinished.get(name, b"").endswith(_CONTROL_FILE)

    def under_way(self, names: Iterable[bytes]) -> tuple[bytes, ...]:
        """The downloads that will have one of these names once they are finished, unless such a file is there."""
        found = {self.unfinished[name] for name in names if name in self.unfinished and not self._is_here(name)}
        return tuple(sorted(found))

    def _is_here(self, name: bytes) -> bool:
        if self.preallocated(name):
            return False
        if name in self.indexes or name in self.safetensors:
            return True
        numbered = series_of(name)
        return numbered is not None and self.series.get(numbered[0], {}).get(numbered[1]) == name
