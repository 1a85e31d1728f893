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
from functools import partial
from typing import Final

from auditd.evidence.promise import NOTHING, Promise
from auditd.evidence.sets.facts import SetFacts
from auditd.formats.naming import is_model_name
from auditd.stores.files import Checkpoint, Unknown, carry_on, entries_of, is_directory, is_file, read_small, status_of
from auditd.stores.huggingface import reference_of
from auditd.stores.huggingface_links import COMMIT
from auditd.stores.memory import Memory, Watch
from auditd.stores.standing import Standing, standing, text_of

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
class LocalDirectory:
    """The directory ``home`` that a download went into; a file there has its record below :data:`RECORDS`."""

    home: bytes

    @classmethod
    def recognise(cls, path: bytes, memory: Memory) -> LocalDirectory | None:
        """The innermost directory above ``path`` that has a record of it."""
        home = os.path.dirname(path)
        for _ in range(_LEVELS):
            # Most directories have no records, and a look through a tree asks for every file of it.
            if memory.recall("records", home, partial(_has_records, home)) and is_file(_record_of(home, path)):
                return cls(home)
            if home == os.path.dirname(home):
                break
            home = os.path.dirname(home)
        return None

    @classmethod
    def rooted(cls, directory: bytes, memory: Memory) -> LocalDirectory | None:  # noqa: ARG003
        """The directory itself if it has records."""
        return cls(directory) if is_directory(os.path.join(directory, RECORDS)) else None

    def promise(self, path: bytes, status: os.stat_result | None) -> Promise:  # noqa: ARG002 (the record says all)
        """What the record of ``path`` says: a digest, and when it was true."""
        record = _record_of(self.home, path)
        try:
            lines = [line.strip() for line in read_small(record, _RECORD_BYTES).split(b"\n")]
        except Unknown:
            return NOTHING
        if len(lines) < 3 or not COMMIT.fullmatch(lines[0]) or not _SECONDS.fullmatch(lines[2]):  # noqa: PLR2004
            return NOTHING
        reference = reference_of(lines[1], text_of(record))
        return Promise(
            store=STORE,
            references=() if reference is None else (reference,),
            role="model" if is_model_name(os.path.basename(path)) else "other",
            downloaded_ns=int(Decimal(lines[2].decode("ascii")) * _NANOSECONDS),
        )

    def survey(self, checkpoint: Checkpoint = carry_on) -> Iterator[Standing]:
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
                        yield standing("unfinished", STORE, path, _UNFINISHED, status_of(path))
            except Unknown:
                yield Standing("unreadable", STORE, directory, "the records of downloads here cannot be read")

    def models(self, checkpoint: Checkpoint = carry_on) -> Iterator[SetFacts]:  # noqa: ARG002
        """Nothing: no record says which files belong together."""
        return iter(())


def _has_records(home: bytes, watch: Watch) -> bool:
    return watch.add(os.path.join(home, RECORDS)) is not None


def _record_of(home: bytes, path: bytes) -> bytes:
    return os.path.join(home, RECORDS, path[len(home.rstrip(b"/")) + 1 :] + b".metadata")
