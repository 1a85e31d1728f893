"""Records of real looks at small files, and stores full of them."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from auditd.evidence import canonical
from auditd.evidence.record import Evidence, FileIdentity, Identity, Producer
from auditd.evidence_store.artifact_state import ArtifactState
from auditd.evidence_store.connection import reading
from auditd.evidence_store.entities import Alert, Entry
from auditd.evidence_store.store import EvidenceStore
from auditd.evidence_store.verifying import Broken, Tally, verify
from auditd.inspection.inspector import inspect
from auditd.inspection.request import Request
from tests.support import models

PRODUCER = Producer(name="model-auditd", version="0", host="here", configuration="0" * 64)
SAME = FileIdentity(device=1, inode=2, size=96, mtime_ns="4", ctime_ns="5", links=1, mode=0, uid=0, gid=0)

#: Every kind of metadata value at its extremes: 64-bit integers, floats that JSON does not have, both zeros.
EXTREMES = (
    (b"i64.least", 11, struct.pack("<q", -(2**63))),
    (b"u64.most", 10, struct.pack("<Q", 2**64 - 1)),
    (b"f32.nan", 6, struct.pack("<f", float("nan"))),
    (b"f32.plus", 6, struct.pack("<f", float("inf"))),
    (b"f64.minus", 12, struct.pack("<d", float("-inf"))),
    (b"f64.zero", 12, struct.pack("<d", -0.0)),
    (b"f64.tiny", 12, struct.pack("<d", 5e-324)),
    (b"f32.tenth", 6, struct.pack("<f", 0.1)),
    (b"text", 8, struct.pack("<Q", 9) + b'\xff"\\\x1b\xe2\x80\xae\xc3\xa9'),
)


def gguf_with(entries: Sequence[tuple[bytes, int, bytes]], tensors: int = 1) -> bytes:
    """A GGUF file with metadata entries (key, value type, value) in front of its tensors."""
    plain = models.gguf(tensors=tensors)
    length = 24 + 33 * tensors
    metadata = b"".join(struct.pack("<Q", len(k)) + k + struct.pack("<I", kind) + v for k, kind, v in entries)
    head = plain[:16] + struct.pack("<Q", len(entries)) + metadata + plain[24:length]
    return head + bytes(-len(head) % 32) + bytes(range(32)) * tensors


@cache
def observation(content: bytes, hash_mode: Any = "header", name: str = "model.gguf") -> Evidence:
    """The record of a file with this content."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / name
        path.write_bytes(content)
        return inspect(Request(str(path).encode(), PRODUCER, hash_mode=hash_mode))


def at(evidence: Evidence, path: bytes | None = None, recorded_at: str | None = None, **changes: Any) -> Evidence:
    """The record with another place or time, sealed again."""
    if path is not None:
        text = path.decode()
        changes["artifact"] = replace(evidence.artifact, path=text, path_base64=None, names=[text])
    if recorded_at is not None:
        changes["recorded_at"] = recorded_at
    return canonical.seal(replace(evidence, **changes))


def final(evidence: Evidence, path: bytes, day: int, **changes: Any) -> Evidence:
    """A record that settles the matter, from a day of the year 2024."""
    identity = Identity(before=SAME, after=SAME, status="unchanged")
    moment = f"2024-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00.000000Z"
    return at(evidence, path, moment, identity=identity, **changes)


def entry(evidence: Evidence, path: bytes, alerts: tuple[Alert, ...] = ()) -> Entry:
    """What a store is given of it."""
    return Entry(path, evidence, ArtifactState(), alerts)


def alert_of(evidence: Evidence, path: bytes) -> Alert:
    """An alert that a record raised."""
    return Alert(path, "unowned_bytes", "", "header", "critical", "[1]", {}, evidence.evidence_id, 1.0, 1.0)


def small_store(path: Path) -> list[Evidence]:
    """A store of three records, two of them with the same rows; it is closed and in one file."""
    plain = observation(gguf_with(EXTREMES, tensors=3))
    made = [
        at(plain, b"/m/a.gguf", "2024-01-01T00:00:00.000000Z"),
        at(plain, b"/m/b.gguf", "2024-01-02T00:00:00.000000Z"),
        at(
            observation(models.safetensors(b"x"), name="model.safetensors"), b"/m/c.safetensors", "2024-01-03T00:00:00Z"
        ),
    ]
    with EvidenceStore(str(path), writer=True) as store:
        for evidence in made:
            store.record(entry(evidence, evidence.artifact.path.encode()))
        store.mark_logged(99)
    return made


def tampered(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Change a store behind everybody's back."""
    with closing(sqlite3.connect(path)) as connection:
        for statement, values in statements:
            connection.execute(statement, values)
        connection.commit()


def broken(path: Path) -> tuple[list[Broken], Tally]:
    """What is broken in a store."""
    tally = Tally()
    with reading(str(path)) as connection:
        return list(verify(connection, tally)), tally


def flips(content: bytes) -> list[bytes]:
    """Every content that differs in one bit."""
    return [
        content[:index] + bytes([content[index] ^ (1 << bit)]) + content[index + 1 :]
        for index in range(len(content))
        for bit in range(8)
    ]
