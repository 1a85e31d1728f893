"""Which files a store names by their content: they are artifacts whatever their first bytes are. Pure."""

from __future__ import annotations

import re
from typing import Final

#: Ollama's blobs (an old naming has a colon) and those of a Hugging Face cache: a digest in hex, below ``blobs``.
_BLOB: Final = re.compile(rb"(?:sha256[-:])?[0-9a-f]{64}|[0-9a-f]{40}")


def is_blob(path: bytes) -> bool:
    """Whether the name of ``path`` is a digest and the directory that it stands in is one of blobs."""
    directory, _, name = path.rpartition(b"/")
    return directory.rpartition(b"/")[2] == b"blobs" and _BLOB.fullmatch(name) is not None
