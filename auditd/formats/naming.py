"""What a file's name says about it: one table for model suffixes, one for unfinished downloads. Pure.

Names never decide a format - content does - only whether a file in a tree is looked at, and whether a
download is still under way. All names are bytes, as the file system has them.
"""

from __future__ import annotations

import re
from typing import Final

#: A file with such a name is an artifact: ours, the legacy containers' and the pickles', which are never
#: opened for more than their first bytes.
MODEL_SUFFIXES: Final[frozenset[bytes]] = frozenset(
    {b".gguf", b".safetensors", b".ggml", b".ggjt", b".llamafile", b".pt", b".pth", b".ckpt", b".pkl", b".pickle"}
)

#: Files that no writer of GGUF or safetensors names so: not worth an open() each in a tree of source code.
OTHER_SUFFIXES: Final[frozenset[bytes]] = frozenset(
    b".bat .c .cc .cfg .conf .cpp .css .csv .cu .dll .exe .gif .gitattributes .gitignore .go .gz .h .hpp .html .ini "
    b".ipynb .java .jinja .jpeg .jpg .js .json .jsonl .lock .log .md .metadata .mjs .mp3 .mp4 .parquet .pdf .png .proto .ps1 "
    b".py .pyc .pyi .rb .rs .rst .sh .sha256 .sig .so .sql .svg .tar .tgz .tmpl .toml .ts .tsv .txt .vocab .wav .webp .xml "
    b".yaml .yml .zip".split()
)

#: Names that downloaders give to what they have not finished: Ollama's parts, browsers', wget's, the hub's.
_UNFINISHED: Final = re.compile(rb".\.(?:part|crdownload|incomplete|tmp|download)\Z|.-partial(?:-[0-9]+)?\Z")


_PART: Final = re.compile(rb".-partial-[0-9]+\Z")

#: ``.bin`` is anybody's; under these names it is a pickle of weights, or a legacy container.
_WEIGHTS: Final = re.compile(
    rb"(?:[\w-]{0,40}_)?(?:pytorch_|adapter_|ggml-)?model(?:[-_.][\w-]{1,40}){0,3}\.bin|consolidated(?:\.[0-9]{1,4})?\.bin"
)


def suffix(name: bytes) -> bytes:
    """The last suffix of a file name in lower case with its dot, or nothing."""
    stem, dot, last = name.rpartition(b".")
    return (dot + last).lower() if stem else b""


def is_model_name(name: bytes) -> bool:
    """Whether a file of this name is an artifact whatever it holds."""
    return suffix(name) in MODEL_SUFFIXES or (name.endswith(b".bin") and _WEIGHTS.fullmatch(name) is not None)


def is_part_of_unfinished(name: bytes) -> bool:
    """Whether the name is that of the notes on a part of a download, which stand beside it (``…-partial-7``)."""
    return _PART.search(name) is not None


def may_hold_model(name: bytes) -> bool:
    """Whether the first bytes of a file of this name are worth a look."""
    return suffix(name) not in OTHER_SUFFIXES


def is_unfinished_name(name: bytes) -> bool:
    """Whether the name alone says that a download is under way (an ``.aria2`` beside it says so, too)."""
    return _UNFINISHED.search(name) is not None
