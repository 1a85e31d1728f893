"""The evidence record, ``model-auditd/evidence/1``: frozen types, and nothing that computes.

Field names and meanings are a contract with programs outside; adding is free, renaming needs a new schema
version. Unknown is null, with a limitation that says why. Integers that come from 64-bit fields of a file
(metadata values, dimensions, element counts) and times are decimal strings; every other integer is at most
2**53 - 1. Text from a file is the exact text where it is UTF-8, else escaped, with its bytes in a
``..._base64`` field.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

SCHEMA: Final = "model-auditd/evidence/1"

Outcome: TypeAlias = Literal["complete", "partial", "refused", "unavailable", "failed", "skipped"]
Verdict: TypeAlias = Literal[
    "sound",
    "notice",
    "undetermined",
    "unknown",
    "foreign",
    "unsupported",
    "residue",
    "truncated",
    "malformed",
    "mismatch",
    "in_progress",
]
Severity: TypeAlias = Literal["info", "notice", "warning", "critical"]
Trigger: TypeAlias = Literal["startup", "change", "rescan", "scrub", "command"]
ErrorCode: TypeAlias = Literal[
    "file_format_rejected",
    "unsupported_version",
    "resource_limit",
    "target_unavailable",
    "execution_failure",
    "cancelled",
]
ErrorCategory: TypeAlias = Literal["content", "bound", "path", "host", "cancelled"]
CoverageStatus: TypeAlias = Literal["complete", "partial", "none", "not_requested"]
IdentityStatus: TypeAlias = Literal["unchanged", "modified", "replaced", "unverified"]
StorageValidation: TypeAlias = Literal["consistent", "unknown", "contradicted"]
RegionKind: TypeAlias = Literal["gap", "trailing", "padding_partial", "missing", "overlap", "padding_nonzero"]
RegionContent: TypeAlias = Literal["zero", "nonzero", "unread"]
LayoutBasis: TypeAlias = Literal["operator", "established", "default", "derived", "strict"]
Figure: TypeAlias = int | str | None
Scalar: TypeAlias = bool | int | float | str


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every part: immutable, named fields only, and nothing undeclared is ever read in."""


class Producer(Record, frozen=True):
    """Who made the record. ``configuration`` is the SHA-256 of the settings that change what is looked at."""

    name: str
    version: str
    host: str
    configuration: str


class Expected(Record, frozen=True):
    """A digest that somebody published for the artifact, and where it says so."""

    algorithm: str
    value: str
    source: str


class Artifact(Record, frozen=True):
    """The file. ``sha256`` is null unless all of it was hashed and its identity held."""

    path: str
    path_base64: str | None
    name: str
    names: list[str]
    store: str | None
    format: Literal["gguf", "safetensors"] | None
    size: int | None
    sha256: str | None
    expected: list[Expected]
    expected_size: int | None


class FileIdentity(Record, frozen=True):
    """What the file system says of a file; times in nanoseconds since the epoch, as decimal strings.

    A device, inode or size past 2**53 - 1 is null: some file systems use all 64 bits. An owner is null where the
    user namespace of the inspecting process has no number for it.
    """

    device: int | None
    inode: int | None
    size: int | None
    mtime_ns: str
    ctime_ns: str
    links: int
    mode: int
    uid: int | None
    gid: int | None


class Identity(Record, frozen=True):
    """The file before and after the reading, and whether it was the same file all along."""

    before: FileIdentity | None
    after: FileIdentity | None
    status: IdentityStatus


class Read(Record, frozen=True):
    """What was read. ``header_length`` ends at the last byte of the header, before any padding.

    ``cache`` says how pages in the page cache were treated. ``left``: a header was to be read, and its pages stay.
    ``uncached``: the kernel kept none but those that were there before. ``dropped``: those that were not there before
    were dropped. ``memory``: the file system is memory. ``filled``: all that was read stays.
    """

    scope: Literal["header", "full"]
    header_length: int | None
    header_sha256: str | None
    bytes_read: int
    bytes_hashed: int
    cache: str
    duration_seconds: float


class Cover(Record, frozen=True):
    """How much of one aspect was looked at, and what stopped the rest."""

    status: CoverageStatus
    reason: str | None = None


class TensorDigest(Record, frozen=True):
    """SHA-256 of one tensor's bytes."""

    index: int
    sha256: str


class Digests(Record, frozen=True):
    """Digests beside the whole file's, each null unless it was asked for and taken.

    ``tensor_data`` covers the data start to the end of the last tensor, so a rewritten header leaves it alone;
    ``git_sha1`` is what git names the content; ``sha256_again`` is that of a second reading, made where the first was
    not what was expected.
    """

    tensor_data: str | None
    tensors: list[TensorDigest] | None
    git_sha1: str | None
    sha256_again: str | None


class Coverage(Record, frozen=True):
    """Which parts of the artifact this inspection really looked at."""

    header: Cover
    metadata: Cover
    tensors: Cover
    storage_sizes: Cover
    ranges: Cover
    padding: Cover
    digest: Cover
    identity: Cover


class ArrayPreview(Record, frozen=True):
    """An array inside an array."""

    element_type: str
    count: int
    preview: list[bool | int | float | str | ArrayPreview]
    preview_complete: bool
    preview_base64: list[str | None] | None = None


class MetadataRow(Record, frozen=True):
    """One GGUF metadata entry; the last five fields are null for a scalar, ``value`` is null for an array."""

    index: int
    key: str
    type: str
    value: Scalar | None
    key_base64: str | None = None
    value_base64: str | None = None
    element_type: str | None = None
    count: int | None = None
    preview: list[bool | int | float | str | ArrayPreview] | None = None
    preview_complete: bool | None = None
    preview_base64: list[str | None] | None = None


