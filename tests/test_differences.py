"""Differential fuzzing in short: every difference to two other readers stands in a table, and every row of it is met."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import (
    ARCHITECTURE,
    F32,
    Q4_K,
    Q8_1,
    Array,
    Entry,
    Tensor,
    aligned,
    gguf,
    observation,
    safetensors,
    simple,
    st_entry,
)
from tests.fuzz.changes import changed
from tests.fuzz.targets import PEERS

pytest.importorskip("gguf", reason="the gguf package is not installed")
pytest.importorskip("safetensors", reason="the safetensors package is not installed")

from tests.fuzz import peers

#: Damaged files of each format.
DAMAGED = 30


def examples() -> Iterator[bytes]:
    """A file for each row that is seldom met by chance."""
    deep = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 33 + struct.pack("<IQ", 0, 1) + b"\1"
    yield gguf([ARCHITECTURE, Entry("k", raw=deep)], [Tensor("w", [1])]).data
    yield gguf([ARCHITECTURE], [Tensor("w", [1] * 5, length=4)], data=bytes(4)).data
    yield gguf([ARCHITECTURE, Entry("k", raw=struct.pack("<IIQ", 9, 99, 0))], [Tensor("w", [1])]).data
    yield gguf([ARCHITECTURE, aligned(32), aligned(64)], [Tensor("w", [1])]).data
    yield gguf([ARCHITECTURE, aligned(24)], [Tensor("w", [1])], alignment=24).data
    yield gguf([ARCHITECTURE], [Tensor("w", [4])], version=2, endian=">").data
    yield gguf([ARCHITECTURE, Entry("k", "string", "x" * 90)]).data[:-9]
    yield gguf([Entry("k", raw=struct.pack("<IQ", 8, 2**40))]).data
    yield gguf([ARCHITECTURE]).data + bytes(1)
    yield simple(Tensor("w", [2**32, 2**32], F32, 0, 0), data=bytes(32)).data
    yield simple(Tensor("w", [2**63, 0], F32, 0, 0), data=bytes(32)).data
    yield simple(Tensor("w", [2**63], F32, 0, 0), data=bytes(32)).data
    yield simple(Tensor("q", [64, 2], Q8_1), Tensor("s", [3], F32)).data
    yield simple(Tensor("w", [64, 4], Q4_K, 0, 152), data=bytes(152)).data
    yield simple(Tensor("w", [64, 0], Q4_K, 0, 0), data=bytes(32)).data
    yield simple(Tensor("w", [0], F32, 2**60), data=bytes(32)).data
    yield simple(Tensor(b"\xff", [4], F32)).data
    yield gguf([ARCHITECTURE, Entry("k", "array", Array("array", []))], [Tensor("w", [4])]).data
    entry = b'{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    yield safetensors(b'{"a":' + entry + b',"a":' + entry + b"}", b"x")
    yield safetensors(b'{"a":["U8",[1],[0,1]]}', b"x")
    yield safetensors(b'{"a":{"x":' + b"[" * 40 + b"]" * 40 + b"," + entry[1:] + b"}", b"x")
    yield safetensors(b'{"a":{"x":"\xff",' + entry[1:] + b"}", b"x")
    yield safetensors(b'{"a":{"x":"\\ud800",' + entry[1:] + b"}", b"x")
    yield safetensors(b'{"a":{"x":1e999,' + entry[1:] + b"}", b"x")
    yield safetensors({"a": st_entry("NEW", [1], 0, 1)}, b"x")


def files() -> Iterator[bytes]:
    yield from examples()
    dice = random.Random(1)
    for target in PEERS:
        starts = target.seeds()
        yield from starts
        for _ in range(DAMAGED):
            yield changed(dice.choice(starts), dice, target.changes, starts)


def differences(path: Path, data: bytes) -> Iterator[peers.Difference]:
    if data[:4] == b"GGUF" and not peers.is_askable(data):
        return
    path.write_bytes(data)
    evidence = observation(path)
    yield from peers.ask_gguf(str(path), evidence) if data[:4] == b"GGUF" else peers.ask_safetensors(data, evidence)


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[bytes, peers.Difference]]:
    path = tmp_path_factory.mktemp("peers") / "model"
    return [(data, difference) for data in files() for difference in differences(path, data)]


def test_every_difference_is_explained(met: list[tuple[bytes, peers.Difference]]) -> None:
    unexplained = [(each, data[:120]) for data, each in met if peers.explanation(each) is None]
    assert not unexplained


def test_every_row_is_met(met: list[tuple[bytes, peers.Difference]]) -> None:
    explained = {peers.explanation(each) for _, each in met}
    assert len(peers.rows()) > 15
    assert [row[:3] for row in peers.rows() if row not in explained] == []
