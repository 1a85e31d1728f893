"""Evidence made by hand, for what only shows or counts it."""

from __future__ import annotations

import base64
from typing import Any

from auditd.evidence.record import (
    SCHEMA,
    Accounting,
    Artifact,
    Contiguous,
    Cover,
    Coverage,
    DeclaredTotals,
    Error,
    Evidence,
    Finding,
    Gguf,
    Identity,
    Producer,
    Read,
    SelectedLayout,
    Spans,
    TypeTotal,
)
from auditd.rules.findings import FINDINGS

_COMPLETE = Cover(status="complete")


def finding(code: str, message: str = "something is so", **changes: Any) -> Finding:
    """A finding with the severity and advice of its code."""
    kind = FINDINGS[code]
    fields: dict[str, Any] = {
        "code": code,
        "constraint": None,
        "severity": kind.severity,
        "message": message,
        "subject": None,
        "offset": None,
        "expected": None,
        "actual": None,
        "count": 1,
        "advice": kind.advice,
    }
    return Finding(**{**fields, **changes})


def error(code: str = "target_unavailable", category: str = "path", message: str = "no such file") -> Error:
    """An error without a place in the file."""
    fields: dict[str, Any] = {"code": code, "category": category, "message": message}
    return Error(constraint=None, subject=None, offset=None, errno=None, **fields)


def accounting(**changes: Any) -> Accounting:
    """The account of a file of 96 bytes with one tensor of 32."""
    fields: dict[str, Any] = {
        "file_size": 96,
        "data_offset": 64,
        "header_padding": 7,
        "tensor_bytes": 32,
        "alignment_padding": 0,
        "remainder": 0,
        "surplus": 0,
        "missing": 0,
        "overlap": 0,
        "residue": 0,
        "tensors_cut": 0,
        "tensors_gone": 0,
        "contiguous": Contiguous(yes=1, no=0),
        "regions": [],
        "region_count": 0,
        "regions_complete": True,
        "layout": SelectedLayout(name="ggml-current", basis="established"),
        "candidates": [],
        "consistent_with": ["ggml-current"],
        "by_type": [TypeTotal(type="F32", type_id=0, tensors=1, elements="8", bytes=32)],
        "parameters": "8",
    }
    return Accounting(**{**fields, **changes})


def gguf(**changes: Any) -> Gguf:
    """The declarations of the same file, without rows."""
    fields: dict[str, Any] = {
        "version": 3,
        "byte_order": "little",
        "alignment": 32,
        "alignment_declared": False,
        "metadata_count": 0,
        "tensor_count": 1,
        "spans": Spans(head=24, metadata=0, directory=33, padding=7),
        "metadata": [],
        "tensors": [],
        "totals": DeclaredTotals(tensors=1, elements="8", bytes=32, by_type=[]),
        "headline": {},
        "chat_templates": [],
    }
    return Gguf(**{**fields, **changes})


def evidence(path: str | bytes = "/srv/models/a.gguf", **changes: Any) -> Evidence:
    """A sound header inspection of a GGUF file; ``changes`` are fields of the record."""
    raw = path.encode() if isinstance(path, str) else path
    shown = path if isinstance(path, str) else path.decode("utf-8", "backslashreplace")
    artifact = Artifact(
        path=shown,
        path_base64=None if isinstance(path, str) else base64.b64encode(raw).decode(),
        name=shown.rpartition("/")[2],
        names=[],
        store=None,
        format="gguf",
        size=96,
        sha256=None,
        expected=[],
        expected_size=None,
    )
    coverage = dict.fromkeys(Coverage.__struct_fields__, _COMPLETE)
    coverage["digest"] = Cover(status="not_requested")
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "evidence_id": "ev_" + "0" * 64,
        "recorded_at": "2024-01-01T00:00:00Z",
        "producer": Producer(name="model-auditd", version="0", host="here", configuration="0" * 64),
        "trigger": "command",
        "outcome": "complete",
        "verdict": "sound",
        "detail": "complete",
        "artifact": artifact,
        "identity": Identity(before=None, after=None, status="unchanged"),
        "read": Read(
            scope="header",
            header_length=57,
            header_sha256="a" * 64,
            bytes_read=96,
            bytes_hashed=57,
            cache="kept",
            duration_seconds=0.001,
        ),
        "coverage": Coverage(**coverage),
        "gguf": gguf(),
        "safetensors": None,
        "accounting": accounting(),
        "limitations": [],
        "findings": [],
    }
    return Evidence(**{**fields, **changes})
