"""A collection of good, bad and hostile files with the verdict that is right for each, if it is at hand."""

from __future__ import annotations

import csv
import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from auditd.evidence.record import Evidence
from tests.builders import CASES, codes, observation

INDEX = CASES / "index.tsv"

#: What a file is called that should not be loaded as it is.
BAD = {"mismatch", "malformed", "truncated", "residue", "unsupported", "foreign", "unknown"}


class Case(NamedTuple):
    """One row of the index."""

    file: str
    verdict: str
    right: str
    figures: dict[str, str]


def cases() -> list[Case]:
    if not INDEX.is_file():
        return []
    with INDEX.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Case(row["file"], row["verdict"], row["what_is_right"], dict(row)) for row in rows]


def chosen(*folders: str) -> list[Any]:
    """The rows that speak of one plain file, as parameters; one skipped parameter without the collection."""
    rows = [
        pytest.param(case, id=case.file)
        for case in cases()
        if case.file.startswith(folders)
        and not case.file.startswith(("field/ollama/", "field/hf/"))
        and case.figures["field"] != "embedded offset 4096"
        and ":" not in case.verdict.split("|")[0].replace("ggml:", "").replace("reference:", "")
        and (CASES / case.file).is_file()
    ]
    skip = pytest.mark.skip(reason=f"no collection of input files at {CASES}")
    return rows or [pytest.param(None, marks=skip, id="none")]


def inspected(case: Case, **options: Any) -> Evidence:
    evidence = observation(CASES / case.file, **options)
    assert evidence.read.bytes_read <= 1024 * 1024 or options
    assert evidence.artifact.size == (CASES / case.file).stat().st_size
    return evidence


def offsets(evidence: Evidence) -> set[int | None]:
    found: set[int | None] = {item.offset for item in evidence.findings}
    return found | {evidence.error.offset if evidence.error else None}


# --- our own verdicts

#: Rows whose figures or place are another reader's, and why ours differ.
OTHER_FIGURES = {
    "field/gguf/types/q8_1_36.gguf": dict.fromkeys(
        ("tensor_bytes", "residue"), "the declarations say nothing, the account chooses"
    ),
    "field/gguf/types/q8_1_40.gguf": dict.fromkeys(
        ("tensor_bytes", "residue"), "the declarations say nothing, the account chooses"
    ),
    "field/st/f4_odd.safetensors": dict.fromkeys(("tensor_bytes", "residue"), "the declared range is the extent"),
    "field/st/tensor_named_metadata.safetensors": {"data_offset": "8 + N stands, whatever the JSON says"},
    "field/gguf/types/unknown_42.gguf": {"data_offset": "the data start needs no tensor's size"},
    "field/gguf/types/iq4kss_146_short.gguf": {
        "offset": "the row names the offset field; without a size, the type is to blame"
    },
}


@pytest.mark.parametrize("case", chosen("field/", "vocabularies/"))
def test_our_own_verdicts_and_figures(case: Case) -> None:
    evidence = inspected(case)
    assert evidence.verdict in case.verdict.split("|"), sorted(codes(evidence))
    account = evidence.accounting
    for name in ("data_offset", "tensor_bytes", "alignment_padding", "residue"):
        stated = case.figures[name]
        if not stated or name in OTHER_FIGURES.get(case.file, {}):
            continue
        figure = getattr(account, name) if account is not None else None
        assert figure == (None if stated == "?" else int(stated)), name
    if case.figures["size"]:
        assert evidence.artifact.size == int(case.figures["size"])


@pytest.mark.parametrize("case", chosen("field/"))
def test_the_place_of_the_fault(case: Case) -> None:
    evidence = inspected(case)
    stated = case.figures["offset"]
    if stated and evidence.verdict != "sound" and "offset" not in OTHER_FIGURES.get(case.file, {}):
        assert int(stated) in offsets(evidence), sorted(map(str, offsets(evidence)))


# --- every rule at its edges

