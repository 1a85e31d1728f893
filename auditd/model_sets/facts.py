"""What is known of a set: files that make one model together. Frozen values, and no opinion among them.

A set is found by the names in a directory (splits, an index) or by a store (a manifest, a snapshot). Whoever finds it
fills in a :class:`SetFacts`; ``auditd.model_sets.evaluate`` says what is wrong with it, ``compose`` makes the record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from auditd.evidence.record import Verdict

SetKind: TypeAlias = Literal["gguf_split", "safetensors_index", "ollama_model", "hf_snapshot"]

#: Names of a kind (missing, stray, stale, tensors) that facts and records list; the counts are exact.
LISTED: Final = 1000


@dataclass(frozen=True, slots=True)
class SetMember:
    """A file of the set.

    ``name`` is what the set calls it, ``path`` the regular file itself after links, ``size`` in bytes. Not ``present``:
    the name is there and the content is not (a link to nowhere, a page saved in its place); it is then among the
    missing, too. ``number`` counts from 1 where members are numbered. ``verdict``, ``evidence_id`` and ``tensors`` are
    those of its own record, None while there is none.
    """

    name: bytes
    path: bytes
    size: int | None = None
    present: bool = True
    number: int | None = None
    tensors: int | None = None
    verdict: Verdict | None = None
    evidence_id: str | None = None


@dataclass(frozen=True, slots=True)
class MissingMember:
    """What the set names and does not have; ``size`` and ``digest`` (``sha256:`` and hex) where somebody says them.

    ``dangling``: its name is a link that leads to nothing.
    """

    name: bytes
    size: int | None = None
    digest: str | None = None
    dangling: bool = False


@dataclass(frozen=True, slots=True)
class SetFigures:
    """Counts and bytes of a set; None where nobody says, or where a member's part is not known.

    ``size`` is what the set's own total counts: bytes of tensors for an index, bytes of files for a manifest.
    """

    members: int | None = None
    tensors: int | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class SetRemark:
    """A finding that the facts below do not tell by themselves: a code of ``findings.SET_FINDINGS`` and the words."""

    code: str
    message: str
    subject: str | None = None
    expected: int | str | None = None
    actual: int | str | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class SetLimit:
    """Something that cannot be said of the set, and why; ``subjects`` are members' names."""

    code: str
    message: str
    subjects: tuple[bytes, ...] = ()
    count: int = 1


@dataclass(frozen=True, slots=True)
class SetFacts:
    """One set. Names are bytes as the file system has them; of each kind the first ``LISTED`` are kept.

    ``name`` is what people call it, ``directory`` where it stands, ``source`` the path of the index or manifest that
    says what belongs to it. ``stray`` are files beside it that nothing names, ``stale`` the files, keys or indexes that
    speak of an earlier state; ``missing_tensors`` are in no member though the set names them. The counts count all of
    a kind, also where a list was cut; 0 stands for the length of the list. ``unfinished`` are downloads under way for
    members that are not there, ``in_progress`` that the set is still being filled.
    """

    kind: SetKind
    name: str
    directory: bytes
    members: tuple[SetMember, ...] = ()
    missing: tuple[MissingMember, ...] = ()
    stray: tuple[bytes, ...] = ()
    stale: tuple[bytes, ...] = ()
    declared: SetFigures = SetFigures()
    found: SetFigures = SetFigures()
    in_progress: bool = False
    source: bytes | None = None
    unfinished: tuple[bytes, ...] = ()
    missing_tensors: tuple[bytes, ...] = ()
    missing_count: int = 0
    stray_count: int = 0
    missing_tensor_count: int = 0
    remarks: tuple[SetRemark, ...] = ()
    limits: tuple[SetLimit, ...] = ()

    @property
    def all_missing(self) -> int:
        """How many members are missing."""
        return self.missing_count or len(self.missing)

    @property
    def all_stray(self) -> int:
        """How many files are stray."""
        return self.stray_count or len(self.stray)

    @property
    def all_missing_tensors(self) -> int:
        """How many tensors are missing, those of missing members apart."""
        return self.missing_tensor_count or len(self.missing_tensors)
