"""The smallest files that show something, byte by byte and without the code under test."""

from __future__ import annotations

import struct

ALIGNMENT = 32


def _text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def gguf(*, tensors: int = 1, tail: bytes = b"", cut: int = 0, version: int = 3, template: str = "") -> bytes:
    """A GGUF file with ``tensors`` F32 tensors of 8 elements: 96 bytes for one, residue 0.

    ``tail`` is appended; ``cut`` bytes are taken from the end. ``template`` is a chat template, if any.
    """
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, bool(template))
    if template:
        head += _text(b"tokenizer.chat_template") + struct.pack("<I", 8) + _text(template.encode())
    directory = b"".join(
        struct.pack("<Q", 1) + bytes([97 + index]) + struct.pack("<IQIQ", 1, 8, 0, 32 * index)
        for index in range(tensors)
    )
    header = head + directory
    padding = bytes(-len(header) % ALIGNMENT)
    content = header + padding + bytes(range(32)) * tensors + tail
    return content[: len(content) - cut]


def safetensors(tail: bytes = b"") -> bytes:
    """A safetensors file with one F32 tensor of 2 elements."""
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + bytes(8) + tail
