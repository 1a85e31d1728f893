"""What a file is that is no model: one word a kind, told from its first bytes. Pure.

Asked only once framing has been tried (:func:`auditd.formats.detection.detect`): a sound model may begin with
the mark of something else. Returns a row of :data:`KINDS` for any bytes, raises nothing. The words are what
programs read and never change; what one file says beyond its kind is in :mod:`auditd.formats.foreign`.

A new kind is a row in :data:`KINDS` and one in a table of marks.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from auditd.formats.archives import LOCAL_MARK, local_names
from auditd.formats.protobuf import model_word

#: What tells one kind of foreign file from another may stand further in than a format's mark.
KIND_BYTES: Final = 1024

#: Bytes of plain ASCII text.
PRINTABLE: Final = frozenset(range(0x20, 0x7F)) | {0x09, 0x0A, 0x0D}

_TEXT: Final = PRINTABLE.union(range(0x80, 0x100))
_SPACE: Final = b" \t\n\r"
_ZERO_HEAD_BYTES: Final = 16
#: The member of an index that names a file for each tensor; only a short one stands in front of it.
_WEIGHT_MAP: Final = b'"weight_map"'


class Kind(NamedTuple):
    """A kind of file that is no model: one word for programs, plain words and a next step for people."""

    word: str
    meaning: str
    advice: str


_AGAIN: Final = "Read it, then download the file again."
_UNPACK: Final = "Unpack it, then inspect what comes out."
_CONVERT: Final = "Do not load it. Convert it to safetensors on an isolated machine."
_OTHER: Final = "Fine for its own programs; this one reads GGUF and safetensors."
_WRONG_FILE: Final = "Download the model itself; this file belongs elsewhere."

KINDS: Final[dict[str, Kind]] = {
    kind.word: kind
    for kind in (
        Kind("empty", "an empty file", "Nothing was written: fetch it again."),
        Kind(
            "lfs_pointer",
            "a Git LFS pointer, a note of about 130 bytes in place of the model",
            "Fetch the object that it names (git lfs pull).",
        ),
        Kind(
            "html_page",
            "an HTML page that was saved under the model's name",
            "Download the file itself, logged in if needed.",
        ),
        Kind("xml_text", "XML text, often an error reply of a storage service", _AGAIN),
        Kind("json_text", "JSON text, often an error reply of a server", _AGAIN),
        Kind(
            "shard_index",
            "the index of a set of safetensors or PyTorch files, which says where each tensor is",
            "Nothing is wrong with it, and it is no model. Audit its directory (model-auditd audit): that judges the set.",
        ),
        Kind("text", "plain text, often an error message of a server", _AGAIN),
        Kind(
            "utf16_text",
            "UTF-16 text; a shell that redirects binary output as text writes this",
            "Download the file again with a program that writes it itself.",
        ),
        Kind("gzip", "gzip data; a sound model may be inside", _UNPACK),
        Kind("bzip2", "bzip2 data; a sound model may be inside", _UNPACK),
        Kind("xz", "xz data; a sound model may be inside", _UNPACK),
        Kind("zstd", "Zstandard data; a sound model may be inside", _UNPACK),
        Kind("lz4", "LZ4 data; a sound model may be inside", _UNPACK),
        Kind("7z", "a 7z archive; a sound model may be inside", _UNPACK),
        Kind("rar", "a RAR archive; a sound model may be inside", _UNPACK),
        Kind("tar", "a tar archive; a sound model may be inside", _UNPACK),
        Kind(
            "zip",
            "a ZIP archive; a sound model may be inside",
            "Unpack it, then inspect what comes out. Do not load one that holds a data.pkl.",
        ),
        Kind("apk", "an Android package", "A model that is stored in it can be extracted."),
        Kind("npz", "a ZIP archive of NumPy arrays", "Convert it to safetensors; do not allow pickled objects."),
        Kind("keras", "a Keras archive", "Do not load it unless you trust it: it may hold code."),
        Kind("pytorch", "a PyTorch file: it holds a pickle, which can run code when loaded", _CONVERT),
        Kind("pickle", "a Python pickle, which can run code when loaded", _CONVERT),
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
        Kind("onnx", "an ONNX model", _OTHER),
        Kind("tflite", "a TFLite model", _OTHER),
        Kind("coreml", "a Core ML model", _OTHER),
        Kind("hdf5", "an HDF5 file, as older Keras writes them", _OTHER),
        Kind("numpy", "a NumPy array", "Convert it to safetensors; do not allow pickled objects."),
        Kind("parquet", "a Parquet table: data, no model", _WRONG_FILE),
        Kind("arrow", "an Arrow table: data, no model", _WRONG_FILE),
        Kind("sqlite", "an SQLite database", _WRONG_FILE),
        Kind("pdf", "a PDF document", _WRONG_FILE),
        Kind("image", "an image, such as a preview of the model", _WRONG_FILE),
        Kind("torrent", "a BitTorrent file: it says where the model is", "Open it with a BitTorrent program."),
        Kind(
            "apple_double",
            "a side file that macOS writes for attributes (AppleDouble)",
            'Nothing to repair: the model is the file of the same name without "._".',
        ),
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

#: (offset, mark, word), tried in order.
_MARKS: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"version https://git-lfs", "lfs_pointer"),
    (0, b"version https://hawser.", "lfs_pointer"),
    (0, b"\x1f\x8b", "gzip"),
    (0, b"\xfd7zXZ\0", "xz"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (0, b"\x04\x22\x4d\x18", "lz4"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z"),
    (0, b"Rar!\x1a\x07", "rar"),
    (0, b"PK\x05\x06", "zip"),
    (0, b"lmgg", "ggml"),
    (0, b"tjgg", "ggjt"),
    (0, b"fmgg", "ggmf"),
    (0, b"algg", "ggla"),
    (0, b"FUGG", "gguf_reversed"),
    (0, b"MZ", "executable"),
    (0, b"jartsr='", "executable"),
    (0, b"\x7fELF", "executable"),
    (0, b"\xcf\xfa\xed\xfe", "executable"),
    (0, b"\xca\xfe\xba\xbe", "executable"),
    (0, b"\x89HDF\r\n\x1a\n", "hdf5"),
    (0, b"\x93NUMPY", "numpy"),
    (0, b"PAR1", "parquet"),
    (0, b"ARROW1", "arrow"),
    (0, b"SQLite format 3\0", "sqlite"),
    (0, b"%PDF-", "pdf"),
    (0, b"\x89PNG\r\n\x1a\n", "image"),
    (0, b"\xff\xd8\xff", "image"),
    (0, b"GIF8", "image"),
    (0, b"d8:announce", "torrent"),
    (0, b"\x00\x05\x16\x07", "apple_double"),
    (4, b"TFL3", "tflite"),
    (257, b"ustar", "tar"),
    # The number that PyTorch wrote as a pickle of its own in front, before it took to ZIP.
    (0, b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", "pytorch"),
    (0, b"\x80\x02", "pickle"),
    (0, b"\x80\x03", "pickle"),
    (0, b"\x80\x04", "pickle"),
    (0, b"\x80\x05", "pickle"),
    (0, b"\xff\xfe", "utf16_text"),
    (0, b"\xfe\xff", "utf16_text"),
)

#: (what it begins with, word), for marks that are more than a few fixed bytes. The two older pickle protocols
#: have no mark: a container or a global name, and at once a place in the memo or an argument list.
_FORMS: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2"),
    (re.compile(rb"\(?[dlt]p[0-9]{1,9}\n|\(?[\]})]q[\0-\2]"), "pickle"),
    (re.compile(rb"c[A-Za-z_][\w.]{0,99}\n[A-Za-z_][\w.]{0,99}\n(?:p[0-9]{1,9}\n|q[\0-\2]|[()])"), "pickle"),
)

#: (an entry's name, word) of ZIP archives. What can run code stands first, whatever else is in there.
_ZIP_NAMES: Final[tuple[tuple[re.Pattern[bytes], str], ...]] = (
    (re.compile(rb"(?:.*/)?(?:data|constants)\.pkl\Z", re.DOTALL), "pytorch"),
    (re.compile(rb"(?:AndroidManifest\.xml|classes\.dex|resources\.arsc)\Z|META-INF/com/android/"), "apk"),
    (re.compile(rb"model\.weights\.h5\Z"), "keras"),
    (re.compile(rb".*\.npy\Z", re.DOTALL), "npz"),
)
#: Words of ZIP archives, the plainest last.
ZIP_WORDS: Final = (*(word for _, word in _ZIP_NAMES), "zip")

_HTML: Final = (b"<html", b"<!doctype html", b"<head", b"<body")


def kind_of(head: bytes) -> Kind:
    """What a foreign file is, from up to its first 1024 bytes."""
    return KINDS[_word_of(head[:KIND_BYTES])]


def zip_word(name: bytes) -> str:
    """What kind of ZIP archive an entry of this name speaks for."""
    return next((word for form, word in _ZIP_NAMES if form.match(name)), "zip")


def plainest_last(words: set[str]) -> str:
    """The one of several words of ZIP archives that decides; ``zip`` if there is none."""
    return next((word for word in ZIP_WORDS if word in words), "zip")


def _word_of(head: bytes) -> str:
    if not head:
        return "empty"
    if head.startswith(LOCAL_MARK):
        return plainest_last({zip_word(name) for name in local_names(head)})
    for offset, mark, word in _MARKS:
        if head.startswith(mark, offset):
            return word
    if not head[:_ZERO_HEAD_BYTES].strip(b"\0"):
        return "zeros"
    formed = next((word for form, word in _FORMS if form.match(head)), None)
    return formed or model_word(head) or _text_word(head)


def _text_word(head: bytes) -> str:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
    if start[:1] == b"<":
        lower = start.lower()
        if any(mark in lower for mark in _HTML):
            return "html_page"
        if lower.startswith((b"<?xml", b"<error")):
            return "xml_text"
    if not _TEXT.issuperset(head):
        return "unknown"
    if start[:1] == b"{" and _WEIGHT_MAP in head:
        return "shard_index"
    return "json_text" if start[:1] in (b"{", b"[") else "text"
