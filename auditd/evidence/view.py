"""Views: a page of rows selected from a retained record, without the file that it speaks of.

A request is a JSON object::

    {"collection": "tensors", "names": ["output.weight"], "fields": ["shape", "file_offset"], "offset": 0, "limit": 32}

``collection`` is ``tensors``, ``metadata`` or ``types``. Filters intersect; one that is left out takes all, an
empty list takes nothing. ``fields`` selects columns, left out all of them, ``[]`` none but the index. ``offset``
and ``limit`` count matches; an index is always the row's own. Names match the text that the record shows.

Raises :class:`ViewError` for a request that cannot be meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from auditd.errors import AuditError
from auditd.evidence.record import (
    Evidence,
    GgufTensorRow,
    MetadataRow,
    Record,
    SafetensorsTensorRow,
    StorageValidation,
    TypeTotal,
)

SCHEMA: Final = "model-auditd/view/1"

#: Rows of a page, if nothing else is asked for and at most.
DEFAULT_LIMIT: Final = 100
LARGEST_LIMIT: Final = 1000

#: Limitations that a page quotes; the record has all of them.
_LIMITATIONS: Final = 8

Collection: TypeAlias = Literal["tensors", "metadata", "types"]


class ViewError(AuditError):
    """A view that cannot be meant; ``str()`` says which part and what is allowed."""


class ViewRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to select; see the module."""

    collection: Collection
    names: list[str] | None = None
    keys: list[str] | None = None
    types: list[str] | None = None
    indices: list[int] | None = None
    storage_validation: list[StorageValidation] | None = None
    fields: list[str] | None = None
    offset: int = 0
    limit: int = DEFAULT_LIMIT


class MetadataText(Record, frozen=True):
    """One entry of a safetensors ``__metadata__``, in key order."""

    index: int
    key: str
    value: str


class TypeRow(Record, frozen=True):
    """Established totals of one type."""

    index: int
    type: str
    type_id: int | None
    tensors: int
    elements: str | None
    bytes: int | None


