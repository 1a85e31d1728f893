"""Metadata entries as rows of a dump, and back: every value exact, whatever JSON makes of numbers and text."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from auditd.evidence.record import Scalar
from auditd.evidence.rows import scalar_form
from auditd.evidence.text import exact
from auditd.formats.bounds import PREVIEW_ELEMENTS
from auditd.formats.declarations import ArrayValue, MetadataEntry, MetadataValue
from auditd.formats.gguf import wire
from auditd.formats.gguf.elements import CODES, extent_of, is_whole
from auditd.header_dump.forms import ArrayForm, Contradiction, MetadataForm, whole, whole_form

_FLOATS: Final = frozenset({wire.VALUE_TYPES.index("f32"), wire.VALUE_TYPES.index("f64")})
_NAMED_FLOATS: Final = {"NaN": math.nan, "+Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}

#: Integers of at most twenty digits and a sign are worth reading.
_MOST_DIGITS: Final = 21


# -- to a row ---------------------------------------------------------------------------------------


def metadata_form(entry: MetadataEntry, sha256: str | None) -> MetadataForm:
    """The row of an entry; ``sha256`` is that of its value's bytes, and kept where the row does not show all."""
    key, key_base64 = exact(entry.key)
    type_name = wire.VALUE_TYPES[entry.type_id]
    if not isinstance(entry.value, ArrayValue):
        value, value_base64 = scalar_form(entry.value, entry.type_id)
        return MetadataForm(key=key, type=type_name, value=value, key_base64=key_base64, value_base64=value_base64)
    shown = _array_form(entry.value)
    follows = extent_of(entry.type_id, entry.value).known
    return MetadataForm(
        key=key,
        type=type_name,
        element_type=shown.element_type,
        count=shown.count,
        preview=shown.preview,
        key_base64=key_base64,
        preview_base64=shown.preview_base64,
        bytes=None if follows else whole_form(entry.end - entry.value_begin),
        sha256=None if is_whole(entry.value) else sha256,
    )


def _array_form(array: ArrayValue) -> ArrayForm:
    shown: list[Scalar | ArrayForm] = []
    raw: list[str | None] = []
    for element in array.preview:
        if isinstance(element, ArrayValue):
            shown.append(_array_form(element))
            raw.append(None)
        else:
            value, value_base64 = scalar_form(element, array.element_type)
            shown.append(value)
            raw.append(value_base64)
    return ArrayForm(
        element_type=wire.VALUE_TYPES[array.element_type],
        count=whole_form(array.count),
        preview=shown,
        preview_base64=raw if any(raw) else None,
    )


# -- from a row -------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """An entry and the digest that its row carries."""

    entry: MetadataEntry
    sha256: str | None


def metadata_entry(form: MetadataForm, index: int, begin: int, path: str) -> Placed:
    """The entry whose key's length stands at file offset ``begin``; raises :class:`Contradiction`."""
    key = text_bytes(form.key, form.key_base64, f"{path}.key")
    type_id = wire.VALUE_TYPES.index(form.type)
    value = _value(form, type_id, path)
    value_begin = begin + wire.LEAST_STRING + len(key) + 4
    end = value_begin + _length(form, type_id, value, path)
    if form.sha256 is not None and is_whole(value):
        raise Contradiction(f"{path}.sha256", "a value that is shown whole has no digest")
    return Placed(MetadataEntry(index, key, type_id, value, begin, value_begin, end), form.sha256)


def _value(form: MetadataForm, type_id: int, path: str) -> MetadataValue:
    array = (form.element_type, form.count, form.preview)
    if type_id != wire.ARRAY:
        if form.value is None or array != (None, None, None) or form.preview_base64 is not None:
            raise Contradiction(path, f"a {form.type} has a value and nothing of an array")
        return _scalar(form.value, form.value_base64, type_id, f"{path}.value")
    if form.value is not None or form.value_base64 is not None or None in array:
        raise Contradiction(path, "an array has element_type, count and preview, and no value")
    assert form.element_type is not None  # noqa: S101 - the condition above
    assert form.count is not None  # noqa: S101
    assert form.preview is not None  # noqa: S101
    shown = ArrayForm(form.element_type, form.count, form.preview, form.preview_base64)
    return _array(shown, path)


