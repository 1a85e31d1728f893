"""What a store, a sidecar or a person says that an artifact should be: names, digests, a size. Frozen, and no opinion."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

#: SHA-256 of the content, or SHA-1 of ``blob <size>\\0`` and the content, as git names its blobs.
Algorithm: TypeAlias = Literal["sha256", "git-sha1"]

#: ``model``: held to be a model. ``other``: a part of a store that is no model (a licence, a template), which is
#: checked by digest alone.
Role: TypeAlias = Literal["model", "other"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A digest that somebody promised: lower-case hex, and who says so (``blob name``, the path of a sidecar)."""

    algorithm: Algorithm
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to say of how an artifact stands in its store: a finding code and the words for a person.

    ``advice`` takes the place of the code's own.
    """

    code: Literal["orphan", "leftover"]
    message: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is known of an artifact beside its bytes.

    ``names`` are those that people use for it, the store's own first, without its path. ``size`` is in bytes and
    None where nobody says it. ``downloaded_ns`` is the mtime that a download record holds for the file, in
    nanoseconds since the epoch.
    """

    store: str | None = None
    names: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    size: int | None = None
    role: Role = "model"
    downloaded_ns: int | None = None
    remarks: tuple[Remark, ...] = ()


#: Hex digits of a key: enough for two of one artifact never to be mistaken for each other.
_KEY_DIGITS: Final = 16

#: Nobody says anything.
NOTHING: Final = Expectation()


def references_key(expectation: Expectation) -> str | None:
    """One short text for the digests that are promised; None if none is. The same digests give the same text."""
    kept = sorted({f"{reference.algorithm} {reference.value}" for reference in expectation.references})
    return _key(kept) if kept else None


def standing_key(expectation: Expectation) -> str:
    """One short text for all else that is said of the artifact, which changes as names come and go."""
    # A look through a tree asks for every file of it, and of most nothing is said.
    return _SILENCE if expectation is NOTHING else _standing_key(expectation)


def _standing_key(expectation: Expectation) -> str:
    remarks = [f"{remark.code} {remark.message}" for remark in expectation.remarks]
    return _key([expectation.store or "", str(expectation.size), expectation.role, *expectation.names, *remarks])


def _key(texts: list[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()[:_KEY_DIGITS]


_SILENCE: Final = _standing_key(NOTHING)
