"""The blobs that the repositories of a Hugging Face cache share: ``hub/blobs/<two digits>/<hash>``.

From huggingface_hub 2 on most large files are there, and ``models--…/blobs/<etag>`` is a link to them. Their own name is
a hash of another kind and says nothing of the SHA-256: what is promised of them is what is promised of the links that
``<hash>.refs`` lists, one a line. The list is a hint; a link counts if it is there and leads to the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from auditd.evidence.expectation import NOTHING, Expectation, Remark
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.files import Unknown, is_file, link_target, plain_parts, read_small
from auditd.model_stores.huggingface import STORE, HubRepository, role_by_head
from auditd.model_stores.merge import merge

#: The file that makes a directory such a store, for the library as well.
MARKER: Final = b".huggingface-shared-blobs"

_HASH: Final = re.compile(rb"[0-9a-f]{64}")
_PREFIX: Final = re.compile(rb"[0-9a-f]{2}")
#: A line a repository that has the file.
_REFS_BYTES: Final = 1 << 20
_LINKS: Final = 256
#: Repository, ``blobs``, etag.
_LINK_PARTS: Final = 3

_ORPHAN: Final = Remark("orphan", "no repository of this cache leads to it: nothing uses it")


@dataclass(frozen=True, slots=True)
class SharedBlobs:
    """The shared blobs of the cache ``hub``."""

    hub: bytes
    cache: ReadCache

    @classmethod
    def recognise(cls, directory: bytes, cache: ReadCache, watch: Dependencies) -> SharedBlobs | None:
        """The shared blobs that ``directory`` is a part of: those whose names begin with its own."""
        blobs, prefix = os.path.split(directory)
        if not _PREFIX.fullmatch(prefix):
            return None
        marker = os.path.join(blobs, MARKER)
        watch.add(marker)
        return cls(os.path.dirname(blobs), cache) if is_file(marker) else None

    def expectation(self, path: bytes, status: os.stat_result | None) -> Expectation:
        """What is said of the links that lead to the blob; an orphan if there are none, and the list was read."""
        directory, name = os.path.split(path)
        if not _HASH.fullmatch(name) or not directory.endswith(b"/" + name[:2]):
            return NOTHING
        try:
            lines = read_small(path + b".refs", _REFS_BYTES).split(b"\n")
        except Unknown:
            return Expectation(STORE, role=role_by_head(path, status))
        links = dict.fromkeys(islice(self._links(lines, path), _LINKS))
        if not links:
            return Expectation(STORE, role=role_by_head(path, status), remarks=(_ORPHAN,))
        return merge(self._of(link, status) for link in links)

    def _links(self, lines: list[bytes], path: bytes) -> Iterator[bytes]:
        blob = os.path.normpath(path)
        for line in lines:
            parts = plain_parts(line)
            if parts is None or len(parts) != _LINK_PARTS or parts[1] != b"blobs":
                continue
            link = os.path.join(self.hub, line)
            target = link_target(link)
            if target is not None and os.path.normpath(os.path.join(os.path.dirname(link), target)) == blob:
                yield link

    def _of(self, link: bytes, status: os.stat_result | None) -> Expectation:
        repository = HubRepository.rooted(os.path.dirname(os.path.dirname(link)), self.cache)
        return Expectation(STORE) if repository is None else repository.expectation(link, status)
