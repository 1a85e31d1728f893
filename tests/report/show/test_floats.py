"""``show floats``: the small known file read rightly and wrongly, and what a person is told in either case."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import msgspec
import pytest

from auditd.errors import UsageError
from auditd.evidence.observation import Observation
from auditd.inspection.tensor_statistics import summarise
from auditd.report.columns import width
from auditd.report.show.floats import FloatsSheet, chosen, lines, refused, sheet
from auditd.report.style import plain
from tests.builders import F16, F32, Q4_K, Tensor, gguf, safetensors, sketch, st_entry
from tests.support.looks import looked_at


def shown(observation: Observation, name: bytes | None = None, *, ignore_alignment: bool = False) -> FloatsSheet:
    """As the command does it."""
    tensor = chosen(observation, name)
    numbers = None if refused(tensor) else summarise(observation, tensor, ignore_alignment=ignore_alignment)
    return sheet(observation, tensor, numbers, ignore_alignment=ignore_alignment)


def text(found: FloatsSheet, columns: int = 80) -> str:
    found_lines = list(lines(found, columns, plain))
    assert all(width(line) <= columns for line in found_lines)
    return "\n".join(found_lines)


def as_json(found: FloatsSheet) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(msgspec.json.encode(found))
    return decoded


def test_the_small_known_file_at_its_alignment(tmp_path: Path) -> None:
    found = shown(looked_at(tmp_path, sketch().data))
    reading = found.reading
    assert reading is not None
    assert found.schema == "model-auditd/show-floats/1"
    assert (found.name, found.shape, found.type) == ("blk.0.counts.weight", ["3", "2"], "F32")
    assert (found.aligned, found.warning, found.base, found.offset, reading.read_from) == (True, None, 384, 0, 384)
    assert reading.first == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    assert (reading.smallest, reading.largest, reading.mean) == (0.5, 5.5, 3.0)
    assert (reading.not_finite, reading.smaller_than_100) == (0, 6)
    page = text(found)
    assert "0.5  1.5  2.5  3.5  4.5  5.5" in page
    assert "384, the alignment applied" in page
    assert "mistake" not in page


def test_ignoring_the_alignment_is_said_loudly_and_first(tmp_path: Path) -> None:
    found = shown(looked_at(tmp_path, sketch().data), ignore_alignment=True)
    assert found.reading is not None
    assert (found.aligned, found.base, found.reading.read_from) == (False, 327, 327)
    assert found.reading.first == [0.0] * 6
    assert found.warning is not None
    assert "the mistake, not the tensor" in found.warning
    page = text(found)
    assert page.index("the mistake, not the tensor") < page.index("0  0  0  0  0  0")
    assert "327, the alignment IGNORED" in page
    assert as_json(found)["aligned"] is False


def test_the_shift_by_seventeen_bytes_makes_numbers_that_nothing_flags(tmp_path: Path) -> None:
    """Gains of about 4, read one byte off: all finite, most of them absurd."""
    gains = [3.5 + index / 1024 for index in range(512)]
    shortest = gguf([], [Tensor("n", [512], F32, 0)], data=b"").header_end
    name = "n" * (1 + (15 - shortest) % 32)  # the header then ends 17 bytes before a multiple of 32
    built = gguf([], [Tensor(name, [512], F32, 0)], data=struct.pack("<512f", *gains))
    shift = built.data_offset - built.header_end
    wrong = shown(looked_at(tmp_path, built.data), ignore_alignment=True).reading
    right = shown(looked_at(tmp_path, built.data)).reading
    assert right is not None
    assert wrong is not None
    raw = built.data[built.header_end :]
    assert shift == 17
    assert right.smaller_than_100 == 512
    assert right.first == gains[:8]
    assert wrong.first == list(struct.unpack_from("<8f", raw))
    assert wrong.smaller_than_100 < 512


@pytest.mark.parametrize(
    "name", ["model.norm.weight", "transformer.ln_f.weight", "gpt_neox.final_layer_norm.weight", "output_norm.weight"]
)
def test_the_final_norm_is_found_by_the_names_of_safetensors_files(tmp_path: Path, name: str) -> None:
    names = ["a.first.weight", "model.layers.0.input_layernorm.weight", name, "norm.weight"]
    header = {each: st_entry("F32", [2], 8 * at, 8 * at + 8) for at, each in enumerate(names)}
    found = shown(looked_at(tmp_path, safetensors(header, bytes(32)), "m.safetensors"))
    assert found.name == name
    page = text(found)
    assert "alignment" not in page
    assert "0.0" not in page


def test_where_there_is_no_padding_the_mistake_is_said_to_make_no_difference(tmp_path: Path) -> None:
    data = safetensors({"t": st_entry("F32", [2], 0, 8)}, struct.pack("<2f", 1, 2))
    found = shown(looked_at(tmp_path, data, "model.safetensors"), ignore_alignment=True)
    assert found.warning is not None
    assert "no padding" in found.warning
    assert found.reading is not None
    assert found.reading.first == [1.0, 2.0]


def test_a_quantized_tensor_is_refused_in_plain_words(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, gguf([], [Tensor("q", [256], Q4_K, 0)], data=bytes(144)).data)
    found = shown(observation, b"q")
    assert (found.reading, found.refused) == (
        None,
        "Q4_K is quantized; its numbers cannot be shown without dequantizing",
    )
    assert "Q4_K is quantized" in text(found, 40).replace("\n  ", " ")


def test_without_a_name_the_final_norm_is_taken_else_the_first_plain_tensor(tmp_path: Path) -> None:
    others = [Tensor("q", [256], Q4_K), Tensor("a", [8], F16), Tensor("b", [8], F32)]
    assert chosen(looked_at(tmp_path, gguf([], others).data)).name == b"a"
    norm = [*others, Tensor("output_norm.weight", [8], F32)]
    assert chosen(looked_at(tmp_path, gguf([], norm).data)).name == b"output_norm.weight"


@pytest.mark.parametrize(("name", "words"), [(b"\x1b[2Jx", r'no tensor "\\x1b\[2Jx"'), (None, "no tensor of plain")])
def test_a_tensor_that_is_not_there(name: bytes | None, words: str, tmp_path: Path) -> None:
    observation = looked_at(tmp_path, gguf([], [Tensor("q", [256], Q4_K, 0)], data=bytes(144)).data)
    with pytest.raises(UsageError, match=words):
        chosen(observation, name)


def test_a_cut_file_shows_what_was_read_and_where_it_ends(tmp_path: Path) -> None:
    data = gguf([], [Tensor("t", [4], F32, 0)], data=struct.pack("<4f", 1, 2, 3, 4)).data
    found = shown(looked_at(tmp_path, data[:-6]))
    assert found.reading is not None
    assert (found.reading.read, found.reading.numbers, found.reading.first) == (2, 4, [1.0, 2.0])
    page = text(found)
    assert "2 read, of 4" in page
    assert f"the file ends at byte {len(data) - 6:,}" in page.replace("\n  ", " ")


def test_numbers_that_json_has_not(tmp_path: Path) -> None:
    raw = struct.pack("<5d", float("nan"), float("inf"), float("-inf"), -0.0, 1.5)
    data = safetensors({"t": st_entry("F64", [5], 0, 40)}, raw)
    found = shown(looked_at(tmp_path, data, "m.safetensors"))
    decoded = as_json(found)["reading"]
    assert decoded["first"] == ["NaN", "+Infinity", "-Infinity", "-0", 1.5]
    assert "NaN  +Infinity  -Infinity  -0  1.5" in text(found)


def test_integers_that_json_readers_would_round(tmp_path: Path) -> None:
    data = safetensors({"t": st_entry("I64", [2], 0, 16)}, struct.pack("<2q", -(2**63), 5))
    found = shown(looked_at(tmp_path, data, "m.safetensors"))
    assert as_json(found)["reading"]["smallest"] == str(-(2**63))
    assert "-9,223,372,036,854,775,808" in text(found)


def test_more_numbers_than_json_readers_can_count(tmp_path: Path) -> None:
    found = shown(looked_at(tmp_path, gguf(tensors=[Tensor("t", [2**61], F32, 0)], data=bytes(8)).data))
    assert as_json(found)["reading"]["numbers"] == str(2**61)
    assert f"2 read, of {2**61:,}" in text(found)


@pytest.mark.parametrize(("code", "dtype", "number", "digits"), [("e", "F16", 0.1, "0.1"), ("f", "F32", 3.7, "3.7")])
def test_the_first_numbers_have_the_digits_of_their_own_type(
    code: str, dtype: str, number: float, digits: str, tmp_path: Path
) -> None:
    raw = struct.pack(f"<{code}", number)
    data = safetensors({"t": st_entry(dtype, [1], 0, len(raw))}, raw)
    found = shown(looked_at(tmp_path, data, "m.safetensors"))
    (row,) = [line for line in text(found).splitlines() if "the first" in line]
    assert row.split()[-1] == digits
    assert found.reading is not None
    assert found.reading.first == [struct.unpack(f"<{code}", raw)[0]]


def test_names_are_harmless(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, gguf([], [Tensor(b"\x1b[31m\xff", [2], F32, 0)], data=bytes(8)).data)
    found = shown(observation)
    assert found.name_base64 is not None
    page = text(found)
    assert "\x1b" not in page
    assert r"\x1b[31m\udcff" in page
