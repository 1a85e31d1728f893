"""Walking an array of strings: hundreds of thousands of length-prefixed strings in a few milliseconds.

A vocabulary is most of a GGUF header. Two accounts of the same bytes live here: a plain loop, and a batch
that takes 128 short strings with one match of one regular expression. A batch that does not match - a long
string, the end of the window, a bad length - falls back to the loop; both must tell the same of any bytes.
"""

from __future__ import annotations

import functools
import re
import struct
from typing import Final, NamedTuple

from auditd.formats.declarations import ByteOrder
from auditd.formats.utf8 import is_utf8

_LENGTH: Final[dict[ByteOrder, struct.Struct]] = {"little": struct.Struct("<Q"), "big": struct.Struct(">Q")}

#: Strings in one match. More make it likelier that one long string spoils the batch.
BATCH: Final = 128

#: Lengths with an alternative of their own. Below 128 a length's bytes are ASCII, so the UTF-8 of a whole
#: batch, prefixes and all, is valid exactly if that of each string is: a prefix byte ends any sequence.
_SHORT: Final = 128


@functools.cache
def batch_pattern(byte_order: ByteOrder, strings: int = BATCH) -> re.Pattern[bytes]:
    """Exactly ``strings`` length-prefixed strings, each shorter than :data:`_SHORT`; possessive, so linear."""
    if byte_order == "little":
        forms = (b"%s\\0{7}+.{%d}+" % (re.escape(bytes([length])), length) for length in range(_SHORT))
        one = b"(?:" + b"|".join(forms) + b")"
    else:
        forms = (b"%s.{%d}+" % (re.escape(bytes([length])), length) for length in range(_SHORT))
        one = b"\\0{7}+(?:" + b"|".join(forms) + b")"
    return re.compile(b"(?s)(?:" + one + b"){%d}+" % strings)


#: What is tried where a whole batch does not match, and how many strings are walked one by one where that does
#: not either: a long string among thousands then costs a few strings' walk, not a batch's.
_SMALL_BATCH: Final = 16


class Stretch(NamedTuple):
    """Strings that were walked: how many, where the next one begins, and those that were not UTF-8.

    ``first_index`` and ``first_pos`` are the index in the stretch and the position of the first of these.
    """

    strings: int
    pos: int
    not_utf8: int = 0
    first_index: int = 0
    first_pos: int = 0


def walk_plain(data: bytes, pos: int, end: int, strings: int, byte_order: ByteOrder) -> Stretch:
    """Walk up to ``strings`` strings of ``data[pos:end]``, one by one, as far as they are whole there."""
    not_utf8 = first_index = first_pos = 0
    length_at = _LENGTH[byte_order].unpack_from
    for index in range(strings):
        body = pos + 8
        if body > end:
            return Stretch(index, pos, not_utf8, first_index, first_pos)
        after = body + length_at(data, pos)[0]
        if after > end:
            return Stretch(index, pos, not_utf8, first_index, first_pos)
        raw = data[body:after]
        if not raw.isascii() and not is_utf8(raw):
            if not not_utf8:
                first_index, first_pos = index, pos
            not_utf8 += 1
        pos = after
    return Stretch(strings, pos, not_utf8, first_index, first_pos)


def walk_strings(data: bytes, pos: int, end: int, strings: int, byte_order: ByteOrder) -> Stretch:
    """:func:`walk_plain`, faster: whole batches where they match, the plain loop for the rest."""
    if strings < BATCH:
        return walk_plain(data, pos, end, strings, byte_order)
    batches = ((BATCH, batch_pattern(byte_order).match), (_SMALL_BATCH, batch_pattern(byte_order, _SMALL_BATCH).match))
    done = not_utf8 = first_index = first_pos = 0
    while done < strings:
        for size, match in batches:
            matched = match(data, pos, end) if strings - done >= size else None
            if matched is not None and is_utf8(data[pos : matched.end()]):
                done, pos = done + size, matched.end()
                break
        else:
            wanted = min(_SMALL_BATCH, strings - done)
            plain = walk_plain(data, pos, end, wanted, byte_order)
            if plain.not_utf8:
                if not not_utf8:
                    first_index, first_pos = done + plain.first_index, plain.first_pos
                not_utf8 += plain.not_utf8
            done, pos = done + plain.strings, plain.pos
            if plain.strings < wanted:
                break
    return Stretch(done, pos, not_utf8, first_index, first_pos)
