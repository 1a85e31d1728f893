"""Every way in which a GGUF header is refused: the rule, the field, its first byte, what that makes of the file."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from auditd.errors import InspectionStopped
from auditd.evidence.record import Evidence
from auditd.inspection.request import Request, unwatched
from tests.builders import (
    ARCHITECTURE,
    KINDS,
    PLAIN,
    PRODUCER,
    Q4_0,
    Q4_K,
    Q8_1,
    Array,
    Built,
    Entry,
    Tensor,
    aligned,
    codes,
    finding,
    gguf,
    look_at_sparse,
    observation,
    observe_artifact,
    simple,
)

MIB = 1024 * 1024
STRING_BOUND = 64 * MIB
HEADER_BOUND = 100_000_000
TENSOR_BOUND = 16_777_216

CODE_OF = {"malformed": "header_malformed", "truncated": "header_truncated"}


def refused(evidence: Evidence, verdict: str, constraint: str, subject: str, offset: int) -> None:
    assert evidence.outcome == "refused"
    assert evidence.verdict == verdict
    error = evidence.error
    assert error is not None
    assert (error.constraint, error.subject, error.offset) == (constraint, subject, offset)
    assert (error.code, error.category, error.errno) == ("file_format_rejected", "content", None)
    hit = finding(evidence, CODE_OF[verdict], constraint)
    assert (hit.subject, hit.offset) == (subject, offset)
    assert hit.message
    assert hit.advice


def over_bound(evidence: Evidence, constraint: str) -> None:
    assert evidence.outcome == "refused"
    assert evidence.verdict == "undetermined"
    assert evidence.error is not None
    assert (evidence.error.code, evidence.error.category) == ("resource_limit", "bound")
    assert evidence.error.constraint == constraint
    assert finding(evidence, "resource_limit").severity == "warning"


# --- the head


@pytest.mark.parametrize("version", [0, 1, 4, 5, 0x03000001, 0x02000001, 2**32 - 1])
def test_an_unsupported_version_is_reported_in_both_readings(tmp_path: Path, version: int) -> None:
    data = simple(Tensor("w", [8]), version=version).data
    evidence = observe_artifact(tmp_path, data)
    assert evidence.outcome == "refused"
    assert evidence.verdict == "unsupported"
    error = evidence.error
    assert error is not None
    assert (error.code, error.category) == ("unsupported_version", "content")
    assert (error.constraint, error.subject, error.offset) == ("version", "header.version", 4)
    hit = finding(evidence, "unsupported_version")
    assert hit.severity == "warning"
    actual = str(hit.actual)
    raw = data[4:8]
    assert raw.hex() in actual.replace(" ", "")
    assert str(int.from_bytes(raw, "little")) in actual
    assert str(int.from_bytes(raw, "big")) in actual
    assert evidence.gguf is None or evidence.gguf.byte_order is None
    assert evidence.accounting is None or evidence.accounting.data_offset is None


@pytest.mark.parametrize("tail", [b"", bytes(4), bytes(100)])
def test_version_one_is_unsupported_however_short(tmp_path: Path, tail: bytes) -> None:
    evidence = observe_artifact(tmp_path, b"GGUF\x01\x00\x00\x00" + tail)
    assert (evidence.outcome, evidence.verdict) == ("refused", "unsupported")


def test_big_endian_version_2_is_refused(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [8]), version=2, endian=">").data)
    assert (evidence.outcome, evidence.verdict) == ("refused", "unsupported")
    assert evidence.error is not None
    assert (evidence.error.subject, evidence.error.offset) == ("header.version", 4)
    assert evidence.error.code == "unsupported_version"


def test_a_big_endian_version_in_front_of_little_counts_is_read_as_it_stands(tmp_path: Path) -> None:
    """Never guess: 1 tensor in little-endian is 2^56 in big-endian, and that is what is reported."""
    data = bytearray(simple(Tensor("w", [8])).data)
    data[4:8] = struct.pack(">I", 3)
    evidence = observe_artifact(tmp_path, bytes(data))
    assert evidence.outcome == "refused"
    assert evidence.error is not None
    assert (evidence.error.subject, evidence.error.offset) == ("header.tensor_count", 8)


@pytest.mark.parametrize("tensors", [4, 1000, 4_000_000])
def test_a_tensor_count_past_the_end(tmp_path: Path, tensors: int) -> None:
    built = gguf(tensor_count=tensors)
    data = built.data + bytes(3 * 24)
    refused(observe_artifact(tmp_path, data), "truncated", "count_past_end", "header.tensor_count", 8)


@pytest.mark.parametrize("tensors", [4_200_000, TENSOR_BOUND, TENSOR_BOUND + 1, 2**63, 2**64 - 1])
def test_a_tensor_count_over_a_bound_and_past_the_end(tmp_path: Path, tensors: int) -> None:
    """4,200,000 entries alone would pass the bound of the whole header."""
    refused(
        observe_artifact(tmp_path, gguf(tensor_count=tensors).data + bytes(96)),
        "malformed",
        "count_past_end",
        "header.tensor_count",
        8,
    )


def test_a_tensor_count_over_the_bound_with_the_bytes_there(tmp_path: Path) -> None:
    evidence = look_at_sparse(tmp_path, gguf(tensor_count=TENSOR_BOUND + 1).data, 24 + 24 * (TENSOR_BOUND + 1))
    over_bound(evidence, "tensor_count")
    assert evidence.error is not None
    assert (evidence.error.subject, evidence.error.offset) == ("header.tensor_count", 8)
    assert evidence.read.bytes_read <= MIB


def test_a_tensor_count_at_the_bound_is_begun(tmp_path: Path) -> None:
    from auditd.inspection.inspector import inspect

    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(tensor_count=TENSOR_BOUND).data)
    with path.open("r+b") as file:
        file.truncate(24 + 24 * TENSOR_BOUND)
    calls = 0

    def stop_soon() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise InspectionStopped("enough")

    evidence = inspect(Request(path=bytes(path), producer=PRODUCER), stop_soon, unwatched)
    assert evidence.outcome == "partial"
    assert evidence.error is not None
    assert evidence.error.code == "cancelled"
    assert evidence.gguf is not None
    assert evidence.gguf.tensor_count == TENSOR_BOUND


@pytest.mark.parametrize("entries", [3, 10_000])
def test_a_metadata_count_past_the_end(tmp_path: Path, entries: int) -> None:
    data = gguf(metadata_count=entries).data + bytes(2 * 13 + 12)
    refused(observe_artifact(tmp_path, data), "truncated", "count_past_end", "header.metadata_count", 16)


@pytest.mark.parametrize("entries", [500_000_000, 2**63, 2**64 - 1])
def test_an_absurd_metadata_count_is_refused_at_once(tmp_path: Path, entries: int) -> None:
    evidence = observe_artifact(tmp_path, gguf(metadata_count=entries).data)
    assert evidence.outcome == "refused"
    assert evidence.verdict in {"malformed", "truncated"}
    assert evidence.error is not None
    assert (evidence.error.subject, evidence.error.offset) == ("header.metadata_count", 16)


def test_tensors_are_counted_before_metadata(tmp_path: Path) -> None:
    data = gguf(tensor_count=9, metadata_count=9).data + bytes(20)
    refused(observe_artifact(tmp_path, data), "truncated", "count_past_end", "header.tensor_count", 8)


# --- strings, at every place where one can stand


def string_at(place: str, length: int, content: bytes = b"") -> tuple[bytes, str, int]:
    """``(header up to and with the string, path of its length, its offset)``."""
    claim = struct.pack("<Q", length) + content
    if place == "key":
        head = gguf(metadata_count=1).data
        return head + claim, "metadata[0].key.length", len(head)
    if place == "value":
        head = gguf([Entry("k", raw=struct.pack("<I", KINDS["string"]))]).data
        return head + claim, "metadata[0].value.length", len(head)
    if place == "element":
        raw = struct.pack("<IIQ", KINDS["array"], KINDS["string"], 2) + struct.pack("<Q", 1) + b"a"
        head = gguf([Entry("k", raw=raw)]).data
        return head + claim, "metadata[0].value[1].length", len(head)
    head = gguf(tensor_count=1).data
    return head + claim, "tensors[0].name.length", len(head)


PLACES = ["key", "value", "element", "name"]
#: So that the counts of the head are satisfied.
FILL = 40


@pytest.mark.parametrize("place", PLACES)
def test_a_string_past_the_end(tmp_path: Path, place: str) -> None:
    data, subject, offset = string_at(place, FILL + 1, bytes(FILL))
    refused(observe_artifact(tmp_path, data), "truncated", "length_past_end", subject, offset)


@pytest.mark.parametrize("place", PLACES)
def test_a_string_at_its_bound_and_past_the_end(tmp_path: Path, place: str) -> None:
    data, subject, offset = string_at(place, STRING_BOUND, bytes(FILL))
    refused(observe_artifact(tmp_path, data), "truncated", "length_past_end", subject, offset)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("length", [STRING_BOUND + 1, 2**31, 2**63, 2**64 - 1])
def test_a_string_over_its_bound_and_past_the_end(tmp_path: Path, place: str, length: int) -> None:
    data, subject, offset = string_at(place, length, bytes(FILL))
    evidence = observe_artifact(tmp_path, data)
    refused(evidence, "malformed", "string_length", subject, offset)
    hit = finding(evidence, "header_malformed")
    assert hit.actual == (length if length < 2**53 else str(length))


@pytest.mark.parametrize("place", PLACES)
def test_a_string_over_its_bound_with_the_bytes_there(tmp_path: Path, place: str) -> None:
    data, subject, offset = string_at(place, STRING_BOUND + 1)
    evidence = look_at_sparse(tmp_path, data, len(data) + STRING_BOUND + 100)
    over_bound(evidence, "string_length")
    assert evidence.error is not None
    assert (evidence.error.subject, evidence.error.offset) == (subject, offset)
    assert evidence.read.bytes_read <= MIB


def test_a_string_at_its_bound_is_read(tmp_path: Path) -> None:
    """64 MiB are accepted; they are more than is kept, and the coverage says so."""
    data, _, _ = string_at("value", STRING_BOUND)
    evidence = look_at_sparse(tmp_path, data, len(data) + STRING_BOUND)
    assert evidence.outcome == "complete"
    assert evidence.read.header_length == len(data) + STRING_BOUND
    assert evidence.coverage.metadata.status == "partial"
    assert evidence.coverage.metadata.reason
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0


def test_a_string_that_fills_the_file_exactly_is_whole(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, gguf([ARCHITECTURE, Entry("k", "string", "x" * 99)]).data)
    assert evidence.outcome == "complete"
    assert evidence.verdict == "sound"


# --- value types and arrays


@pytest.mark.parametrize("kind", [13, 14, 255, 2**31, 2**32 - 1])
def test_an_unknown_value_type(tmp_path: Path, kind: int) -> None:
    built = gguf([ARCHITECTURE, Entry("a.b", raw=struct.pack("<I", kind) + bytes(16))])
    evidence = observe_artifact(tmp_path, built.data)
    refused(evidence, "malformed", "value_type", "metadata[1].type", built.at("metadata[1].raw"))
    assert finding(evidence, "header_malformed").actual == kind
    assert evidence.gguf is not None
    assert evidence.gguf.metadata is not None
    assert [row.key for row in evidence.gguf.metadata] == ["general.architecture"]


@pytest.mark.parametrize("kind", [13, 2**32 - 1])
def test_an_unknown_element_type(tmp_path: Path, kind: int) -> None:
    built = gguf([Entry("a.b", raw=struct.pack("<IIQ", KINDS["array"], kind, 0) + bytes(16))])
    refused(
        observe_artifact(tmp_path, built.data),
        "malformed",
        "value_type",
        "metadata[0].value.element_type",
        built.at("metadata[0].raw") + 4,
    )


ELEMENTS = {**{kind: size for kind, (_, size) in PLAIN.items()}, "string": 8, "array": 12}


@pytest.mark.parametrize("kind", ELEMENTS)
def test_an_array_count_past_the_end(tmp_path: Path, kind: str) -> None:
    """One item more than its smallest form has room for, and the fault is the count's."""
    room = 5 * ELEMENTS[kind]
    raw = struct.pack("<IIQ", KINDS["array"], KINDS[kind], 6) + bytes(room)
    built = gguf([Entry("a.b", raw=raw)])
    refused(
        observe_artifact(tmp_path, built.data),
        "truncated",
        "count_past_end",
        "metadata[0].value.count",
        built.at("metadata[0].raw") + 8,
    )


