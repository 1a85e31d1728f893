"""A comparison, ``model-auditd/difference/1``: frozen types, and nothing that computes.

``a`` and ``b`` are the two sides in the order in which they were given. Lists hold the first few of their kind, the
counts beside them are exact. Sizes and offsets are in bytes, offsets from the begin of the file unless said
otherwise. Unknown is null. Texts follow the rules of evidence: exact where they are UTF-8, else escaped with their
bytes in a ``..._base64`` field.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from auditd.evidence.record import Outcome, Scalar, Severity, Verdict

SCHEMA: Final = "model-auditd/difference/1"

Source: TypeAlias = Literal["file", "dump", "record"]
Compared: TypeAlias = Literal["same", "differs", "unknown"]
Extent: TypeAlias = Literal["complete", "partial", "none"]
Trait: TypeAlias = Literal["added", "removed", "reshaped", "requantized", "rewritten", "moved"]
ConclusionCode: TypeAlias = Literal[
    "identical",
    "same_header",
    "same_declarations",
    "undecided",
    "other_format",
    "other_model",
    "other_tensors",
    "requantized",
    "moved",
    "other_metadata",
    "reordered",
    "other_header",
    "other_size",
    "other_weights",
]


class Part(Struct, frozen=True, kw_only=True):
    """Base of every part: immutable, named fields only."""


class Conclusion(Part, frozen=True):
    """What the comparison comes to, in a word and in a sentence."""

    code: ConclusionCode
    message: str


class Side(Part, frozen=True):
    """One of the two: where it comes from and what its record says of it. ``evidence_id`` only of a kept record."""

    source: Source
    path: str
    path_base64: str | None
    evidence_id: str | None
    format: Literal["gguf", "safetensors"] | None
    outcome: Outcome
    verdict: Verdict
    size: int | None
    sha256: str | None
    header_sha256: str | None
    residue: int | None


class FieldChange(Part, frozen=True):
    """A field of the header, or a place that follows from it, with another value."""

    name: str
    a: int | str | None
    b: int | str | None


class FileDifference(Part, frozen=True):
    """The files as wholes. ``size_change`` is how many bytes B has more (negative: fewer).

    ``tensor_data`` compares the bytes from the data start to the end of the last tensor, where both have a digest.
    """

    format: Compared
    size: Compared
    size_change: int | None
    header_sha256: Compared
    sha256: Compared
    tensor_data: Compared
    fields: list[FieldChange]


class Value(Part, frozen=True):
    """A metadata value. ``complete`` says that nothing of it is left out here; ``characters`` is a text's full length.

    Of an array the first elements: null where an element is an array itself.
    """

    type: str
    value: Scalar | None
    complete: bool
    value_base64: str | None = None
    characters: int | None = None
    element_type: str | None = None
    count: int | None = None
    preview: list[Scalar | None] | None = None


class TextChange(Part, frozen=True):
    """The first line in which two texts differ, counted from 1, and the column. Null: there is no such line.

    ``a`` and ``b`` begin at ``excerpt_column`` of the line and may be cut at their ends.
    """

    line: int
    column: int
    excerpt_column: int
    a: str | None
    b: str | None


class Entry(Part, frozen=True):
    """A metadata entry that only one side has."""

    key: str
    key_base64: str | None
    value: Value


class ElementChange(Part, frozen=True):
    """The first element of a long array that differs; ``path`` is its index, in each array that it stands in.

    Texts are cut. ``differing`` is how many elements differ, null where arrays inside the array have other lengths.
    """

    path: list[int]
    a: Scalar | None
    b: Scalar | None
    differing: int | None


class EntryChange(Part, frozen=True):
    """A metadata entry with another value. ``array_differs``: what differs lies past the first elements.

    ``element`` is the first of these, where both sides are files that could be asked.
    """

    key: str
    key_base64: str | None
    a: Value
    b: Value
    text: TextChange | None
    array_differs: bool = False
    element: ElementChange | None = None


class Name(Part, frozen=True):
    """A key."""

    key: str
    key_base64: str | None


class TemplateChange(Part, frozen=True):
    """A chat template that is new, gone or another one; ``text`` where both texts are known."""

    name: str
    change: Literal["added", "removed", "changed"]
    a_sha256: str | None
    b_sha256: str | None
    text: TextChange | None


class MetadataDifference(Part, frozen=True):
    """Metadata entries by key. ``not_compared`` are entries of which it cannot be said whether they are the same.

    ``extent`` says how much of both sides was there to be compared. ``order_changed`` speaks of the keys that both
    have, and is null for safetensors, whose members have no order that matters.
    """

    extent: Extent
    reason: str | None
    unchanged: int
    added_count: int
    removed_count: int
    changed_count: int
    not_compared_count: int
    order_changed: bool | None
    added: list[Entry]
    removed: list[Entry]
    changed: list[EntryChange]
    not_compared: list[Name]
    templates_changed: int
    templates: list[TemplateChange]


class Place(Part, frozen=True):
    """What one side says of a tensor; ``offset`` counts from the data start."""

    type: str
    shape: list[str]
    offset: int | None
    byte_length: int | None


class TensorChange(Part, frozen=True):
    """One tensor that differs: how, and what each side says of it."""

    name: str
    name_base64: str | None
    traits: list[Trait]
    a: Place | None
    b: Place | None


class TensorGroup(Part, frozen=True):
    """Tensors whose names differ only in their block's number and that changed alike.

    ``a`` and ``b`` are types (requantized), shapes (reshaped) or both. ``blocks`` are closed ranges of block numbers,
    empty where the names have none. Bytes are those of these tensors together.
    """

    trait: Trait
    pattern: str
    pattern_base64: str | None
    a: str | None
    b: str | None
    count: int
    blocks: list[tuple[int, int]]
    a_bytes: int | None
    b_bytes: int | None


class TypeChange(Part, frozen=True):
    """The tensors of one type on each side, and their bytes."""

    type: str
    a_tensors: int
    b_tensors: int
    a_bytes: int | None
    b_bytes: int | None


class TensorDifference(Part, frozen=True):
    """Tensors by name. One tensor may count as reshaped, requantized and moved, each for itself.

    ``rewritten`` have other bytes under the same shape and type: ``digested`` tensors have a digest on both sides.

    ``moved`` compares offsets from the data start; ``shift`` is the one distance if all moved by the same. ``first``
    has the first of each trait. ``by_type`` is empty unless every tensor of both has a row.
    """

    extent: Extent
    reason: str | None
    a_count: int | None
    b_count: int | None
    unchanged: int
    added: int
    removed: int
    reshaped: int
    requantized: int
    rewritten: int
    digested: int
    moved: int
    not_compared: int
    shift: int | None
    order_changed: bool | None
    group_count: int
    groups: list[TensorGroup]
    first: list[TensorChange]
    by_type: list[TypeChange]


class ClassChange(Part, frozen=True):
    """Bytes that are one thing in A and another in B: how many, in how many runs, and where the first begins."""

    a: str
    b: str
    bytes: int
    runs: int
    first_offset: int


class ClassTotal(Part, frozen=True):
    """Bytes of one class that lie past the end of the shorter file."""

    kind: str
    bytes: int
    runs: int
    first_offset: int


class ByteDifference(Part, frozen=True):
    """What each byte is for, position by position: not whether its value is the same."""

    same_class: int
    changed: list[ClassChange]
    only_a: list[ClassTotal]
    only_b: list[ClassTotal]


class FindingNote(Part, frozen=True):
    """A finding that only one side has."""

    code: str
    constraint: str | None
    severity: Severity
    message: str
    count: int


class Difference(Part, frozen=True):
    """The comparison of two records. ``same`` is null if nothing differs and not all could be compared.

    ``same`` true speaks of declarations and sizes; of the weights only if ``file.sha256`` is ``same``.
    ``bytes`` is null, with the reason, where a side's bytes cannot all be told.
    """

    schema: str
    conclusion: Conclusion
    same: bool | None
    a: Side
    b: Side
    file: FileDifference
    metadata: MetadataDifference
    tensors: TensorDifference
    bytes: ByteDifference | None
    bytes_reason: str | None
    findings_only_a: list[FindingNote]
    findings_only_b: list[FindingNote]
