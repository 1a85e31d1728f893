"""Sparse files with the headers of two published models: the sum that all of this is about, to the byte."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from auditd.evidence.record import Evidence
from tests.builders import codes, finding, observation
from tests.models import SIZES, Twin, hero, length_of, small

PUBLISHED: dict[str, dict[str, Any]] = {
    "hero": {
        "size": 4_683_073_952,
        "tensors": 339,
        "metadata": 5_934_607,
        "directory": 19_304,
        "header": 5_953_935,
        "padding": 17,
        "data": 5_953_952,
        "tensor_bytes": 4_677_120_000,
        "weights": "7615616512",
        "by_type": {
            ("F32", 0): (141, "333312", 1_333_248),
            ("Q4_K", 12): (169, "6094061568", 3_427_909_632),
            ("Q6_K", 14): (29, "1521221632", 1_247_877_120),
        },
        "blocks": 28,
        "smallest": 131_135_488,
        "largest": 149_112_832,
    },
    "small": {
        "size": 397_807_936,
        "tensors": 290,
        "header": 5_948_196,
        "padding": 28,
        "data": 5_948_224,
        "tensor_bytes": 391_859_712,
        "blocks": 24,
        "smallest": 9_717_248,
        "largest": 10_883_840,
    },
}

#: The published listing of block 0: name, offset, bytes.
BLOCK_0 = [
    ("attn_k.bias", 438_667_264, 2_048),
    ("attn_k.weight", 438_669_312, 1_032_192),
    ("attn_norm.weight", 306_561_024, 14_336),
    ("attn_output.weight", 439_701_504, 7_225_344),
    ("attn_q.bias", 446_926_848, 14_336),
    ("attn_q.weight", 446_941_184, 7_225_344),
    ("attn_v.bias", 454_166_528, 2_048),
    ("attn_v.weight", 454_168_576, 1_505_280),
    ("ffn_down.weight", 306_575_360, 55_695_360),
    ("ffn_gate.weight", 362_270_720, 38_191_104),
    ("ffn_norm.weight", 438_652_928, 14_336),
    ("ffn_up.weight", 400_461_824, 38_191_104),
]


def twin_of(role: str) -> Twin:
    return hero() if role == "hero" else small()


def put(directory: Path, twin: Twin, size: int, header: bytes | None = None) -> Path:
    path = directory / "model.gguf"
    path.write_bytes(header or twin.header)
    os.truncate(path, size)
    return path


def moved(twin: Twin, index: int, offset: int) -> bytes:
    header = bytearray(twin.header)
    struct.pack_into("<Q", header, twin.offset_fields[index], offset)
    return bytes(header)


def account_of(evidence: Evidence) -> Any:
    assert evidence.accounting is not None
    return evidence.accounting


@pytest.fixture(scope="module", params=["hero", "small"])
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def whole(role: str, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    twin = twin_of(role)
    return observation(put(tmp_path_factory.mktemp(role), twin, twin.file_size))


def test_the_twins_are_laid_out_as_published() -> None:
    placed = {item.name: item for item in hero().tensors}
    for name, offset, length in BLOCK_0:
        tensor = placed[f"blk.0.{name}"]
        assert (tensor.offset, length_of(tensor)) == (offset, length)
    assert placed["output_norm.weight"].offset == 4_677_105_664
    for role, published in PUBLISHED.items():
        twin = twin_of(role)
        assert (twin.file_size, twin.data_offset) == (published["size"], published["data"])
        assert sum(map(length_of, twin.tensors)) == published["tensor_bytes"]


def test_every_figure_of_the_account(role: str, whole: Evidence) -> None:
    published = PUBLISHED[role]
    account = account_of(whole)
    assert whole.outcome == "complete"
    assert whole.verdict == "sound"
    assert whole.artifact.size == account.file_size == published["size"]
    assert account.data_offset == published["data"]
    assert account.header_padding == published["padding"]
    assert account.tensor_bytes == published["tensor_bytes"]
    assert account.alignment_padding == 0
    assert (account.remainder, account.surplus, account.missing, account.overlap) == (0, 0, 0, 0)
    assert account.residue == 0
    assert (account.contiguous.yes, account.contiguous.no) == (published["tensors"], 0)
    assert (account.tensors_cut, account.tensors_gone) == (0, 0)
    assert account.regions == []
    assert account.regions_complete is True
    assert account.parameters == published.get("weights", account.parameters)
    if "by_type" in published:
        assert {(row.type, row.type_id): (row.tensors, row.elements, row.bytes) for row in account.by_type} == (
            published["by_type"]
        )


def test_every_figure_of_the_header(role: str, whole: Evidence) -> None:
    published = PUBLISHED[role]
    declared = whole.gguf
    assert declared is not None
    assert (declared.version, declared.metadata_count, declared.tensor_count) == (3, 34, published["tensors"])
    assert (declared.alignment, declared.alignment_declared) == (32, False)
    assert whole.read.header_length == published["header"]
    assert declared.spans.head == 24
    assert declared.spans.metadata == published.get("metadata", declared.spans.metadata)
    assert declared.spans.directory == published.get("directory", declared.spans.directory)
    assert declared.spans.metadata is not None
    assert declared.spans.directory is not None
    assert 24 + declared.spans.metadata + declared.spans.directory == published["header"]
    assert declared.spans.padding == published["padding"]


def test_the_layout_is_the_default_and_the_64_element_one_does_not_fit(whole: Evidence) -> None:
    account = account_of(whole)
    assert (account.layout.name, account.layout.basis) == ("ggml-current", "default")
    assert "ggml-current" in account.consistent_with
    assert not [name for name in account.consistent_with if "k64" in name]
    k64 = next(item for item in account.candidates if "k64" in item.names)
    assert k64.applicable is True
    assert k64.residue != 0


def test_the_declarations_keep_only_what_is_established(whole: Evidence) -> None:
    declared = whole.gguf
    assert declared is not None
    assert declared.tensors is not None
    for row in declared.tensors:
        name, block, size = SIZES[row.type_id]
        assert row.type == name
        elements = int(row.elements or "0")
        if name in {"Q4_K", "Q6_K"}:
            assert (row.byte_length, row.storage_validation) == (None, "unknown")
        else:
            assert (row.byte_length, row.storage_validation) == (elements // block * size, "consistent")
    assert declared.totals is not None
    assert declared.totals.bytes is None


def test_the_blocks_have_the_published_sizes(role: str, whole: Evidence) -> None:
    published = PUBLISHED[role]
    assert whole.gguf is not None
    assert whole.gguf.tensors is not None
    sizes = dict.fromkeys(range(published["blocks"]), 0)
    for row in whole.gguf.tensors:
        if row.name.startswith("blk."):
            _, block, size = SIZES[row.type_id]
            sizes[int(row.name.split(".")[1])] += int(row.elements or "0") // block * size
    assert min(sizes.values()) == published["smallest"]
    assert max(sizes.values()) == published["largest"]


def test_only_the_header_is_read(role: str, whole: Evidence) -> None:
    assert PUBLISHED[role]["header"] <= whole.read.bytes_read <= PUBLISHED[role]["header"] + 256 * 1024
    assert whole.read.scope == "header"
    assert whole.artifact.sha256 is None


def test_one_byte_appended(role: str, tmp_path: Path) -> None:
    twin = twin_of(role)
    evidence = observation(put(tmp_path, twin, twin.file_size + 1))
    account = account_of(evidence)
    assert evidence.verdict == "residue"
    assert (account.residue, account.surplus, account.missing) == (1, 1, 0)
    (region,) = account.regions
    assert (region.kind, region.begin, region.length) == ("trailing", twin.file_size, 1)
    assert (region.after, region.before) == (len(twin.tensors) - 1, None)
    hit = finding(evidence, "unowned_bytes")
    assert (hit.subject, hit.offset, hit.severity) == ("accounting.regions[0]", twin.file_size, "critical")
    assert account.contiguous.no == 0


def test_one_byte_cut(role: str, tmp_path: Path) -> None:
    twin = twin_of(role)
    evidence = observation(put(tmp_path, twin, twin.file_size - 1))
    account = account_of(evidence)
    assert evidence.verdict == "truncated"
    assert (account.residue, account.surplus, account.missing) == (-1, 0, 1)
    assert (account.tensors_cut, account.tensors_gone) == (1, 0)
    (region,) = account.regions
    assert (region.kind, region.begin, region.length) == ("missing", twin.file_size - 1, 1)
    assert (region.after, region.before) == (len(twin.tensors) - 1, None)
    hit = finding(evidence, "tensor_bytes_missing")
    assert (hit.subject, hit.offset) == ("accounting.regions[0]", twin.file_size - 1)
    # the offsets agree with today's sizes, so the shortfall keeps its plain name
    assert "residue_under_every_layout" not in codes(evidence)
    assert (account.layout.name, account.layout.basis) == ("ggml-current", "default")


def test_cut_in_the_middle_counts_the_tensors(role: str, tmp_path: Path) -> None:
    twin = twin_of(role)
    middle = len(twin.tensors) // 2
    begin = twin.data_offset + (twin.tensors[middle].offset or 0)
    evidence = observation(put(tmp_path, twin, begin + 1))
    account = account_of(evidence)
    assert (account.tensors_cut, account.tensors_gone) == (1, len(twin.tensors) - middle - 1)
    assert account.missing == twin.file_size - begin - 1
    assert account.residue == -account.missing
    (region,) = account.regions
    assert (region.kind, region.begin, region.after) == ("missing", begin + 1, middle)


def test_the_last_tensor_moved(role: str, tmp_path: Path) -> None:
    """A hole in front of it, and as many bytes missing behind the file: residue 0, and still bad."""
    twin = twin_of(role)
    last = len(twin.tensors) - 1
    offset = twin.tensors[last].offset or 0
    evidence = observation(put(tmp_path, twin, twin.file_size, moved(twin, last, offset + 32)))
    account = account_of(evidence)
    assert evidence.verdict == "truncated"
    assert (account.residue, account.surplus, account.missing, account.overlap) == (0, 32, 32, 0)
    assert [(item.kind, item.begin, item.length, item.after, item.before) for item in account.regions] == [
        ("gap", twin.data_offset + offset, 32, last - 1, last),
        ("missing", twin.file_size, 32, last, None),
    ]
    assert (account.contiguous.yes, account.contiguous.no) == (last, 1)
    # two layouts size every tensor, neither comes out, and even the offsets fit none
    hit = finding(evidence, "residue_under_every_layout")
    assert hit.severity == "critical"
    assert not codes(evidence) & {"unowned_bytes", "tensor_bytes_missing"}


def test_a_tensor_in_the_middle_moved(role: str, tmp_path: Path) -> None:
    """It leaves a hole behind and lies over the one after it."""
    twin = twin_of(role)
    index = 2
    offset = twin.tensors[index].offset or 0
    begin = twin.data_offset + offset
    end = begin + length_of(twin.tensors[index])
    evidence = observation(put(tmp_path, twin, twin.file_size, moved(twin, index, offset + 64)))
    account = account_of(evidence)
    assert evidence.verdict == "malformed"
    assert (account.residue, account.surplus, account.missing, account.overlap) == (0, 64, 0, 64)
    assert [(item.kind, item.begin, item.length, item.after, item.before) for item in account.regions] == [
        ("gap", begin, 64, index - 1, index),
        ("overlap", end, 64, index, index + 2),
    ]
    assert (account.contiguous.yes, account.contiguous.no) == (len(twin.tensors) - 2, 2)


def test_an_offset_off_the_alignment(role: str, tmp_path: Path) -> None:
    twin = twin_of(role)
    last = len(twin.tensors) - 1
    offset = (twin.tensors[last].offset or 0) + 4
    evidence = observation(put(tmp_path, twin, twin.file_size, moved(twin, last, offset)))
    hit = finding(evidence, "offset_misaligned")
    assert hit.subject == f"tensors[{last}].offset"
    assert hit.offset == twin.offset_fields[last]