#: Where the source is silent, and what the rules here make of it.
SILENT = {
    "g022_kv_only_pad_then_data.gguf": "residue",
    "g023_tensor_no_data.gguf": "truncated",
    "g027_last_tensor_unpadded.gguf": "sound",
    "g032_valuetype_13.gguf": "malformed",
    "g043_arr_arr_count_max.gguf": "malformed|truncated",
    "g045_str_len_past_eof.gguf": "truncated",
    "g048_arr_str_bad_utf8_shown.gguf": "sound",
    "g049_arr_str_bad_utf8_hidden.gguf": "sound",
    "g0503_key.gguf": "sound",
    "g0511_key.gguf": "notice",
    "g0514_key.gguf": "notice",
    "g0581_key_duplicate_same_value.gguf": "malformed",
    "g0590_kv_count_too_big.gguf": "truncated",
    "g0591_kv_count_max.gguf": "malformed|truncated",
    "g0593_tensor_count_too_big.gguf": "malformed|truncated",
    "g0594_kv_trunc_midvalue.gguf": "truncated",
    "g066_align_2p31_empty_tensor.gguf": "truncated",
    "g077_product_2p64.gguf": "malformed",
    "g078_product_then_zero.gguf": "malformed",
    "g079_zero_then_big.gguf": "notice",
    "g07d_empty_name.gguf": "sound",
    "g07e_name_63.gguf": "sound",
    "g07e_name_300.gguf": "notice",
    "g07g_name_control.gguf": "sound",
    "g100_offset_misaligned.gguf": "malformed",
    "g103_gap.gguf": "residue",
    "g105_first_offset_32.gguf": "residue",
    "g106_offset_past_eof.gguf": "truncated",
    "g107_offset_wrap.gguf": "malformed",
    "g10a_empty_offset_past_eof.gguf": "notice",
    "g10b_unknown_type_then_overlap.gguf": "undetermined",
    "s001_empty_object.safetensors": "sound",
    "s013_leading_space.safetensors": "sound",
    "s044_dtype_empty.safetensors": "notice|undetermined",
    "s05i_dims_100.safetensors": "sound",
    "s071_name_proto.safetensors": "sound",
    "s072_name_lone_surrogate.safetensors": "malformed",
}


@pytest.mark.parametrize("case", chosen("declarations/"))
def test_declarations(case: Case) -> None:
    evidence = inspected(case)
    context = (evidence.outcome, evidence.verdict, sorted(codes(evidence)))
    if case.verdict == "accepted":
        assert evidence.outcome == "complete", context
        assert evidence.verdict not in {"malformed", "unsupported", "foreign", "unknown"}, context
    elif case.verdict == "refused":
        assert evidence.outcome == "refused", context
        assert evidence.verdict in BAD, context
        assert evidence.error is not None
    elif case.verdict == "refused?":
        assert evidence.outcome == "refused" or evidence.findings, context
        assert evidence.verdict != "sound" or "not UTF-8" in case.right, context
    else:
        assert evidence.verdict in SILENT[case.file.rpartition("/")[2]].split("|"), context


def test_every_silent_row_has_an_expectation() -> None:
    silent = {case.file.rpartition("/")[2] for case in cases() if case.verdict == "open"}
    assert not silent or silent == set(SILENT)


@pytest.mark.parametrize("case", chosen("declarations/g08"))
def test_declared_types_and_lengths(case: Case) -> None:
    evidence = inspected(case)
    assert evidence.gguf is not None
    assert evidence.gguf.tensors is not None
    row = evidence.gguf.tensors[0]
    if match := re.match(r"(\w+): byte_length (\d+)$", case.right):
        assert (row.type, row.byte_length) == (match[1], int(match[2]))
    elif match := re.match(r"(\w+) \[256,0\]: derived byte_length 0(, type still (\w+))?$", case.right):
        assert (row.type, row.byte_length) == (match[3] or match[1], 0)
    elif match := re.match(r"(\w+): name kept, byte_length null", case.right):
        assert (row.type, row.byte_length) == (match[1], None)
    elif match := re.match(r"type (AMBIGUOUS_\d+) \(type_id (\d+)\), byte_length null", case.right):
        assert (row.type, row.type_id, row.byte_length) == (match[1], int(match[2]), None)
    elif match := re.match(r"type id (\d+) \(removed or unknown\)", case.right):
        assert (row.type_id, row.byte_length, row.storage_validation) == (int(match[1]), None, "unknown")
        assert evidence.gguf.totals is not None
        assert evidence.gguf.totals.bytes is None
    elif match := re.match(r"Q2_0:", case.right):
        assert (row.type_id, row.byte_length) == (42, None)
    elif case.verdict == "refused":
        assert {item.constraint for item in evidence.findings} >= {"row_blocks"}
    else:
        assert case.file.endswith(("g089_q4_0_row0.gguf", "g08c_mixed.gguf"))


# --- what others say

