"""Views select from a retained record; the rules of selection, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from auditd.evidence.record import Evidence, Producer
from auditd.evidence.summary import summary
from auditd.evidence.view import LARGEST_LIMIT, ViewError, view
from auditd.formats.writer import Entry, Tensor, write_gguf
from auditd.inspection.inspector import inspect
from auditd.inspection.request import Request

PRODUCER = Producer(name="model-auditd", version="0", host="here", configuration="0")
NAMES = ("a.weight", "b.weight", "c.weight", "a.bias")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Four tensors of three types, one of them ambiguous, one unsized; a long array among the metadata."""
    metadata = (
        Entry("general.architecture", "string", "toy"),
        Entry("toy.block_count", "u32", 1),
        Entry("tokenizer.ggml.tokens", "array", [str(number) for number in range(20)], "string"),
    )
    types = (0, 16, 8, 0)
    sizes = (1024, 66, 272, 1024)
    tensors = [
        Tensor(name, (256,), type_id, bytes(size)) for name, type_id, size in zip(NAMES, types, sizes, strict=True)
    ]
    path = tmp_path_factory.mktemp("view") / "toy.gguf"
    path.write_bytes(write_gguf(metadata, tensors).data)
    return inspect(Request(bytes(path), PRODUCER))


def page(record: Evidence, **request: Any) -> dict[str, Any]:
    return view(record, json.dumps(request))


def indices(result: dict[str, Any]) -> list[int]:
    return [row["index"] for row in result["rows"]]


def test_no_filter_takes_all_rows_with_all_columns(record: Evidence) -> None:
    result = page(record, collection="tensors")
    assert indices(result) == [0, 1, 2, 3]
    assert [row["name"] for row in result["rows"]] == list(NAMES)
    assert (result["matches"], result["next_offset"]) == (4, None)
    assert result["rows"][1]["byte_length"] is None
    assert result["rows"][1]["type"] == "AMBIGUOUS_16"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"names": ["a.bias", "a.weight", "nobody"]}, [0, 3]),
        ({"types": ["F32"]}, [0, 3]),
        ({"types": ["AMBIGUOUS_16"]}, [1]),
        ({"types": ["IQ2_XXS"]}, []),
        ({"indices": [2, 3, 99]}, [2, 3]),
        ({"storage_validation": ["unknown"]}, [1]),
        ({"types": ["F32"], "indices": [1, 3]}, [3]),
        ({"types": ["F32"], "names": ["b.weight"]}, []),
        ({"names": []}, []),
        ({"types": []}, []),
        ({"indices": []}, []),
        ({"storage_validation": []}, []),
    ],
)
def test_filters_intersect_and_an_empty_list_takes_nothing(
    record: Evidence, filters: dict[str, Any], expected: list[int]
) -> None:
    result = page(record, collection="tensors", **filters)
    assert indices(result) == expected
    assert result["matches"] == len(expected)


def test_fields_select_columns_and_the_index_always_stays(record: Evidence) -> None:
    assert page(record, collection="tensors", fields=["shape", "name"], limit=1)["rows"] == [
        {"index": 0, "name": "a.weight", "shape": ["256"]}
    ]
    assert page(record, collection="tensors", fields=[], limit=2)["rows"] == [{"index": 0}, {"index": 1}]


def test_offsets_count_matches_and_indices_stay_the_files(record: Evidence) -> None:
    first = page(record, collection="tensors", types=["F32", "Q8_0"], limit=2)
    assert (indices(first), first["matches"], first["next_offset"]) == ([0, 2], 3, 2)
    second = page(record, collection="tensors", types=["F32", "Q8_0"], limit=2, offset=2)
    assert (indices(second), second["next_offset"]) == ([3], None)
    past = page(record, collection="tensors", offset=4)
    assert (indices(past), past["matches"], past["next_offset"]) == ([], 4, None)


