"""Changes to bytes that know no grammar, and the numbers that break readers. All randomness comes from ``Dice``."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

Dice: TypeAlias = random.Random
Change: TypeAlias = Callable[[bytearray, Dice], None]

#: Edges of the widths, of the bounds, of signs and of exact integers.
NUMBERS: Final = (
    0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 24, 25, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 4095, 4096,
    65_535, 65_536, 2**20, 2**24, 2**24 + 1, 2**26, 2**26 + 1, 100_000_000, 100_000_001, 2**31 - 1, 2**31, 2**32 - 1,
    2**32, 2**53 - 1, 2**53, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 32, 2**64 - 8, 2**64 - 2, 2**64 - 1,
)  # fmt: skip

#: Text that does harm to whoever prints, splits, parses or compares it.
TEXTS: Final = (
    b"", b"\0", b"a\0b", b"\n", b"\r\n", b"\x1b[2J\x1b]0;x\x07", b"\x9b31m", "\u202egnp\u202c".encode(), b"\xff\xfe",
    b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b'"', b"\\", b'\\"', b"</script><svg onload=alert(1)>", b"&amp;",
    b"=cmd|'/c calc'!A1", b"|`[x](javascript:y)`|", b"%s%n{0}", b"../../etc/passwd", b"/dev/zero", b"general.alignment",
    b"general.alignment\0", b"__metadata__", "\u2028\u2029\ufeff\u200b".encode(), "e\u0301\u0301\u0301".encode(),
    "\U000e0041\U0010ffff".encode(), b"A" * 64, b"A" * 300,
)  # fmt: skip


def number(dice: Dice, near: int = 0) -> int:
    """A number at an edge, or beside the one that stood there; from 0 to 2**64 - 1."""
    if dice.random() < 0.4:
        return (near + dice.choice((-33, -32, -8, -2, -1, 1, 2, 8, 31, 32, near))) % 2**64
    return (dice.choice(NUMBERS) + dice.choice((0, 0, 0, -1, 1))) % 2**64


def put(data: bytearray, at: int, size: int, value: int, order: str = "<") -> None:
    """Write ``value`` as an unsigned integer of ``size`` bytes at ``at``."""
    raw = struct.pack(order + {1: "B", 2: "H", 4: "I", 8: "Q"}[size], value % (1 << 8 * size))
    data[at : at + size] = raw


def _place(data: bytearray, dice: Dice, room: int = 1) -> int:
    """Somewhere, and mostly near the front: that is where headers are."""
    last = max(0, len(data) - room)
    return int(last * dice.random() ** 2) if dice.random() < 0.7 else dice.randint(0, last)


def _bit(data: bytearray, dice: Dice) -> None:
    if data:
        data[_place(data, dice)] ^= 1 << dice.randrange(8)


def _byte(data: bytearray, dice: Dice) -> None:
    if data:
        data[_place(data, dice)] = dice.choice((0, 1, 0x20, 0x22, 0x7F, 0x80, 0xFF, dice.randrange(256)))


def _word(data: bytearray, dice: Dice) -> None:
    size = dice.choice((2, 4, 8))
    if len(data) >= size:
        at = _place(data, dice, size)
        put(data, at, size, number(dice, int.from_bytes(data[at : at + size], "little")), dice.choice("<>"))


def _cut(data: bytearray, dice: Dice) -> None:
    del data[_place(data, dice) :]


def _drop(data: bytearray, dice: Dice) -> None:
    at = _place(data, dice)
    del data[at : at + dice.choice((1, 2, 4, 8, dice.randint(1, 64)))]


def _insert(data: bytearray, dice: Dice) -> None:
    at = _place(data, dice)
    data[at:at] = dice.choice((dice.choice(TEXTS), bytes(dice.randint(1, 40)), dice.randbytes(dice.randint(1, 12))))


def _repeat(data: bytearray, dice: Dice) -> None:
    at = _place(data, dice)
    piece = data[at : at + dice.randint(1, 80)]
    data[at:at] = piece * dice.choice((1, 1, 2, 3, 20))


def _move(data: bytearray, dice: Dice) -> None:
    at = _place(data, dice)
    piece = data[at : at + dice.randint(1, 40)]
    del data[at : at + len(piece)]
    to = _place(data, dice)
    data[to:to] = piece


def _append(data: bytearray, dice: Dice) -> None:
    data += dice.choice((b"\0" * dice.randint(1, 64), dice.randbytes(dice.randint(1, 16)), data[:200]))


PLAIN: Final[tuple[Change, ...]] = (_bit, _byte, _word, _cut, _drop, _insert, _repeat, _move, _append)

#: Nothing that is changed grows past this: long files are seeds of their own.
LONGEST: Final = 1 << 16


def changed(data: bytes, dice: Dice, changes: Sequence[Change], others: Sequence[bytes] = ()) -> bytes:
    """``data`` after one to six changes, now and then with the rest of another file behind a point of it."""
    made = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 3, 6))):
        dice.choice(changes)(made, dice)
    if others and dice.random() < 0.05:
        other = dice.choice(others)
        made[_place(made, dice) :] = other[dice.randint(0, len(other)) :]
    return bytes(made[:LONGEST])
