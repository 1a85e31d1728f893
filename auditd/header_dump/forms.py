"""The form of a dumped header: ``model-auditd/header/1``, one frozen type for each kind of row.

Decoding is strict: a member that is not here, an ill type or a number out of range is refused with its path. Integers
up to 2**53 - 1 are numbers and larger ones decimal strings, so each has one form. Members that are absent stand for
null or for what their comment says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from auditd.evidence.record import Scalar
from auditd.formats.bounds import EXACT_INTEGER, U64
from auditd.formats.declarations import ByteOrder
from auditd.formats.faults import Constraint, FaultKind
from auditd.formats.gguf.wire import VALUE_TYPES

SCHEMA: Final = "model-auditd/header/1"

#: An unsigned 64-bit integer: a number where every JSON reader is exact, else its digits.
Whole: TypeAlias = (
    Annotated[int, Meta(ge=0, le=EXACT_INTEGER)] | Annotated[str, Meta(pattern=r"\A[1-9][0-9]{15,19}\Z", max_length=20)]
)
Count: TypeAlias = Annotated[int, Meta(ge=1, le=EXACT_INTEGER)]
TypeId: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Digest: TypeAlias = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
ValueType: TypeAlias = Annotated[str, Meta(pattern=rf"\A(?:{'|'.join(VALUE_TYPES)})\Z")]


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What all rows have in common."""


class Large(Row, frozen=True):
    """An integer of a fault that is past 2**53 - 1; apart from text that happens to be digits."""

    integer: Annotated[str, Meta(pattern=r"\A-?[1-9][0-9]{15,}\Z", max_length=64)]


Figure: TypeAlias = Annotated[int, Meta(ge=-EXACT_INTEGER, le=EXACT_INTEGER)] | str | Large | None


class ArrayForm(Row, frozen=True):
    """An array inside an array: its first elements, at most eight."""

    element_type: ValueType
    count: Whole
    preview: list[Scalar | ArrayForm]
    preview_base64: list[str | None] | None = None


class MetadataForm(Row, frozen=True):
    """A GGUF metadata entry. ``bytes`` is how long the value is where that does not follow from what is shown.

    ``sha256`` is over these bytes, for values of which only the beginning is shown and the file was there to read.
    """

    key: str
    type: ValueType
    value: Scalar | None = None
    element_type: ValueType | None = None
    count: Whole | None = None
    preview: list[Scalar | ArrayForm] | None = None
    key_base64: str | None = None
    value_base64: str | None = None
    preview_base64: list[str | None] | None = None
    bytes: Whole | None = None
    sha256: Digest | None = None


class GgufTensorForm(Row, frozen=True):
    """A tensor: shape fastest first, type id, offset from the data start in bytes."""

    name: str
    shape: Annotated[list[Whole], Meta(max_length=4)]
    type: TypeId
    offset: Whole
    name_base64: str | None = None


class SafetensorsTensorForm(Row, frozen=True):
    """A tensor: shape fastest last, ``range`` in bytes from the data start, ``at`` the file offset of its name."""

    name: str
    dtype: str
    shape: list[Whole]
    range: tuple[Whole, Whole]
    at: Whole


class TextForm(Row, frozen=True):
    """An entry of the metadata of safetensors."""

    key: str
    value: str


class FaultForm(Row, frozen=True):
    """A broken rule; ``stopped``: the reading ended there. ``count``: how often the rule broke."""

    constraint: Constraint
    kind: FaultKind
    subject: str
    offset: Whole
    message: str
    expected: Figure = None
    actual: Figure = None
    count: Count = 1
    stopped: bool = False


class NoticeForm(Row, frozen=True):
    """Something notable, under the code of its finding."""

    code: str
    subject: str
    message: str
    offset: Whole | None = None
    expected: Figure = None
    actual: Figure = None
    count: Count = 1


class FileForm(Row, frozen=True):
    """The file that the header was in: its name without its directory, its size in bytes."""

    name: str
    size: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    name_base64: str | None = None


class ReferenceForm(Row, frozen=True):
    """A digest that somebody promised."""

    algorithm: Literal["sha256", "git-sha1"]
    value: Annotated[str, Meta(pattern=r"\A(?:[0-9a-f]{64}|[0-9a-f]{40})\Z")]
    source: str


