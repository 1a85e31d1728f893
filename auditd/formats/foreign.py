"""What one file that is no model says of itself: the details behind its kind. Pure.

Returns a :class:`Foreign` for any bytes, raises nothing. Everything quoted from the file is escaped and cut;
nothing is unpacked, decoded further than text, or followed.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from auditd.formats.archives import local_names
from auditd.formats.kinds import KIND_BYTES, KINDS, Kind, kind_of
from auditd.formats.protobuf import producer_of, version_of
from auditd.formats.quoting import counted, shown

#: Characters of a text that are quoted.
_QUOTED: Final = 80

_POINTER: Final = re.compile(rb"^oid sha256:([0-9a-f]{64})$.*^size ([0-9]{1,19})$", re.MULTILINE | re.DOTALL)
_TITLE: Final = re.compile(rb"<title[^>]{0,99}>([^<]{1,600})", re.IGNORECASE)
_XML_REPLY: Final = re.compile(rb"<(?:Code|Message)>([^<]{1,300})", re.IGNORECASE)

#: Vocabularies of Whisper: English only, many languages, and the third large model.
_WHISPER: Final = frozenset({51864, 51865, 51866})


@dataclass(frozen=True, slots=True)
class Foreign:
    """A file that is no model: its kind, and in words what it says of itself (empty if nothing)."""

    kind: Kind
    details: str = ""

    @property
    def words(self) -> str:
        """What it is, for a sentence that begins "this is"."""
        return f"{self.kind.meaning}; {self.details}" if self.details else self.kind.meaning


class PointerTarget(NamedTuple):
    """What a Git LFS pointer stands for: lower-case hex, and a size in bytes."""

    sha256: str
    size: int


def foreign_of(head: bytes, size: int) -> Foreign:
    """What a file of ``size`` bytes is that begins with ``head``, up to its first 1024 bytes."""
    head = head[:KIND_BYTES]
    kind = kind_of(head)
    describe = _DETAILS.get(kind.word)
    return Foreign(kind, "" if describe is None else describe(head, size))


def foreign_as(word: str, details: str = "") -> Foreign:
    """A kind that more than the first bytes told; raises ``KeyError`` for a word that is none."""
    return Foreign(KINDS[word], details)


def pointer_target(head: bytes) -> PointerTarget | None:
    """What a Git LFS pointer stands for, None if it does not say."""
    match = _POINTER.search(head.replace(b"\r\n", b"\n"))
    return None if match is None else PointerTarget(match[1].decode("ascii"), int(match[2]))


# -- details, one function a kind -------------------------------------------------------------------


def _empty(_head: bytes, _size: int) -> str:
    return f"the SHA-256 of nothing is {hashlib.sha256().hexdigest()}"


def _pointer(head: bytes, _size: int) -> str:
    target = pointer_target(head)
    if target is None:
        return "it does not say for which"
    return f"the model has {counted(target.size, 'byte')} and SHA-256 {target.sha256}"


def _page(head: bytes, _size: int) -> str:
    title = _TITLE.search(head)
    return "" if title is None else f"its title is {_words(_unescaped(title[1]))}"


def _xml(head: bytes, size: int) -> str:
    said = [_unescaped(match[1]) for match in _XML_REPLY.finditer(head)]
    return f"it says {_words(': '.join(said))}" if said else _text(head, size)


def _text(head: bytes, _size: int) -> str:
    return f"it begins {_words(head.removeprefix(_UTF8_MARK).decode('utf-8', 'surrogateescape'))}"


def _utf16(head: bytes, _size: int) -> str:
    order = "utf-16-le" if head.startswith(b"\xff\xfe") else "utf-16-be"
    text = head[2:].decode(order, "replace")
    if text.startswith("GGUF"):
        return "it was a GGUF file before it was rewritten as text, which cannot be undone"
    return f"it begins {_words(text)}"


def _gzip(head: bytes, _size: int) -> str:
    """The name of what was packed, if it is the first field behind the fixed ones."""
    if len(head) < _GZIP_HEAD or head[3] & (_GZIP_EXTRA | _GZIP_NAME) != _GZIP_NAME:
        return ""
    name, nul, _ = head[_GZIP_HEAD:].partition(b"\0")
    return f"it was packed from {shown(name)}" if name and nul else ""


def _tar(head: bytes, _size: int) -> str:
    return f"its first entry is {shown(head[:100].partition(_NUL)[0])}"


def _zip(head: bytes, _size: int) -> str:
    first = next(local_names(head), None)
    return "" if first is None else f"its first entry is {shown(first)}"


def _pytorch(head: bytes, size: int) -> str:
    return _zip(head, size) or "it is of the form that was used before PyTorch 1.6"


def _pickle(head: bytes, _size: int) -> str:
    return f"it is of protocol {head[1]}" if head[:1] == b"\x80" else "it is of protocol 0 or 1"


def _ggml(head: bytes, _size: int) -> str:
    vocabulary = int.from_bytes(head[4:8], "little")
    return f"its vocabulary of {vocabulary:,} entries is that of Whisper" if vocabulary in _WHISPER else ""


def _versioned(head: bytes, _size: int) -> str:
    return f"it is of version {int.from_bytes(head[4:8], 'little')}" if len(head) >= 8 else ""  # noqa: PLR2004 - mark, version


def _executable(head: bytes, _size: int) -> str:
    return next((words for mark, words in _PROGRAMS if head.startswith(mark)), "")


def _onnx(head: bytes, _size: int) -> str:
    producer = producer_of(head)
    return f"it is of IR version {version_of(head)}" + (f", written by {shown(producer)}" if producer else "")


def _coreml(head: bytes, _size: int) -> str:
    return f"it is of specification version {version_of(head)}"


def _numpy(head: bytes, _size: int) -> str:
    begin = head.find(b"{")
    return "" if begin < 0 else f"its header says {_words(head[begin:].decode('latin-1').partition('}')[0] + '}')}"


def _zeros(head: bytes, size: int) -> str:
    run = len(head) - len(head.lstrip(b"\0"))
    if run == size:
        return f"all of its {counted(size, 'byte')} are zero"
    if run == len(head):
        return f"its first {run:,} bytes are zero, and no more were looked at"
    return f"its first {run:,} bytes are zero and the next is not"


def _words(text: str) -> str:
    """The first words of a text, on one line, quoted, escaped and cut."""
    line = " ".join(text.split())
    return shown(line[:_QUOTED]) + (" and so on" if len(line) > _QUOTED else "")


def _unescaped(raw: bytes) -> str:
    return html.unescape(raw.decode("utf-8", "surrogateescape"))


_NUL: Final = b"\0"
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_GZIP_HEAD: Final = 10
_GZIP_EXTRA: Final = 0x04
_GZIP_NAME: Final = 0x08

_PROGRAMS: Final = (
    (b"MZqFpD", "it is of the kind that runs on many systems (APE), as llamafiles are"),
    (b"jartsr='", "it is of the kind that runs on many systems (APE), as llamafiles are"),
    (b"MZ", "it is for Windows"),
    (b"\x7fELF", "it is for Linux and others (ELF)"),
    (b"\xcf\xfa\xed\xfe", "it is for macOS (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "it is for macOS (Mach-O), or a Java class"),
)

_DETAILS: Final[Mapping[str, Callable[[bytes, int], str]]] = {
    "empty": _empty,
    "lfs_pointer": _pointer,
    "html_page": _page,
    "xml_text": _xml,
    "json_text": _text,
    "text": _text,
    "utf16_text": _utf16,
    "gzip": _gzip,
    "tar": _tar,
    "zip": _zip,
    "apk": _zip,
    "npz": _zip,
    "keras": _zip,
    "pytorch": _pytorch,
    "pickle": _pickle,
    "ggml": _ggml,
    "ggjt": _versioned,
    "ggmf": _versioned,
    "ggla": _versioned,
    "executable": _executable,
    "onnx": _onnx,
    "coreml": _coreml,
    "numpy": _numpy,
    "zeros": _zeros,
}
