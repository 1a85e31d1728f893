"""``show head``: what the front of a file says the model is, and where the header stops."""

from __future__ import annotations

from typing import Final

from auditd.evidence.exactness import exact_int, figure
from auditd.evidence.observation import Observation
from auditd.evidence.rows import safetensors_part
from auditd.evidence.text import exact as exact_text
from auditd.formats.declarations import ArrayValue, GgufHeader, SafetensorsHeader
from auditd.model import architecture as reading
from auditd.report.show.head_lines import lines
from auditd.report.show.head_sheet import Fact, HeadSheet, Json, Layers, Model, Numbers, Published, Stops
from auditd.report.show.layout import file_of
from auditd.report.show.outcome import ending
from auditd.rules.evaluate import as_rows, evaluate

__all__ = ["HeadSheet", "lines", "sheet"]

_NAME_KEY: Final = b"general.name"


def sheet(observation: Observation) -> HeadSheet:
    """The head of ``look``."""
    header = observation.header
    gguf = header if isinstance(header, GgufHeader) else None
    expectation = observation.expectation
    return HeadSheet(
        file=file_of(observation),
        names=[_text(name) for name in expectation.names],
        store=None if expectation.store is None else _text(expectation.store),
        published=[
            Published(algorithm=one.algorithm, value=_text(one.value), source=_text(one.source))
            for one in expectation.references
        ],
        header_sha256=observation.header_sha256,
        format=None if header is None else "safetensors" if gguf is None else "gguf",
        numbers=None if gguf is None else _numbers(gguf),
        json=_json(header) if isinstance(header, SafetensorsHeader) else None,
        model=None if gguf is None else _model(gguf, observation),
        stops=None if gguf is None else _stops(gguf),
        findings=as_rows(evaluate(observation), {}),
        ending=ending(observation),
    )


def _text(text: str) -> str:
    """Text that JSON can hold: a path in it need not be UTF-8."""
    return exact_text(text.encode("utf-8", "surrogateescape"))[0]


def _numbers(header: GgufHeader) -> Numbers:
    return Numbers(
        magic="GGUF",
        version=header.version,
        byte_order=header.byte_order,
        tensors=figure(header.tensor_count),
        metadata_entries=figure(header.metadata_count),
    )


def _stops(header: GgufHeader) -> Stops:
    known = header.data_offset is not None and header.directory_end is not None
    return Stops(
        alignment=header.alignment,
        alignment_declared=header.alignment_declared,
        metadata_end=header.metadata_end,
        directory_end=header.directory_end,
        padding=(header.data_offset or 0) - (header.directory_end or 0) if known else None,
        data_offset=exact_int(header.data_offset),
    )


def _json(header: SafetensorsHeader) -> Json:
    part = safetensors_part(header)
    return Json(
        length=exact_int(part.header_length),
        tensors=part.tensor_count,
        data_offset=exact_int(header.data_offset),
        metadata=part.metadata,
        types=None if part.totals is None else part.totals.by_type,
    )


# -- the model --------------------------------------------------------------------------------------


def _model(header: GgufHeader, observation: Observation) -> Model:
    found = reading.architecture(header, observation.account)
    metadata = reading.Metadata(header)
    architecture, architecture_base64 = _exact(found.name)
    title, title_base64 = _exact(metadata.text(_NAME_KEY))
    return Model(
        architecture=architecture,
        architecture_base64=architecture_base64,
        name=title,
        name_base64=title_base64,
        facts=[_fact(name, getattr(found, name)) for name in reading.FIGURES],
        parameters=None if found.parameters is None else str(found.parameters),
    )


def _exact(raw: bytes | None) -> tuple[str | None, str | None]:
    return (None, None) if raw is None else exact_text(raw)


def _fact(name: str, found: reading.Figure) -> Fact:
    key, key_base64 = _exact(None if found.entry is None else found.entry.key)
    return Fact(
        figure=name,
        key=key,
        key_base64=key_base64,
        value=figure(found.value),
        layers=None if found.layers is None else _layers(found.layers),
        reason=found.reason or None,
    )


def _layers(array: ArrayValue) -> Layers:
    whole = [value for value in array.preview if isinstance(value, int)]
    first: list[int | str] = [str(value) if exact_int(value) is None else value for value in whole]
    return Layers(count=array.count, first=first)
