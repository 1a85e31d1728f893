"""A field's path (``metadata[4].value[1].length``, counted from 0) in words that count from 1."""

from __future__ import annotations

import re
from typing import Final

_HEAD: Final = {
    "header.magic": "the magic",
    "header.version": "the version",
    "header.tensor_count": "the number of tensors",
    "header.metadata_count": "the number of metadata entries",
    "header.padding": "the padding",
}

_ENTRY: Final = re.compile(r"(metadata|tensors)\[(\d+)\]\.(\w+)((?:\[\d+\])*)(?:\.(\w+))?\Z")

_FIELDS: Final = {
    "key": "its key",
    "type": "its type",
    "value": "its value",
    "name": "its name",
    "n_dims": "its number of dimensions",
    "dims": "its dimensions",
    "offset": "its offset",
}

_PARTS: Final = {
    "length": "the length of ",
    "element_type": "the element type of ",
    "count": "the element count of ",
    None: "",
}


def place(subject: str, metadata_count: int | None, tensor_count: int | None) -> str:
    """``subject`` in words: ``metadata entry 5 of 5: the length of its key``."""
    if subject in _HEAD:
        return _HEAD[subject]
    match = _ENTRY.match(subject)
    if match is None:
        return subject
    collection, index, field, elements, part = match.groups()
    what, count = ("metadata entry", metadata_count) if collection == "metadata" else ("tensor", tensor_count)
    inside = "".join(f"element {int(number) + 1} of " for number in reversed(re.findall(r"\d+", elements)))
    return f"{what} {int(index) + 1} of {count}: {_PARTS.get(part, '')}{inside}{_FIELDS.get(field, field)}"
