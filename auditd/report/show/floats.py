"""``show floats``: the numbers of one plain tensor, and what the same bytes look like from the wrong place."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from auditd.errors import UsageError
from auditd.evidence.exactness import exact_int, is_exact
from auditd.evidence.observation import Observation, Stop
from auditd.evidence.record import IdentityStatus
from auditd.evidence.statistics import PLAIN_TYPES, PLAUSIBLE, Number, Numbers, refusal
from auditd.evidence.text import exact as exact_text
from auditd.evidence.text import printable, quoted
from auditd.formats.declarations import ByteOrder, GgufHeader
from auditd.model.tensors import TensorFact, tensor_facts
from auditd.report.columns import defused, wrap
from auditd.report.figures import UNKNOWN, exact
from auditd.report.show.layout import File, facts, file_of, sentence, title, within_columns
from auditd.report.show.outcome import Ending, ending, ending_lines
from auditd.report.style import Style

#: Taken where nobody names a tensor, the first of these that is there: the final norm is plain in most models.
_FINAL_NORMS: Final = (
    b"output_norm.weight",
    b"model.norm.weight",
    b"model.language_model.norm.weight",
    b"language_model.model.norm.weight",
    b"transformer.ln_f.weight",
    b"ln_f.weight",
    b"gpt_neox.final_layer_norm.weight",
    b"model.final_layernorm.weight",
    b"model.decoder.final_layer_norm.weight",
    b"decoder.final_layer_norm.weight",
    b"transformer.encoder.final_layernorm.weight",
    b"transformer.norm_f.weight",
    b"backbone.norm_f.weight",
    b"norm.weight",
)
_NAME_CHARACTERS: Final = 200
_SHAPE_CHARACTERS: Final = 120

#: Digits that tell any two doubles apart.
_DIGITS: Final = 17

MISTAKE: Final = (
    "This is the mistake, not the tensor: the offset was measured from where the header stops, and the padding up to "
    "the alignment was ignored. No number below is one that the tensor holds, however plausible it looks."
)
_NO_PADDING: Final = (
    "There is no padding in front of the data of this file, so the mistake reads the right bytes here; in the next "
    "file it will not."
)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What was read: offsets in the file in bytes, null past 2**53 - 1.

    A number is a JSON number, or a text where JSON has none or a reader would round it: decimal digits of an integer
    past 2**53 - 1, ``NaN``, ``+Infinity``, ``-Infinity``, ``-0``. ``smallest``, ``largest`` and ``mean`` are over finite
    numbers; ``smaller_than_100`` counts them by magnitude.
    """

    read_from: int | None
    numbers: int | str
    read: int
    first: list[int | float | str]
    smallest: int | float | str | None
    largest: int | float | str | None
    mean: int | float | str | None
    not_finite: int
    smaller_than_100: int
    stopped_at: int | None
    stopped_because: str | None
    identity: IdentityStatus


