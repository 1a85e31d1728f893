"""An Ollama store: ``blobs/sha256-<hex>`` named for their content, and manifests that name them.

Recognised by the name of the blob in a directory ``blobs``, wherever that is. Without manifests beside it nothing but
the digest is known, and nothing is called an orphan.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from auditd.evidence.expectation import NOTHING, Expectation, Reference, Remark, Role
from auditd.formats.detection import is_plausible_head
from auditd.model_sets.facts import LISTED, MissingMember, SetFacts, SetFigures, SetMember
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.checked_json import checked
from auditd.model_stores.files import (
    Checkpoint,
    Unknown,
    carry_on,
    entries_of,
    file_at,
    head_of,
    is_directory,
    is_file,
    read_small,
    status_of,
)
from auditd.model_stores.ollama_manifests import Index, Layer, Manifest, Use, manifests, read_index
from auditd.model_stores.status import EntryStatus, entry_status

STORE: Final = "ollama"

#: The digest in a blob's name says so.
SOURCE: Final = "blob name"

#: Names that one artifact keeps: the licence of a family can be a layer of hundreds of models.
NAMES_KEPT: Final = 32

_BLOB: Final = re.compile(rb"sha256([-:])([0-9a-f]{64})")
_PARTIAL: Final = re.compile(rb"sha256-([0-9a-f]{64})-partial")
_PART: Final = re.compile(rb"(sha256-[0-9a-f]{64}-partial)-[0-9]{1,6}")
#: What a ``create`` that failed leaves: the number is random, and nothing looks for it again.
_ABANDONED: Final = re.compile(rb"sha256-[0-9]{1,20}(?:-partial)?")

#: A part file has about sixty bytes, a download sixteen parts and at most some hundred.
_PART_BYTES: Final = 4096
_PARTS: Final = 1024
_HEAD_BYTES: Final = 16

_ORPHAN: Final = Remark("orphan", "no manifest of this store names it: no model needs it, and nothing lists it")
_OLD_NAME: Final = Remark(
    "orphan",
    "its name has a colon, as older versions wrote it: current Ollama looks for sha256- and does not find it",
    "Pull the model again, or give the blob the name with a hyphen.",
)
_OLD_COPY: Final = Remark(
    "leftover", "its name has a colon, as older versions wrote it; the same blob is here as sha256-"
)
_FINISHED: Final = Remark("leftover", "an unfinished download beside its finished blob, which stands")
_FAILED: Final = Remark("leftover", "left by an ollama create that failed: nothing will resume it")


class _Part(msgspec.Struct):
    size: int = msgspec.field(name="Size")
    completed: int = msgspec.field(name="Completed")


@dataclass(frozen=True, slots=True)
class OllamaStore:
    """The store at ``home``, which has ``blobs`` and mostly ``manifests``."""

    home: bytes
    cache: ReadCache

    @classmethod
    def recognise(cls, directory: bytes, cache: ReadCache, watch: Dependencies) -> OllamaStore | None:  # noqa: ARG003 (the name tells)
        """The store whose blobs stand in ``directory``."""
        return cls.of_blobs(directory, cache)

    @classmethod
    def of_blobs(cls, directory: bytes, cache: ReadCache) -> OllamaStore | None:
        """The store whose blobs stand in ``directory``, by its name alone."""
        home, name = os.path.split(directory)
        return cls(home, cache) if name == b"blobs" else None

    @classmethod
    def rooted(cls, directory: bytes, cache: ReadCache) -> OllamaStore | None:
        """The store at ``directory``: with manifests, and blobs, which people move to another disk and link to."""
        both = is_directory(os.path.join(directory, b"manifests")) and os.path.isdir(os.path.join(directory, b"blobs"))
        return cls(directory, cache) if both else None

    def expectation(self, path: bytes, status: os.stat_result | None) -> Expectation:
        """What the name of a blob and the manifests say of it."""
        name = os.path.basename(path)
        if match := _BLOB.fullmatch(name):
            return self._blob(path, match.group(2).decode("ascii"), match.group(1) == b":", status)
        if match := _PARTIAL.fullmatch(name) or _PARTIAL.fullmatch(name.rpartition(b"-")[0]):
            return self._partial(match.group(1).decode("ascii"))
        return Expectation(STORE, role="other", remarks=(_FAILED,)) if _ABANDONED.fullmatch(name) else NOTHING

    def _blob(self, path: bytes, digest: str, colon: bool, status: os.stat_result | None) -> Expectation:
        index = self._index()
        uses = index.uses.get(digest, [])
        sizes = {use.size for use in uses if use.size is not None}
        return Expectation(
            store=STORE,
            names=_names(uses),
            references=(Reference("sha256", digest, SOURCE),),
            size=sizes.pop() if len(sizes) == 1 else None,
            role=_role(uses, path, status),
            remarks=self._remarks(digest, colon, orphan=index.complete and not uses),
        )

    def part(self, path: bytes) -> str:
        """One word for what a blob is of the models that name it; empty where they do not say, or differ."""
        match = _BLOB.fullmatch(os.path.basename(path))
        uses = self._index().uses.get(match.group(2).decode("ascii"), []) if match else []
        parts = {use.part for use in uses}
        return parts.pop() if len(parts) == 1 else ""

    def _remarks(self, digest: str, colon: bool, orphan: bool) -> tuple[Remark, ...]:
        if colon:
            return (_OLD_COPY if is_file(self._blob_path(digest)) else _OLD_NAME,)
        return (_ORPHAN,) if orphan else ()

    def _partial(self, digest: str) -> Expectation:
        remarks = (_FINISHED,) if is_file(self._blob_path(digest)) else ()
        return Expectation(STORE, _names(self._index().uses.get(digest, [])), remarks=remarks)

    def _index(self) -> Index:
        """Without a directory of manifests nobody knows what is named."""
        if not is_directory(os.path.join(self.home, b"manifests")):
            return Index({}, complete=False)
        return self.cache.recall(STORE, self.home, lambda watch: read_index(self.home, watch))

    def _blob_path(self, digest: str) -> bytes:
        return os.path.join(self.home, b"blobs", b"sha256-" + digest.encode("ascii"))

    def found_blob(self, digest: str) -> bytes | None:
        """The path of a blob that is there, under the current or the old naming; raises :class:`Unknown`."""
        current = self._blob_path(digest)
        old = os.path.join(self.home, b"blobs", b"sha256:" + digest.encode("ascii"))
        return next((path for path in (current, old) if file_at(path) is not None), None)

    def survey(self, checkpoint: Checkpoint = carry_on) -> Iterator[EntryStatus]:
        """Yield the blobs that are missing, orphaned, unfinished or left over, and the manifests that say nothing."""
        try:
            for manifest in manifests(self.home, checkpoint):
                yield from self._missing(manifest)
            for name, _ in entries_of(os.path.join(self.home, b"blobs", b""), checkpoint):
                yield from self._stray(name)
        except Unknown:
            message = "the directory of the blobs cannot be read: what is missing or left over is not known"
            yield EntryStatus("unreadable", STORE, os.path.join(self.home, b"blobs"), message)

    def _missing(self, manifest: Manifest) -> Iterator[EntryStatus]:
        if manifest.layers is None:
            message = "this manifest cannot be read or understood: which blobs it names is not known"
            yield entry_status("unreadable", STORE, manifest.path, message, status_of(manifest.path), (manifest.name,))
            return
        for layer in _once(manifest.layers):
            if self.found_blob(layer.digest) is None:
                message = "a layer of the model is not here: the model is listed and cannot run; pull it again"
                yield EntryStatus(
                    "missing_target", STORE, self._blob_path(layer.digest), message, (manifest.name,), layer.size
                )

    def _stray(self, name: bytes) -> Iterator[EntryStatus]:
        path = os.path.join(self.home, b"blobs", name)
        if not _is_ours(name) or _PART.fullmatch(name):
            return
        status = status_of(path)
        expectation = self.expectation(path, status)
        if expectation.remarks:
            remark = expectation.remarks[0]
            yield entry_status(remark.code, STORE, path, remark.message, status, expectation.names)
        elif _PARTIAL.fullmatch(name):
            message = f"an unfinished pull, {self.progress_of(path)}; ollama pull resumes it"
            yield entry_status("unfinished", STORE, path, message, status, expectation.names)

    @staticmethod
    def progress_of(partial: bytes) -> str:
        """How much of a pull is done by its part files, in words: the partial itself has its full length at once."""
        done = total = 0
        for number in range(_PARTS):
            part = _part(b"%s-%d" % (partial, number))
            if part is None:
                break
            done, total = done + part.completed, total + part.size
        return f"{done:,} of {total:,} bytes done" if total else "how much of it is done is not known"

    def models(self, checkpoint: Checkpoint = carry_on) -> Iterator[SetFacts]:
        """Yield each model with its layers; raises :class:`Unknown` after them if there may be others."""
        unknown: Unknown | None = None
        for manifest in manifests(self.home, checkpoint):
            if manifest.layers is None:
                unknown = Unknown("a manifest, or a directory of them, cannot be read or understood")
                continue
            try:
                facts = self._set(manifest, list(_once(manifest.layers)))
            except Unknown as error:
                unknown = error
                continue
            yield facts
        if unknown is not None:
            raise unknown

    def _set(self, manifest: Manifest, layers: list[Layer]) -> SetFacts:
        members: list[SetMember] = []
        missing: list[MissingMember] = []
        unfinished: list[bytes] = []
        for layer in layers:
            path, digest = self.found_blob(layer.digest), f"sha256:{layer.digest}"
            status = None if path is None else file_at(path)
            if path is not None and status is not None:
                members.append(SetMember(digest.encode("ascii"), _itself(path), status.st_size))
                continue
            missing.append(MissingMember(digest.encode("ascii"), layer.size, digest))
            partial = self._blob_path(layer.digest) + b"-partial"
            unfinished.extend([os.path.basename(partial)] if is_file(partial) else [])
        return SetFacts(
            kind="ollama_model",
            name=manifest.name,
            directory=self.home,
            members=tuple(members[:LISTED]),
            missing=tuple(missing[:LISTED]),
            declared=SetFigures(members=len(layers), size=sum(layer.size for layer in layers)),
            found=SetFigures(members=len(members), size=sum(member.size or 0 for member in members)),
            source=manifest.path,
            unfinished=tuple(unfinished[:LISTED]),
            in_progress=bool(unfinished),
            missing_count=len(missing),
        )


def _itself(path: bytes) -> bytes:
    """The file behind a link that has a blob's name; where it is one itself, its directory may still be a link."""
    return os.path.realpath(path) if os.path.islink(path) else path


def _is_ours(name: bytes) -> bool:
    return any(pattern.fullmatch(name) for pattern in (_BLOB, _PARTIAL, _PART, _ABANDONED))


def _names(uses: list[Use]) -> tuple[str, ...]:
    """The models' names, sorted, each once."""
    return tuple(sorted({use.model for use in uses})[:NAMES_KEPT])


def _role(uses: list[Use], path: bytes, status: os.stat_result | None) -> Role:
    """By the layers; of a blob that no manifest names, its first bytes tell whether it is one."""
    if uses:
        return "model" if any(use.role == "model" for use in uses) else "other"
    size = 0 if status is None else status.st_size
    return "model" if is_plausible_head(head_of(path, _HEAD_BYTES), size) else "other"


def _once(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    """Each blob once: a manifest may name one twice."""
    seen: set[str] = set()
    for layer in layers:
        if layer.digest not in seen:
            seen.add(layer.digest)
            yield layer


def _part(path: bytes) -> _Part | None:
    """One part file; None if there is none or it does not add up."""
    try:
        part = checked(read_small(path, _PART_BYTES), _Part)
    except Unknown:
        return None
    return part if part is not None and 0 <= part.completed <= part.size < 1 << 63 else None
