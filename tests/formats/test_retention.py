"""The budget for kept rows, at its edge: what fits is kept, what does not is still counted and accounted."""

from __future__ import annotations

import pytest

from auditd.accounting.account import account_gguf
from auditd.formats.bounds import RETAINED_BYTES
from auditd.formats.gguf.reader import GgufReader
from auditd.formats.retention import ROW_BYTES, Retention, text_cost
from auditd.formats.safetensors.reader import SafetensorsReader
from auditd.formats.writer import Entry, Tensor, write_gguf
from tests.builders import safetensors


def test_the_budget_is_32_mib_of_rows_and_their_text() -> None:
    assert RETAINED_BYTES == 32 * 1024 * 1024
    retention = Retention()
    assert retention.admit(RETAINED_BYTES - ROW_BYTES)
    assert not retention.admit(0)
    assert not Retention().admit(RETAINED_BYTES - ROW_BYTES + 1)


@pytest.mark.parametrize(
    ("raw", "in_json", "in_base64"),
    [
        (b"plain", 5, 0),
        ("中文".encode(), 6, 0),
        (b"\x01\x1f", 12, 0),  # two escapes of six characters
        (b'a"\\', 3 + 2 * 5, 0),  # more than their two characters each: a bound, not a count
        (b"\xff\xfe", 12, 2),  # \\xff in JSON is \\\\xff: a little less than six
    ],
)
def test_a_text_weighs_what_a_record_holds_of_it(raw: bytes, in_json: int, in_base64: int) -> None:
    assert text_cost(raw) == in_json + in_base64


def test_nothing_is_kept_behind_the_first_row_that_is_not() -> None:
    retention = Retention(3 * ROW_BYTES)
    assert retention.admit(0)
    assert not retention.admit(2 * ROW_BYTES + 1)
    assert not retention.admit(0)
    assert retention.exhausted


@pytest.mark.parametrize(("spare", "kept"), [(0, 3), (-1, 2)])
def test_gguf_rows_at_the_edge(spare: int, kept: int) -> None:
    """Key and value of an entry, name and eight bytes a dimension of a tensor, and 192 bytes each."""
    written = write_gguf((Entry("a.b", "string", "four"),), [Tensor(name, (8,), 0, bytes(32)) for name in ("t0", "t1")])
    budget = 3 * 192 + (3 + 4) + 2 * (2 + 8) + spare
    reader = GgufReader(len(written.data), Retention(budget))
    reader.feed(written.data)
    header = reader.result()
    assert (len(header.metadata), len(header.tensors)) == (1, kept - 1)
    assert header.rows_complete is (kept == 3)
    assert header.complete
    assert len(header.columns) == 2
    figures = account_gguf(header).figures
    assert (figures.tensor_bytes, figures.residue) == (64, 0)


@pytest.mark.parametrize(("spare", "kept"), [(0, 2), (-1, 1)])
def test_safetensors_rows_at_the_edge(spare: int, kept: int) -> None:
    """The name and eight bytes for each byte of a shape's text."""
    raw = safetensors(
        {
            "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
            "b": {"dtype": "U8", "shape": [4], "data_offsets": [4, 8]},
        },
        bytes(8),
    )
    reader = SafetensorsReader(len(raw), Retention(2 * (192 + 1 + 8) + spare))
    reader.feed(raw)
    while not reader.done:
        reader.feed(b"")
    header = reader.result()
    assert [tensor.name for tensor in header.tensors] == ["a", "b"][:kept]
    assert header.tensor_count == 2
    assert header.rows_complete is (kept == 2)
