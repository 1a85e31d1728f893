"""The safetensors element types: bits of one element (safetensors 0.8)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_BY_BITS: Final = {
    4: "F4",
    6: "F6_E2M3 F6_E3M2",
    8: "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
    16: "I16 U16 F16 BF16",
    32: "I32 U32 F32",
    64: "I64 U64 F64 C64",
}

#: Bits of one element; a dtype that is not here keeps its range and its shape cannot be checked.
DTYPE_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {dtype: bits for bits, names in _BY_BITS.items() for dtype in names.split()}
)
