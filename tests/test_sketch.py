"""The 408-byte sketch: every figure known beforehand, every place where it can be cut or bent."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from tests.builders import Built, Entry, Tensor, aligned, codes, finding, gguf, observe_artifact, sketch

#: Field starts as published with the file: head, five entries, one info record, padding, data.
PUBLISHED_STARTS = [0, 4, 8, 16, 24, 70, 125, 158, 192, 268, 327, 384]

#: Every field of the header by hand: path, first byte, end.
FIELDS = [
    ("header.magic", 0, 4),
    ("header.version", 4, 8),
    ("header.tensor_count", 8, 16),
    ("header.metadata_count", 16, 24),
    ("metadata[0].key.length", 24, 32),
    ("metadata[0].key", 32, 52),
    ("metadata[0].type", 52, 56),
    ("metadata[0].value.length", 56, 64),
    ("metadata[0].value", 64, 70),
    ("metadata[1].key.length", 70, 78),
    ("metadata[1].key", 78, 90),
    ("metadata[1].type", 90, 94),
    ("metadata[1].value.length", 94, 102),
    ("metadata[1].value", 102, 125),
    ("metadata[2].key.length", 125, 133),
    ("metadata[2].key", 133, 150),
    ("metadata[2].type", 150, 154),
    ("metadata[2].value", 154, 158),
    ("metadata[3].key.length", 158, 166),
    ("metadata[3].key", 166, 184),
    ("metadata[3].type", 184, 188),
    ("metadata[3].value", 188, 192),
    ("metadata[4].key.length", 192, 200),
    ("metadata[4].key", 200, 213),
    ("metadata[4].type", 213, 217),
    ("metadata[4].value.element_type", 217, 221),
    ("metadata[4].value.count", 221, 229),
    ("metadata[4].value[0].length", 229, 237),
    ("metadata[4].value[0]", 237, 242),
    ("metadata[4].value[1].length", 242, 250),
    ("metadata[4].value[1]", 250, 253),
    ("metadata[4].value[2].length", 253, 261),
    ("metadata[4].value[2]", 261, 268),
    ("tensors[0].name.length", 268, 276),
    ("tensors[0].name", 276, 295),
    ("tensors[0].n_dims", 295, 299),
    ("tensors[0].dims", 299, 315),
    ("tensors[0].type", 315, 319),
    ("tensors[0].offset", 319, 327),
]
ENTRY_ENDS = [70, 125, 158, 192, 268]


def stop_of(length: int) -> tuple[str, int, str]:
    """Where a reader of the first ``length`` bytes has to stop: path, offset, the rule that broke."""
    if length < 24:
        subject, begin, _ = next(item for item in FIELDS if length < item[2])
        return subject, begin, "end_of_file"
    if length - 24 < 24:  # one tensor entry takes 24 bytes at least
        return "header.tensor_count", 8, "count_past_end"
    if length - 24 < 5 * 13:  # five metadata entries
        return "header.metadata_count", 16, "count_past_end"
    subject, begin, _ = next(item for item in FIELDS if length < item[2])
    if subject.startswith("metadata[4].value[") and length - 229 < 3 * 8:
        return "metadata[4].value.count", 221, "count_past_end"
    if subject.endswith((".key", "].value", ".name")) or subject.startswith("metadata[4].value["):
        is_text = any(name == subject + ".length" for name, _, _ in FIELDS)
        if is_text:
            return subject + ".length", begin - 8, "length_past_end"
    return subject, begin, "end_of_file"


def test_the_builder_puts_every_field_where_it_was_published() -> None:
    built = sketch()
    assert len(built.data) == 408
    assert [(span.subject, span.begin, span.end) for span in built.spans[:-1]] == FIELDS
    starts = {span.begin for span in built.spans} | {built.data_offset}
    assert starts.issuperset(PUBLISHED_STARTS)


def test_every_figure(tmp_path: Path) -> None:
    data = sketch().data
    evidence = observe_artifact(tmp_path, data)
    assert evidence.outcome == "complete"
    assert evidence.verdict == "sound"
    assert evidence.error is None
    assert evidence.artifact.format == "gguf"
    assert evidence.artifact.size == 408
    assert evidence.artifact.sha256 is None
    assert evidence.read.scope == "header"
    assert evidence.read.header_length == 327
    assert evidence.read.header_sha256 == hashlib.sha256(data[:327]).hexdigest()
    declared = evidence.gguf
    assert declared is not None
    assert (declared.version, declared.byte_order) == (3, "little")
    assert (declared.alignment, declared.alignment_declared) == (64, True)
    assert (declared.metadata_count, declared.tensor_count) == (5, 1)
    spans = declared.spans
    assert (spans.head, spans.metadata, spans.directory, spans.padding) == (24, 244, 59, 57)
    account = evidence.accounting
    assert account is not None
    assert account.file_size == 408
    assert account.data_offset == 384
    assert account.header_padding == 57
    assert account.tensor_bytes == 24
    assert account.alignment_padding == 0
    assert (account.remainder, account.surplus, account.missing, account.overlap, account.residue) == (0, 0, 0, 0, 0)
    assert account.contiguous is not None
    assert (account.contiguous.yes, account.contiguous.no) == (1, 0)
    assert account.regions == []
    assert account.parameters == "6"
    assert account.layout is not None
    assert (account.layout.name, account.layout.basis) == ("ggml-current", "established")
    assert [(row.type, row.type_id, row.tensors, row.elements, row.bytes) for row in account.by_type] == [
        ("F32", 0, 1, "6", 24)
    ]


def test_the_declarations(tmp_path: Path) -> None:
    declared = observe_artifact(tmp_path, sketch().data).gguf
    assert declared is not None
    assert declared.metadata is not None
    assert declared.tensors is not None
    assert [(row.index, row.key, row.type, row.value) for row in declared.metadata] == [
        (0, "general.architecture", "string", "counts"),
        (1, "general.name", "string", "one page of this ledger"),
        (2, "general.alignment", "u32", 64),
        (3, "counts.block_count", "u32", 1),
        (4, "counts.tokens", "array", None),
    ]
    tokens = declared.metadata[4]
    assert (tokens.element_type, tokens.count) == ("string", 3)
    assert (tokens.preview, tokens.preview_complete) == (["<pad>", "one", "counted"], True)
    assert tokens.preview_base64 is None or set(tokens.preview_base64) == {None}
    (tensor,) = declared.tensors
    assert (tensor.index, tensor.name, tensor.type_id, tensor.type) == (0, "blk.0.counts.weight", 0, "F32")
    assert (tensor.shape, tensor.elements) == (["3", "2"], "6")
    assert (tensor.offset, tensor.file_offset, tensor.byte_length) == (0, 384, 24)
    assert tensor.storage_validation == "consistent"


@pytest.mark.parametrize(
    ("alignment", "header", "padding", "size"),
    [(16, 327, 9, 360), (64, 327, 57, 408), (4096, 327, 3769, 4120), (None, 294, 26, 344)],
)
def test_alignments(tmp_path: Path, alignment: int | None, header: int, padding: int, size: int) -> None:
    evidence = observe_artifact(tmp_path, sketch(alignment).data)
    assert evidence.verdict == "sound"
    assert evidence.artifact.size == size
    assert evidence.gguf is not None
    assert evidence.gguf.alignment == (alignment or 32)
    assert evidence.gguf.alignment_declared is (alignment is not None)
    assert evidence.accounting is not None
    assert evidence.read.header_length == header
    assert evidence.accounting.header_padding == padding
    assert evidence.accounting.data_offset == header + padding
    assert evidence.accounting.residue == 0


def test_a_header_that_ends_on_a_multiple_needs_no_padding(tmp_path: Path) -> None:
    # 24 + 8+20+4+8+28 + 8+17+4+4 + 8+1+4+8+4+8 = 24 + 68 + 33 + 33 = 158; 34 more make 192 = 3 * 64
    built = gguf([Entry("general.architecture", "string", "x" * 62), aligned(64)], [Tensor("w", [4])], alignment=64)
    assert built.header_end == 192
    evidence = observe_artifact(tmp_path, built.data)
    assert evidence.accounting is not None
    assert evidence.accounting.header_padding == 0
    assert evidence.accounting.data_offset == 192
    assert evidence.accounting.residue == 0
    assert evidence.verdict == "sound"


def test_byte_24_raised_to_21_is_an_impossible_value_type(tmp_path: Path) -> None:
    data = bytearray(sketch().data)
    assert data[24] == 20
    data[24] = 21
    evidence = observe_artifact(tmp_path, bytes(data))
    assert evidence.outcome == "refused"
    assert evidence.verdict == "malformed"
    error = evidence.error
    assert error is not None
    assert (error.code, error.category) == ("file_format_rejected", "content")
    assert (error.constraint, error.subject, error.offset) == ("value_type", "metadata[0].type", 53)
    assert finding(evidence, "header_malformed").actual == 100_663_296


def test_byte_24_raised_to_64_is_an_impossible_length(tmp_path: Path) -> None:
    data = bytearray(sketch().data)
    data[24] = 64
    evidence = observe_artifact(tmp_path, bytes(data))
    assert evidence.outcome == "refused"
    assert evidence.verdict == "malformed"
    error = evidence.error
    assert error is not None
    assert (error.constraint, error.subject, error.offset) == ("string_length", "metadata[1].key.length", 101)
    # past 2^53 - 1, so a decimal string
    assert finding(evidence, "header_malformed").actual == "7449358543090511616"


def test_byte_24_raised_to_255_quotes_a_key_that_is_obviously_none(tmp_path: Path) -> None:
    data = bytearray(sketch().data)
    data[24] = 255
    evidence = observe_artifact(tmp_path, bytes(data))
    assert evidence.outcome == "refused"
    error = evidence.error
    assert error is not None
    assert (error.constraint, error.subject, error.offset) == ("value_type", "metadata[0].type", 287)
    assert finding(evidence, "header_malformed").actual == int.from_bytes(data[287:291], "little")
    assert "general.architecture" in error.message
    assert "\x00" not in error.message
    assert "\n" not in error.message


@pytest.mark.parametrize("length", range(1, 327))
def test_a_cut_header_names_the_field_it_stops_in(tmp_path: Path, length: int) -> None:
    subject, offset, constraint = stop_of(length)
    evidence = observe_artifact(tmp_path, sketch().data[:length])
    assert evidence.outcome == "refused"
    assert evidence.verdict == "truncated"
    error = evidence.error
    assert error is not None
    assert (error.subject, error.offset, error.constraint) == (subject, offset, constraint)
    assert (error.code, error.category) == ("file_format_rejected", "content")
    hit = finding(evidence, "header_truncated")
    assert (hit.subject, hit.offset, hit.constraint) == (subject, offset, constraint)
    assert hit.severity == "critical"
    if subject.startswith("metadata["):
        assert f"metadata entry {int(subject[9]) + 1} of 5" in error.message
    if subject.startswith("tensors["):
        assert "1 of 1" in error.message
    if length >= 8:
        assert evidence.gguf is not None
        rows = evidence.gguf.metadata
        whole = sum(1 for end in ENTRY_ENDS if end <= length) if length >= 89 else 0
        assert rows is not None
        assert len(rows) == whole
        assert evidence.coverage.tensors.status != "complete"
        assert evidence.coverage.header.status != "complete"
    account = evidence.accounting
    assert account is not None
    assert account.file_size == length
    assert account.data_offset is None
    assert account.tensor_bytes is None
    assert account.residue is None
    assert account.layout is None
    assert account.candidates == []
    assert evidence.read.header_length is None
    assert evidence.read.header_sha256 is None


def test_cut_at_200_by_hand(tmp_path: Path) -> None:
    error = observe_artifact(tmp_path, sketch().data[:200]).error
    assert error is not None
    assert (error.subject, error.offset) == ("metadata[4].key.length", 192)
    assert "metadata entry 5 of 5" in error.message


@pytest.mark.parametrize("length", range(327, 408))
def test_a_file_cut_after_its_header_is_short_of_exactly_that(tmp_path: Path, length: int) -> None:
    evidence = observe_artifact(tmp_path, sketch().data[:length])
    assert evidence.outcome == "complete"
    assert evidence.verdict == "truncated"
    account = evidence.accounting
    assert account is not None
    assert account.data_offset == 384
    assert account.tensor_bytes == 24
    assert account.missing == 408 - length
    assert account.residue == length - 408
    assert (account.surplus, account.overlap, account.alignment_padding) == (0, 0, 0)
    assert account.tensors_gone == (1 if length <= 384 else 0)
    assert account.tensors_cut == (0 if length <= 384 else 1)
    assert account.regions is not None
    assert [(item.kind, item.begin, item.length) for item in account.regions] == [("missing", length, 408 - length)]
    assert account.regions[0].after == (None if length <= 384 else 0)
    assert account.regions[0].before is None
    hit = finding(evidence, "tensor_bytes_missing")
    assert (hit.subject, hit.offset) == ("accounting.regions[0]", length)


def test_the_empty_file_is_foreign(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, b"")
    assert evidence.verdict == "foreign"
    assert evidence.outcome == "refused"
    assert evidence.error is not None
    assert (evidence.error.constraint, evidence.error.subject, evidence.error.offset) == ("magic", "header.magic", 0)


def test_a_file_that_opens_ggml_is_told_both_marks(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, b"GGML" + sketch().data[4:])
    assert evidence.verdict == "foreign"
    assert "not_a_model" in codes(evidence)
    assert evidence.error is not None
    assert "GGML" in evidence.error.message
    assert "GGUF" in evidence.error.message


@pytest.mark.parametrize("extra", [1, 8, 38, 39, 41, 56, 4096])
def test_bytes_after_the_last_weight_belong_to_nothing(tmp_path: Path, extra: int) -> None:
    """408 is no multiple of 64: fewer than 40 bytes are unfinished padding, more are padding and a trail."""
    evidence = observe_artifact(tmp_path, sketch().data + bytes(extra))
    account = evidence.accounting
    assert account is not None
    assert account.regions is not None
    if extra < 40:
        expected = [("padding_partial", 408, extra)]
        padding = 0
    else:
        expected = [("trailing", 448, extra - 40)]
        padding = 40
    assert [(item.kind, item.begin, item.length) for item in account.regions] == expected
    assert account.alignment_padding == padding
    assert account.residue == expected[0][2]
    assert (account.regions[0].after, account.regions[0].before) == (0, None)
    assert account.regions[0].content == "unread"
    assert evidence.verdict == "residue"
    assert finding(evidence, "unowned_bytes").offset == expected[0][1]


def test_padded_after_the_last_weight_is_as_sound(tmp_path: Path) -> None:
    evidence = observe_artifact(tmp_path, sketch().data + bytes(40))
    assert evidence.verdict == "sound"
    assert evidence.accounting is not None
    assert evidence.accounting.alignment_padding == 40
    assert evidence.accounting.remainder == 40
    assert evidence.accounting.residue == 0


def test_the_same_numbers_come_back(tmp_path: Path) -> None:
    built: Built = sketch()
    tensor = observe_artifact(tmp_path, built.data).gguf
    assert tensor is not None
    assert tensor.tensors is not None
    place = tensor.tensors[0].file_offset
    assert place is not None
    assert struct.unpack_from("<6f", built.data, place) == (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