@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize("count", [2**61 + 1, 2**63, 2**64 - 1])
def test_an_absurd_array_count_neither_wraps_nor_loops(tmp_path: Path, kind: str, count: int) -> None:
    raw = struct.pack("<IIQ", KINDS["array"], KINDS[kind], count) + bytes(64)
    built = gguf([Entry("a.b", raw=raw)])
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.outcome == "refused"
    assert evidence.verdict in {"malformed", "truncated"}
    assert evidence.error is not None
    assert (evidence.error.subject, evidence.error.offset) == (
        "metadata[0].value.count",
        built.at("metadata[0].raw") + 8,
    )


@pytest.mark.parametrize("cut", [1, 3, 7])
def test_an_inner_element_that_is_cut(tmp_path: Path, cut: int) -> None:
    built = gguf([Entry("a.b", "array", Array("array", [Array("u64", [1]), Array("u64", [2, 3])]))])
    data = built.data[:-cut]
    refused(
        observe_artifact(tmp_path, data),
        "truncated",
        "count_past_end",
        "metadata[0].value[1].count",
        built.at("metadata[0].value[1].count"),
    )


def nested(depth: int) -> Built:
    if depth < 100:
        value = Array("u8", [7])
        for _ in range(depth - 1):
            value = Array("array", [value])
        return gguf([ARCHITECTURE, Entry("a.b", "array", value)])
    built = nested(40)
    inner = struct.pack("<IQ", KINDS["array"], 1) * (depth - 1) + struct.pack("<IQB", KINDS["u8"], 1, 7)
    raw = struct.pack("<I", KINDS["array"]) + inner
    return Built(gguf([ARCHITECTURE, Entry("a.b", raw=raw)]).data, 0, 0, built.spans)


