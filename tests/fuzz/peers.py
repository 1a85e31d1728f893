"""Two other readers asked about the same files: the ``gguf`` and ``safetensors`` packages.

A *difference* is a file that one side takes and the other refuses, or a figure that both give and do not agree on. All
kinds of differences are listed, with the reason, in ``config/differences.md``; :func:`unexplained` gives what is not.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import gguf
import safetensors

from auditd.evidence.record import Evidence
from tests.fuzz.gguf_changes import fields, order_of

PAGE: Final = Path(__file__).parents[2] / "config" / "differences.md"


class Difference(NamedTuple):
    """``what`` the peer does (``reads``, ``refuses`` or ``differs``), its ``reason``, and the codes said here."""

    peer: str
    what: str
    reason: str
    codes: frozenset[str]


class Row(NamedTuple):
    """An explained kind: it explains a difference of the same words if one of its ``codes`` is said here."""

    peer: str
    what: str
    reason: str
    codes: frozenset[str]
    why: str


@cache
def rows() -> tuple[Row, ...]:
    """The table."""
    found = []
    for text in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if text.startswith("| `"):
            what, _, reason = cells[1].partition(" ")
            codes = frozenset(re.findall(r"`([^`]+)`", cells[2]))
            found.append(Row(cells[0].strip("`"), what, reason.strip('"'), codes, cells[3]))
    return tuple(found)


def explanation(difference: Difference) -> Row | None:
    """The row that explains a difference."""
    for row in rows():
        if row[:3] == difference[:3] and (not row.codes or row.codes & difference.codes):
            return row
    return None


def _codes(evidence: Evidence) -> frozenset[str]:
    """Finding codes, constraints and limitations of a record."""
    said = {finding.code for finding in evidence.findings} | {each.code for each in evidence.limitations}
    return frozenset(said | {finding.constraint for finding in evidence.findings if finding.constraint})


# --- gguf ------------------------------------------------------------------------------------------------

_GGUF: Final = "gguf"

#: What the package's errors begin with, or have in them, and what that means.
_GGUF_REASONS: Final = (
    ("Duplicate ", "duplicate key"),
    ("Found duplicated tensor", "duplicate name"),
    ("cannot reshape array", "data past the end"),
    ("is not a valid GGMLQuantizationType", "type"),
    ("is not a valid GGUFValueType", "value type"),
    ("Unknown/unhandled field type", "value type"),
    ("Bad type for general.alignment", "alignment"),
    ("Invalid alignment", "alignment"),
    ("Quantized tensor row size", "row blocks"),
    ("codec can't decode", "not UTF-8"),
    ("is out of bounds for axis 0 with size 0", "end of file"),
    ("GGUF magic invalid", "magic"),
    ("supports versions", "version"),
    ("Python int too large", "overflow"),
    ("Maximum allowed dimension exceeded", "overflow"),
    ("array is too big", "overflow"),
    ("negative dimensions", "overflow"),
    ("When changing to a larger dtype", "data past the end"),
    ("maximum supported dimension", "dimensions"),
    ("cannot mmap an empty file", "end of file"),
)


def is_askable(data: bytes) -> bool:
    """Whether the package comes back: it loops as often as any count says, also past the end of the file."""
    found = [field for field in fields(data) if field.kind in {"count", "dims"}]
    order: Literal["big", "little"] = "big" if order_of(data) == ">" else "little"
    told = [int.from_bytes(data[field.begin : field.begin + field.size], order) for field in found]
    return sum(told) <= len(data) and len(data) <= 1 << 16


def ask_gguf(path: str, evidence: Evidence) -> Iterator[Difference]:
    """How the package's answer to the file at ``path`` differs from the record of it."""
    codes = _codes(evidence)
    refused = evidence.error is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reader = gguf.GGUFReader(path)
    except Exception as error:  # noqa: BLE001 - it raises what it happens to
        if not refused:
            reason = _reason(str(error) or repr(error), _GGUF_REASONS)
            yield Difference(_GGUF, "refuses", reason, codes)
        return
    if refused:
        yield Difference(_GGUF, "reads", _constraint(evidence), codes)
        return
    yield from (Difference(_GGUF, "differs", what, codes) for what in _gguf_differences(reader, evidence))


