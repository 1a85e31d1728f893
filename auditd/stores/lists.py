"""Lists of digests for the files of a directory and of those below it, wherever above a file they stand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from auditd.evidence.promise import Reference
from auditd.stores.files import Unknown, is_file, read_small
from auditd.stores.memory import Memory, Watch
from auditd.stores.standing import text_of

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


def listed(path: bytes, kinds: tuple[ListKind, ...], memory: Memory) -> Iterator[Reference]:
    """Yield the SHA-256 that each list of ``kinds`` above ``path`` has for it, the nearest first."""
    directory = os.path.dirname(path)
    for _ in range(LEVELS):
        for place, kind in memory.recall("lists", directory, partial(_lists_in, directory, kinds)):
            digests = memory.recall("list", place, partial(_read, place, kind))
            # Only here: most directories have no list, and a look through a tree asks for every file of it.
            digest = digests.get(os.path.relpath(path, directory))
            if digest is not None:
                yield Reference("sha256", digest, text_of(place) + kind.caveat)
        if directory == os.path.dirname(directory):
            return
        directory = os.path.dirname(directory)


def _lists_in(directory: bytes, kinds: tuple[ListKind, ...], watch: Watch) -> tuple[tuple[bytes, ListKind], ...]:
    """The lists that a directory has: adding or removing one changes the directory."""
    watch.add(directory)
    places = ((os.path.join(directory, name), kind) for kind in kinds for name in kind.names)
    return tuple((place, kind) for place, kind in places if is_file(place))


def _read(path: bytes, kind: ListKind, watch: Watch) -> dict[bytes, str]:
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
