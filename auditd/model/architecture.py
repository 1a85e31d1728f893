"""What the metadata of a GGUF header says the model is, found under the prefix that the file itself names.

A file declares ``general.architecture`` and then begins its architecture's keys with that name: the number of blocks
of a ``qwen2`` model stands at ``qwen2.block_count``. No prefix is known here beforehand. A safetensors header has no
such keys, and all but the number of parameters is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from auditd.accounting.account import Account
from auditd.formats.declarations import ArrayValue, GgufHeader, MetadataEntry, SafetensorsHeader
from auditd.formats.gguf import wire

ARCHITECTURE_KEY: Final = b"general.architecture"
TOKENS_KEY: Final = b"tokenizer.ggml.tokens"
MERGES_KEY: Final = b"tokenizer.ggml.merges"

#: A figure's name and its key behind the architecture's prefix.
KEYS: Final[Mapping[str, bytes]] = {
    "blocks": b"block_count",
    "embedding_width": b"embedding_length",
    "heads": b"attention.head_count",
    "kv_heads": b"attention.head_count_kv",
    "feed_forward_width": b"feed_forward_length",
    "trained_context": b"context_length",
    "experts": b"expert_count",
    "experts_used": b"expert_used_count",
    "key_width": b"attention.key_length",
    "value_width": b"attention.value_length",
}

#: Every figure of an :class:`Architecture`, in the order in which people ask for them.
FIGURES: Final = (
    "blocks",
    "embedding_width",
    "heads",
    "kv_heads",
    "head_width",
    "value_width",
    "feed_forward_width",
    "trained_context",
    "vocabulary",
    "merges",
    "experts",
    "experts_used",
)

NOT_DECLARED: Final = "the file does not declare it"
NO_PREFIX: Final = "the file does not name its architecture"
NOT_KEPT: Final = "not every entry of the header is known"
NOT_IN_FORMAT: Final = "a safetensors header does not say it"

_INTEGERS: Final = frozenset(
    wire.VALUE_TYPES.index(name) for name in ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that the file declares.

    ``value`` is None where there is no single number: then ``layers`` is the array if there is one for each layer,
    else ``reason`` says why. ``entry`` is where it stands; None for a number that follows from others.
    """

    value: int | None = None
    layers: ArrayValue | None = None
    entry: MetadataEntry | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Groups:
    """How many metadata entries begin with the architecture's name, ``tokenizer.``, ``general.``, or otherwise."""

    architecture: int
    tokenizer: int
    general: int
    other: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """What the model is said to be.

    Widths are in elements, ``trained_context`` in tokens, ``vocabulary`` and ``merges`` are the lengths of the
    tokenizer's lists. ``head_width`` is the declared width of a key, else embedding width / heads where that
    divides; ``value_width`` likewise. ``parameters`` are the elements of all tensors, None where one is unknown.
    """

    name: bytes | None
    blocks: Figure
    embedding_width: Figure
    heads: Figure
    kv_heads: Figure
    head_width: Figure
    value_width: Figure
    feed_forward_width: Figure
    trained_context: Figure
    vocabulary: Figure
    merges: Figure
    experts: Figure
    experts_used: Figure
    parameters: int | None
    groups: Groups | None