@pytest.mark.parametrize("depth", [2, 3, 31, 32])
def test_nesting_within_the_bound(tmp_path: Path, depth: int) -> None:
    evidence = observe_artifact(tmp_path, nested(depth).data)
    assert evidence.outcome == "complete"
    assert evidence.verdict == "notice"
    assert finding(evidence, "nested_array").severity == "notice"


@pytest.mark.parametrize("depth", [33, 34, 300, 100_000])
def test_nesting_over_the_bound(tmp_path: Path, depth: int) -> None:
    built = nested(depth)
    evidence = observe_artifact(tmp_path, built.data)
    assert (evidence.outcome, evidence.verdict) == ("refused", "malformed")
    error = evidence.error
    assert error is not None
    assert error.constraint == "nesting"
    # declared by the element type of the 32nd array
    assert error.subject == "metadata[1].value" + "[0]" * 31 + ".element_type"
    assert error.offset == built.at(error.subject)
    assert error.code == "file_format_rejected"


# --- tensors


@pytest.mark.parametrize("dims", [5, 6, 1000])
def test_more_than_four_dimensions(tmp_path: Path, dims: int) -> None:
    built = simple(Tensor("fine", [8]), Tensor("w", [1] * dims, length=4))
    evidence = observe_artifact(tmp_path, built.data)
    refused(evidence, "malformed", "dimensions", "tensors[1].n_dims", built.at("tensors[1].n_dims"))
    assert finding(evidence, "header_malformed").actual == dims
    assert evidence.gguf is not None
    assert evidence.gguf.tensors is not None
    assert [row.name for row in evidence.gguf.tensors] == ["fine"]
    assert evidence.coverage.tensors.status == "partial"


