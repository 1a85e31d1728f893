"""The JSON Schema of a record, generated from its types; ``python -m auditd.evidence.schema`` prints that of a file.

``python -m auditd.model_sets.schema`` prints that of a set.
"""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec

from auditd.evidence.record import SCHEMA, Evidence


def evidence_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of ``model-auditd/evidence/1``."""
    return schema_of(Evidence, SCHEMA)


def schema_of(record: type[msgspec.Struct], name: str) -> dict[str, Any]:
    """JSON Schema 2020-12 of the record type with this schema name."""
    schema = _settled(msgspec.json.schema(record))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:{name}", "title": name, **schema}


def _settled(part: Any) -> Any:
    """The same schema whatever release generates it: order of alternatives, white space of docstrings."""
    if isinstance(part, list):
        return [_settled(item) for item in part]
    if not isinstance(part, dict):
        return part
    settled = {name: _settled(value) for name, value in part.items()}
    if "anyOf" in settled:
        settled["anyOf"] = sorted(settled["anyOf"], key=lambda form: json.dumps(form, sort_keys=True))
    if isinstance(settled.get("description"), str):
        settled["description"] = inspect.cleandoc(settled["description"])
    return settled


def schema_text() -> str:
    """The schema as it stands in ``config/evidence.schema.json``."""
    return text_of(evidence_schema())


def text_of(schema: dict[str, Any]) -> str:
    """A schema as it stands in a file."""
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")  # noqa: T201
