"""Lists of digests for the files of a directory and of those below it, wherever above a file they stand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from auditd.evidence.expectation import Reference
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.files import Unknown, is_file, read_small, upwards
from auditd.model_stores.status import text_of

#: Directories above a file whose lists may name it, its own included.
LEVELS: Final = 4

#: Some ten thousand files, more than any model has; the hostile worst of it is read in a second.
LIST_BYTES: Final = 4 << 20
LIST_FILES: Final = 50_000


@dataclass(frozen=True, slots=True)
class ListKind:
    """One kind of list: what it is called, what reads it (bad content is an empty list), what is said of its source."""

    names: tuple[bytes, ...]
    parse: Callable[[bytes], dict[bytes, str]]
    caveat: str = ""


#: Lists that are there: the path of each, and its kind.
Lists: TypeAlias = tuple[tuple[bytes, ListKind], ...]


def lists_above(directory: bytes, kinds: tuple[ListKind, ...], watch: Dependencies) -> Lists:
    """The lists that may name a file of ``directory``, the nearest first: most directories have none."""
    return tuple(found for place in upwards(directory, LEVELS) for found in _lists_in(place, kinds, watch))


def _lists_in(directory: bytes, kinds: tuple[ListKind, ...], watch: Dependencies) -> Iterator[tuple[bytes, ListKind]]:
    """The lists that a directory has: adding or removing one changes the directory."""
    watch.add_directory(directory)
    places = ((os.path.join(directory, name), kind) for kind in kinds for name in kind.names)
    return ((place, kind) for place, kind in places if is_file(place))


def listed(path: bytes, lists: Lists, cache: ReadCache) -> Iterator[Reference]:
    """Yield the SHA-256 that each of ``lists`` has for ``path``."""
    for place, kind in lists:
        digests = cache.recall("list", place, partial(_read, place, kind))
        digest = digests.get(os.path.relpath(path, os.path.dirname(place)))
        if digest is not None:
            yield Reference("sha256", digest, text_of(place) + kind.caveat)


def _read(path: bytes, kind: ListKind, watch: Dependencies) -> dict[bytes, str]:
    watch.add(path)
    try:
        digests = kind.parse(read_small(path, LIST_BYTES))
    except Unknown:
        return {}
    watch.items += len(digests)
    return digests


def agreed(pairs: Iterable[tuple[bytes, str]]) -> dict[bytes, str]:
    """What is said of each name, without the names of which two things are said; at most :data:`LIST_FILES`."""
    digests: dict[bytes, str] = {}
    doubtful: set[bytes] = set()
    for name, digest in pairs:
        if len(digests) >= LIST_FILES:
            break
        if digests.setdefault(name, digest) != digest:
            doubtful.add(name)
    return {name: digest for name, digest in digests.items() if name not in doubtful}
