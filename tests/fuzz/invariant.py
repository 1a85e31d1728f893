"""The invariant over one file: a record whatever comes, and everything that is made of the record."""

from __future__ import annotations

import hashlib
import io
import json
import os
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import msgspec
import rfc8785

from auditd.errors import InspectionStopped, UsageError
from auditd.evidence.canonical import decode, encode
from auditd.evidence.observation import Observation
from auditd.evidence.record import Accounting, Candidate, Evidence
from auditd.evidence.summary import LINE_BYTES, line
from auditd.evidence_store.bundle import lines as bundle_lines
from auditd.evidence_store.bundle import manifest
from auditd.evidence_store.records import divide, join
from auditd.header_dump import codec as dump
from auditd.inspection.inspector import inspect, observe_artifact
from auditd.inspection.request import HashMode, Request
from auditd.report.declarations import declarations
from auditd.report.show.byte_map.picture import picture
from auditd.report.style import plain
from auditd.report.summary import summary
from auditd.rules.findings import FINDINGS
from tests.builders import PRODUCER
from tests.fuzz.changes import Dice

_SCHEMA: Final = Path(__file__).parents[2] / "config" / "evidence.schema.json"
_EXACT: Final = 2**53 - 1
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_SHEETS: Final = ("head", "meta", "fields", "stack", "account", "byte_map.lines")


@cache
def _validator() -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(_SCHEMA.read_text(encoding="utf-8")))


class _Stopper:
    """A checkpoint that ends the inspection at its ``last`` call; counts all calls."""

    def __init__(self, last: int | None = None) -> None:
        self.calls = 0
        self._last = last

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self._last:
            raise InspectionStopped("as asked")


def check_file(path: str, data: bytes, dice: Dice) -> Evidence:
    """Hold the invariant for a file of these bytes at ``path``, which is written."""
    Path(path).write_bytes(data)
    modes: tuple[HashMode, ...] = ("header", "header", "full")
    mode: HashMode = dice.choice(modes)
    stopper = _Stopper()
    evidence = inspect(_request(path, mode), stopper)
    # Reads, and steps of readers and accounts, each of which works on bytes that were there.
    assert stopper.calls <= 100 + len(data), f"{stopper.calls} checkpoints for {len(data)} bytes"
    check_record(evidence)
    if evidence.read.scope == "full" and evidence.identity.status == "unchanged":
        assert evidence.artifact.sha256 == hashlib.sha256(data).hexdigest()
    stopped = inspect(_request(path, mode), _Stopper(dice.randint(1, max(1, stopper.calls))))
    check_record(stopped)
    assert stopped.error is not None
    assert stopped.outcome == "partial"
    check_presentation(evidence, observe_artifact(_request(path, mode)))
    return evidence


def _request(path: str, mode: HashMode) -> Request:
    return Request(path=os.fsencode(path), producer=PRODUCER, hash_mode=mode)


def check_record(evidence: Evidence) -> None:
    """What holds of every record, whatever the file."""
    encoded = encode(evidence)
    assert encode(decode(encoded)) == encoded
    plain_form = json.loads(encoded)
    _validator().validate(plain_form)
    _check_numbers(plain_form)
    _check_identifier(plain_form)
    assert join(divide(encoded)) == encoded
    short = line(evidence)
    assert len(short) <= LINE_BYTES, f"a line of {len(short)} bytes"
    assert short.count(b"\n") == 1
    assert decode(short).evidence_id == evidence.evidence_id
    assert not set(_suspects((encoded.decode(), short.decode().removesuffix("\n")))) & _RAW, "raw in JSON"
    _check_outcome(evidence)
    _check_sum(evidence)
    _check_unknown(evidence)


#: Characters that JSON may not hold raw here: whatever ends a line, moves a cursor or turns the direction of reading.
_RAW: Final = frozenset(
    chr(point)
    for first, last in ((0, 31), (127, 159), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF))
    for point in range(first, last + 1)
)


