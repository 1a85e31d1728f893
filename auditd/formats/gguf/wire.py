"""What stands on the wire of a GGUF file: the numbers of its grammar (GGUF specification, versions 2 and 3)."""

from __future__ import annotations

from typing import Final

from auditd.formats.declarations import ByteOrder

MAGIC: Final = b"GGUF"

#: Magic, version and the two counts.
HEAD_BYTES: Final = 24

#: What a file that declares none is written at.
DEFAULT_ALIGNMENT: Final = 32

#: Value type ids on the wire, in their own order.
VALUE_TYPES: Final = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64")
U32, BOOL, STRING, ARRAY = (VALUE_TYPES.index(name) for name in ("u32", "bool", "string", "array"))

VERSIONS: Final[dict[bytes, tuple[int, ByteOrder]]] = {
    b"\2\0\0\0": (2, "little"),
    b"\3\0\0\0": (3, "little"),
    b"\0\0\0\3": (3, "big"),
}

#: The least that one item takes, in bytes: a count is checked with it before it is believed.
LEAST_ENTRY: Final = 13  # an empty key, a value type, one byte
LEAST_TENSOR: Final = 24  # an empty name, no dimension, type, offset
LEAST_STRING: Final = 8
LEAST_ARRAY: Final = 12