class FloatsSheet(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor's numbers.

    ``padded`` says that the format aligns its data (GGUF). ``aligned`` is false if the padding was ignored on purpose, and ``warning`` then says that these are not the
    tensor's numbers. ``base`` is the file offset that ``offset`` is counted from. ``reading`` is null where nothing was
    read, and ``refused`` says why.
    """

    schema: str = "model-auditd/show-floats/1"
    file: File
    name: str
    name_base64: str | None
    index: int
    type: str
    shape: list[str]
    byte_order: ByteOrder
    padded: bool
    aligned: bool
    warning: str | None
    base: int | None
    offset: int | None
    reading: Reading | None
    refused: str | None
    ending: Ending | None


def chosen(observation: Observation, name: bytes | None = None) -> TensorFact:
    """The tensor called ``name``; without one the final norm, else the first tensor whose numbers can be shown.

    Raises ``UsageError`` if there is none.
    """
    tensors = tensor_facts(observation.header, observation.account)
    if name is not None:
        named = next((tensor for tensor in tensors if tensor.name == name), None)
        if named is None:
            raise UsageError(
                f"show floats: there is no tensor {quoted(name, _NAME_CHARACTERS)}{_incomplete(observation)}"
            )
        return named
    usable = _usual(tensors)
    if usable is None:
        raise UsageError(f"show floats: no tensor of plain numbers{_incomplete(observation)}")
    return usable


def _usual(tensors: Iterable[TensorFact]) -> TensorFact | None:
    """The final norm, else the first tensor with numbers that can be shown."""
    first: TensorFact | None = None
    norms: dict[bytes, TensorFact] = {}
    for tensor in tensors:
        if refused(tensor) is not None:
            continue
        if first is None and tensor.elements:
            first = tensor
        if tensor.name in _FINAL_NORMS:
            norms.setdefault(tensor.name, tensor)
    return next((norms[name] for name in _FINAL_NORMS if name in norms), first)


def _incomplete(observation: Observation) -> str:
    if observation.header is None or observation.header.rows_complete:
        return ""
    return f" among the first {len(observation.header.tensors):,}, which are all that are kept"


def refused(tensor: TensorFact) -> str | None:
    """Why the numbers of ``tensor`` cannot be read, in plain words; None if they can."""
    reason = refusal(tensor.type)
    if reason is None and tensor.byte_length is None:
        reason = "the size of the tensor is not known"
    if reason is None and tensor.file_offset is None:
        reason = "nobody can say where the tensor data starts, so the tensor has no place in the file"
    return reason


def sheet(
    observation: Observation, tensor: TensorFact, numbers: Numbers | None, *, ignore_alignment: bool = False
) -> FloatsSheet:
    """The figures; ``numbers`` is what was read of ``tensor``, None where :func:`refused` says why not."""
    name, name_base64 = exact_text(tensor.name)
    header = observation.header
    order = header.byte_order if isinstance(header, GgufHeader) else None
    ends = None if header is None else header.header_end
    start = None if header is None else header.data_offset
    return FloatsSheet(
        file=file_of(observation),
        name=name,
        name_base64=name_base64,
        index=tensor.index,
        type=tensor.type,
        shape=[str(dimension) for dimension in tensor.shape],
        byte_order=order or "little",
        padded=isinstance(header, GgufHeader),
        aligned=not ignore_alignment,
        warning=None if not ignore_alignment else _NO_PADDING if ends == start else MISTAKE,
        base=exact_int(ends if ignore_alignment else start),
        offset=exact_int(tensor.offset),
        reading=None if numbers is None else _reading(numbers),
        refused=refused(tensor) if numbers is None else None,
        ending=ending(observation),
    )


def _reading(numbers: Numbers) -> Reading:
    stop = numbers.stop
    return Reading(
        read_from=exact_int(numbers.begin),
        numbers=numbers.declared if is_exact(numbers.declared) else str(numbers.declared),
        read=numbers.count,
        first=[_json(number) for number in numbers.first],
        smallest=None if numbers.smallest is None else _json(numbers.smallest),
        largest=None if numbers.largest is None else _json(numbers.largest),
        mean=None if numbers.mean is None else _json(numbers.mean),
        not_finite=numbers.not_finite,
        smaller_than_100=numbers.plausible,
        stopped_at=None if stop is None else exact_int(numbers.ended_at),
        stopped_because=None if stop is None else _reason(stop),
        identity=numbers.identity,
    )


def _reason(stop: Stop) -> str:
    return printable(stop.message)


def _json(number: Number) -> int | float | str:
    """The number as a record would have it."""
    if isinstance(number, int):
        return number if is_exact(number) else str(number)
    if number != number:  # noqa: PLR0124 - only what is not a number is unequal to itself
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "+Infinity" if number > 0 else "-Infinity"
    return "-0" if number == 0 and str(number) == "-0.0" else number


# -- lines ------------------------------------------------------------------------------------------


@within_columns
def lines(sheet: FloatsSheet, columns: int, style: Style) -> Iterator[str]:
    """The sheet for a terminal."""
    yield title("numbers of", sheet.file, columns, style)
    if sheet.warning:
        yield ""
        yield from (style(line, "critical") for line in wrap(sheet.warning, columns))
    yield ""
    yield from facts(list(_place(sheet)), columns)
    if sheet.refused:
        yield ""
        yield from (style(line, "warning") for line in sentence(defused(sheet.refused), columns))
    if sheet.reading is not None:
        yield from _shown(sheet, sheet.reading, columns, style)
    yield from ending_lines(sheet.ending, columns, style)


def _place(sheet: FloatsSheet) -> Iterator[tuple[str, str]]:
    name = base64.b64decode(sheet.name_base64) if sheet.name_base64 else sheet.name
    shape = " x ".join(sheet.shape[:_SHAPE_CHARACTERS]) or "scalar"
    yield "tensor", printable(name, _NAME_CHARACTERS)
    yield "shape", f"{printable(shape, _SHAPE_CHARACTERS)}, read as {printable(sheet.type, _NAME_CHARACTERS)}"
    where = "tensor data at" if sheet.aligned else "header ends at"
    # Nothing is aligned in a safetensors file, and the sheet has its data start all the same.
    aligned = ", the alignment applied" if sheet.padded else ""
    yield where, exact(sheet.base) + (aligned if sheet.aligned else ", the alignment IGNORED")
    yield "tensor offset", exact(sheet.offset)
    if sheet.reading is not None:
        yield "read from", exact(sheet.reading.read_from)


def _shown(sheet: FloatsSheet, reading: Reading, columns: int, style: Style) -> Iterator[str]:
    count = exact(reading.read)
    rows = [
        ("numbers", count if reading.read == reading.numbers else f"{count} read, of {_text(reading.numbers)}"),
        ("the first", "  ".join(_short(number, sheet.type) for number in reading.first) or "none"),
        ("smallest", _text(reading.smallest)),
        ("largest", _text(reading.largest)),
        ("mean", _text(reading.mean)),
        ("not a number, or infinite", exact(reading.not_finite)),
        (f"smaller than {PLAUSIBLE}", f"{exact(reading.smaller_than_100)} of {count}, whatever the sign"),
    ]
    yield ""
    yield from facts(rows, columns)
    if reading.stopped_because is not None:
        yield ""
        words = f"stopped at byte {exact(reading.stopped_at)}: {defused(reading.stopped_because)}"
        yield from (style(line, "truncated") for line in sentence(words, columns))
    changed = _CHANGED.get(reading.identity)
    if changed:
        yield ""
        yield from (style(line, "warning") for line in sentence(changed, columns))


_CHANGED: Final[dict[IdentityStatus, str]] = {
    "modified": "The file changed between the reading of its header and the end of this; the numbers may be of two files.",
    "replaced": "Another file took the place of the one whose header was read; the numbers may not be this tensor's.",
    "unverified": "Whether the file held still meanwhile was not established.",
}


def _text(number: float | str | None) -> str:
    """A number to its last digit."""
    if number is None:
        return UNKNOWN
    if isinstance(number, int):
        return exact(number)
    is_integer = isinstance(number, str) and number.removeprefix("-").isdecimal() and number != "-0"
    return exact(int(number)) if is_integer else str(number).removesuffix(".0")


def _short(number: float | str, type_name: str) -> str:
    """The shortest digits that are this number in its own type: 3.7, and not 3.7000000476837158, for 32 bits."""
    plain = PLAIN_TYPES.get(type_name)
    if not isinstance(number, float) or plain is None:
        return _text(number)
    code = "e" if plain.meaning == "float" and plain.size == _HALF_BYTES else "f" if plain.size <= _FLOAT_BYTES else "d"
    for digits in range(1, _DIGITS + 1):
        text = f"{number:.{digits}g}"
        try:
            if struct.unpack(code, struct.pack(code, float(text)))[0] == number:
                return text
        except OverflowError:  # rounded up past the largest of the type
            continue
    return repr(number)


_HALF_BYTES: Final = 2
_FLOAT_BYTES: Final = 4