@pytest.mark.parametrize("dims", [0, 1, 2, 3, 4])
def test_up_to_four_dimensions(tmp_path: Path, dims: int) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", [2] * dims)).data)
    assert evidence.verdict == "sound"
    assert evidence.accounting is not None
    assert evidence.accounting.tensor_bytes == 4 * 2**dims


@pytest.mark.parametrize(
    "dims", [[2**32, 2**32], [2**63, 2], [2**63, 4, 0], [2**64 - 1, 2**64 - 1], [2, 2**62, 2, 0], [2**64 - 1, 2]]
)
def test_a_product_that_overflows_in_order(tmp_path: Path, dims: list[int]) -> None:
    built = simple(Tensor("fine", [8]), Tensor("w", dims, offset=32, length=0), Tensor("last", [2], offset=32))
    evidence = observe_artifact(tmp_path, built.data)
    refused(evidence, "malformed", "shape_overflow", "tensors[1].dims", built.at("tensors[1].dims"))
    # a standing fault: the walk goes on
    assert evidence.gguf is not None
    assert evidence.gguf.tensors is not None
    assert [row.name for row in evidence.gguf.tensors] == ["fine", "w", "last"]
    assert evidence.gguf.tensors[1].shape == [str(dim) for dim in dims]
    assert evidence.gguf.tensors[1].byte_length is None
    assert evidence.gguf.tensors[1].elements is None
    assert evidence.read.header_length == built.header_end
    assert evidence.accounting is not None
    assert evidence.accounting.data_offset == built.data_offset
    assert evidence.accounting.tensor_bytes is None
    assert evidence.accounting.residue is None


