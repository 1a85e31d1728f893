"""Sizes that depend on a layout: what is established, what is tried, what is chosen and what is said of it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from auditd.evidence.record import Candidate, Evidence
from tests.builders import (
    ARCHITECTURE,
    F32,
    Q4_0,
    Q4_K,
    Q6_K,
    Q8_1,
    Tensor,
    codes,
    finding,
    gguf,
    look_at_sparse,
    observe_artifact,
    simple,
)

#: id, name, elements a block, bytes a block, whether every released layout agrees. From ggml's tables.
TODAY = [
    (0, "F32", 1, 4, True),
    (1, "F16", 1, 2, True),
    (2, "Q4_0", 32, 18, True),
    (3, "Q4_1", 32, 20, True),
    (6, "Q5_0", 32, 22, True),
    (7, "Q5_1", 32, 24, True),
    (8, "Q8_0", 32, 34, True),
    (9, "Q8_1", 32, 36, False),
    (10, "Q2_K", 256, 84, False),
    (11, "Q3_K", 256, 110, False),
    (12, "Q4_K", 256, 144, False),
    (13, "Q5_K", 256, 176, False),
    (14, "Q6_K", 256, 210, False),
    (15, "Q8_K", 256, 292, False),
    (16, "AMBIGUOUS_16", 256, 66, False),
    (17, "AMBIGUOUS_17", 256, 74, False),
    (18, "AMBIGUOUS_18", 256, 98, False),
    (19, "AMBIGUOUS_19", 256, 50, False),
    (20, "AMBIGUOUS_20", 32, 18, False),
    (21, "AMBIGUOUS_21", 256, 110, False),
    (22, "AMBIGUOUS_22", 256, 82, False),
    (23, "AMBIGUOUS_23", 256, 136, False),
    (24, "AMBIGUOUS_24", 1, 1, False),
    (25, "AMBIGUOUS_25", 1, 2, False),
    (26, "I32", 1, 4, True),
    (27, "I64", 1, 8, True),
    (28, "F64", 1, 8, True),
    (29, "IQ1_M", 256, 56, True),
    (30, "BF16", 1, 2, True),
    (34, "TQ1_0", 256, 54, True),
    (35, "TQ2_0", 256, 66, True),
    (39, "MXFP4", 32, 17, True),
    (40, "NVFP4", 64, 36, True),
    (41, "Q1_0", 128, 18, True),
]

K64 = {10: 24, 11: 28, 12: 38, 13: 46, 14: 54, 15: 76}

#: Release and what its integer ids are: I8, I16, I32.
RELEASES = {
    "b1500": (16, 17, 18),
    "b1803": (17, 18, 19),
    "b1871": (18, 19, 20),
    "b2100": (19, 20, 21),
    "b2172": (20, 21, 22),
    "b2221": (21, 22, 23),
    "b2253": (22, 23, 24),
    "b2275": (23, 24, 25),
}


def account_of(evidence: Evidence) -> Any:
    assert evidence.accounting is not None
    return evidence.accounting


def tensors_of(evidence: Evidence) -> Any:
    assert evidence.gguf is not None
    return evidence.gguf.tensors


def candidate(evidence: Evidence, name: str) -> Candidate:
    (hit,) = [item for item in account_of(evidence).candidates if name in item.names]
    assert isinstance(hit, Candidate)
    return hit


def chosen(evidence: Evidence) -> tuple[str | None, str]:
    layout = account_of(evidence).layout
    return layout.name, layout.basis


@pytest.mark.parametrize(("type_id", "name", "block", "size", "established"), TODAY)
def test_every_type_of_today(tmp_path: Path, type_id: int, name: str, block: int, size: int, established: bool) -> None:
    length = 1024 // block * 3 * size
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [1024, 3], type_id), data_length=length).data)
    assert evidence.outcome == "complete"
    assert evidence.verdict == "sound"
    row = tensors_of(evidence)[0]
    assert (row.type_id, row.type, row.elements) == (type_id, name, "3072")
    assert row.byte_length == (length if established else None)
    assert row.storage_validation == ("consistent" if established else "unknown")
    account = account_of(evidence)
    assert (account.tensor_bytes, account.residue) == (length, 0)
    assert chosen(evidence) == ("ggml-current", "established" if established else "default")
    assert "ggml-current" in account.consistent_with
    assert evidence.gguf is not None
    assert evidence.gguf.totals is not None
    assert evidence.gguf.totals.bytes == (length if established else None)
    assert (evidence.coverage.storage_sizes.status == "complete") is established
    if not established:
        assert evidence.limitations


@pytest.mark.parametrize(("type_id", "name", "block", "size", "established"), TODAY)
def test_every_type_of_today_empty(
    tmp_path: Path, type_id: int, name: str, block: int, size: int, established: bool
) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [256, 0], type_id, length=0), data_length=32).data[:-32])
    row = tensors_of(evidence)[0]
    assert (row.type, row.byte_length, row.elements) == (name, 0, "0")


@pytest.mark.parametrize("type_id", range(16, 26))
def test_the_candidates_of_a_shifted_id_are_named(tmp_path: Path, type_id: int) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [256], type_id), data_length=512).data)
    said = " ".join(item.message for item in evidence.limitations)
    for position, name in enumerate(("I8", "I16", "I32")):
        if any(ids[position] == type_id for ids in RELEASES.values()):
            assert name in said
    subjects = [subject for item in evidence.limitations for subject in item.subjects]
    assert any("tensors[0]" in subject for subject in subjects)


# --- Q8_1


def test_q8_1_of_today(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [32, 8], Q8_1), data_length=288).data)
    assert (evidence.verdict, chosen(evidence)) == ("sound", ("ggml-current", "default"))
    assert account_of(evidence).tensor_bytes == 288
    assert candidate(evidence, "q8_1-40").residue == -32


def test_q8_1_of_b1500(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [32, 8], Q8_1), data_length=320).data)
    assert (evidence.verdict, chosen(evidence)) == ("notice", ("q8_1-40", "derived"))
    account = account_of(evidence)
    assert (account.tensor_bytes, account.residue) == (320, 0)
    assert finding(evidence, "layout_derived").severity == "notice"
    assert "q8_1-40" in account.consistent_with
    assert "ggml-current" not in account.consistent_with
    assert candidate(evidence, "ggml-current").residue == 32
    assert tensors_of(evidence)[0].byte_length is None


def test_a_small_padded_q8_1_fits_both(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [32], Q8_1), data_length=64).data)
    assert (evidence.verdict, chosen(evidence)) == ("sound", ("ggml-current", "default"))
    assert {"ggml-current", "q8_1-40"} <= set(account_of(evidence).consistent_with)
    assert account_of(evidence).tensor_bytes == 36


# --- K types


@pytest.mark.parametrize("type_id", K64)
def test_super_blocks_of_64(tmp_path: Path, type_id: int) -> None:
    """Rows of 64 elements are no block at all today, and whole ones then."""
    length = K64[type_id] * 3
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [64, 3], type_id), data_length=length).data)
    assert (evidence.verdict, chosen(evidence)) == ("notice", ("k64", "derived"))
    assert account_of(evidence).tensor_bytes == length
    current = candidate(evidence, "ggml-current")
    assert current.applicable is False
    assert current.reason
    assert current.tensor_bytes is None
    assert "row_blocks" not in {item.constraint for item in evidence.findings}


def test_real_tensors_tell_the_two_apart(tmp_path: Path) -> None:
    built = simple(Tensor("w", [4096, 4096], Q4_K), data=b"")
    head = built.data
    today = look_at_sparse(tmp_path, head, len(head) + 9_437_184)
    assert (chosen(today), account_of(today).tensor_bytes) == (("ggml-current", "default"), 9_437_184)
    assert today.verdict == "sound"
    then = look_at_sparse(tmp_path, head, len(head) + 9_961_472)
    assert (chosen(then), account_of(then).tensor_bytes) == (("k64", "derived"), 9_961_472)
    assert then.verdict == "notice"


@pytest.mark.parametrize(("type_id", "padded"), [(10, 96), (11, 128), (12, 160), (13, 192), (14, 224), (15, 320)])
def test_small_padded_k_tensors_do_not(tmp_path: Path, type_id: int, padded: int) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [256], type_id), data_length=padded).data)
    assert chosen(evidence) == ("ggml-current", "default")
    assert {"ggml-current", "k64"} <= set(account_of(evidence).consistent_with)
    assert account_of(evidence).residue == 0
    assert evidence.verdict == "sound"


def test_rows_that_fit_no_block_of_today_and_no_sum_of_then(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [64], Q4_K), data_length=32).data)
    assert (evidence.outcome, evidence.verdict) == ("refused", "malformed")
    assert finding(evidence, "header_malformed", "row_blocks").subject == "tensors[0].dims"


# --- integer ids


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("which", "size"), [(0, 1), (1, 2), (2, 4)])
def test_integers_of_old_releases(tmp_path: Path, release: str, which: int, size: int) -> None:
    type_id = RELEASES[release][which]
    length = 7 * 96 * size
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [7, 96], type_id), data_length=length).data)
    account = account_of(evidence)
    current = {24: 1, 25: 2}.get(type_id)
    if current == size:
        assert chosen(evidence) == ("ggml-current", "default")
        return
    assert release in account.consistent_with
    assert chosen(evidence) == (release, "derived")
    assert (account.tensor_bytes, account.residue) == (length, 0)
    assert evidence.verdict == "notice"
    assert "layout_derived" in codes(evidence)
    assert tensors_of(evidence)[0].type == f"AMBIGUOUS_{type_id}"


def test_all_three_integers_of_one_release(tmp_path: Path) -> None:
    tensors = [Tensor("a", [32], 17, 0, 32), Tensor("b", [32], 18, 32, 64), Tensor("c", [32], 19, 96, 128)]
    evidence = observe_artifact(tmp_path, simple(*tensors, Tensor("d", [8], F32, 224)).data)
    assert chosen(evidence) == ("b1803", "derived")
    account = account_of(evidence)
    assert (account.tensor_bytes, account.residue) == (32 + 64 + 128 + 32, 0)
    assert (account.contiguous.yes, account.contiguous.no) == (4, 0)


# --- choosing


def test_names_with_the_same_sizes_are_one_candidate(tmp_path: Path) -> None:
    evidence = observe_artifact(
        tmp_path, simple(Tensor("w", [256], Q4_K), Tensor("v", [256], Q6_K, offset=160), data_length=384).data
    )
    names = candidate(evidence, "ggml-current").names
    assert names[0] == "ggml-current"
    assert set(RELEASES) <= set(names)
    assert {f"{release}-k64" for release in RELEASES} <= set(candidate(evidence, "k64").names)
    everyone = [name for item in account_of(evidence).candidates for name in item.names]
    assert len(everyone) == len(set(everyone))


def test_established_sizes_need_no_choice(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [8])).data)
    assert chosen(evidence) == ("ggml-current", "established")


def test_a_cut_file_keeps_the_layout_its_offsets_agree_with(tmp_path: Path) -> None:
    """Offsets by 64-element blocks; the end is gone, so no layout comes out, and one is contiguous."""
    tensors = [Tensor("a", [1024, 16], Q4_K, 0), Tensor("b", [1024, 16], Q4_K, 9728)]
    evidence = observe_artifact(tmp_path, simple(*tensors, data_length=2 * 9728 - 100).data)
    assert chosen(evidence) == ("k64", "derived")
    account = account_of(evidence)
    assert (account.missing, account.residue) == (100, -100)
    assert evidence.verdict == "truncated"
    assert "tensor_bytes_missing" in codes(evidence)
    assert "residue_under_every_layout" not in codes(evidence)


def test_nothing_fits_and_nothing_agrees(tmp_path: Path) -> None:
    tensors = [Tensor("a", [1024], Q4_K, 0), Tensor("b", [1024], Q4_K, 2048)]
    evidence = observe_artifact(tmp_path, simple(*tensors, data_length=2048 + 576).data)
    hit = finding(evidence, "residue_under_every_layout")
    assert hit.severity == "critical"
    assert not codes(evidence) & {"unowned_bytes", "tensor_bytes_missing", "tensor_overlap"}
    assert chosen(evidence) == ("ggml-current", "default")
    assert evidence.verdict == "residue"
    assert account_of(evidence).residue == 2048 - 576
    assert account_of(evidence).regions[0].kind == "gap"
    applicable = sum(candidate.applicable for candidate in account_of(evidence).candidates)
    assert f"under the layout ggml-current, it is 0 under none of the {applicable} candidates" in hit.message
    named = observe_artifact(tmp_path, simple(*tensors, data_length=2048 + 576).data, layout="k64")
    message = finding(named, "residue_under_every_layout").message
    assert f"the residue is {account_of(named).residue:+,} under the layout k64, " in message


def test_its_verdict_is_by_the_parts(tmp_path: Path) -> None:
    tensors = [Tensor("a", [1024], Q4_K, 0), Tensor("b", [1024], Q4_K, 256)]
    overlapping = observe_artifact(tmp_path, simple(*tensors, data_length=832).data)
    assert "residue_under_every_layout" in codes(overlapping)
    assert overlapping.verdict == "malformed"
    tensors = [Tensor("a", [1024], Q4_K, 0), Tensor("b", [1024], Q4_K, 2048)]
    short = observe_artifact(tmp_path, simple(*tensors, data_length=2048).data)
    assert "residue_under_every_layout" in codes(short)
    assert short.verdict == "truncated"


def test_the_operator_decides(tmp_path: Path) -> None:
    data = simple(Tensor("w", [32, 8], Q8_1), data_length=320).data
    evidence = observe_artifact(tmp_path, data, layout="ggml-current")
    assert chosen(evidence) == ("ggml-current", "operator")
    assert (account_of(evidence).tensor_bytes, account_of(evidence).residue) == (288, 32)
    assert evidence.verdict == "residue"
    evidence = observe_artifact(tmp_path, data, layout="q8_1-40")
    assert chosen(evidence) == ("q8_1-40", "operator")
    assert account_of(evidence).residue == 0
    assert tensors_of(evidence)[0].byte_length is None


def test_an_operators_layout_that_does_not_apply(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [256], 16), data_length=66).data, layout="k64")
    assert chosen(evidence) == ("k64", "operator")
    account = account_of(evidence)
    assert (account.tensor_bytes, account.residue, account.surplus) == (None, None, None)
    assert evidence.verdict == "undetermined"
    assert finding(evidence, "size_unestablished").severity == "notice"


def test_strict_selects_nothing(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [32, 8], Q8_1), data_length=320).data, layout="strict")
    account = account_of(evidence)
    assert account.layout.basis == "strict"
    assert account.layout.name is None
    assert account.residue is None
    assert "q8_1-40" in account.consistent_with
    assert evidence.verdict == "undetermined"


def test_strict_takes_what_all_agree_on(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [32], Q8_1), data_length=64).data, layout="strict")
    assert account_of(evidence).residue == 0


# --- contested and unknown ids


def test_a_contested_type_that_comes_out(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [64, 4], 42), data_length=72).data)
    account = account_of(evidence)
    assert tensors_of(evidence)[0].byte_length is None
    assert (account.tensor_bytes, account.residue) == (72, 0)
    assert evidence.outcome == "complete"
    assert evidence.verdict in {"sound", "notice"}


def test_a_contested_type_that_does_not_is_no_alarm(tmp_path: Path) -> None:
    for length in (32, 96 + 320):
        evidence = observe_artifact(tmp_path, simple(Tensor("w", [64, 4], 42), data_length=length).data)
        assert evidence.verdict == "undetermined"
        assert account_of(evidence).residue is None
        assert candidate(evidence, "ggml-current").applicable is False
        assert not codes(evidence) & {"unowned_bytes", "tensor_bytes_missing", "residue_under_every_layout"}


@pytest.mark.parametrize("type_id", [43, 77, 96, 97, 99, 144, 146, 2**31, 2**32 - 1])
def test_ids_past_the_table_keep_their_number(tmp_path: Path, type_id: int) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [64], type_id, length=64), Tensor("v", [8], F32, 64)).data)
    row = tensors_of(evidence)[0]
    assert (row.type_id, row.byte_length, row.storage_validation) == (type_id, None, "unknown")
    assert str(type_id) in row.type
    assert evidence.verdict == "undetermined"
    hit = finding(evidence, "size_unestablished")
    assert (hit.severity, hit.count) == ("notice", 1)
    account = account_of(evidence)
    assert (account.tensor_bytes, account.residue, account.alignment_padding) == (None, None, None)
    assert (account.missing, account.overlap) == (0, 0)
    assert {(t.type, t.tensors, t.bytes) for t in account.by_type} == {(row.type, 1, None), ("F32", 1, 32)}


def test_a_tensor_of_unknown_size_past_the_end_is_gone(tmp_path: Path) -> None:
    tensors = [Tensor("a", [8], F32, 0), Tensor("x", [64], 99, 4096, 0)]
    evidence = observe_artifact(tmp_path, simple(*tensors, data_length=32).data)
    account = account_of(evidence)
    assert (account.tensors_gone, account.tensors_cut, account.missing) == (1, 0, 0)
    assert evidence.verdict == "truncated"
    assert "tensor_bytes_missing" in codes(evidence)


def test_known_extents_still_overlap_and_miss(tmp_path: Path) -> None:
    tensors = [
        Tensor("x", [64], 99, 512, 0),
        Tensor("a", [16], F32, 0),
        Tensor("b", [16], F32, 32),
        Tensor("c", [16], F32, 1024),
    ]
    evidence = observe_artifact(tmp_path, simple(*tensors, data_length=1024 + 24).data)
    account = account_of(evidence)
    assert (account.overlap, account.missing, account.tensors_cut) == (32, 40, 1)
    assert {"tensor_overlap", "tensor_bytes_missing"} <= codes(evidence)
    assert evidence.verdict == "malformed"


def test_a_row_fault_is_not_said_twice(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [31], Q4_0, length=0), data_length=32).data)
    assert "row_blocks" in {item.constraint for item in evidence.findings}
    assert "size_unestablished" not in codes(evidence)


def test_sums_by_type(tmp_path: Path) -> None:
    tensors = [
        Tensor("a", [32], Q4_0),
        Tensor("b", [64], Q4_0),
        Tensor("c", [256], Q4_K, length=144),
        Tensor("d", [3]),
        Tensor("e", [0], F32, length=0),
    ]
    evidence = observe_artifact(tmp_path, simple(*tensors).data)
    account = account_of(evidence)
    assert {(t.type, t.type_id): (t.tensors, t.elements, t.bytes) for t in account.by_type} == {
        ("Q4_0", 2): (2, "96", 54),
        ("Q4_K", 12): (1, "256", 144),
        ("F32", 0): (2, "3", 12),
    }
    assert account.parameters == "355"
    assert evidence.gguf is not None
    assert evidence.gguf.totals is not None
    assert (evidence.gguf.totals.tensors, evidence.gguf.totals.elements, evidence.gguf.totals.bytes) == (5, "355", None)
    assert {(t.type, t.bytes) for t in evidence.gguf.totals.by_type} == {("Q4_0", 54), ("Q4_K", None), ("F32", 12)}


def test_many_regions_are_counted_and_cut(tmp_path: Path) -> None:
    """1,200 holes: 1,000 are listed, all are counted."""
    count = 1201
    names = b"".join(struct.pack("<Q", 5) + b"t%04d" % n + struct.pack("<IQIQ", 1, 8, 0, 64 * n) for n in range(count))
    head = gguf([ARCHITECTURE], tensor_count=count).data + names
    data = head + bytes(-len(head) % 32) + bytes(64 * (count - 1) + 32)
    evidence = observe_artifact(tmp_path, data)
    account = account_of(evidence)
    assert account.region_count == 1200
    assert len(account.regions) == 1000
    assert account.regions_complete is False
    assert account.surplus == account.residue == 1200 * 32
    assert finding(evidence, "unowned_bytes").count == 1200


def test_strict_still_sees_what_known_extents_lack(tmp_path: Path) -> None:
    """Sizes that every layout agrees on need no choice, so what they lack or share needs none either."""
    known = [Tensor("a", [16], F32, 1024), Tensor("b", [16], F32, 1024 + 32), Tensor("c", [16], F32, 2048)]
    for unsure in (Tensor("x", [64], 99, 0, 0), Tensor("q", [32, 8], Q8_1, 0, 0)):
        evidence = observe_artifact(tmp_path, simple(unsure, *known, data_length=2048 + 24).data, layout="strict")
        account = account_of(evidence)
        assert (account.overlap, account.missing, account.tensors_cut) == (32, 40, 1)
        assert {"tensor_overlap", "tensor_bytes_missing"} <= codes(evidence)
        assert evidence.verdict == "malformed"
        assert account.residue is None


def test_an_offset_past_the_end_is_gone_whatever_the_size(tmp_path: Path) -> None:
    tensors = [Tensor("q", [32], Q8_1, 0, 36), Tensor("x", [64], 99, 4096, 0)]
    evidence = observe_artifact(tmp_path, simple(*tensors, data_length=36).data, layout="strict")
    assert account_of(evidence).tensors_gone == 1
    assert evidence.verdict == "truncated"
