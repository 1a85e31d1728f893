"""Some thousands of cancellations, one at each checkpoint of files that are read in small pieces.

Every record is valid (each is held to the schema), a later stop never knows less, and descriptors and threads are as
they were before.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.canonical import decode, encode, evidence_id
from auditd.evidence.record import Evidence, Producer
from auditd.formats.writer import Entry, Tensor, write_gguf
from auditd.inspection.inspector import inspect
from auditd.inspection.request import HashMode, Request
from tests.builders import safetensors, st_entry

pytestmark = pytest.mark.system

PRODUCER = Producer(name="model-auditd", version="0", host="here", configuration="0")


class StopAt:
    """A checkpoint that stops at its ``turn``-th call (0: never) and counts."""

    def __init__(self, turn: int = 0) -> None:
        self.turn = turn
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.turn:
            raise InspectionStopped("asked to stop")


@pytest.fixture(params=["gguf", "safetensors"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """About 8 KiB of header and 4 KiB of data, sound."""
    path = tmp_path / f"model.{request.param}"
    if request.param == "gguf":
        metadata = [Entry("general.architecture", "string", "toy")]
        metadata += [Entry(f"toy.key.{number}", "u64", number) for number in range(60)]
        metadata.append(Entry("toy.tokens", "array", [f"token {number}" for number in range(150)], "string"))
        tensors = [Tensor(f"blk.{number}.weight", (8, 4), 0, b"\1" * 128) for number in range(32)]
        path.write_bytes(write_gguf(metadata, tensors).data)
    else:
        entries = {f"blk.{n}.weight": st_entry("F32", [8, 4], n * 128, n * 128 + 128) for n in range(32)}
        path.write_bytes(safetensors({"__metadata__": {"note": "x" * 4000}, **entries}, b"\1" * 32 * 128))
    return path


def observation(path: Path, mode: HashMode, checkpoint: StopAt) -> Evidence:
    return inspect(Request(os.fsencode(path), PRODUCER, hash_mode=mode), checkpoint)


_RANKS = {"none": 0, "not_requested": 0, "partial": 1, "complete": 2}


def knowledge(evidence: Evidence) -> tuple[int, ...]:
    """What must never shrink as a stop comes later."""
    coverage = evidence.coverage
    gguf, safe = evidence.gguf, evidence.safetensors
    return (
        _RANKS[coverage.header.status],
        _RANKS[coverage.metadata.status],
        _RANKS[coverage.tensors.status],
        _RANKS[coverage.ranges.status],
        len(gguf.metadata or ()) if gguf else 0,
        len((gguf.tensors if gguf else safe.tensors if safe else None) or ()),
        gguf is not None and gguf.alignment is not None,
        evidence.accounting is not None and evidence.accounting.residue is not None,
        evidence.read.bytes_read,
        evidence.read.bytes_hashed,
    )


@pytest.mark.parametrize("mode", ["header", "full"])
def test_a_stop_at_every_checkpoint(model: Path, mode: HashMode, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("FIRST_CHUNK_BYTES", 16), ("CHUNK_BYTES", 7), ("_HASH_CHUNK_BYTES", 512)):
        monkeypatch.setattr(f"auditd.inspection.inspector.{name}", size)
    never = StopAt()
    whole = observation(model, mode, never)
    assert (whole.outcome, whole.verdict) == ("complete", "sound")
    assert never.calls > 600
    descriptors, threads = sorted(os.listdir("/proc/self/fd")), threading.active_count()
    known: tuple[int, ...] = ()
    for turn in range(1, never.calls + 1):
        evidence = observation(model, mode, StopAt(turn))
        assert (evidence.outcome, evidence.verdict, evidence.identity.status) == ("partial", "unknown", "unverified")
        assert evidence.error is not None
        assert (evidence.error.code, evidence.error.category) == ("cancelled", "cancelled")
        assert (evidence.artifact.sha256, evidence.read.header_sha256) == (None, None)
        assert evidence_id(decode(encode(evidence))) == evidence.evidence_id
        now = knowledge(evidence)
        assert not known or all(new >= old for new, old in zip(now, known, strict=True)), turn
        known = now
        if evidence.safetensors is not None and evidence.coverage.header.status != "complete":
            assert evidence.safetensors.tensors is None
    assert sorted(os.listdir("/proc/self/fd")) == descriptors
    assert threading.active_count() == threads
