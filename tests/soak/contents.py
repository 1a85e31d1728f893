"""What the world writes, and what has to be found in it: known before anybody looks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tests.support.models import gguf, safetensors


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes, the findings from a warning on that they must lead to, and the chat template in them."""

    data: bytes
    codes: frozenset[str]
    template: str | None = None


#: Every content that was ever made, by digest: at most a few hundred.
CATALOGUE: Final[dict[str, Content]] = {}

_Maker = Callable[[random.Random], Content]


def _content(data: bytes, *codes: str, template: str | None = None) -> Content:
    return CATALOGUE.setdefault(sha256(data).hexdigest(), Content(data, frozenset(codes), template))


def _sound(chance: random.Random) -> Content:
    return _content(gguf(tensors=chance.randint(1, 20)))


def _with_template(chance: random.Random) -> Content:
    template = f"{{{{ messages }}}} {chance.randint(0, 9)}"
    return _content(gguf(tensors=chance.randint(1, 3), template=template), template=template)


def _cut(chance: random.Random) -> Content:
    return _content(gguf(tensors=3, cut=chance.randint(1, 60)), "tensor_bytes_missing")


def _lengthened(chance: random.Random) -> Content:
    return _content(gguf(tensors=2, tail=bytes([chance.randint(1, 3)]) * chance.randint(1, 20)), "unowned_bytes")


def _beheaded(chance: random.Random) -> Content:
    return _content(gguf()[: chance.randint(25, 56)], "header_truncated")


def _foreign(chance: random.Random) -> Content:
    return _content(b"no model at all, number %d\n" % chance.randint(0, 9), "not_a_model")


#: Each kind of GGUF file as often as it stands here: most of the world is sound.
_GGUF: Final[tuple[_Maker, ...]] = (
    _sound,
    _sound,
    _with_template,
    _with_template,
    _cut,
    _lengthened,
    _beheaded,
    _foreign,
)


def _sound_safetensors(_: random.Random) -> Content:
    return _content(safetensors())


def _lengthened_safetensors(chance: random.Random) -> Content:
    return _content(safetensors(bytes(chance.randint(1, 9))), "unowned_bytes")


_SAFETENSORS: Final[tuple[_Maker, ...]] = (_sound_safetensors, _lengthened_safetensors)


def content_for(name: str, chance: random.Random) -> Content:
    """Something to be written under ``name``."""
    return chance.choice(_SAFETENSORS if name.endswith(".safetensors") else _GGUF)(chance)


def flipped(data: bytes) -> bytes | None:
    """Other bytes of the same size that must lead to the same findings; None if that cannot be said of them."""
    content = CATALOGUE[sha256(data).hexdigest()]
    if "header_truncated" in content.codes or not data:
        return None
    other = data[:-1] + bytes([data[-1] ^ 1])
    return _content(other, *content.codes, template=content.template).data


def cut_short(data: bytes, chance: random.Random) -> bytes | None:
    """``data`` without some bytes of its last tensor; None if it is not a sound model."""
    content = CATALOGUE[sha256(data).hexdigest()]
    if content.codes:
        return None
    return _content(data[: -chance.randint(1, 7)], "tensor_bytes_missing", template=content.template).data


def shard(tensor: str) -> Content:
    """One safetensors file of a set."""
    header = b'{"%b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' % tensor.encode()
    return _content(len(header).to_bytes(8, "little") + header + b"\1\2\3\4")