class GgufTensorRow(Record, frozen=True):
    """One GGUF tensor; ``byte_length`` is null unless every released layout agrees on it."""

    index: int
    name: str
    type_id: int
    type: str
    shape: list[str]
    elements: str | None
    offset: int | None
    file_offset: int | None
    byte_length: int | None
    storage_validation: StorageValidation
    name_base64: str | None = None


class TypeTotal(Record, frozen=True):
    """What the tensors of one type hold together. ``type_id`` is null for safetensors."""

    type: str
    type_id: int | None
    tensors: int
    elements: str | None
    bytes: int | None


class DeclaredTotals(Record, frozen=True):
    """Totals over what is established: null as soon as one tensor's size needs a choice of layout."""

    tensors: int
    elements: str | None
    bytes: int | None
    by_type: list[TypeTotal]


class Spans(Record, frozen=True):
    """Lengths in bytes of a GGUF header's four pieces."""

    head: int | None
    metadata: int | None
    directory: int | None
    padding: int | None


class ChatTemplate(Record, frozen=True):
    """A chat template's name (``default`` for the unnamed one) and the SHA-256 of its bytes."""

    name: str
    sha256: str


class Gguf(Record, frozen=True):
    """The declarations of a GGUF header. Rows are null in summary detail; the counts stay."""

    version: int | None
    byte_order: Literal["little", "big"] | None
    alignment: int | None
    alignment_declared: bool | None
    metadata_count: int | None
    tensor_count: int | None
    spans: Spans
    metadata: list[MetadataRow] | None
    tensors: list[GgufTensorRow] | None
    totals: DeclaredTotals | None
    headline: dict[str, Scalar]
    chat_templates: list[ChatTemplate]


class SafetensorsTensorRow(Record, frozen=True):
    """One safetensors tensor; rows stand in name order by code point, ``data_offsets`` count from the data."""

    index: int
    name: str
    dtype: str
    shape: list[str]
    elements: str | None
    data_offsets: list[int] | None
    file_offset: int | None
    byte_length: int | None
    storage_validation: StorageValidation


class Safetensors(Record, frozen=True):
    """The declarations of a safetensors header, only ever whole: no row of an unvalidated one."""

    header_length: int | None
    metadata: dict[str, str] | None
    tensors: list[SafetensorsTensorRow] | None
    tensor_count: int | None
    totals: DeclaredTotals | None
    headline: dict[str, Scalar]


class Region(Record, frozen=True):
    """A run of bytes that is not plain; ``after`` and ``before`` are the neighbours' tensor indices."""

    kind: RegionKind
    begin: int
    length: int
    after: int | None
    before: int | None
    content: RegionContent


class Contiguous(Record, frozen=True):
    """Non-empty tensors, in offset order, that start where the one before them ended, padded - or do not."""

    yes: int
    no: int


class SelectedLayout(Record, frozen=True):
    """The layout that the headline figures are computed with, and why that one."""

    name: str | None
    basis: LayoutBasis


class Candidate(Record, frozen=True):
    """The account under one layout; several names where they give every tensor the same size."""

    names: list[str]
    applicable: bool
    reason: str | None
    tensor_bytes: int | None
    alignment_padding: int | None
    surplus: int | None
    missing: int | None
    overlap: int | None
    residue: int | None
    contiguous: Contiguous | None


class Accounting(Record, frozen=True):
    """Who owns each byte: ``residue = surplus - missing - overlap = S - D - T - P``, exactly.

    ``consistent_with`` names every layout under which all bytes come out. It is a derived fact, kept apart
    from the declarations: an extent that fits does not prove what the bytes mean.
    """

    file_size: int | None
    data_offset: int | None
    header_padding: int | None
    tensor_bytes: int | None
    alignment_padding: int | None
    remainder: int | None
    surplus: int | None
    missing: int | None
    overlap: int | None
    residue: int | None
    tensors_cut: int | None
    tensors_gone: int | None
    contiguous: Contiguous | None
    regions: list[Region] | None
    region_count: int | None
    regions_complete: bool | None
    layout: SelectedLayout | None
    candidates: list[Candidate]
    consistent_with: list[str]
    by_type: list[TypeTotal]
    parameters: str | None


class Limitation(Record, frozen=True):
    """Something that this evidence cannot say, and why."""

    code: str
    message: str
    subjects: list[str]
    count: int


class Finding(Record, frozen=True):
    """Something wrong or notable: one for a code and constraint, with a count and the first subject."""

    code: str
    constraint: str | None
    severity: Severity
    message: str
    subject: str | None
    offset: int | None
    expected: Figure
    actual: Figure
    count: int
    advice: str


class Error(Record, frozen=True):
    """Why the inspection did not come to a plain end."""

    code: ErrorCode
    category: ErrorCategory
    constraint: str | None
    subject: str | None
    offset: int | None
    message: str
    errno: int | None


class Evidence(Record, frozen=True):
    """The record of one inspection of one artifact."""

    schema: str
    evidence_id: str
    recorded_at: str
    producer: Producer
    trigger: Trigger
    outcome: Outcome
    verdict: Verdict
    detail: Literal["complete", "summary"]
    artifact: Artifact
    identity: Identity
    read: Read
    coverage: Coverage
    gguf: Gguf | None
    safetensors: Safetensors | None
    accounting: Accounting | None
    limitations: list[Limitation]
    findings: list[Finding]
    error: Error | None = field(default=None)
    digests: Digests | None = field(default=None)
