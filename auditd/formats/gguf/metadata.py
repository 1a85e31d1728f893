"""Walking the metadata of a GGUF header: keys, values of thirteen types, arrays inside arrays.

Scalars are kept whole; of an array the declared type, the count and the first eight elements are kept, and
every element is checked.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Generator
from typing import Final

from auditd.formats.bounds import KEY_BYTES, NESTING_DEPTH, PREVIEW_ELEMENTS
from auditd.formats.declarations import ArrayValue, ByteOrder, MetadataEntry, MetadataValue
from auditd.formats.faults import Constraint, Fault, FaultKind, Notice
from auditd.formats.gguf import strings
from auditd.formats.gguf.cursor import Cursor
from auditd.formats.gguf.wire import (
    ARRAY,
    BOOL,
    DEFAULT_ALIGNMENT,
    LEAST_ARRAY,
    LEAST_STRING,
    STRING,
    U32,
    VALUE_TYPES,
)
from auditd.formats.quoting import shown
from auditd.formats.retention import Retention, text_cost
from auditd.formats.uniqueness import NameRegister
from auditd.formats.utf8 import is_utf8
from auditd.formats.window import Stopped, Walk

#: struct codes of the fixed-size value types.
_CODES: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}
_SCALARS: Final[dict[ByteOrder, dict[int, struct.Struct]]] = {
    "little": {type_id: struct.Struct("<" + code) for type_id, code in _CODES.items()},
    "big": {type_id: struct.Struct(">" + code) for type_id, code in _CODES.items()},
}

#: Lowercase ASCII letters and digits in components, joined by one of three signs (GGUF specification; hyphens
#: as llama.cpp's own writer has them, in ``gpt-oss.context_length``).
_KEY: Final = re.compile(rb"[a-z0-9]++(?:[._-][a-z0-9]++)*+")
_ALIGNMENT_KEY: Final = b"general.alignment"
_ARCHITECTURE_KEY: Final = b"general.architecture"
_TEMPLATE_KEY: Final = b"tokenizer.chat_template"


class MetadataWalk:
    """The entries so far, and what of them the rest of the header needs."""

    def __init__(self, cursor: Cursor, retention: Retention) -> None:
        self._cursor = cursor
        self._retention = retention
        self._keys = NameRegister()
        self._alignments: set[int] = set()
        self._faulty = False
        self.entries: list[MetadataEntry] = []
        self.architecture_present = False
        #: (name, SHA-256) of each chat template.
        self.templates: list[tuple[str, str]] = []

    @property
    def alignment_declared(self) -> bool:
        """Whether an alignment has been read so far."""
        return bool(self._alignments)

    def alignment(self) -> int | None:
        """The one valid alignment, the default if none is declared, None if that cannot be said."""
        if self._faulty:
            return None
        return next(iter(self._alignments), DEFAULT_ALIGNMENT)

    def entry(self, index: int) -> Walk:
        """Walk entry ``index``; it is among ``entries`` only once it is complete."""
        begin = self._cursor.window.offset
        path = f"metadata[{index}]"
        key = yield from self._cursor.string(f"{path}.key")
        self._check_key(key, path, begin)
        type_at = self._cursor.window.offset
        type_id = yield from self._cursor.unsigned(4, f"{path}.type")
        self._check_type(type_id, f"{path}.type", type_at, f" behind the key {shown(key)}")
        value_begin = self._cursor.window.offset
        value = yield from self._value(type_id, f"{path}.value", 1)
        if key == _ALIGNMENT_KEY:
            self._take_alignment(type_id, value, path, type_at, value_begin)
        elif key == _ARCHITECTURE_KEY:
            self.architecture_present = True
        elif key.startswith(_TEMPLATE_KEY) and type_id == STRING:
            self._take_template(key, value)
        if self._retention.admit(text_cost(key) + _text_bytes(value)):
            self.entries.append(
                MetadataEntry(index, key, type_id, value, begin, value_begin, self._cursor.window.offset)
            )

    def _check_key(self, key: bytes, path: str, at: int) -> None:
        subject = f"{path}.key"
        standing = self._keys.judge(key)
        if standing == "duplicate":
            self._cursor.fault(
                Constraint.DUPLICATE_KEY, subject, at, f"{shown(key)} was there before", None, shown(key)
            )
        elif standing == "alias":
            self._cursor.notice("name_alias", subject, at, f"{shown(key)} equals another key up to a NUL")
        if len(key) > KEY_BYTES:
            self._cursor.notice("key_too_long", subject, at, f"a key of {len(key):,} bytes", KEY_BYTES, len(key))
        if _KEY.fullmatch(key) is None:
            self._cursor.notice("key_spelling", subject, at, f"{shown(key)} is not spelled like a GGUF key")
            if not is_utf8(key):
                self._cursor.notice("name_not_utf8", subject, at, f"{shown(key)} is not UTF-8")

    @staticmethod
    def _check_type(type_id: int, subject: str, at: int, behind: str = "") -> None:
        if type_id >= len(VALUE_TYPES):
            message = f"value type {type_id}{behind} is none of the thirteen (0 to 12)"
            raise Stopped(Fault(Constraint.VALUE_TYPE, FaultKind.MALFORMED, subject, at, message, "0 to 12", type_id))

    def _value(self, type_id: int, path: str, depth: int) -> Generator[None, None, MetadataValue]:
        """A value; ``depth`` is that of the array it would be."""
        window = self._cursor.window
        at = window.offset
        if type_id == STRING:
            raw = yield from self._cursor.string(path)
            if not raw.isascii() and not is_utf8(raw):
                self._cursor.notice("text_not_utf8", path, at, "a text value that is not UTF-8")
            return raw
        if type_id == ARRAY:
            return (yield from self._array(path, depth))
        scalar = _SCALARS[self._cursor.order][type_id]
        if window.end - window.pos < scalar.size:
            yield from window.more(scalar.size, path)
        value: int | float = scalar.unpack_from(window.data, window.pos)[0]
        window.pos += scalar.size
        if type_id == BOOL and value > 1:
            self._cursor.notice("bool_value", path, at, f"a bool of {value}", "0 or 1", int(value))
        return value

    def _array(self, path: str, depth: int) -> Generator[None, None, ArrayValue]:
        window = self._cursor.window
        type_at = window.offset
        element_type = yield from self._cursor.unsigned(4, f"{path}.element_type")
        self._check_type(element_type, f"{path}.element_type", type_at)
        if element_type == ARRAY:
            if depth == NESTING_DEPTH:
                message = f"an array inside {depth} arrays; at most {NESTING_DEPTH} containers stand inside each other"
                raise Stopped(
                    Fault(
                        Constraint.NESTING,
                        FaultKind.MALFORMED,
                        f"{path}.element_type",
                        type_at,
                        message,
                        NESTING_DEPTH,
                        depth + 1,
                    )
                )
            self._cursor.notice("nested_array", f"{path}.element_type", type_at, "an array of arrays")
        count_at = window.offset
        count = yield from self._cursor.unsigned(8, f"{path}.count")
        self._cursor.check_count(f"{path}.count", count_at, count, self._least(element_type), window.offset)
        preview = yield from self._preview(element_type, path, min(count, PREVIEW_ELEMENTS), depth)
        if count > PREVIEW_ELEMENTS:
            yield from self._pass_over(element_type, path, PREVIEW_ELEMENTS, count, depth)
        return ArrayValue(element_type, count, tuple(preview))

    def _preview(
        self, element_type: int, path: str, count: int, depth: int
    ) -> Generator[None, None, list[MetadataValue]]:
        elements: list[MetadataValue] = []
        for index in range(count):
            element = yield from self._value(element_type, f"{path}[{index}]", depth + 1)
            elements.append(element)
        return elements

    def _least(self, type_id: int) -> int:
        if type_id == STRING:
            return LEAST_STRING
        return LEAST_ARRAY if type_id == ARRAY else _SCALARS[self._cursor.order][type_id].size

    def _pass_over(self, element_type: int, path: str, first: int, count: int, depth: int) -> Walk:
        """Check elements ``first`` to ``count`` and keep none of them."""
        if element_type == STRING:
            yield from self._pass_strings(path, first, count)
        elif element_type == ARRAY:
            for index in range(first, count):
                yield from self._array(f"{path}[{index}]", depth + 1)
        else:
            size = _SCALARS[self._cursor.order][element_type].size
            yield from self._pass_scalars(path, first, (count - first) * size, is_bool=element_type == BOOL)

    def _pass_strings(self, path: str, index: int, count: int) -> Walk:
        window = self._cursor.window
        while index < count:
            stretch = strings.walk_strings(window.data, window.pos, window.end, count - index, self._cursor.order)
            if stretch.not_utf8:
                subject = f"{path}[{index + stretch.first_index}]"
                at = window.base + stretch.first_pos
                notice = Notice("text_not_utf8", subject, at, "a text value that is not UTF-8")
                self._cursor.notices.add("text_not_utf8", notice, stretch.not_utf8)
            window.pos = stretch.pos
            index += stretch.strings
            if index < count:  # the next string is not whole in the window, or never will be
                yield from self._value(STRING, f"{path}[{index}]", 0)
                index += 1

    def _pass_scalars(self, path: str, first: int, size: int, *, is_bool: bool) -> Walk:
        window = self._cursor.window
        index = first
        while size:
            if window.pos == window.end:
                yield from window.more(1, path)
            step = min(size, window.end - window.pos)
            if is_bool:
                self._check_bools(path, index, window.data[window.pos : window.pos + step])
            window.pos += step
            size -= step
            index += step

    def _check_bools(self, path: str, index: int, raw: bytes) -> None:
        """Bools of an array, the first of which is element ``index`` and stands at the window's position."""
        odd = raw.translate(None, b"\0\1")
        if odd:
            first = raw.index(odd[:1])
            subject = f"{path}[{index + first}]"
            at = self._cursor.window.offset + first
            self._cursor.notices.add(
                "bool_value", Notice("bool_value", subject, at, f"a bool of {odd[0]}", "0 or 1", odd[0]), len(odd)
            )

    def _take_alignment(self, type_id: int, value: MetadataValue, path: str, type_at: int, value_at: int) -> None:
        if type_id != U32 or not isinstance(value, int):
            self._faulty = True
            actual = VALUE_TYPES[type_id]
            self._cursor.fault(
                Constraint.ALIGNMENT, f"{path}.type", type_at, f"the alignment is a u32, not {actual}", "u32", actual
            )
            return
        if value == 0:
            self._faulty = True
            self._cursor.fault(Constraint.ALIGNMENT, f"{path}.value", value_at, "the alignment is 0", "above 0", 0)
        elif self._alignments and value not in self._alignments:
            self._faulty = True
            first = min(self._alignments)
            message = f"the alignment is {value} here and {first} before"
            self._cursor.fault(Constraint.ALIGNMENT, f"{path}.value", value_at, message, first, value)
        if value % 8:
            self._cursor.notice("alignment_not_multiple_of_8", f"{path}.value", value_at, f"the alignment is {value}")
        if value & (value - 1):
            self._cursor.notice("alignment_not_power_of_two", f"{path}.value", value_at, f"the alignment is {value}")
        self._alignments.add(value)

    def _take_template(self, key: bytes, value: MetadataValue) -> None:
        name = key[len(_TEMPLATE_KEY) :]
        if isinstance(value, bytes) and name[:1] in (b"", b"."):
            shown = name[1:].decode("utf-8", "backslashreplace") or "default"
            self.templates.append((shown, hashlib.sha256(value).hexdigest()))


def _text_bytes(value: MetadataValue) -> int:
    """What a value weighs as text, in bytes, and eight for each element of a preview."""
    if isinstance(value, bytes):
        return text_cost(value)
    if isinstance(value, ArrayValue):
        return sum(8 + _text_bytes(element) for element in value.preview)
    return 0
