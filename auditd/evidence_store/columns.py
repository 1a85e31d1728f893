"""What the store keeps beside a record so that it can be found without being unpacked, and the seal over all of it. Pure.

Every column here but four follows from the record, so it can be told when one does not. The four are what the store
alone knows: the place in the order, whether the record raised an alert, whether it came from elsewhere, and whether
its line stands in the log. The seal covers each of them but the last, which changes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeAlias

from auditd.evidence.record import Evidence
from auditd.evidence.text import printable
from auditd.evidence_store.artifact_state import Fingerprint, is_final
from auditd.evidence_store.records import RecordError
from auditd.rules.findings import at_least

Value: TypeAlias = int | str | bytes | float | None

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Columns(NamedTuple):
    """The columns of table ``evidence`` that follow from a record, in the order of the table.

    ``moment`` is ``recorded_at`` in microseconds since the epoch; ``final`` says that the inspection settled the
    matter, ``hashed`` that all of the file was hashed.
    """

    evidence_id: str
    recorded_at: str
    moment: int
    path: bytes
    outcome: str
    verdict: str
    residue: int | None
    final: int
    hashed: int
    identity: str | None
    settings: str


def columns(evidence: Evidence) -> Columns:
    """The columns of a record. Raises :class:`RecordError` if its time or its path cannot be read."""
    before = evidence.identity.before
    return Columns(
        evidence_id=evidence.evidence_id,
        recorded_at=evidence.recorded_at,
        moment=moment(evidence.recorded_at),
        path=path_of(evidence),
        outcome=evidence.outcome,
        verdict=evidence.verdict,
        residue=None if evidence.accounting is None else evidence.accounting.residue,
        final=int(is_final(evidence)),
        hashed=int(evidence.artifact.sha256 is not None),
        identity=None if before is None else Fingerprint.of_identity(before).text(),
        settings=evidence.producer.configuration,
    )


def moment(text: str) -> int:
    """An RFC 3339 time in microseconds since the epoch. Raises :class:`RecordError`."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise RecordError(f"not an RFC 3339 time: {printable(text, 100)}")
    return (parsed - _EPOCH) // timedelta(microseconds=1)


def path_of(evidence: Evidence) -> bytes:
    """The artifact's path as the file system has it. Raises :class:`RecordError`."""
    artifact = evidence.artifact
    if artifact.path_base64 is None:
        return artifact.path.encode("utf-8")
    try:
        return base64.b64decode(artifact.path_base64, validate=True)
    except ValueError as error:
        raise RecordError(f"artifact.path_base64: {printable(str(error), 100)}") from error


def might_alert(evidence: Evidence) -> bool:
    """Whether a record whose alerts are not known has a finding that raises one by default."""
    return any(at_least(finding.severity, "warning") for finding in evidence.findings)


def seal(values: Iterable[Value]) -> bytes:
    """SHA-256 over values of a row: types and lengths count, so that no two rows have one seal."""
    sealed = hashlib.sha256()
    for value in values:
        content = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
        sealed.update(f"{type(value).__name__} {len(content)} ".encode("ascii"))
        sealed.update(content)
    return sealed.digest()