@pytest.mark.parametrize("dims", [[0, 2**63, 4], [0, 2**64 - 1, 2**64 - 1], [2**63, 0, 2**63]])
def test_an_earlier_zero_helps(tmp_path: Path, dims: list[int]) -> None:
    evidence = observe_artifact(tmp_path, simple(Tensor("w", dims, length=0), data_length=0).data + bytes(32))
    assert "header_malformed" not in codes(evidence)
    assert evidence.outcome == "complete"
    assert evidence.gguf is not None
    assert evidence.gguf.tensors is not None
    row = evidence.gguf.tensors[0]
    assert (row.shape, row.elements, row.byte_length) == ([str(dim) for dim in dims], "0", 0)


@pytest.mark.parametrize(
    ("type_id", "dims"),
    [
        (Q4_0, [48]),
        (Q4_0, [31]),
        (Q4_0, []),
        (Q4_0, [16, 2]),
        (Q4_0, [48, 0]),
        (Q8_1, [16]),
        (Q8_1, [33, 0]),
        (Q4_K, [32]),
        (Q4_K, [96]),
        (Q4_K, []),
        (15, [32, 2]),
        (34, [128]),
        (39, [16]),
        (40, [32]),
        (41, [64]),
    ],
)
def test_a_row_that_is_not_whole_blocks_under_any_layout(tmp_path: Path, type_id: int, dims: list[int]) -> None:
    built = simple(Tensor("w", dims, type_id, length=0), data_length=64)
    evidence = observe_artifact(tmp_path, built.data)
    refused(evidence, "malformed", "row_blocks", "tensors[0].dims", built.at("tensors[0].dims"))
    assert evidence.read.header_length == built.header_end


def test_q8_1_rows_need_32_elements_even_where_the_size_is_open(tmp_path: Path) -> None:
    assert observe_artifact(tmp_path, simple(Tensor("w", [32], Q8_1), data_length=36).data).outcome == "complete"


def test_a_duplicate_key(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE, Entry("a.b", "u32", 1), Entry("a.b", "u32", 1), Entry("a.b", "string", "c")])
    evidence = observe_artifact(tmp_path, built.data)
    refused(evidence, "malformed", "duplicate_key", "metadata[2].key", built.at("metadata[2].key.length"))
    assert finding(evidence, "header_malformed").count == 2
    assert evidence.gguf is not None
    assert evidence.gguf.metadata is not None
    assert [row.value for row in evidence.gguf.metadata] == ["test", 1, 1, "c"]
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0


def test_a_duplicate_name(tmp_path: Path) -> None:
    built = simple(Tensor("w", [8]), Tensor("v", [8]), Tensor("w", [8]))
    evidence = observe_artifact(tmp_path, built.data)
    refused(evidence, "malformed", "duplicate_name", "tensors[2].name", built.at("tensors[2].name.length"))
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0
    assert evidence.accounting.tensor_bytes == 96


def test_many_equal_names(tmp_path: Path) -> None:
    """A pairwise comparison would take hours here."""
    count = 30_000
    entry = struct.pack("<Q", 1) + b"w" + struct.pack("<IIQ", 0, 0, 0)
    data = gguf(tensor_count=count).data + entry * count + bytes(64)
    evidence = observe_artifact(tmp_path, data)
    assert evidence.verdict == "malformed"
    assert finding(evidence, "header_malformed", "duplicate_name").count == count - 1


