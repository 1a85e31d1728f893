"""A page of rows for the eye: one row a line, what it is a page of in front, what it leaves out behind."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from auditd.evidence.text import printable
from auditd.report.figures import counted


def view_page(page: Mapping[str, Any]) -> list[str]:
    """The lines of a page that ``auditd.evidence.view.view`` has made."""
    return [*_head(page), *_rows(page), *_foot(page)]


def _head(page: Mapping[str, Any]) -> Iterator[str]:
    source = page["source"]
    yield f"{page['collection']} of {printable(source['path'])}, as recorded at {page['recorded_at']} ({page['evidence_id']})"


def _rows(page: Mapping[str, Any]) -> Iterator[str]:
    if page["rows"] is None:
        yield "not known: the record has no such rows"
        return
    for row in page["rows"]:
        cells = (f"{name}={_cell(value)}" for name, value in row.items() if name != "index" and value is not None)
        yield "  ".join((f"{row['index']:>6}", *cells))


def _cell(value: Any) -> str:
    return printable(value) if isinstance(value, str) else printable(json.dumps(value, ensure_ascii=False))


def _foot(page: Mapping[str, Any]) -> Iterator[str]:
    if page["matches"] is not None:
        shown = len(page["rows"])
        more = "" if page["next_offset"] is None else f"; the next page is at offset {page['next_offset']}"
        yield f"{shown} of {counted(page['matches'], 'row')} from offset {page['offset']}{more}"
    left_out = page["omissions"]["rows_not_kept"]
    if left_out:
        yield f"{counted(left_out, 'declared row')} not in the record"
    cut = page["omissions"]["arrays_cut"]
    if cut:
        yield f"arrays that the record has only the beginning of: rows {', '.join(map(str, cut))}"