#: ggml takes the header, and the file is not what it should be all the same: our verdict, and why.
GGML_DIFFERENCES = {
    "ggml/DATA_MEM_SIZE_OVERFLOW__seed1.gguf": ("malformed|truncated", "tensors of nearly 2^64 bytes are not there"),
    "ggml/ROUNDTRIP_META_ONLY__seed1.gguf": ("truncated", "a header alone: ggml fails later, when it reads the data"),
    "ggml/TENSORS_CUSTOM_ALIGN__seed1.gguf": ("truncated", "a header alone"),
    "ggml/TENSORS_SUCCESS__seed1.gguf": ("truncated", "a header alone"),
    "advisories/align_2pow31_no_tensors.gguf": (
        "malformed|truncated",
        "it ends between the directory and the aligned offset",
    ),
    "advisories/count_tensor_minus_1.gguf": ("residue", "the tensor that is not counted owns nothing"),
    "advisories/cve-2026-27940_memsize_wrap.gguf": (
        "malformed|truncated",
        "tensors of nearly 2^64 bytes are not there",
    ),
    "advisories/data_trailing_second_gguf.gguf": ("residue", "ggml never looks behind the last tensor"),
    "advisories/data_trailing_zero_4096.gguf": ("residue", "ggml never looks behind the last tensor"),
    "advisories/data_trailing_zip.gguf": ("residue", "ggml never looks behind the last tensor"),
    "advisories/data_vocab_only_trailing.gguf": ("residue", "ggml never looks behind the directory"),
    "advisories/nul_key_alias_alignment_alias_first.gguf": (
        "truncated",
        "the alignment is 4096; ggml takes the alias for it",
    ),
    "advisories/ollama_truncated_tensor_data.gguf": ("truncated", "ggml fails later, when it reads the data"),
    "advisories/tensor_type_10.gguf": ("residue", "1,024 bytes of data for 66"),
    "advisories/tensor_type_28.gguf": ("residue", "1,024 bytes of data for 144"),
    "advisories/tensor_type_29.gguf": ("residue", "1,024 bytes of data for 36"),
}


@pytest.mark.parametrize("case", chosen("ggml/", "advisories/"))
def test_what_ggml_says(case: Case) -> None:
    evidence = inspected(case)
    context = (evidence.outcome, evidence.verdict, sorted(codes(evidence)))
    if case.verdict == "ggml:refused":
        assert evidence.verdict != "sound", context
    elif case.file in GGML_DIFFERENCES:
        assert evidence.verdict in GGML_DIFFERENCES[case.file][0].split("|"), context
    else:
        assert evidence.verdict not in BAD, context
        assert evidence.outcome == "complete", context


#: The reference reader's word is not ours here.
REFERENCE_DIFFERENCES = {
    "safetensors/dtype_unknown.safetensors": ("notice|undetermined", "an unknown dtype keeps its range"),
    "safetensors/dtype_F128.safetensors": ("notice|undetermined", "an unknown dtype keeps its range"),
    "safetensors/entry_array_form.safetensors": ("malformed", "an entry is an object"),
}


@pytest.mark.parametrize("case", chosen("safetensors/"))
def test_what_the_reference_says(case: Case) -> None:
    evidence = inspected(case)
    context = (evidence.outcome, evidence.verdict, sorted(codes(evidence)))
    if case.file in REFERENCE_DIFFERENCES:
        assert evidence.verdict in REFERENCE_DIFFERENCES[case.file][0].split("|"), context
    elif case.verdict == "reference:refused":
        assert evidence.outcome == "refused", context
        assert evidence.verdict in BAD, context
    else:
        assert evidence.outcome == "complete", context
        assert evidence.verdict in {"sound", "notice"}, context


# --- what holds for all of them


@pytest.mark.parametrize(
    "case", chosen("field/", "vocabularies/", "declarations/", "ggml/", "advisories/", "safetensors/")
)
def test_reading_all_of_it_changes_no_figure(case: Case) -> None:
    brief, long = inspected(case), inspected(case, hash_mode="full")
    assert brief.error == long.error
    assert codes(brief) <= codes(long)
    assert codes(long) - codes(brief) <= {"padding_nonzero", "zero_run", "self_hash_differs"}
    if brief.accounting is not None:
        assert long.accounting is not None
        assert brief.accounting.residue == long.accounting.residue
    digest = hashlib.sha256((CASES / case.file).read_bytes()).hexdigest()
    assert long.artifact.sha256 in ({digest} if long.outcome == "complete" else {None, digest})
    assert brief.artifact.sha256 is None
    account = long.accounting
    if account is not None and account.residue is not None:
        assert account.residue == (account.surplus or 0) - (account.missing or 0) - (account.overlap or 0)


def test_padding_that_is_not_zero_shows_in_full_mode() -> None:
    path: Path = CASES / "advisories/padding_nonzero_before_data.gguf"
    if not path.is_file():
        pytest.skip(f"no collection of input files at {CASES}")
    assert observation(path).verdict in {"sound", "notice"}
    evidence = observation(path, hash_mode="full")
    assert evidence.verdict == "notice"
    assert "padding_nonzero" in codes(evidence)
