"""What a file is, told from its first bytes: framing before magic, content and never the name.

A sound safetensors file may begin with the mark of gzip, since its first bytes are a length: so a plausible
frame is believed first, and only what has none is looked up in the table of other things' marks. A new
format is a branch of :func:`detect`, a new kind of file that is no model a row in :mod:`auditd.formats.kinds`.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from auditd.formats.bounds import HEADER_BYTES
from auditd.formats.gguf.wire import MAGIC
from auditd.formats.kinds import KIND_BYTES, KINDS, PRINTABLE, Kind, kind_of
from auditd.formats.safetensors.entries import PREFIX_BYTES

__all__ = [
    "HEAD_BYTES",
    "KINDS",
    "KIND_BYTES",
    "Format",
    "Kind",
    "detect",
    "is_plausible_frame",
    "is_plausible_head",
    "kind_of",
]

#: What :func:`detect` looks at; read once, before anything else.
HEAD_BYTES: Final = 16

Format: TypeAlias = Literal["gguf", "safetensors"]

_JSON_SPACE: Final = b" \t\n\r"


def is_plausible_frame(head: bytes) -> bool:
    """Whether the first bytes of a file can be those of a safetensors file.

    ``head`` is the first 16 bytes, or all of a shorter file. A length from 1 to 100,000,000 and ``{`` behind
    it, white space apart (a file of exactly 8 bytes may be cut there); or a larger length whose bytes are not
    all printable text, and ``{``.
    """
    if len(head) < PREFIX_BYTES:
        return False
    prefix, behind = head[:PREFIX_BYTES], head[PREFIX_BYTES:HEAD_BYTES]
    length = int.from_bytes(prefix, "little")
    opens = behind.lstrip(_JSON_SPACE)[:1] == b"{"
    if 1 <= length <= HEADER_BYTES:
        return opens or not behind
    return length > HEADER_BYTES and opens and not PRINTABLE.issuperset(prefix)


def detect(head: bytes, file_size: int) -> Format | None:
    """The format of a file of ``file_size`` bytes that begins with ``head``; None is foreign.

    One to three bytes that begin the magic are a GGUF file that was cut there.
    """
    if head[:4] == MAGIC or (0 < file_size < len(MAGIC) and MAGIC.startswith(head[:file_size])):
        return "gguf"
    return "safetensors" if is_plausible_frame(head[:HEAD_BYTES]) else None


def is_plausible_head(head: bytes, size: int) -> bool:
    """Whether a file of any name is worth inspecting: its first bytes are GGUF's or a plausible frame."""
    return detect(head, size) is not None
