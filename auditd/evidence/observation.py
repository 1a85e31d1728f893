"""What an inspection saw: the facts that a record is composed of. Frozen values, and no opinion among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from auditd.accounting.account import Account
from auditd.accounting.zero_runs import Appended, ZeroRuns
from auditd.evidence.expectation import NOTHING, Expectation
from auditd.evidence.history import Earlier
from auditd.evidence.record import ErrorCategory, ErrorCode, FileIdentity, IdentityStatus
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.detection import Kind


@dataclass(frozen=True, slots=True)
class Stop:
    """Why an inspection did not come to its end: the path, the host, or whoever cancelled it."""

    code: ErrorCode
    category: ErrorCategory
    message: str
    errno: int | None = None
    offset: int | None = None
    #: The read never came back, and nobody waits for it any more.
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class Scanned:
    """What full mode saw in the bytes that no tensor owns; ranges are half-open file offsets.

    ``content`` says for each range that was read to its end whether it holds only zeros; ``nonzero_padding``
    are the first padding runs that do not, ``nonzero_count`` how many there are.
    """

    content: dict[tuple[int, int], bool] = field(default_factory=dict)
    nonzero_padding: tuple[tuple[int, int], ...] = ()
    nonzero_count: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True)
class PartDigests:
    """SHA-256 of parts: the tensor data from the data start to the last tensor's end, and (index, digest) of tensors."""

    tensor_data: str | None = None
    tensors: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """One inspection's facts. Sizes and offsets in bytes; None is unknown.

    ``path`` is the artifact's own, ``given`` the one it was asked for by, which may be a link to it. ``foreign`` is
    set when the file is neither format, ``skipped`` when its name says that a download is under way and nothing was
    read. ``promise`` is what its store says of it.
    """

    path: bytes
    scope: Literal["header", "full"]
    given: bytes | None = None
    size: int | None = None
    before: FileIdentity | None = None
    after: FileIdentity | None = None
    identity: IdentityStatus = "unverified"
    header: GgufHeader | SafetensorsHeader | None = None
    header_sha256: str | None = None
    sha256: str | None = None
    bytes_read: int = 0
    bytes_hashed: int = 0
    cache: str = "left"
    duration_seconds: float = 0.0
    account: Account | None = None
    scanned: Scanned | None = None
    foreign: Kind | None = None
    foreign_head: bytes = b""
    #: What a foreign file says of itself beyond its kind: printable, empty if nothing.
    foreign_details: str = ""
    skipped: bool = False
    stop: Stop | None = None
    close_errno: int | None = None
    expectation: Expectation = NOTHING
    #: SHA-256 of the bytes of metadata values that the header keeps only the beginning of, by index, where taken.
    array_sha256: Mapping[int, str] = field(default_factory=dict)
    #: SHA-1 of the content as git names blobs; taken where a reference is one.
    git_sha1: str | None = None
    #: SHA-256 of a second reading, which a digest that was not expected asks for.
    sha256_again: str | None = None
    parts: PartDigests | None = None
    zeros: ZeroRuns | None = None
    appended: Appended | None = None
    earlier: Earlier | None = None
