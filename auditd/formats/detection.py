"""What a file is, told from its first bytes: framing before magic, content and never the name.

A sound safetensors file may begin with the mark of gzip, since its first bytes are a length: so a plausible
frame is believed first, and only what has none is looked up in the table of other things' marks. A new
format is a branch of :func:`detect`, a new kind of file that is no model a row in :data:`KINDS`.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from auditd.formats.bounds import HEADER_BYTES
from auditd.formats.gguf.wire import MAGIC
from auditd.formats.safetensors.entries import PREFIX_BYTES

#: What :func:`detect` looks at; read once, before anything else.
HEAD_BYTES: Final = 16

#: What tells one kind of foreign file from another may stand further in.
KIND_BYTES: Final = 1024

Format: TypeAlias = Literal["gguf", "safetensors"]

_JSON_SPACE: Final = b" \t\n\r"
_PRINTABLE: Final = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}


class Kind(NamedTuple):
    """A kind of file that is no model: one word for programs, plain words and a next step for people."""

    word: str
    meaning: str
    advice: str


KINDS: Final[dict[str, Kind]] = {
    kind.word: kind
    for kind in (
        Kind("empty", "an empty file", "Nothing was written: fetch it again."),
        Kind(
            "lfs_pointer",
            "a Git LFS pointer: a note of about 130 bytes that stands for the model",
            "Fetch the object that it names (git lfs pull).",
        ),
        Kind(
            "html_page",
            "an HTML page that was saved under the model's name",
            "Download the file itself, logged in if needed.",
        ),
        Kind("json_text", "JSON text, often an error reply of a server", "Read it, then download the file again."),
        Kind("text", "plain text, often an error message of a server", "Read it, then download the file again."),
        Kind("gzip", "gzip data; a sound model may be inside", "Unpack it, then inspect what comes out."),
        Kind(
            "zip",
            "a ZIP archive; a PyTorch one can run code when loaded",
            "Do not load it. Convert it to safetensors on an isolated machine.",
        ),
        Kind(
            "pickle",
            "a Python pickle, which can run code when loaded",
            "Do not load it. Convert it to safetensors on an isolated machine.",
        ),
        Kind(
            "ggml",
            "a legacy ggml container; whisper.cpp still uses it",
            "Fine for whisper.cpp; for llama.cpp download a GGUF.",
        ),
        Kind("ggjt", "a legacy GGJT container of old llama.cpp", "Too old for today's loaders: download a GGUF."),
        Kind("ggmf", "a legacy GGMF container of old llama.cpp", "Too old for today's loaders: download a GGUF."),
        Kind(
            "ggla",
            "a legacy GGLA adapter (LoRA) of old llama.cpp",
            "Too old for today's loaders: convert the adapter to GGUF.",
        ),
        Kind(
            "executable",
            "a program; a llamafile carries its model inside",
            "Do not run it to find out. A llamafile's model can be extracted.",
        ),
        Kind("tflite", "a TFLite model", "This program reads GGUF and safetensors."),
        Kind("hdf5", "an HDF5 file", "This program reads GGUF and safetensors."),
        Kind("zeros", "a file whose head is all zeros: never written, or lost", "Fetch the file again."),
        Kind(
            "gguf_reversed",
            "the mark of GGUF with its bytes reversed",
            "Convert the model again on a machine with the right byte order.",
        ),
        Kind(
            "unknown",
            "a file of no format that this program knows",
            "Look at what it really is before anything loads it.",
        ),
    )
}

#: (begins with, word), tried in order.
_MARKS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"version https://git-lfs", "lfs_pointer"),
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"lmgg", "ggml"),
    (b"tjgg", "ggjt"),
    (b"fmgg", "ggmf"),
    (b"algg", "ggla"),
    (b"FUGG", "gguf_reversed"),
    (b"MZqFpD", "executable"),
    (b"\x7fELF", "executable"),
    (b"MZ", "executable"),
    (b"\xcf\xfa\xed\xfe", "executable"),
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\x80\x02", "pickle"),
    (b"\x80\x03", "pickle"),
    (b"\x80\x04", "pickle"),
    (b"\x80\x05", "pickle"),
)


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
    return length > HEADER_BYTES and opens and not _PRINTABLE.issuperset(prefix)


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


def kind_of(head: bytes) -> Kind:
    """What a foreign file is, from up to its first 1024 bytes."""
    if not head:
        return KINDS["empty"]
    for mark, word in _MARKS:
        if head.startswith(mark):
            return KINDS[word]
    if head[4:8] == b"TFL3":
        return KINDS["tflite"]
    if not head[:HEAD_BYTES].strip(b"\0"):
        return KINDS["zeros"]
    return KINDS[_text_word(head)]


def _text_word(head: bytes) -> str:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(_JSON_SPACE)
    if start[:1] == b"<" and any(
        mark in start.lower() for mark in (b"<html", b"<!doctype", b"<head", b"<body", b"<?xml")
    ):
        return "html_page"
    if not _PRINTABLE.union(range(0x80, 0x100)).issuperset(head):
        return "unknown"
    return "json_text" if start[:1] in (b"{", b"[") else "text"