def test_many_names_and_keys_that_differ(tmp_path: Path) -> None:
    count = 30_000
    metadata = b"".join(struct.pack("<Q", 8) + b"a%07d" % n + struct.pack("<IB", 0, 1) for n in range(count))
    names = b"".join(struct.pack("<Q", 8) + b"t%07d" % n + struct.pack("<IQIQ", 1, 0, 0, 0) for n in range(count))
    data = gguf(tensor_count=count, metadata_count=count).data + metadata + names
    evidence = observe_artifact(tmp_path, data + bytes(32))
    assert evidence.outcome == "complete"
    assert evidence.gguf is not None
    assert (evidence.gguf.metadata_count, evidence.gguf.tensor_count) == (count, count)


# --- alignment


def with_alignment(*entries: Entry) -> Built:
    return gguf([ARCHITECTURE, *entries], [Tensor("w", [8])])


@pytest.mark.parametrize(
    "entry",
    [
        aligned(0),
        Entry("general.alignment", "u64", 32),
        Entry("general.alignment", "i32", 32),
        Entry("general.alignment", "u8", 32),
        Entry("general.alignment", "bool", 1),
        Entry("general.alignment", "f32", 32.0),
        Entry("general.alignment", "string", "32"),
        Entry("general.alignment", "array", Array("u32", [32])),
    ],
)
def test_an_alignment_that_is_none(tmp_path: Path, entry: Entry) -> None:
    built = with_alignment(entry)
    evidence = observe_artifact(tmp_path, built.data)
    assert (evidence.outcome, evidence.verdict) == ("refused", "malformed")
    assert evidence.error is not None
    assert evidence.error.constraint == "alignment"
    assert evidence.error.subject is not None
    assert evidence.error.subject.startswith("metadata[1].")
    assert evidence.error.offset is not None
    if entry.value == 0:
        assert (evidence.error.subject, evidence.error.offset) == ("metadata[1].value", built.at("metadata[1].value"))
    assert evidence.gguf is not None
    assert evidence.gguf.alignment is None
    account = evidence.accounting
    assert account is not None
    assert account.data_offset is None
    assert account.header_padding is None
    assert account.residue is None
    assert account.tensor_bytes == 32
    assert account.overlap == 0
    assert evidence.read.header_length == built.header_end
    assert evidence.read.header_sha256 is not None


def test_an_alignment_repeated_with_another_value(tmp_path: Path) -> None:
    built = with_alignment(aligned(32), aligned(64))
    evidence = observe_artifact(tmp_path, built.data)
    assert (evidence.outcome, evidence.verdict) == ("refused", "malformed")
    assert evidence.error is not None
    assert (evidence.error.constraint, evidence.error.subject) == ("duplicate_key", "metadata[2].key")
    assert evidence.accounting is not None
    assert evidence.accounting.data_offset is None
    assert evidence.accounting.tensor_bytes == 32


def test_an_alignment_repeated_with_the_same_value(tmp_path: Path) -> None:
    built = with_alignment(aligned(32), aligned(32))
    evidence = observe_artifact(tmp_path, built.data)
    assert (evidence.outcome, evidence.verdict) == ("refused", "malformed")
    assert evidence.accounting is not None
    assert evidence.accounting.data_offset == built.data_offset
    assert evidence.accounting.residue == 0


@pytest.mark.parametrize(
    ("alignment", "expected"),
    [
        (1, {"alignment_not_multiple_of_8"}),
        (2, {"alignment_not_multiple_of_8"}),
        (3, {"alignment_not_multiple_of_8", "alignment_not_power_of_two"}),
        (4, {"alignment_not_multiple_of_8"}),
        (8, set()),
        (12, {"alignment_not_multiple_of_8", "alignment_not_power_of_two"}),
        (16, set()),
        (24, {"alignment_not_power_of_two"}),
        (40, {"alignment_not_power_of_two"}),
        (1 << 16, set()),
    ],
)
def test_odd_alignments_are_accounted_and_said(tmp_path: Path, alignment: int, expected: set[str]) -> None:
    built = gguf([ARCHITECTURE, aligned(alignment)], [Tensor("w", [8])], alignment=alignment)
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.outcome == "complete"
    assert evidence.accounting is not None
    assert evidence.accounting.data_offset == built.data_offset
    assert evidence.accounting.residue == 0
    assert codes(evidence) == expected
    assert evidence.verdict == ("notice" if expected else "sound")


# --- files without tensors


