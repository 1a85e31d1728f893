"""What ``show head`` says of a file, as figures."""

from __future__ import annotations

from typing import Literal

import msgspec

from auditd.evidence.record import Figure as Number
from auditd.evidence.record import Finding, TypeTotal
from auditd.report.show.layout import File
from auditd.report.show.outcome import Ending


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """A digest that somebody promised for the file: lower-case hex, and who says so."""

    algorithm: str
    value: str
    source: str


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """The four numbers at the front of a GGUF file; null from the first one on that was not read."""

    magic: str
    version: int | None
    byte_order: Literal["little", "big"] | None
    tensors: Number
    metadata_entries: Number


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that the file gives for each layer: how many, and the first of them (at most 8)."""

    count: int
    first: list[int | str]


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the model. ``value`` and ``layers`` are null where ``reason`` says why there is none.

    ``key`` is where it stands in the metadata, null for a figure that follows from others.
    """

    figure: str
    key: str | None
    key_base64: str | None
    value: Number
    layers: Layers | None
    reason: str | None


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What the metadata says the model is. Widths in elements; ``parameters`` are the elements of all tensors."""

    architecture: str | None
    architecture_base64: str | None
    name: str | None
    name_base64: str | None
    facts: list[Fact]
    parameters: str | None


class Stops(msgspec.Struct, frozen=True, kw_only=True):
    """Where a GGUF header stops: file offsets and ``padding`` in bytes, null until the reading came that far."""

    alignment: int | None
    alignment_declared: bool | None
    metadata_end: int | None
    directory_end: int | None
    padding: int | None
    data_offset: int | None


class Json(msgspec.Struct, frozen=True, kw_only=True):
    """The front of a safetensors file: ``length`` of the JSON in bytes; rows null until all of it is validated."""

    length: int | None
    tensors: int | None
    data_offset: int | None
    metadata: dict[str, str] | None
    types: list[TypeTotal] | None


class HeadSheet(msgspec.Struct, frozen=True, kw_only=True):
    """The head of one file. Exactly one of ``numbers`` and ``json`` is given for a file of a known format."""

    schema: str = "model-auditd/show-head/1"
    file: File
    names: list[str]
    store: str | None
    published: list[Published]
    header_sha256: str | None
    format: Literal["gguf", "safetensors"] | None
    numbers: Numbers | None
    json: Json | None
    model: Model | None
    stops: Stops | None
    findings: list[Finding]
    ending: Ending | None
