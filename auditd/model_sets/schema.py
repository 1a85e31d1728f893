"""The JSON Schema of a set's record; ``python -m auditd.model_sets.schema`` prints it."""

from __future__ import annotations

from auditd.evidence.schema import schema_of, text_of
from auditd.model_sets.record import SET_SCHEMA, SetEvidence


def set_schema_text() -> str:
    """The schema as it stands in ``config/set-evidence.schema.json``."""
    return text_of(schema_of(SetEvidence, SET_SCHEMA))


if __name__ == "__main__":
    print(set_schema_text(), end="")  # noqa: T201