def test_metadata_only_that_ends_at_the_directory(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE])
    assert built.header_end % 32
    evidence = observe_artifact(tmp_path, built.data)
    assert (evidence.outcome, evidence.verdict) == ("complete", "sound")
    assert "no_tensors" in codes(evidence)
    account = evidence.accounting
    assert account is not None
    assert account.data_offset == built.header_end
    assert account.header_padding == 0
    assert (account.tensor_bytes, account.residue) == (0, 0)


def test_metadata_only_with_all_of_its_padding(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE])
    start = (built.header_end + 31) // 32 * 32
    evidence = observe_artifact(tmp_path, built.data + bytes(start - built.header_end))
    assert evidence.verdict == "sound"
    account = evidence.accounting
    assert account is not None
    assert (account.data_offset, account.header_padding) == (start, start - built.header_end)
    assert evidence.read.header_length == built.header_end
    assert account.residue == 0


def test_metadata_only_that_ends_between(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE])
    start = (built.header_end + 31) // 32 * 32
    for size in range(built.header_end + 1, start):
        evidence = observe_artifact(tmp_path, built.data + bytes(size - built.header_end))
        assert evidence.outcome == "refused"
        assert evidence.verdict in {"malformed", "truncated"}
        assert evidence.error is not None
        assert (evidence.error.constraint, evidence.error.subject, evidence.error.offset) == (
            "partial_gap",
            "header.padding",
            built.header_end,
        )
        assert evidence.accounting is not None
        assert evidence.accounting.data_offset is None


@pytest.mark.parametrize("extra", [1, 31, 32, 70])
def test_metadata_only_with_something_behind(tmp_path: Path, extra: int) -> None:
    built = gguf([ARCHITECTURE])
    start = (built.header_end + 31) // 32 * 32
    evidence = observe_artifact(tmp_path, built.data + bytes(start - built.header_end + extra))
    assert evidence.verdict == "residue"
    account = evidence.accounting
    assert account is not None
    assert (account.data_offset, account.surplus, account.residue) == (start, extra, extra)
    assert account.regions is not None
    assert [(r.kind, r.begin, r.length, r.after, r.before) for r in account.regions] == [
        ("trailing", start, extra, None, None)
    ]


# --- the header as a whole


def header_of(length: int) -> bytes:
    """The first bytes of a header that takes ``length`` bytes, most of them an array of u8."""
    prefix = gguf([ARCHITECTURE, Entry("a.b", "array", Array("u8", [], count=0))]).data
    return prefix[:-8] + struct.pack("<Q", length - len(prefix))


def test_a_header_at_its_bound(tmp_path: Path) -> None:
    evidence = look_at_sparse(tmp_path, header_of(HEADER_BOUND), HEADER_BOUND)
    assert (evidence.outcome, evidence.verdict) == ("complete", "sound")
    assert evidence.read.header_length == HEADER_BOUND


def test_a_header_over_its_bound_with_the_bytes_there(tmp_path: Path) -> None:
    evidence = look_at_sparse(tmp_path, header_of(HEADER_BOUND + 1), HEADER_BOUND + 1000)
    over_bound(evidence, "header_length")


def test_a_header_over_its_bound_and_past_the_end(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, header_of(HEADER_BOUND * 2) + bytes(100))
    assert evidence.outcome == "refused"
    assert evidence.error is not None
    assert evidence.error.subject == "metadata[1].value.count"
    assert evidence.verdict in {"malformed", "truncated"}


def test_more_than_is_kept_is_still_accounted(tmp_path: Path) -> None:
    """40 MiB of text: rows end where the 32 MiB that are kept end, counts and sums do not."""
    path = tmp_path / "model.gguf"
    entry = gguf([Entry("k.0", raw=struct.pack("<IQ", KINDS["string"], MIB))]).data[24:]
    tail = simple(Tensor("w", [8]), Tensor("v", [8]))
    directory = tail.data[tail.at("tensors[0].name.length") : tail.header_end]
    with path.open("wb") as file:
        file.write(gguf(tensor_count=2, metadata_count=40).data)
        for index in range(40):
            file.write(
                entry.replace(b"k.0", b"k.%d" % index).replace(
                    struct.pack("<Q", 3), struct.pack("<Q", len(b"k.%d" % index)), 1
                )
            )
            file.seek(MIB, 1)
        file.write(directory)
        header_end = file.tell()
        data_offset = (header_end + 31) // 32 * 32
        file.truncate(data_offset + 64)
    evidence = observation(path)
    assert evidence.outcome == "complete"
    assert evidence.read.header_length == header_end
    declared = evidence.gguf
    assert declared is not None
    assert (declared.metadata_count, declared.tensor_count) == (40, 2)
    assert declared.metadata is not None
    assert 0 < len(declared.metadata) < 40
    assert evidence.coverage.metadata.status == "partial"
    assert evidence.coverage.metadata.reason
    assert evidence.coverage.header.status == "complete"
    account = evidence.accounting
    assert account is not None
    assert (account.tensor_bytes, account.residue, account.data_offset) == (64, 0, data_offset)
    assert account.contiguous is not None
    assert account.contiguous.yes == 2


