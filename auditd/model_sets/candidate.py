"""Files that may be a set, by their names and an index: what a directory gives to ``judge`` to look at. Frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from auditd.model_sets.index import Index
from auditd.model_sets.names import Series


@dataclass(frozen=True, slots=True)
class Entry:
    """One name: ``path`` is the regular file after links (the name's own path if it is ``dangling``)."""

    name: bytes
    path: bytes
    size: int | None = None
    dangling: bool = False
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Numbered:
    """Files of one series, in the order of their numbers."""

    series: Series
    entries: tuple[Entry, ...]

    @property
    def whole(self) -> bool:
        """Whether the names run from 1 to the count that they give, and every file is there."""
        count = self.series.count
        if not count or len(self.entries) != count:
            return False
        return all(entry.number == at and not entry.dangling for at, entry in enumerate(self.entries, 1))


@dataclass(frozen=True, slots=True)
class Rival:
    """Files that no index names and that may be what an index should name: a series, or the one file in its place."""

    label: bytes
    entries: tuple[Entry, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """GGUF files numbered by name, or pieces of one; ``numbered`` None for one ``lone`` file without such a name."""

    directory: bytes
    numbered: Numbered | None = None
    lone: Entry | None = None
    unfinished: tuple[bytes, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every file whose record is wanted."""
        if self.numbered is not None:
            return self.numbered.entries
        return () if self.lone is None else (self.lone,)


@dataclass(frozen=True, slots=True)
class IndexCandidate:
    """What an index names, or a series of safetensors files without one.

    ``source`` is the path of the index, None where there is none; ``problem`` says why it could not be read, and
    ``index`` is then None. ``named`` are the files that the index names and that are there, else those of ``series``.
    ``strays`` are all safetensors files that no index names, those of ``rivals`` apart.
    """

    directory: bytes
    named: tuple[Entry, ...]
    source: bytes | None = None
    index: Index | None = None
    problem: str | None = None
    series: Series | None = None
    rivals: tuple[Rival, ...] = ()
    strays: tuple[bytes, ...] = ()
    unfinished: tuple[bytes, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every file whose record is wanted."""
        return (*self.named, *(entry for rival in self.rivals for entry in rival.entries))


Candidate: TypeAlias = SplitCandidate | IndexCandidate