class Metadata:
    """The entries of a header by key; a key that stands there twice says nothing."""

    def __init__(self, header: GgufHeader) -> None:
        self.entries: dict[bytes, MetadataEntry] = {}
        self._twice: set[bytes] = set()
        #: Whether an absent key is absent from the file.
        self.complete = header.metadata_count == len(header.metadata)
        for entry in header.metadata:
            if entry.key in self.entries:
                self._twice.add(entry.key)
            self.entries.setdefault(entry.key, entry)
        self.architecture = self.text(ARCHITECTURE_KEY)

    def text(self, key: bytes) -> bytes | None:
        """The string at ``key``, None if there is no single one."""
        entry = self.entries.get(key)
        if entry is None or key in self._twice or not isinstance(entry.value, bytes):
            return None
        return entry.value

    def under_prefix(self, suffix: bytes) -> Figure:
        """The number that the architecture's key of this suffix declares."""
        if self.architecture is None:
            return Figure(reason=NO_PREFIX)
        return self.number(b"%b.%b" % (self.architecture, suffix))

    def number(self, key: bytes) -> Figure:
        """The whole number at ``key``, or the array of them."""
        entry = self.entries.get(key)
        if entry is None:
            return Figure(reason=NOT_DECLARED if self.complete else NOT_KEPT)
        if key in self._twice:
            return Figure(reason="the file declares it more than once")
        value = entry.value
        if isinstance(value, ArrayValue):
            if value.element_type in _INTEGERS:
                return Figure(layers=value, entry=entry)
            return Figure(entry=entry, reason=f"it is an array of {wire.VALUE_TYPES[value.element_type]}")
        if entry.type_id not in _INTEGERS or not isinstance(value, int):
            return Figure(entry=entry, reason=f"it is a {wire.VALUE_TYPES[entry.type_id]}, and no whole number")
        return Figure(value=value, entry=entry)

    def length(self, key: bytes) -> Figure:
        """How many elements the array at ``key`` has."""
        entry = self.entries.get(key)
        if entry is None:
            return Figure(reason=NOT_DECLARED if self.complete else NOT_KEPT)
        if key in self._twice:
            return Figure(reason="the file declares it more than once")
        if not isinstance(entry.value, ArrayValue):
            return Figure(entry=entry, reason=f"it is a {wire.VALUE_TYPES[entry.type_id]}, and no array")
        return Figure(value=entry.value.count, entry=entry)


def architecture(header: GgufHeader | SafetensorsHeader | None, account: Account | None) -> Architecture:
    """What ``header`` says of the model; everything unknown has its reason."""
    parameters = None if account is None else account.parameters
    if not isinstance(header, GgufHeader):
        unknown = dict.fromkeys(FIGURES, Figure(reason=NOT_IN_FORMAT))
        return Architecture(name=None, parameters=parameters, groups=None, **unknown)
    metadata = Metadata(header)
    found = {name: metadata.under_prefix(suffix) for name, suffix in KEYS.items()}
    key_width, value_width = found.pop("key_width"), found.pop("value_width")
    return Architecture(
        name=metadata.architecture,
        head_width=head_width(key_width, found["embedding_width"], found["heads"]),
        value_width=head_width(value_width, found["embedding_width"], found["heads"]),
        vocabulary=metadata.length(TOKENS_KEY),
        merges=metadata.length(MERGES_KEY),
        parameters=parameters,
        groups=_groups(metadata.architecture, header.metadata) if metadata.complete else None,
        **found,
    )


def head_width(declared: Figure, embedding: Figure, heads: Figure) -> Figure:
    """The declared width of one head, else the embedding's share of each head where it divides."""
    if declared.entry is not None or declared.reason != NOT_DECLARED:
        return declared
    if embedding.value is None or not heads.value or heads.value < 0:
        return declared
    if embedding.value % heads.value:
        return Figure(reason=f"the embedding of {embedding.value} does not divide by {heads.value} heads")
    return Figure(value=embedding.value // heads.value)


def _groups(name: bytes | None, entries: Iterable[MetadataEntry]) -> Groups:
    counts = {"architecture": 0, "tokenizer": 0, "general": 0, "other": 0}
    for entry in entries:
        counts[_group(name, entry.key)] += 1
    return Groups(**counts)


def _group(name: bytes | None, key: bytes) -> str:
    # an architecture may call itself "general": its keys are told apart by nothing, and are general ones
    if key.startswith(b"general."):
        return "general"
    if key.startswith(b"tokenizer."):
        return "tokenizer"
    return "architecture" if name and key.startswith(name + b".") else "other"
