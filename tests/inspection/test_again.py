"""Reading parts of a file again, as long as it is the file that was looked at."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.observation import Observation
from auditd.formats.declarations import GgufHeader
from auditd.inspection.reread import ReadAgainError, array_digests, elements, prefixes, reopened
from tests.builders import Array, Entry, gguf, safetensors, sketch
from tests.support.looks import looked_at

LONG = gguf([Entry("a", "array", Array("string", ["x" * 100] * 5000))])


@pytest.fixture
def observation(tmp_path: Path) -> Observation:
    return looked_at(tmp_path, LONG.data)


def test_spans(observation: Observation) -> None:
    begin = LONG.at("metadata[0].value.count")
    with reopened(observation) as again:
        pieces = list(again.span(begin, len(LONG.data)))
        assert len(pieces) > 1
        assert b"".join(pieces) == LONG.data[begin:]
        assert list(again.span(len(LONG.data), len(LONG.data) + 10)) == []
    assert prefixes(observation, [(0, 4), (8, 8), (10**9, 10**9 + 1), (2**64, 2**64 + 8)]) == [b"GGUF", b"", b"", b""]


def test_only_long_arrays_are_read_again(tmp_path: Path) -> None:
    for data in (sketch().data, safetensors("{}"), b"hello"):
        seen = looked_at(tmp_path, data)
        os.unlink(seen.path)
        assert array_digests(seen) is seen


def touch(path: bytes) -> None:
    os.utime(path, ns=(0, 0))


def replace_file(path: bytes) -> None:
    os.rename(path, path + b".old")
    Path(os.fsdecode(path)).write_bytes(LONG.data)


def change(path: bytes) -> None:
    with open(path, "r+b") as file:
        file.write(b"x")


@pytest.mark.parametrize("happens", [touch, replace_file, change, os.unlink])
def test_another_file_is_not_read(observation: Observation, happens: object) -> None:
    assert callable(happens)
    happens(observation.path)
    with pytest.raises(ReadAgainError):
        array_digests(observation)


def test_a_change_while_it_is_read(observation: Observation) -> None:
    header = observation.header
    assert isinstance(header, GgufHeader)
    found = elements(observation, header.metadata[0])
    assert next(found).value == b"x" * 100
    touch(observation.path)
    with pytest.raises(ReadAgainError, match="has changed"):
        list(found)


def test_it_can_be_stopped(observation: Observation) -> None:
    def stop() -> None:
        raise InspectionStopped("enough")

    with pytest.raises(InspectionStopped):
        array_digests(observation, stop)


def test_another_length_than_the_header_says(observation: Observation) -> None:
    header = observation.header
    assert isinstance(header, GgufHeader)
    (entry,) = header.metadata
    for wrong in (replace(entry, end=entry.end - 1), replace(entry, value_begin=entry.value_begin + 3)):
        with pytest.raises(ReadAgainError):
            list(elements(observation, wrong))
