"""The snapshots and refs of one repository in a Hugging Face cache: which names lead to which blob.

``snapshots/<commit>/<file>`` are symbolic links to ``../../blobs/<etag>``, ``refs/<name>`` files that hold a commit.
Links are read, never followed: what counts is the name of the blob that stands in them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from auditd.model_stores.cache import Dependencies
from auditd.model_stores.files import (
    Checkpoint,
    Unknown,
    carry_on,
    entries_of,
    is_plain,
    link_target,
    read_small,
    status_of,
)

#: A ref holds 40 digits and at most a line end.
_REF_BYTES: Final = 256
#: A link's text: ``../`` for each directory, and the digits of the blob.
_LINK_BYTES: Final = 256
_WRITTEN: Final = re.compile(rb"(?:\.\./)+blobs/[0-9a-f]{40,64}")
#: Refs, and links in all snapshots together, that an index holds; past them it is incomplete.
REFS: Final = 10_000
LINKS: Final = 100_000
#: Directories inside each other in a repository.
DEPTH: Final = 32

COMMIT: Final = re.compile(rb"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a snapshot: its path in the repository, and the name of the blob, None if it is no link to one.

    ``place`` is where its bytes are looked for: its own ``path``, but for a link that was copied as text.
    """

    commit: bytes
    file: bytes
    path: bytes
    place: bytes
    blob: bytes | None
    is_link: bool


@dataclass(frozen=True, slots=True)
class Index:
    """``links``: for each blob the commits and files that lead to it. ``refs``: for each commit the refs at it.

    ``complete`` if nothing of the snapshots stayed unknown.
    """

    links: dict[bytes, list[tuple[bytes, bytes]]]
    refs: dict[bytes, list[bytes]]
    complete: bool


def refs(
    repository: bytes, checkpoint: Checkpoint = carry_on, watch: Dependencies | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yield each ref (``main``, ``refs/pr/1``) with the commit that it holds."""
    root = os.path.join(repository, b"refs")
    for directory, name in islice(_files(root, checkpoint, watch), REFS):
        commit = read_ref(os.path.join(root, directory, name), watch)
        if commit is not None:
            yield os.path.join(directory, name), commit


def read_ref(path: bytes, watch: Dependencies | None = None) -> bytes | None:
    """The commit that a ref file holds, None if it holds something else."""
    if watch is not None:
        watch.add(path)
    try:
        commit = read_small(path, _REF_BYTES).strip()
    except Unknown:
        return None
    return commit if COMMIT.fullmatch(commit) else None


def commits(repository: bytes, checkpoint: Checkpoint = carry_on, watch: Dependencies | None = None) -> Iterator[bytes]:
    """Yield the commits that have a snapshot; raises :class:`Unknown`, also for a link, which is not followed."""
    directory = os.path.join(repository, b"snapshots")
    if watch is not None:
        watch.add(directory)
    for name, kind in entries_of(directory, checkpoint):
        if kind == stat.S_IFLNK:
            raise Unknown("a link among the snapshots")
        if kind == stat.S_IFDIR:
            yield name


def entries(
    repository: bytes, commit: bytes, checkpoint: Checkpoint = carry_on, watch: Dependencies | None = None
) -> Iterator[Entry]:
    """Yield the files of one snapshot; raises :class:`Unknown`."""
    root = os.path.join(repository, b"snapshots", commit)
    for directory, name in _files(root, checkpoint, watch, strict=True):
        path, file = os.path.join(root, directory, name), os.path.join(directory, name)
        target = link_target(path)
        if target is not None:
            yield Entry(commit, file, path, path, blob_of(repository, path, target), is_link=True)
            continue
        blob = written_link(repository, path)
        place = path if blob is None else os.path.join(repository, b"blobs", blob)
        yield Entry(commit, file, path, place, blob, is_link=blob is not None)


def written_link(repository: bytes, path: bytes) -> bytes | None:
    """The name of the blob in a plain file that holds the text of a link to it, as copies without links leave them."""
    status = status_of(path)
    if status is None or not 0 < status.st_size <= _LINK_BYTES:
        return None
    try:
        text = read_small(path, _LINK_BYTES)
    except Unknown:
        return None
    blob = blob_of(repository, path, text)
    return blob if blob is not None and _WRITTEN.fullmatch(text) else None


def blob_of(repository: bytes, path: bytes, target: bytes | None) -> bytes | None:
    """The name of the blob that a link at ``path`` with the text ``target`` means; None if it leads elsewhere.

    Judged by the text alone: relative, as the library writes it, or absolute, as old copies have it.
    """
    if target is None or b"\0" in target:
        return None
    leads_to = os.path.normpath(os.path.join(os.path.dirname(path), target))
    directory, name = os.path.split(leads_to)
    blobs = os.path.normpath(os.path.join(repository, b"blobs"))
    return name if directory == blobs and is_plain(name) else None


def _files(
    root: bytes, checkpoint: Checkpoint, watch: Dependencies | None, *, strict: bool = False
) -> Iterator[tuple[bytes, bytes]]:
    """Yield each file below ``root``: its directory relative to it, and its name. Links are files."""
    waiting = [b""]
    while waiting:
        directory = waiting.pop()
        if watch is not None:
            watch.add(os.path.join(root, directory))
        try:
            for name, kind in entries_of(os.path.join(root, directory), checkpoint):
                if kind != stat.S_IFDIR:
                    yield directory, name
                else:
                    waiting.append(_below(directory, name))
        except Unknown:
            if strict:
                raise


def _below(directory: bytes, name: bytes) -> bytes:
    if directory.count(b"/") >= DEPTH:
        raise Unknown("directories too deep inside each other")
    return os.path.join(directory, name)


def read_index(repository: bytes, watch: Dependencies) -> Index:
    """Read the refs and all snapshots of ``repository`` within the bounds."""
    by_commit: dict[bytes, list[bytes]] = {}
    for name, commit in refs(repository, watch.checkpoint, watch):
        by_commit.setdefault(commit, []).append(name)
    links: dict[bytes, list[tuple[bytes, bytes]]] = {}
    held = 0
    try:
        for commit in commits(repository, watch.checkpoint, watch):
            for entry in entries(repository, commit, watch.checkpoint, watch):
                held += 1
                if held > LINKS:
                    return Index(links, by_commit, complete=False)
                if entry.blob is not None:
                    watch.items += 1
                    links.setdefault(entry.blob, []).append((commit, entry.file))
    except Unknown:
        return Index(links, by_commit, complete=False)
    return Index(links, by_commit, complete=True)
