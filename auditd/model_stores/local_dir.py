"""What ``.cache/huggingface/download/<file>.metadata`` says of a file that was downloaded into a plain directory.

Three lines: the commit, the etag, the time at which both were true, in seconds since the epoch.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from auditd.evidence.expectation import NOTHING, Expectation
from auditd.formats.naming import is_model_name
from auditd.model_sets.facts import SetFacts
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.files import (
    Checkpoint,
    Unknown,
    carry_on,
    entries_of,
    is_directory,
    is_file,
    read_small,
    status_of,
    upwards,
)
from auditd.model_stores.huggingface import reference_of
from auditd.model_stores.huggingface_links import COMMIT
from auditd.model_stores.status import EntryStatus, entry_status, text_of

STORE: Final = "huggingface_local"
RECORDS: Final = b".cache/huggingface/download"

#: Three short lines; later versions may add some.
_RECORD_BYTES: Final = 4096
#: A file may stand some directories below the one that was downloaded into.
_LEVELS: Final = 4

_SECONDS: Final = re.compile(rb"[0-9]{1,11}(?:\.[0-9]{1,9})?")
_NANOSECONDS: Final = 10**9

_UNFINISHED = "an unfinished download into this directory"


@dataclass(frozen=True, slots=True)
class Downloads:
    """The records of the files of one directory; ``homes`` are those above it that have any, the innermost first."""

    homes: tuple[bytes, ...]

    @classmethod
    def recognise(cls, directory: bytes, cache: ReadCache, watch: Dependencies) -> Downloads | None:  # noqa: ARG003
        """The directories at and above ``directory`` that a download went into; most have none."""
        homes = tuple(home for home in upwards(directory, _LEVELS) if watch.add(os.path.join(home, RECORDS)))
        return cls(homes) if homes else None

    def expectation(self, path: bytes, status: os.stat_result | None) -> Expectation:  # noqa: ARG002 (the record says all)
        """What the innermost record of ``path`` says: a digest, and when it was true."""
        records = (_record_of(home, path) for home in self.homes)
        record = next((record for record in records if is_file(record)), None)
        return NOTHING if record is None else _recorded(record, os.path.basename(path))


def _recorded(record: bytes, name: bytes) -> Expectation:
    """What one record says of the file ``name``; ``NOTHING`` if it is none."""
    try:
        lines = [line.strip() for line in read_small(record, _RECORD_BYTES).split(b"\n")]
    except Unknown:
        return NOTHING
    if len(lines) < 3 or not COMMIT.fullmatch(lines[0]) or not _SECONDS.fullmatch(lines[2]):  # noqa: PLR2004
        return NOTHING
    reference = reference_of(lines[1], text_of(record))
    return Expectation(
        store=STORE,
        references=() if reference is None else (reference,),
        role="model" if is_model_name(name) else "other",
        downloaded_ns=int(Decimal(lines[2].decode("ascii")) * _NANOSECONDS),
    )


@dataclass(frozen=True, slots=True)
class LocalDirectory:
    """The directory ``home`` that a download went into; a file there has its record below :data:`RECORDS`."""

    home: bytes

    @classmethod
    def rooted(cls, directory: bytes, cache: ReadCache) -> LocalDirectory | None:  # noqa: ARG003
        """The directory itself if it has records."""
        return cls(directory) if is_directory(os.path.join(directory, RECORDS)) else None

    def survey(self, checkpoint: Checkpoint = carry_on) -> Iterator[EntryStatus]:
        """Yield the unfinished downloads."""
        waiting = [os.path.join(self.home, RECORDS)]
        while waiting:
            directory = waiting.pop()
            try:
                for name, kind in entries_of(directory, checkpoint):
                    path = os.path.join(directory, name)
                    if kind == stat.S_IFDIR:
                        waiting.append(path)
                    elif name.endswith(b".incomplete"):
                        yield entry_status("unfinished", STORE, path, _UNFINISHED, status_of(path))
            except Unknown:
                yield EntryStatus("unreadable", STORE, directory, "the records of downloads here cannot be read")

    def models(self, checkpoint: Checkpoint = carry_on) -> Iterator[SetFacts]:  # noqa: ARG002
        """Nothing: no record says which files belong together."""
        return iter(())


def _record_of(home: bytes, path: bytes) -> bytes:
    return os.path.join(home, RECORDS, path[len(home.rstrip(b"/")) + 1 :] + b".metadata")