def test_metadata_and_what_is_left_out_of_arrays(record: Evidence) -> None:
    result = page(record, collection="metadata", keys=["tokenizer.ggml.tokens"])
    (row,) = result["rows"]
    assert (row["index"], row["count"], len(row["preview"]), row["preview_complete"]) == (2, 20, 8, False)
    assert result["omissions"] == {"rows_not_kept": 0, "arrays_cut": [2]}


def test_types_are_the_established_totals(record: Evidence) -> None:
    rows = page(record, collection="types")["rows"]
    assert [(row["type"], row["tensors"], row["bytes"]) for row in rows] == [
        ("F32", 2, 2048),
        ("Q8_0", 1, 272),
        ("AMBIGUOUS_16", 1, None),
    ]
    assert indices(page(record, collection="types", types=["Q8_0"])) == [1]


def test_a_page_says_whose_it_is(record: Evidence) -> None:
    result = page(record, collection="tensors", limit=1)
    assert result["evidence_id"] == record.evidence_id
    assert result["source"]["path"] == record.artifact.path
    assert result["source"]["header_sha256"] == record.read.header_sha256
    assert result["coverage"]["header"]["status"] == "complete"
    assert [limitation["code"] for limitation in result["limitations"]] == ["ambiguous_type"]


@pytest.mark.parametrize(
    ("request_text", "complaint"),
    [
        ("{", "view: "),
        ("[]", "view: "),
        ("{}", "collection"),
        ('{"collection":"weights"}', "weights"),
        ('{"collection":"tensors","name":["a"]}', "name"),
        ('{"collection":"tensors","keys":["a"]}', "not filtered by keys"),
        ('{"collection":"metadata","names":["a"]}', "not filtered by names"),
        ('{"collection":"types","storage_validation":["unknown"]}', "not filtered by storage_validation"),
        ('{"collection":"tensors","storage_validation":["perhaps"]}', "perhaps"),
        ('{"collection":"tensors","fields":["weights"]}', "no field 'weights'"),
        ('{"collection":"tensors","offset":-1}', "offset"),
        ('{"collection":"tensors","limit":0}', "limit"),
        (f'{{"collection":"tensors","limit":{LARGEST_LIMIT + 1}}}', "limit"),
        ('{"collection":"tensors","indices":["0"]}', "indices"),
    ],
)
def test_a_request_that_cannot_be_meant(record: Evidence, request_text: str, complaint: str) -> None:
    with pytest.raises(ViewError) as refusal:
        view(record, request_text)
    assert complaint in str(refusal.value)


def test_a_summary_has_no_rows_to_show(record: Evidence) -> None:
    with pytest.raises(ViewError, match="summary"):
        page(summary(record), collection="tensors")


def test_what_is_unknown_is_not_an_empty_list(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(write_gguf((), (Tensor("a", (8,), 0, bytes(32)),)).data[:50])
    record = inspect(Request(bytes(cut), PRODUCER))
    assert page(record, collection="types")["rows"] is None
    tensors = page(record, collection="tensors")
    assert (tensors["rows"], tensors["coverage"]["tensors"]["status"]) == ([], "none")
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes((9).to_bytes(8, "little") + b'{"a":nope')
    refused = page(inspect(Request(bytes(broken), PRODUCER)), collection="tensors")
    assert (refused["rows"], refused["matches"]) == (None, None)


def test_a_foreign_file_has_nothing_to_view(tmp_path: Path) -> None:
    page_file = tmp_path / "page.gguf"
    page_file.write_bytes(b"<html>")
    with pytest.raises(ViewError, match="no declarations"):
        page(inspect(Request(bytes(page_file), PRODUCER)), collection="tensors")


def test_the_file_is_not_needed_any_more(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(write_gguf((), (Tensor("a", (8,), 0, bytes(32)),)).data)
    record = inspect(Request(bytes(path), PRODUCER))
    path.unlink()
    assert indices(page(record, collection="tensors")) == [0]
