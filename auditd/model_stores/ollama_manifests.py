"""The manifests of an Ollama store: which model names which blobs.

``manifests/<registry>/<namespace>/<model>/<tag>`` is JSON: ``config`` and ``layers``, each with a media type, a digest
and a size. Manifests are read one at a time; one that cannot be read or understood is yielded as such, because the
blobs that it names are then unknown, and no blob may be called an orphan.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from auditd.evidence.expectation import Role
from auditd.model_stores.cache import Dependencies
from auditd.model_stores.checked_json import checked
from auditd.model_stores.files import Checkpoint, Unknown, carry_on, entries_of, read_small
from auditd.model_stores.status import text_of

#: Left out of a model's name, because nobody writes them.
DEFAULT_REGISTRY: Final = b"registry.ollama.ai"
DEFAULT_NAMESPACE: Final = b"library"
DEFAULT_TAG: Final = b"latest"

#: Real ones have about one kilobyte and ten layers.
MANIFEST_BYTES: Final = 1 << 20
#: Manifests and layers that an index holds; past them it is incomplete.
MANIFESTS: Final = 50_000
LAYERS: Final = 250_000

#: Registry, namespace, model, tag.
DEPTH: Final = 4

_DIGEST: Final = re.compile(r"sha256[:-]([0-9a-f]{64})", re.ASCII)
_SIZE_LIMIT: Final = 1 << 63

#: What a layer's media type says of it; every other layer is a part that is no model.
LAYER_ROLES: Final[dict[str, Role]] = {
    "application/vnd.ollama.image.model": "model",
    "application/vnd.ollama.image.projector": "model",
    "application/vnd.ollama.image.adapter": "model",
}
#: The layer that a model's name stands for.
MODEL_LAYER: Final = "application/vnd.ollama.image.model"


#: The layers of Ollama's own media types are told apart by the last word.
_LAYER_TYPE: Final = re.compile(r"application/vnd\.ollama\.image\.([a-z]{1,20})")
_CONFIG: Final = "application/vnd.docker.container.image.v1+json"


class _Layer(msgspec.Struct):
    digest: str
    size: int
    media_type: str = msgspec.field(default="", name="mediaType")


class _Document(msgspec.Struct):
    config: _Layer | None = None
    layers: list[_Layer] | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """A blob that a manifest names: the hex digits of its SHA-256, its size in bytes, what it is."""

    digest: str
    size: int
    media_type: str

    @property
    def role(self) -> Role:
        """Whether it is held to be a model."""
        return LAYER_ROLES.get(self.media_type, "other")

    @property
    def part(self) -> str:
        """One word for what it is: ``model``, ``license``, ``params``; empty where the media type has none."""
        return "config" if self.media_type == _CONFIG else _last_word(self.media_type)


def _last_word(media_type: str) -> str:
    match = _LAYER_TYPE.fullmatch(media_type)
    return match.group(1) if match else ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One manifest; ``layers`` has the config, too, and is None if it could not be read or understood.

    ``own_digest`` is the SHA-256 of the manifest itself: some versions keep it as a blob as well.
    """

    path: bytes
    name: str
    layers: tuple[Layer, ...] | None = None
    own_digest: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """That a model names a blob; ``size`` in bytes, None where the manifest itself is the blob; ``part`` is what it is."""

    model: str
    role: Role
    size: int | None
    part: str = ""


@dataclass(frozen=True, slots=True)
class Index:
    """Which models name which blob, by the hex digits of its digest; ``complete`` if no manifest stayed unknown."""

    uses: dict[str, list[Use]]
    complete: bool


def model_name(parts: list[bytes]) -> str:
    """What people call the model of a manifest at ``registry/namespace/model/tag``."""
    registry, namespace, model, tag = parts
    if registry != DEFAULT_REGISTRY:
        prefix = registry + b"/" + namespace + b"/"
    else:
        prefix = b"" if namespace == DEFAULT_NAMESPACE else namespace + b"/"
    return text_of(prefix + model + b":" + tag)


def manifests(home: bytes, checkpoint: Checkpoint = carry_on, watch: Dependencies | None = None) -> Iterator[Manifest]:
    """Yield every manifest of the store ``home``, one at a time; directories that cannot be read as manifests, too."""
    root = os.path.join(home, b"manifests")
    waiting: list[list[bytes]] = [[]]
    while waiting:
        parts = waiting.pop()
        directory = os.path.join(root, *parts)
        if watch is not None:
            watch.add(directory)
        try:
            for name, kind in entries_of(directory, checkpoint):
                below = [*parts, name]
                if name.startswith(b"."):  # no part of a model's name begins so; file managers leave such files
                    continue
                if len(below) < DEPTH:
                    waiting.extend([below] if kind == stat.S_IFDIR else [])
                elif kind != stat.S_IFDIR:
                    yield _read(root, below, watch)
        except Unknown:
            yield Manifest(directory, text_of(b"/".join(parts)))


def _read(root: bytes, parts: list[bytes], watch: Dependencies | None) -> Manifest:
    path = os.path.join(root, *parts)
    if watch is not None:
        watch.add(path)
    return read_manifest(path, model_name(parts))


def read_manifest(path: bytes, name: str) -> Manifest:
    """The manifest at ``path``, whose model is called ``name``."""
    try:
        raw = read_small(path, MANIFEST_BYTES)
    except Unknown:
        return Manifest(path, name)
    return Manifest(path, name, _layers(checked(raw, _Document)), hashlib.sha256(raw).hexdigest())


def _layers(document: _Document | None) -> tuple[Layer, ...] | None:
    if document is None or (document.config is None and document.layers is None):
        return None
    parts = [*([document.config] if document.config else []), *(document.layers or [])]
    matches = [_DIGEST.fullmatch(part.digest) for part in parts]
    if not all(matches) or not all(0 <= part.size < _SIZE_LIMIT for part in parts):
        return None
    return tuple(
        Layer(match.group(1), part.size, part.media_type)
        for match, part in zip(matches, parts, strict=True)
        if match is not None
    )


def read_index(home: bytes, watch: Dependencies) -> Index:
    """Read all manifests of the store ``home`` within the bounds."""
    uses: dict[str, list[Use]] = {}
    complete, read, held = True, 0, 0
    for manifest in manifests(home, watch.checkpoint, watch):
        read += 1
        if read > MANIFESTS or held > LAYERS:
            return Index(uses, complete=False)
        if manifest.layers is None:
            complete = False
            continue
        uses.setdefault(manifest.own_digest, []).append(Use(manifest.name, "other", None, "manifest"))
        for layer in manifest.layers:
            held += 1
            watch.items += 1
            uses.setdefault(layer.digest, []).append(Use(manifest.name, layer.role, layer.size, layer.part))
    return Index(uses, complete)