def _suspects(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if not (text.isascii() and text.isprintable()):
            yield from (character for character in text if not " " <= character <= "~")


def _check_numbers(form: Any) -> None:
    waiting = [form]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, int):
            assert -_EXACT <= value <= _EXACT, f"{value} is not exact in every reader"


def _check_identifier(form: dict[str, Any]) -> None:
    content = {name: value for name, value in form.items() if name != "evidence_id"}
    assert form["evidence_id"] == "ev_" + hashlib.sha256(rfc8785.dumps(content)).hexdigest()


def _check_outcome(evidence: Evidence) -> None:
    assert (evidence.outcome in {"refused", "partial", "failed", "unavailable"}) == (evidence.error is not None)
    keys = [(finding.code, finding.constraint) for finding in evidence.findings]
    assert len(keys) == len(set(keys)), "two findings of one code and constraint"
    assert all(finding.code in FINDINGS for finding in evidence.findings)
    if evidence.outcome == "refused":
        assert evidence.verdict not in {"sound", "notice"}


def _check_sum(evidence: Evidence) -> None:
    account = evidence.accounting
    if account is None:
        return
    accounts: tuple[Accounting | Candidate, ...] = (account, *account.candidates)
    for each in accounts:
        parts = (each.surplus, each.missing, each.overlap)
        if each.residue is not None and None not in parts:
            assert each.residue == (each.surplus or 0) - (each.missing or 0) - (each.overlap or 0)
    owned = (account.file_size, account.data_offset, account.tensor_bytes, account.alignment_padding)
    if account.residue is not None and None not in owned:
        size, begin, tensors, padding = (part or 0 for part in owned)
        assert account.residue == size - begin - tensors - padding
    if account.residue:
        assert evidence.verdict not in {"sound", "notice", "undetermined"}


def _check_unknown(evidence: Evidence) -> None:
    """A place or a count that is null has a limitation or a fault that says why."""
    part = evidence.gguf
    limitations = {each.code for each in evidence.limitations}
    if part is None or part.version is None or "integer_range" in limitations:
        return
    assert all(row.offset is not None for row in part.tensors or ())
    if "data_offset_unknown" not in limitations and evidence.accounting and evidence.accounting.data_offset is not None:
        assert all(row.file_offset is not None for row in part.tensors or ())


# --- what is made of a record ----------------------------------------------------------------------------


def check_printable(lines: Iterable[str]) -> None:
    """No character of a line moves a cursor, changes a colour, ends the line or turns the direction of reading."""
    for text in lines:
        if not (text.isascii() and text.isprintable()):
            bad = [character for character in text if unicodedata.category(character) in _UNPRINTABLE]
            assert not bad, f"{bad!r} in {text!r}"


def check_presentation(evidence: Evidence, observation: Observation) -> None:
    """Pages for people, the dump and what is exported."""
    check_printable(summary(evidence, 80))
    check_printable(declarations(evidence))
    for name in _SHEETS:
        check_sheet(name, observation)
    if observation.stop is None and not observation.skipped:
        _check_dump(observation)
    record = encode(evidence)
    told = io.BytesIO(manifest([record]) + record + b"\n")
    problems = [each.problem for each in bundle_lines(told, bundle=True) if each.problem is not None]
    assert not problems, problems


def check_sheet(name: str, observation: Observation) -> None:
    """One sheet of ``show``: made, encoded, printed - or refused for a reason that is told in one line."""
    module = import_module(f"auditd.report.show.{name}")
    try:
        sheet = module.sheet(observation)
    except UsageError as refused:
        check_printable([str(refused)])
        return
    json.loads(msgspec.json.encode(sheet))
    check_printable(module.lines(sheet, 80, plain))
    if name == "byte_map.lines":
        drawn = ET.fromstring(picture(sheet))  # noqa: S314 - our own picture
        assert all(element.tag.startswith("{http://www.w3.org/2000/svg}") for element in drawn.iter())


def _check_dump(observation: Observation) -> None:
    """A dump that is read and written again is the same dump."""
    try:
        encoded = dump.encode(observation)
    except dump.NotDumpable as refused:
        check_printable([str(refused)])
        return
    assert dump.encode(dump.decode(encoded)) == encoded