def _length(form: MetadataForm, type_id: int, value: MetadataValue, path: str) -> int:
    extent = extent_of(type_id, value)
    if extent.known:
        if form.bytes is not None:
            raise Contradiction(f"{path}.bytes", "the length of this value follows from what is shown")
        return extent.least
    if form.bytes is None:
        raise Contradiction(f"{path}.bytes", "the length of this value does not follow from what is shown")
    length = whole(form.bytes, f"{path}.bytes")
    if length < extent.least:
        raise Contradiction(f"{path}.bytes", f"{length} bytes, and the value takes {extent.least} at least")
    return length


def _array(form: ArrayForm, path: str) -> ArrayValue:
    """Bounded by the nesting that the JSON may have."""
    count = whole(form.count, f"{path}.count")
    shown = min(count, PREVIEW_ELEMENTS)
    if len(form.preview) != shown:
        raise Contradiction(f"{path}.preview", f"{len(form.preview)} elements, and {shown} of {count} are shown")
    raw = form.preview_base64 if form.preview_base64 is not None else [None] * shown
    if len(raw) != shown or (form.preview_base64 is not None and not any(raw)):
        raise Contradiction(f"{path}.preview_base64", "it has one item an element, and one that is not null")
    element_type = wire.VALUE_TYPES.index(form.element_type)
    return ArrayValue(element_type, count, tuple(_elements(form.preview, raw, element_type, f"{path}.preview")))


def _elements(
    preview: Sequence[Scalar | ArrayForm], raw: Sequence[str | None], element_type: int, path: str
) -> list[MetadataValue]:
    elements: list[MetadataValue] = []
    for index, (shown, base) in enumerate(zip(preview, raw, strict=True)):
        at = f"{path}[{index}]"
        if isinstance(shown, ArrayForm) != (element_type == wire.ARRAY):
            raise Contradiction(at, f"not an element of type {wire.VALUE_TYPES[element_type]}")
        if isinstance(shown, ArrayForm):
            if base is not None:
                raise Contradiction(at, "an array has no bytes beside it")
            elements.append(_array(shown, at))
        else:
            elements.append(_scalar(shown, base, element_type, at))
    return elements


def text_bytes(text: str, raw_base64: str | None, path: str) -> bytes:
    """The bytes of a text; with base64 beside it, the text must be the escaped form of just these bytes."""
    if raw_base64 is None:
        return text.encode("utf-8")
    try:
        raw = base64.b64decode(raw_base64, validate=True)
    except (ValueError, binascii.Error):
        raise Contradiction(f"{path}_base64", "it is not base64") from None
    if exact(raw) != (text, raw_base64):
        raise Contradiction(f"{path}_base64", "these bytes are not the ones that the text stands for")
    return raw


def _scalar(form: Scalar, raw_base64: str | None, type_id: int, path: str) -> float | bytes:
    if type_id == wire.STRING:
        if not isinstance(form, str):
            raise Contradiction(path, "a string is written as text")
        return text_bytes(form, raw_base64, path)
    if raw_base64 is not None:
        raise Contradiction(f"{path}_base64", "only text has bytes beside it")
    value = _float(form) if type_id in _FLOATS else _integer(form)
    # There is one way to write each value, and each type has its own numbers.
    if value is None or not _fits(value, type_id) or _form(value, type_id) != _typed(form):
        raise Contradiction(path, f"not a {wire.VALUE_TYPES[type_id]}, or not as it is written here")
    return value


def _float(form: Scalar) -> float | None:
    if isinstance(form, str):
        return _NAMED_FLOATS.get(form)
    return form if isinstance(form, float) else None


def _integer(form: Scalar) -> int | None:
    if not isinstance(form, str):
        return None if isinstance(form, float) else int(form)
    return int(form) if len(form) <= _MOST_DIGITS and form.removeprefix("-").isdecimal() and form.isascii() else None


def _fits(value: float, type_id: int) -> bool:
    try:
        raw = struct.pack("<" + CODES[type_id], value)
    except (struct.error, OverflowError):
        return False
    return type_id not in _FLOATS or math.isnan(value) or struct.unpack("<" + CODES[type_id], raw)[0] == value


def _form(value: float, type_id: int) -> tuple[type, Scalar]:
    return _typed(scalar_form(value, type_id)[0])


def _typed(form: Scalar) -> tuple[type, Scalar]:
    """With its type, since 1 and true and 1.0 are equal."""
    return type(form), form