# --- several faults


def test_the_lowest_offset_is_the_error(tmp_path: Path) -> None:
    built = gguf(
        [ARCHITECTURE, Entry("a.b", "u8", 1), Entry("a.b", "u8", 1)],
        [Tensor("w", [8]), Tensor("w", [8]), Tensor("x", [1] * 5, length=4)],
    )
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.error is not None
    assert (evidence.error.constraint, evidence.error.subject) == ("duplicate_key", "metadata[2].key")
    hits = {item.constraint for item in evidence.findings if item.code == "header_malformed"}
    assert hits == {"duplicate_key", "duplicate_name", "dimensions"}


def test_a_standing_fault_before_a_cut(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE, Entry("a.b", "u8", 1), Entry("a.b", "u8", 1), Entry("c.d", "u64", 1)])
    evidence = observe_artifact(tmp_path, built.data[:-1])
    assert evidence.error is not None
    assert evidence.error.constraint == "duplicate_key"
    assert evidence.verdict == "malformed"
    cut = finding(evidence, "header_truncated")
    assert (cut.constraint, cut.subject, cut.offset) == (
        "end_of_file",
        "metadata[3].value",
        built.at("metadata[3].value"),
    )


def test_an_alignment_of_zero_behind_a_row_fault_is_still_first(tmp_path: Path) -> None:
    built = gguf([aligned(0)], [Tensor("w", [31], Q4_0, length=0)], data_length=32)
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.error is not None
    assert evidence.error.constraint == "alignment"
    assert {item.constraint for item in evidence.findings if item.code == "header_malformed"} == {
        "alignment",
        "row_blocks",
    }


def test_a_bound_wins_over_an_earlier_fault(tmp_path: Path) -> None:
    raw = struct.pack("<IQ", KINDS["string"], STRING_BOUND + 1)
    built = gguf([ARCHITECTURE, Entry("a.b", "u8", 1), Entry("a.b", "u8", 1), Entry("c.d", raw=raw)])
    evidence = look_at_sparse(tmp_path, built.data, len(built.data) + STRING_BOUND + 1000)
    assert evidence.error is not None
    assert evidence.error.code == "resource_limit"
    assert evidence.verdict == "malformed"


def test_what_was_established_before_the_fault_stays(tmp_path: Path) -> None:
    built = gguf([ARCHITECTURE, aligned(64)], [Tensor("w", [8]), Tensor("x", [1] * 5, length=4)], alignment=64)
    evidence = observe_artifact(tmp_path, built.data)
    declared = evidence.gguf
    assert declared is not None
    assert (declared.version, declared.byte_order, declared.alignment) == (3, "little", 64)
    assert (declared.metadata_count, declared.tensor_count) == (2, 2)
    assert declared.spans.head == 24
    assert declared.spans.metadata == built.at("tensors[0].name.length") - 24
    assert declared.spans.directory is None
    assert evidence.coverage.metadata.status == "complete"


def test_rows_that_header_and_account_find_broken_are_one_finding(tmp_path: Path) -> None:
    tensors = [Tensor("a", [1], 8, 0, 34), Tensor("b", [32], 12, 64, 144), Tensor("c", [64], 12, 256, 144)]
    evidence = observe_artifact(tmp_path, simple(*tensors, data=bytes(512)).data)
    keys = [(item.code, item.constraint) for item in evidence.findings]
    assert len(keys) == len(set(keys))
    assert finding(evidence, "header_malformed", "row_blocks").subject == "tensors[0].dims"