def _gguf_differences(reader: Any, evidence: Evidence) -> Iterator[str]:
    part, account = evidence.gguf, evidence.accounting
    assert part is not None
    assert account is not None
    if part.alignment != reader.alignment:
        yield "alignment"
    if reader.tensors and account.data_offset != reader.data_offset:
        yield "data offset"
    if part.tensor_count != len(reader.tensors):
        yield "tensors"
    if part.metadata is not None and [row.key for row in part.metadata] != _keys(reader):
        yield "keys"
    for row, peer in zip(part.tensors or (), reader.tensors, strict=False):
        if row.name != peer.name:
            yield "name"
        if row.type_id != int(peer.tensor_type):
            yield "type"
        if row.shape != [str(dim) for dim in peer.shape.tolist()]:
            yield "shape"
        if row.elements != str(peer.n_elements):
            yield "elements"
        if row.file_offset != peer.data_offset:
            yield "offset"
        if row.byte_length is not None and row.byte_length != peer.n_bytes:
            yield "bytes"


def _keys(reader: Any) -> list[str]:
    return [key for key in reader.fields if not key.startswith("GGUF.")]


def _constraint(evidence: Evidence) -> str:
    assert evidence.error is not None
    return evidence.error.constraint or evidence.error.code


def _reason(message: str, reasons: tuple[tuple[str, str], ...]) -> str:
    return next((reason for mark, reason in reasons if mark in message), message[:120])


# --- safetensors -----------------------------------------------------------------------------------------

_SAFETENSORS: Final = "safetensors"

_ST_REASONS: Final = (
    ("unknown variant", "dtype"),
    ("duplicate field", "duplicate field"),
    ("invalid type", "type of a field"),
    ("missing field", "missing field"),
    ("number out of range", "number"),
    ("invalid value", "type of a field"),
    ("recursion limit exceeded", "nesting"),
    ("invalid JSON in header", "json"),
    ("invalid UTF-8", "json_encoding"),
    ("header too large", "header length"),
    ("header too small", "end of file"),
    ("invalid header length", "header length"),
    ("incomplete metadata", "coverage"),
    ("invalid offset", "range"),
    ("invalid shape, data type, or offset", "range"),
    ("overflow computing buffer size", "overflow"),
    ("misaligned", "sub-byte"),
    ("invalid header start", "start"),
)


#: It ships no types.
_deserialize: Final[Any] = safetensors.deserialize


def ask_safetensors(data: bytes, evidence: Evidence) -> Iterator[Difference]:
    """How the package's answer to ``data`` differs from the record of it."""
    codes = _codes(evidence)
    refused = evidence.error is not None
    try:
        answer = dict(_deserialize(data))
    except Exception as error:  # noqa: BLE001 - its own error, or what its binding raises
        if not refused:
            yield Difference(_SAFETENSORS, "refuses", _reason(str(error).lower(), _lowered()), codes)
        return
    if refused:
        yield Difference(_SAFETENSORS, "reads", _constraint(evidence), codes)
        return
    part = evidence.safetensors
    assert part is not None
    assert part.tensors is not None
    if [row.name for row in part.tensors] != sorted(answer):
        yield Difference(_SAFETENSORS, "differs", "names", codes)
        return
    for row in part.tensors:
        yield from (Difference(_SAFETENSORS, "differs", what, codes) for what in _st_differences(row, answer, data))


def _st_differences(row: Any, answer: dict[str, Any], data: bytes) -> Iterator[str]:
    other = answer[row.name]
    if row.dtype != other["dtype"]:
        yield "dtype"
    if row.shape != [str(dim) for dim in other["shape"]]:
        yield "shape"
    if data[row.file_offset : row.file_offset + row.byte_length] != bytes(other["data"]):
        yield "data"


@cache
def _lowered() -> tuple[tuple[str, str], ...]:
    return tuple((mark.lower(), reason) for mark, reason in _ST_REASONS)
