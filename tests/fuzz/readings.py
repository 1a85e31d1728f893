"""The readers in memory: detection, header, account, fed in pieces of chosen sizes. No file, so thousands a second."""

from __future__ import annotations

import dataclasses
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from auditd.accounting.account import Account, account_gguf, account_safetensors
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.detection import detect
from auditd.formats.foreign import Foreign, foreign_of
from auditd.formats.gguf.reader import GgufReader
from auditd.formats.safetensors.reader import SafetensorsReader
from tests.fuzz.changes import Dice

#: Steps of a reader that are allowed beside one a byte: it may pause after a stretch of work, never without any.
_STEPS: Final = 64


class Reading(NamedTuple):
    """What the readers said, and in how many steps."""

    header: GgufHeader | SafetensorsHeader | None
    account: Account | None
    foreign: Foreign | None
    steps: int


def pieces(data: bytes, dice: Dice | None) -> Iterator[bytes]:
    """``data`` whole, or in pieces of sizes that ``dice`` chooses."""
    if dice is None:
        yield data
        return
    largest = dice.choice((1, 2, 9, 64, 700, 1 << 15))
    at = 0
    while at < len(data):
        size = dice.randint(1, largest)
        yield data[at : at + size]
        at += size


def read(data: bytes, dice: Dice | None = None) -> Reading:
    """One reading of ``data``, which is all of its file."""
    form = detect(data[:16], len(data))
    if form is None:
        return Reading(None, None, foreign_of(data, len(data)), 0)
    reader = GgufReader(len(data)) if form == "gguf" else SafetensorsReader(len(data))
    steps = 0
    for piece in pieces(data, dice):
        if reader.done:
            break
        reader.feed(piece)
        steps += 1
        while _has_work(reader):
            reader.feed(b"")
            steps += 1
    assert reader.done, "all of the file was read, and the reader wants more"
    assert steps <= len(data) + _STEPS, f"{steps} steps for {len(data)} bytes"
    header = reader.result()
    return Reading(header, _account(header), None, steps)


def _has_work(reader: GgufReader | SafetensorsReader) -> bool:
    return not (reader.done or reader.needs_bytes)


def _account(header: GgufHeader | SafetensorsHeader) -> Account | None:
    if not header.complete:
        return None
    if isinstance(header, GgufHeader):
        return account_gguf(header, "auto", lambda: None)
    return account_safetensors(header)


def frozen(value: Any) -> Any:
    """A value that compares by what is in it, columns and NaN included."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, (str, bytes, int)) or value is None:
        return type(value).__name__, value
    if dataclasses.is_dataclass(value):
        return type(value).__name__, [frozen(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return [(key, frozen(item)) for key, item in value.items()]
    if isinstance(value, (array, bytearray)):
        return list(value)
    if isinstance(value, Sequence):
        return [frozen(item) for item in value]
    return type(value).__name__, [frozen(getattr(value, name)) for name in type(value).__slots__]


def check_pieces(data: bytes, dice: Dice) -> None:
    """Hold that the pieces make no difference."""
    whole, cut = read(data), read(data, dice)
    assert frozen(whole.header) == frozen(cut.header), "the header depends on how the bytes come"
    assert frozen(whole.account) == frozen(cut.account), "the account depends on how the bytes come"
