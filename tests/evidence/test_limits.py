"""What is null in a record has a limitation: figures that not every reader takes exactly."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from auditd.evidence.record import Evidence, Limitation
from tests.builders import F32, Tensor, gguf, observe_artifact, safetensors, simple, st_entry

FAR = 2**60


def limitation(evidence: Evidence) -> Limitation:
    (found,) = [item for item in evidence.limitations if item.code == "integer_range"]
    return found


def test_an_empty_tensor_far_away(tmp_path: Path) -> None:
    evidence = observe_artifact(
        tmp_path, simple(Tensor("w", [0], F32, FAR), Tensor("v", [8], F32, 0), data=bytes(32)).data
    )
    assert evidence.gguf is not None
    row, near = evidence.gguf.tensors or []
    assert (row.offset, row.file_offset, near.offset) == (None, None, 0)
    assert (limitation(evidence).subjects, limitation(evidence).count) == (["tensors[0]"], 1)


def test_a_tensor_of_a_header_that_ends_early(tmp_path: Path) -> None:
    data = gguf([], [Tensor("w", [4], F32, FAR), Tensor("big", [2**55], F32, 0), Tensor("cut", [4])], data=b"").data
    evidence = observe_artifact(tmp_path, data[: data.index(b"cut")])
    assert evidence.accounting is not None
    assert evidence.accounting.tensor_bytes is None
    assert limitation(evidence).subjects == ["tensors[0]", "tensors[1]"]


def test_several_far_tensors_are_all_named(tmp_path: Path) -> None:
    tensors = [Tensor(f"w{index}", [1], F32, FAR + 32 * index) for index in range(3)]
    evidence = observe_artifact(tmp_path, simple(*tensors, data=b"").data)
    subjects = limitation(evidence).subjects
    assert [subject for subject in subjects if subject.startswith("tensors")] == [f"tensors[{n}]" for n in range(3)]
    assert limitation(evidence).count == len(subjects)


@pytest.mark.parametrize(
    ("count", "name"), [("tensor_count", "gguf.tensor_count"), ("metadata_count", "gguf.metadata_count")]
)
def test_a_count_of_a_header(tmp_path: Path, count: str, name: str) -> None:
    evidence = observe_artifact(tmp_path, gguf(**{count: 2**63}).data)  # type: ignore[arg-type]
    assert getattr(evidence.gguf, count) is None
    assert limitation(evidence).subjects == [name]


def test_a_range_of_safetensors(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, safetensors({"a": st_entry("U8", [0], FAR, FAR)}), "m.safetensors")
    assert evidence.safetensors is not None
    assert [row.data_offsets for row in evidence.safetensors.tensors or ()] == [None]
    assert limitation(evidence).subjects == ["tensors[0]"]


def test_nothing_is_said_of_plain_figures(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [8], F32)).data)
    assert not evidence.limitations
    assert struct.calcsize("8f") == (evidence.accounting and evidence.accounting.tensor_bytes)
