"""Sets of small files in a directory, and what is said of them, checked as a reader with other tools would."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import rfc8785

from auditd.inspection.set_candidates import candidates
from auditd.model_sets.assess import assess
from auditd.model_sets.candidate import Candidate
from auditd.model_sets.composition import compose_set
from auditd.model_sets.facts import SetFacts
from auditd.model_sets.members import MemberFacts
from auditd.model_sets.record import SetEvidence, decode_set, encode_set, set_line
from auditd.rules.set_findings import SET_FINDINGS
from tests.builders import ARCHITECTURE, PRODUCER, Entry, Tensor, gguf, observation, safetensors, st_entry
from tests.support.lines import harmless

SCHEMA_FILE = Path(__file__).resolve().parents[2] / "config" / "set-evidence.schema.json"


def shard(
    number: int | None, count: int | None, total: int | None, names: Sequence[str], *, architecture: bool | None = None
) -> bytes:
    """A GGUF file with tensors of 32 bytes and the split keys that are given; ``number`` counts from 0."""
    keys = [("split.no", "u16", number), ("split.count", "u16", count), ("split.tensors.count", "i32", total)]
    metadata = [Entry(key, kind, value) for key, kind, value in keys if value is not None]
    if architecture or (architecture is None and number in {0, None}):
        metadata.insert(0, ARCHITECTURE)
    return gguf(metadata, [Tensor(name, [8]) for name in names]).data


def split(directory: Path, stem: str, *members: Sequence[str], without: Sequence[int] = ()) -> None:
    """A GGUF split with these tensors in its members; ``without`` are numbers from 1 that are not written."""
    total = sum(map(len, members))
    for number, names in enumerate(members):
        if number + 1 not in without:
            name = f"{stem}-{number + 1:05d}-of-{len(members):05d}.gguf"
            (directory / name).write_bytes(shard(number, len(members), total, names))


def tensors(*names: str) -> bytes:
    """A safetensors file with tensors of 8 bytes."""
    header = {name: st_entry("F32", [2], 8 * at, 8 * at + 8) for at, name in enumerate(names)}
    return safetensors(header, bytes(8 * len(names)))


def index_json(files: dict[str, Sequence[str]], total: Any = "sum") -> bytes:
    """The index of files with tensors of 8 bytes."""
    weights = {name: file for file, names in files.items() for name in names}
    size = 8 * len(weights) if total == "sum" else total
    return json.dumps({"metadata": {"total_size": size}, "weight_map": weights}).encode()


def sharded(directory: Path, *members: Sequence[str], stem: str = "model", index: str | None = None) -> dict[str, Any]:
    """safetensors files that are whole, with their index; returns what the index says."""
    files = {f"{stem}-{at:05d}-of-{len(members):05d}.safetensors": names for at, names in enumerate(members, 1)}
    for file, names in files.items():
        (directory / file).write_bytes(tensors(*names))
    (directory / (index or f"{stem}.safetensors.index.json")).write_bytes(index_json(files))
    return files


def members_of(candidate: Candidate) -> dict[bytes, MemberFacts]:
    """The facts of every file of a candidate, by one inspection each."""
    return {
        entry.name: MemberFacts.of(observation(entry.path))
        for entry in candidate.entries
        if os.path.isfile(entry.path) and os.access(entry.path, os.R_OK)
    }


def composed(facts: SetFacts, **severities: Any) -> SetEvidence:
    """The record of a set, after the checks that hold for any."""
    evidence = compose_set(
        facts, producer=PRODUCER, trigger="command", recorded_at="2024-01-01T00:00:00Z", severities=severities
    )
    check(evidence)
    return evidence


def judged(directory: Path, *, standing_still: bool = True, within: Path | None = None) -> list[SetEvidence]:
    """The records of all sets of a directory."""
    found = candidates(os.fsencode(directory), within=None if within is None else os.fsencode(within))
    facts = (assess(one, members_of(one), standing_still=standing_still) for one in found)
    return [composed(one) for one in facts if one is not None]


def only(directory: Path, **options: Any) -> SetEvidence:
    """The record of the one set of a directory."""
    (evidence,) = judged(directory, **options)
    return evidence


def told(evidence: SetEvidence) -> dict[str, str]:
    """Messages by code."""
    return {finding.code: finding.message for finding in evidence.findings}


def missing(evidence: SetEvidence) -> list[str]:
    """The names of missing members."""
    assert evidence.set.missing is not None
    return [row.name for row in evidence.set.missing]


@cache
def validator() -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def check(evidence: SetEvidence) -> None:
    """What a reader with other tools can check of the record of any set."""
    record = json.loads(msgspec.json.encode(evidence))
    validator().validate(record)
    claimed = record.pop("evidence_id")
    assert claimed == "ev_" + hashlib.sha256(rfc8785.dumps(record)).hexdigest()
    assert decode_set(encode_set(evidence)) == evidence
    assert len({finding.code for finding in evidence.findings}) == len(evidence.findings)
    for finding in evidence.findings:
        assert finding.code in SET_FINDINGS
        assert finding.count >= 1
        assert finding.advice
        assert harmless(finding.message)
    line = set_line(evidence)
    assert len(line) <= 16 * 1024
    assert line.count(b"\n") == 1
    short = json.loads(line)
    validator().validate(short)
    assert (short["evidence_id"], short["verdict"]) == (evidence.evidence_id, evidence.verdict)
