"""The JSON Schema of a record, generated from its types; ``python -m auditd.evidence.schema`` prints it."""

from __future__ import annotations

import json

import msgspec

from auditd.evidence.record import SCHEMA, Evidence


def evidence_schema() -> dict[str, object]:
    """JSON Schema 2020-12 of ``model-auditd/evidence/1``."""
    schema = msgspec.json.schema(Evidence)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{SCHEMA}",
        "title": SCHEMA,
        **schema,
    }


def schema_text() -> str:
    """The schema as it stands in ``config/evidence.schema.json``."""
    return json.dumps(evidence_schema(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")  # noqa: T201
