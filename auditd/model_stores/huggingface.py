"""A repository in a Hugging Face cache: ``models--<org>--<name>`` with ``blobs``, ``refs`` and ``snapshots``.

A blob is named for its content: 64 hex digits are its SHA-256, 40 the SHA-1 that git gives it. A plain file in a
snapshot (a cache without links) has no such name: nobody says which bytes it should have.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from auditd.evidence.expectation import NOTHING, Algorithm, Expectation, Reference, Remark, Role
from auditd.formats.detection import is_plausible_head
from auditd.formats.naming import is_model_name
from auditd.model_sets.facts import LISTED, MissingMember, SetFacts, SetFigures, SetMember, SetRemark
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.files import (
    Checkpoint,
    Unknown,
    carry_on,
    entries_of,
    head_of,
    is_directory,
    leads_nowhere,
    link_target,
    status_of,
)
from auditd.model_stores.huggingface_links import COMMIT, Entry, Index, commits, entries, read_index, refs, written_link
from auditd.model_stores.status import EntryStatus, entry_status, text_of

STORE: Final = "huggingface"
SOURCE: Final = "blob name"

#: Names that one artifact keeps: a file that never changes has one in every snapshot.
NAMES_KEPT: Final = 32
#: Digits of a commit in a name.
COMMIT_SHOWN: Final = 12

_HEAD_BYTES: Final = 16

#: ``models--org--name``; a model's name stands alone, the other kinds' have their kind before it.
_FOLDER: Final = re.compile(rb"(models|datasets|spaces|kernels)--(.+)", re.DOTALL)

#: What the length of an etag says it is.
ETAGS: Final[tuple[tuple[re.Pattern[bytes], Algorithm], ...]] = (
    (re.compile(rb"[0-9a-f]{64}"), "sha256"),
    (re.compile(rb"[0-9a-f]{40}"), "git-sha1"),
)
#: ``<etag>.incomplete``, and with the mark of the process that wrote it from huggingface_hub 1.18 on.
_INCOMPLETE: Final = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})(\.[0-9A-Za-z_-]{1,64})?\.incomplete")

_FINISHED: Final = Remark("leftover", "an unfinished download beside its finished blob, which stands")
_ORPHAN: Final = Remark("orphan", "no snapshot of this repository leads to it: nothing uses it")

_WRITTEN_LINK: Final = Remark(
    "leftover",
    "the text of a link to a blob, as a copy without links leaves it: loaders do not follow it",
    "Copy the cache again with its links (cp -a, rsync -a).",
)

_RESUMED = "an unfinished download; huggingface_hub up to 1.17 resumes it, later ones begin again"
_OF_A_PROCESS = "an unfinished download of one process; once that is gone, nothing resumes it"
_DANGLING = "a link to a blob that is not here: not mounted, pruned, or copied without following links"
_NOTHING_HERE = "only the name of a commit is here: nothing was downloaded"


def reference_of(etag: bytes, source: str) -> Reference | None:
    """The digest that an etag is, None if it is none."""
    for form, algorithm in ETAGS:
        if form.fullmatch(etag):
            return Reference(algorithm, etag.decode("ascii"), source)
    return None


@dataclass(frozen=True, slots=True)
class HubRepository:
    """The repository at ``home``; ``name`` is ``org/name``."""

    home: bytes
    name: bytes
    cache: ReadCache

    @classmethod
    def recognise(cls, directory: bytes, cache: ReadCache, watch: Dependencies) -> HubRepository | None:
        """The repository whose blobs or snapshot ``directory`` is a part of, the innermost if there are several."""
        parts = directory.split(b"/")
        for end in range(len(parts) - 2, -1, -1):
            if parts[end + 1] in {b"blobs", b"snapshots"} and _FOLDER.fullmatch(parts[end]):
                home = b"/".join(parts[: end + 1])
                watch.add_directory(home)
                return cls.rooted(home, cache)
        return None

    @classmethod
    def rooted(cls, directory: bytes, cache: ReadCache) -> HubRepository | None:
        """The repository at ``directory``, by its name and one of its parts."""
        match = _FOLDER.fullmatch(os.path.basename(directory))
        if match is None or not any(
            is_directory(os.path.join(directory, part)) for part in (b"blobs", b"refs", b"snapshots")
        ):
            return None
        kind, name = match.groups()
        name = name.replace(b"--", b"/")
        return cls(directory, name if kind == b"models" else kind + b"/" + name, cache)

    def expectation(self, path: bytes, status: os.stat_result | None) -> Expectation:
        """What the name of a blob says of it, and what it is called in the snapshots."""
        parts = path[len(self.home) + 1 :].split(b"/")
        if parts[0] == b"snapshots":
            return self._in_snapshot(path, parts[1:])
        return self._blob(path, parts[1], status) if len(parts) == 2 else NOTHING  # noqa: PLR2004 (blobs, its name)

    def _in_snapshot(self, path: bytes, parts: list[bytes]) -> Expectation:
        if len(parts) < 2:  # noqa: PLR2004 (a commit, a file)
            return NOTHING
        found = [(parts[0], b"/".join(parts[1:]))]
        names = self._names(found, self._index())
        if link_target(path) is None and written_link(self.home, path) is not None:
            return Expectation(STORE, names, role="other", remarks=(_WRITTEN_LINK,))
        return Expectation(STORE, names, role=_role_of(found))

    def _blob(self, path: bytes, name: bytes, status: os.stat_result | None) -> Expectation:
        index = self._index()
        if match := _INCOMPLETE.fullmatch(name):
            etag = match.group(1)
            remarks = (_FINISHED,) if self._is_finished(etag) else ()
            return Expectation(STORE, self._names(index.links.get(etag, []), index), remarks=remarks)
        reference = reference_of(name, SOURCE)
        found = index.links.get(name, [])
        orphan = reference is not None and index.complete and not found
        return Expectation(
            store=STORE,
            names=self._names(found, index),
            references=() if reference is None else (reference,),
            role=_role_of(found) if found else role_by_head(path, status),
            remarks=(_ORPHAN,) if orphan else (),
        )

    def _is_finished(self, etag: bytes) -> bool:
        """Whether the blob is there, itself or as a link to one that repositories share."""
        return os.path.isfile(os.path.join(self.home, b"blobs", etag))

    def _index(self) -> Index:
        return self.cache.recall(STORE, self.home, lambda watch: read_index(self.home, watch))

    def _names(self, found: list[tuple[bytes, bytes]], index: Index) -> tuple[str, ...]:
        """``org/name@<commit>/<file>`` and the same with each ref at the commit; commits that have a ref go first."""
        names: dict[bytes, None] = {}
        for commit, file in sorted(found, key=lambda item: (item[0] not in index.refs, item)):
            if len(names) >= NAMES_KEPT:
                break
            for revision in (revision_of(commit), *sorted(index.refs.get(commit, ()))):
                names[self._named(revision) + b"/" + file] = None
        return tuple(text_of(name) for name in list(names)[:NAMES_KEPT])

    def _named(self, revision: bytes) -> bytes:
        return self.name + b"@" + revision

    def survey(self, checkpoint: Checkpoint = carry_on) -> Iterator[EntryStatus]:
        """Yield the links to nowhere, the unfinished downloads and leftovers, the orphans, and a name without files."""
        if not is_directory(os.path.join(self.home, b"snapshots")):
            yield entry_status(
                "nothing_downloaded", STORE, self.home, _NOTHING_HERE, status_of(self.home), (text_of(self.name),)
            )
        try:
            for commit in commits(self.home, checkpoint):
                yield from self._dangling(commit, checkpoint)
            for name, _ in entries_of(os.path.join(self.home, b"blobs"), checkpoint):
                yield from self._stray(name)
        except Unknown:
            message = "a part of this repository cannot be read: what it holds is not known"
            yield EntryStatus("unreadable", STORE, self.home, message, (text_of(self.name),))

    def _dangling(self, commit: bytes, checkpoint: Checkpoint) -> Iterator[EntryStatus]:
        for entry in entries(self.home, commit, checkpoint):
            if entry.is_link and leads_nowhere(entry.place):
                names = self._names([(commit, entry.file)], self._index())
                status = status_of(entry.path)
                mtime_ns = None if status is None else status.st_mtime_ns
                yield EntryStatus("missing_target", STORE, entry.path, _DANGLING, names, None, mtime_ns)

    def _stray(self, name: bytes) -> Iterator[EntryStatus]:
        path = os.path.join(self.home, b"blobs", name)
        status = status_of(path)
        expectation = self._blob(path, name, status)
        if expectation.remarks:
            remark = expectation.remarks[0]
            yield entry_status(remark.code, STORE, path, remark.message, status, expectation.names)
        elif match := _INCOMPLETE.fullmatch(name):
            message = _OF_A_PROCESS if match.group(2) else _RESUMED
            yield entry_status("unfinished", STORE, path, message, status, expectation.names)

    def models(self, checkpoint: Checkpoint = carry_on) -> Iterator[SetFacts]:
        """Yield each snapshot as a set; raises :class:`Unknown` after them if there may be others."""
        unknown: Unknown | None = None
        empty = True
        for commit in commits(self.home, checkpoint):
            empty = False
            try:
                facts = self._snapshot(commit, checkpoint)
            except Unknown as error:
                unknown = error
                continue
            yield facts
        if empty:
            yield self._name_alone(checkpoint)
        if unknown is not None:
            raise unknown

    def _name_alone(self, checkpoint: Checkpoint) -> SetFacts:
        revision = min((name for name, _ in refs(self.home, checkpoint)), default=b"")
        unfinished = tuple(self._unfinished(checkpoint))
        return SetFacts(
            kind="hf_snapshot",
            name=text_of(self._named(revision) if revision else self.name),
            directory=self.home,
            remarks=(SetRemark("set_incomplete", _NOTHING_HERE),),
            unfinished=unfinished,
            in_progress=bool(unfinished),
        )

    def _unfinished(self, checkpoint: Checkpoint, wanted: set[bytes] | None = None) -> Iterator[bytes]:
        """The names of downloads under way, of the blobs ``wanted`` or of all that are not there."""
        count = 0
        for name, _ in entries_of(os.path.join(self.home, b"blobs"), checkpoint):
            match = _INCOMPLETE.fullmatch(name)
            if match is None or count >= LISTED or (wanted is not None and match.group(1) not in wanted):
                continue
            if not self._is_finished(match.group(1)):
                count += 1
                yield name

    def _snapshot(self, commit: bytes, checkpoint: Checkpoint) -> SetFacts:
        cache = os.path.realpath(os.path.dirname(self.home))
        members: list[SetMember] = []
        dangling: list[Entry] = []
        present = absent = unsized = size = 0
        for entry in entries(self.home, commit, checkpoint):
            if entry.is_link and leads_nowhere(entry.place):
                absent += 1
                dangling.extend([entry] if absent <= LISTED else [])
                continue
            member = _member(entry, cache)
            present, size = present + 1, size + (member.size or 0)
            unsized += member.size is None
            members.extend([member] if present <= LISTED else [])
        wanted = {entry.blob for entry in dangling if entry.blob is not None}
        unfinished = tuple(self._unfinished(checkpoint, wanted)) if wanted else ()
        return SetFacts(
            kind="hf_snapshot",
            name=text_of(self._named(revision_of(commit))),
            directory=os.path.join(self.home, b"snapshots", commit),
            members=tuple(members),
            missing=tuple(_missing(entry) for entry in dangling),
            found=SetFigures(members=present, size=None if unsized else size),
            missing_count=absent,
            unfinished=unfinished,
            in_progress=bool(unfinished),
        )


def _role_of(found: list[tuple[bytes, bytes]]) -> Role:
    return "model" if any(is_model_name(os.path.basename(file)) for _, file in found) else "other"


def role_by_head(path: bytes, status: os.stat_result | None) -> Role:
    """Of a blob that nothing names, its first bytes tell whether it is a model."""
    size = 0 if status is None else status.st_size
    return "model" if is_plausible_head(head_of(path, _HEAD_BYTES), size) else "other"


def revision_of(commit: bytes) -> bytes:
    """A commit as names have it; what is no commit stays whole."""
    return commit[:COMMIT_SHOWN] if COMMIT.fullmatch(commit) else commit


def _member(entry: Entry, cache: bytes) -> SetMember:
    """The member that an entry is. A link that leads out of ``cache`` is named as it is, and not followed."""
    path = os.path.realpath(entry.place)
    if not path.startswith(cache + b"/"):
        return SetMember(entry.file, entry.path)
    status = status_of(path)
    is_file = status is not None and stat.S_ISREG(status.st_mode)
    return SetMember(entry.file, path, status.st_size if status is not None and is_file else None)


def _missing(entry: Entry) -> MissingMember:
    reference = None if entry.blob is None else reference_of(entry.blob, SOURCE)
    sha256 = reference is not None and reference.algorithm == "sha256"
    return MissingMember(
        entry.file, digest=f"sha256:{reference.value}" if reference and sha256 else None, dangling=True
    )
