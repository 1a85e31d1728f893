"""Changes that know JSON, and the frame that safetensors puts around it: tokens become others, members stand twice."""

from __future__ import annotations

import re
import struct
from typing import Final

from tests.fuzz.changes import NUMBERS, TEXTS, Change, Dice, number

_TOKEN: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*+|true|false|null|[\[\]{},:]|[ \t\r\n]++', re.DOTALL
)

#: Values that are not what stands there, strict JSON or not.
_VALUES: Final = (
    b"null", b"true", b"[]", b"{}", b'""', b"0", b"-0", b"-1", b"1.5", b"1e3", b"1E400", b"00", b"+1", b"NaN", b"Infinity",
    b"18446744073709551615", b"18446744073709551616", b"9" * 40, b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"',
    b'"\\u0000"', b'"\\x41"', b'"\t"', b'"\xff"', b"'x'", b"[1,2", b"//", b"[0,0]", b"[0,4]", b"[8,4]",
    b'"F32"', b'"F4"', b'"F6_E2M3"', b'"NEW"', b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}',
)  # fmt: skip


def _tokens(data: bytes) -> list[re.Match[bytes]]:
    return list(_TOKEN.finditer(data))[:4000]


def _replace(data: bytearray, dice: Dice) -> None:
    tokens = [token for token in _tokens(bytes(data)) if token.group()[:1] not in b"[]{},: \t\r\n"]
    if tokens:
        token = dice.choice(tokens)
        data[token.start() : token.end()] = dice.choice((*_VALUES, b"%d" % number(dice), b"%d" % dice.choice(NUMBERS)))


def _punctuate(data: bytearray, dice: Dice) -> None:
    tokens = _tokens(bytes(data))
    if tokens:
        token = dice.choice(tokens)
        at = dice.choice((token.start(), token.end()))
        data[at:at] = dice.choice((b" ", b"\n", b",", b":", b"{", b"}", b"[", b"]", b'"', b"\0", b"\xef\xbb\xbf"))


def _drop(data: bytearray, dice: Dice) -> None:
    tokens = _tokens(bytes(data))
    if tokens:
        first = dice.randrange(len(tokens))
        last = min(len(tokens) - 1, first + dice.choice((0, 0, 1, 2, 8)))
        del data[tokens[first].start() : tokens[last].end()]


def _twice(data: bytearray, dice: Dice) -> None:
    """A stretch between two commas once more: a member, an element, half an object."""
    commas = [token.start() for token in _tokens(bytes(data)) if token.group() == b","]
    if len(commas) > 1:
        begin, end = sorted(dice.sample(commas, 2))
        data[end:end] = bytes(data[begin:end]) * dice.choice((1, 1, 2, 30))


def _nest(data: bytearray, dice: Dice) -> None:
    tokens = _tokens(bytes(data))
    if tokens:
        token = dice.choice(tokens)
        depth = dice.choice((1, 2, 29, 30, 31, 32, 33, 2000))
        opening, closing = dice.choice(((b"[", b"]"), (b'{"x":', b"}")))
        data[token.start() : token.end()] = opening * depth + token.group() + closing * depth


def _retext(data: bytearray, dice: Dice) -> None:
    strings = [token for token in _tokens(bytes(data)) if token.group()[:1] == b'"']
    if strings:
        token = dice.choice(strings)
        text = dice.choice((*TEXTS, dice.choice(strings).group()[1:-1]))
        escaped = text if dice.random() < 0.5 else text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        data[token.start() : token.end()] = b'"' + escaped + b'"'


def _escape(data: bytearray, dice: Dice) -> None:
    """One character of a string as an escape: the same text, written otherwise."""
    strings = [token for token in _tokens(bytes(data)) if len(token.group()) > 2]
    strings = [token for token in strings if token.group()[:1] == b'"' and b"\\" not in token.group()]
    if strings:
        at = dice.choice(strings).start() + 1
        data[at : at + 1] = b"\\u%04x" % data[at]


CHANGES: Final[tuple[Change, ...]] = (_replace, _replace, _punctuate, _drop, _twice, _nest, _retext, _retext, _escape)


def _framed(change: Change) -> Change:
    """``change`` for the JSON of a safetensors file, whose length is put right mostly."""

    def within(data: bytearray, dice: Dice) -> None:
        if len(data) < 8:
            return
        (length,) = struct.unpack_from("<Q", data)
        header = data[8 : 8 + min(length, len(data))]
        rest = bytes(data[8 + len(header) :])
        change(header, dice)
        told = len(header) if dice.random() < 0.9 else number(dice, len(header))
        data[:] = struct.pack("<Q", told) + header + rest

    return within


def _relength(data: bytearray, dice: Dice) -> None:
    if len(data) >= 8:
        (length,) = struct.unpack_from("<Q", data)
        data[:8] = struct.pack("<Q", number(dice, length))


SAFETENSORS: Final[tuple[Change, ...]] = (*map(_framed, CHANGES), _relength)