class RemarkForm(Row, frozen=True):
    """Something to say of how the file stood in its store."""

    code: Literal["orphan", "leftover"]
    message: str


class ExpectationForm(Row, frozen=True):
    """What a store said of the file."""

    store: str | None = None
    names: list[str] = []
    references: list[ReferenceForm] = []
    size: Whole | None = None
    role: Literal["model", "other"] = "model"
    remarks: list[RemarkForm] = []


class TemplateForm(Row, frozen=True):
    """A chat template by name, with the SHA-256 of its text."""

    name: str
    sha256: Digest


class GgufForm(Row, frozen=True, tag_field="format", tag="gguf"):
    """The dump of a GGUF header; positions are file offsets in bytes, null where the reading did not come so far."""

    schema: Literal["model-auditd/header/1"]
    file: FileForm
    version: Literal[2, 3] | None
    byte_order: ByteOrder | None
    metadata_count: Whole | None
    tensor_count: Whole | None
    alignment: TypeId | None
    alignment_declared: bool | None
    metadata_end: Whole | None
    directory_end: Whole | None
    data_offset: Whole | None
    header_sha256: Digest | None
    expectation: ExpectationForm | None = msgspec.field(name="promise")
    chat_templates: list[TemplateForm]
    faults: list[FaultForm]
    notices: list[NoticeForm]
    metadata: list[MetadataForm]
    tensors: list[GgufTensorForm]


class SafetensorsForm(Row, frozen=True, tag_field="format", tag="safetensors"):
    """The dump of a safetensors header; ``header_length`` counts the 8 bytes in front of the JSON."""

    schema: Literal["model-auditd/header/1"]
    file: FileForm
    header_length: Whole | None
    tensor_count: Whole | None
    header_sha256: Digest | None
    expectation: ExpectationForm | None = msgspec.field(name="promise")
    faults: list[FaultForm]
    notices: list[NoticeForm]
    metadata: list[TextForm] | None
    tensors: list[SafetensorsTensorForm]


class ForeignForm(Row, frozen=True, tag_field="format", tag="foreign"):
    """The dump of a file that is neither: its kind, its first bytes, at most sixteen, what it says of itself."""

    schema: Literal["model-auditd/header/1"]
    file: FileForm
    kind: str
    head_base64: str
    expectation: ExpectationForm | None = msgspec.field(name="promise")
    details: str = ""


Form: TypeAlias = GgufForm | SafetensorsForm | ForeignForm


def whole_form(value: int) -> int | str:
    """An unsigned integer in the form of :data:`Whole`."""
    return value if value <= EXACT_INTEGER else str(value)


def maybe_whole_form(value: int | None) -> int | str | None:
    """The same, where the integer may be unknown."""
    return None if value is None else whole_form(value)


def whole(form: int | str, path: str) -> int:
    """The integer of :data:`Whole`; raises :class:`Contradiction` if it has another form or is no 64-bit one."""
    if isinstance(form, int):
        return form
    value = int(form)
    if not EXACT_INTEGER < value < U64:
        raise Contradiction(path, f"{form} is written as text and is no integer from 2**53 to 2**64 - 1")
    return value


def wholes(forms: Sequence[int | str], path: str) -> tuple[int, ...]:
    """A row of integers; paths of each are made only where one is not written as a number."""
    if all(type(form) is int for form in forms):
        return tuple(forms)  # type: ignore[arg-type]  # as was just asked
    return tuple(whole(form, f"{path}[{place}]") for place, form in enumerate(forms))


def maybe_whole(form: int | str | None, path: str) -> int | None:
    """The same, where the integer may be unknown."""
    return None if form is None else whole(form, path)


class Contradiction(Exception):
    """Two members of a dump that cannot both be; ``path`` is where the second one stands."""

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


def agree(path: str, stated: object, follows: object) -> None:
    """Refuse a figure that is not what follows from the rest."""
    if stated != follows:
        raise Contradiction(path, f"it says {_word(stated)}, and {_word(follows)} follows from the rest")


def _word(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