Row: TypeAlias = GgufTensorRow | SafetensorsTensorRow | MetadataRow | MetadataText | TypeRow


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of one collection; None where the record does not know them. ``filters`` maps a filter to its column."""

    rows: Sequence[Row] | None
    row_type: type[Row]
    filters: Mapping[str, str]
    #: The aspect of coverage that says how complete the rows are.
    aspect: Literal["tensors", "metadata", "storage_sizes"]


def parse_request(text: bytes | str) -> ViewRequest:
    """The request in ``text``."""
    try:
        request = msgspec.json.decode(text, type=ViewRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ViewError(f"view: {error}") from None
    if request.offset < 0:
        raise ViewError("view: offset is 0 or more")
    if not 1 <= request.limit <= LARGEST_LIMIT:
        raise ViewError(f"view: limit is 1 to {LARGEST_LIMIT}")
    return request


def view(evidence: Evidence, text: bytes | str) -> dict[str, Any]:
    """The page that the request in ``text`` selects from a complete record."""
    request = parse_request(text)
    if evidence.detail != "complete":
        raise ViewError("view: this record is a summary; rows stand in complete records only")
    table = _table(evidence, request.collection)
    columns = _columns(request, table.row_type)
    tests = [*_tests(request, table)]
    page: list[Row] = []
    matches = 0
    for row in table.rows or ():
        if all(test(row) for test in tests):
            if request.offset <= matches < request.offset + request.limit:
                page.append(row)
            matches += 1
    after = request.offset + len(page)
    return {
        "schema": SCHEMA,
        "evidence_id": evidence.evidence_id,
        "recorded_at": evidence.recorded_at,
        "collection": request.collection,
        "source": _source(evidence),
        "coverage": {name: msgspec.to_builtins(getattr(evidence.coverage, name)) for name in ("header", table.aspect)},
        "matches": None if table.rows is None else matches,
        "offset": request.offset,
        "limit": request.limit,
        "next_offset": after if page and after < matches else None,
        "rows": None if table.rows is None else [_selected(row, columns) for row in page],
        "omissions": _omissions(evidence, request, page),
        "limitations": [
            {"code": limitation.code, "message": limitation.message, "count": limitation.count}
            for limitation in evidence.limitations[:_LIMITATIONS]
        ],
    }


# -- tables -----------------------------------------------------------------------------------------

_TENSOR_FILTERS: Final = {"names": "name", "indices": "index", "storage_validation": "storage_validation"}


def _table(evidence: Evidence, collection: Collection) -> _Table:
    gguf, safetensors = evidence.gguf, evidence.safetensors
    part = gguf or safetensors
    if part is None:
        raise ViewError("view: this record has no declarations: neither GGUF nor safetensors was read")
    if collection == "types":
        rows = None if part.totals is None else [*_type_rows(part.totals.by_type)]
        return _Table(rows, TypeRow, {"types": "type", "indices": "index"}, "storage_sizes")
    if collection == "metadata":
        if gguf is not None:
            return _Table(gguf.metadata, MetadataRow, {"keys": "key", "indices": "index"}, "metadata")
        texts = None if safetensors is None or safetensors.tensors is None else [*_texts(safetensors.metadata or {})]
        return _Table(texts, MetadataText, {"keys": "key", "indices": "index"}, "metadata")
    if gguf is not None:
        return _Table(gguf.tensors, GgufTensorRow, {**_TENSOR_FILTERS, "types": "type"}, "tensors")
    rows_of = None if safetensors is None else safetensors.tensors
    return _Table(rows_of, SafetensorsTensorRow, {**_TENSOR_FILTERS, "types": "dtype"}, "tensors")


def _type_rows(totals: Sequence[TypeTotal]) -> Iterator[TypeRow]:
    for index, total in enumerate(totals):
        yield TypeRow(
            index=index,
            type=total.type,
            type_id=total.type_id,
            tensors=total.tensors,
            elements=total.elements,
            bytes=total.bytes,
        )


def _texts(metadata: Mapping[str, str]) -> Iterator[MetadataText]:
    for index, key in enumerate(sorted(metadata)):
        yield MetadataText(index=index, key=key, value=metadata[key])


# -- selection --------------------------------------------------------------------------------------

_FILTERS: Final = ("names", "keys", "types", "indices", "storage_validation")


def _tests(request: ViewRequest, table: _Table) -> Iterator[Callable[[Row], bool]]:
    for name in _FILTERS:
        wanted = getattr(request, name)
        if wanted is None:
            continue
        column = table.filters.get(name)
        if column is None:
            allowed = ", ".join(table.filters)
            raise ViewError(f"view: {request.collection} are not filtered by {name}; allowed: {allowed}")
        yield _among(column, frozenset(wanted))


def _among(column: str, wanted: frozenset[object]) -> Callable[[Row], bool]:
    return lambda row: getattr(row, column) in wanted


def _columns(request: ViewRequest, row_type: type[Row]) -> tuple[str, ...]:
    """The columns of a page: those asked for in the order of the record, and always the index."""
    names = row_type.__struct_fields__
    if request.fields is None:
        return names
    unknown = [name for name in request.fields if name not in names]
    if unknown:
        raise ViewError(f"view: {request.collection} have no field {unknown[0]!r}; allowed: {', '.join(names)}")
    return tuple(name for name in names if name == "index" or name in request.fields)


def _selected(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(row, name)) for name in columns}


def _source(evidence: Evidence) -> dict[str, Any]:
    """Whose rows these are, and how sure that is."""
    artifact = evidence.artifact
    return {
        "path": artifact.path,
        "path_base64": artifact.path_base64,
        "format": artifact.format,
        "size": artifact.size,
        "sha256": artifact.sha256,
        "header_sha256": evidence.read.header_sha256,
        "identity": evidence.identity.status,
        "outcome": evidence.outcome,
    }


def _omissions(evidence: Evidence, request: ViewRequest, page: Sequence[Row]) -> dict[str, Any]:
    """What a page cannot show: rows that were declared and not kept, and the rest of long arrays."""
    declared, kept = _counts(evidence, request.collection)
    arrays = [row.index for row in page if isinstance(row, MetadataRow) and row.preview_complete is False]
    return {
        "rows_not_kept": None if declared is None or kept is None else declared - kept,
        "arrays_cut": arrays,
    }


def _counts(evidence: Evidence, collection: Collection) -> tuple[int | None, int | None]:
    """Rows that were declared, and rows that the record has."""
    gguf, safetensors = evidence.gguf, evidence.safetensors
    if collection == "types":
        return (0, 0)
    if gguf is not None:
        rows: Sequence[object] | None = gguf.tensors if collection == "tensors" else gguf.metadata
        declared = gguf.tensor_count if collection == "tensors" else gguf.metadata_count
        return declared, None if rows is None else len(rows)
    if safetensors is None or safetensors.tensors is None:
        return None, None
    if collection == "tensors":
        return safetensors.tensor_count, len(safetensors.tensors)
    return (0, 0) if evidence.coverage.metadata.status == "complete" else (None, None)
