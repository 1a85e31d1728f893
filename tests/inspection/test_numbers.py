"""Numbers that are streamed from a file, against numpy over the same bytes."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from auditd.errors import InspectionStopped
from auditd.evidence.observation import Observation
from auditd.evidence.statistics import PLAIN_TYPES, Numbers, refusal
from auditd.formats.declarations import ByteOrder
from auditd.inspection import tensor_statistics
from auditd.inspection.tensor_statistics import summarise
from auditd.model.tensors import TensorFact, tensor_facts
from tests.builders import F32, Q4_K, Tensor, gguf, safetensors, sketch, st_entry
from tests.support.looks import looked_at

DTYPES: dict[str, str] = {
    "BOOL": "u1",
    "U8": "u1",
    "I8": "i1",
    "U16": "u2",
    "I16": "i2",
    "U32": "u4",
    "I32": "i4",
    "U64": "u8",
    "I64": "i8",
    "F16": "f2",
    "F32": "f4",
    "F64": "f8",
}
#: GGUF's ids of the plain types.
GGUF_IDS = {"F32": 0, "F16": 1, "I8": 24, "I16": 25, "I32": 26, "I64": 27, "F64": 28, "BF16": 30}

BITS = np.random.default_rng(7)


def as_numbers(raw: bytes, type_name: str, order: ByteOrder = "little") -> NDArray[Any]:
    """What numpy makes of the bytes; it has no BF16, which is the upper half of a 32-bit float."""
    mark = "<" if order == "little" else ">"
    if type_name == "BF16":
        return (np.frombuffer(raw, mark + "u2").astype("u4") << 16).view("f4")
    return np.frombuffer(raw, mark + DTYPES[type_name])


def read(observation: Observation, name: bytes = b"t", **options: Any) -> Numbers:
    return summarise(observation, fact(observation, name), **options)


def fact(observation: Observation, name: bytes = b"t") -> TensorFact:
    return next(tensor for tensor in tensor_facts(observation.header, observation.account) if tensor.name == name)


def safetensors_look(tmp_path: Path, raw: bytes, type_name: str) -> Observation:
    count = len(raw) // PLAIN_TYPES[type_name].size
    data = safetensors({"t": st_entry(type_name, [count], 0, len(raw))}, raw)
    return looked_at(tmp_path, data, "model.safetensors")


def gguf_look(tmp_path: Path, raw: bytes, type_id: int, width: int, endian: str = "<", **options: Any) -> Observation:
    built = gguf([], [Tensor("t", [len(raw) // width], type_id, 0)], data=raw, endian=endian)
    return looked_at(tmp_path, built.data, **options)


def assert_matches(got: Numbers, expected: NDArray[Any]) -> None:
    finite = expected[np.isfinite(expected)]
    assert (got.declared, got.count, got.stop, got.identity) == (len(expected), len(expected), None, "unchanged")
    assert got.not_finite == len(expected) - len(finite)
    np.testing.assert_array_equal(np.array(got.first, dtype=expected.dtype), expected[:8])
    if not len(finite):
        assert (got.smallest, got.largest, got.mean) == (None, None, None)
        return
    assert (got.smallest, got.largest) == (finite.min().item(), finite.max().item())
    # Integers exactly, as Python adds them; floats in the widest type that numpy has.
    if expected.dtype.kind == "f":
        mean = float(np.mean(finite.astype(np.longdouble)))
        assert got.mean == pytest.approx(mean, rel=1e-12, abs=float(np.abs(finite.astype(np.longdouble)).max()) * 1e-16)
        assert got.plausible == int((np.abs(finite.astype("f8")) < 100).sum())
    else:
        integers = [int(number) for number in finite]
        assert got.mean == sum(integers) / len(integers)
        assert got.plausible == sum(abs(number) < 100 for number in integers)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pieces without several megabytes; the last one is not full."""
    monkeypatch.setattr(tensor_statistics, "_PIECE_BYTES", 1024)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("type_name", sorted(PLAIN_TYPES))
def test_random_bits_of_every_plain_type_of_safetensors(type_name: str, tmp_path: Path) -> None:
    raw = BITS.bytes(3000 - 3000 % 8)
    assert_matches(read(safetensors_look(tmp_path, raw, type_name)), as_numbers(raw, type_name))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("type_name", sorted(GGUF_IDS))
def test_random_bits_of_every_plain_type_of_gguf(type_name: str, endian: str, tmp_path: Path) -> None:
    raw = BITS.bytes(3000 - 3000 % 8)
    observation = gguf_look(tmp_path, raw, GGUF_IDS[type_name], PLAIN_TYPES[type_name].size, endian)
    assert_matches(read(observation), as_numbers(raw, type_name, "little" if endian == "<" else "big"))


@pytest.mark.parametrize("type_name", ["F16", "BF16", "F32", "F64"])
def test_what_is_no_number_is_counted_and_never_the_smallest_or_largest(type_name: str, tmp_path: Path) -> None:
    width = PLAIN_TYPES[type_name].size
    special = [0.5, float("nan"), float("inf"), -0.0, -2.5, float("-inf"), float("nan"), 99.5, 100.0, -100.0]
    doubles = np.array(special, "<f8")
    if type_name == "BF16":
        raw = (doubles.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    else:
        raw = doubles.astype(f"<f{width}").tobytes()
    got = read(safetensors_look(tmp_path, raw, type_name))
    assert (got.smallest, got.largest, got.not_finite, got.plausible) == (-100.0, 100.0, 4, 4)
    assert got.mean == (0.5 + -2.5 + 99.5) / 6
    assert struct.pack("<d", got.first[3]) == struct.pack("<d", -0.0)


def test_nothing_finite_has_no_smallest_and_no_mean(tmp_path: Path) -> None:
    got = read(safetensors_look(tmp_path, struct.pack("<3f", *[float("nan"), float("inf"), float("-inf")]), "F32"))
    assert (got.count, got.smallest, got.largest, got.mean, got.not_finite, got.plausible) == (
        3,
        None,
        None,
        None,
        3,
        0,
    )


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("sign", [1, -1])
def test_doubles_whose_sum_is_past_every_double_still_have_a_mean(sign: int, tmp_path: Path) -> None:
    largest = sign * float(np.finfo("f8").max)
    got = read(safetensors_look(tmp_path, struct.pack("<d", largest) * 300, "F64"))
    assert got.mean == pytest.approx(largest, rel=1e-15)
    mixed = struct.pack("<d", largest) * 128 + struct.pack("<d", -largest) * 128 + struct.pack("<d", 6.0) * 128
    assert read(safetensors_look(tmp_path, mixed, "F64")).mean == pytest.approx(0, abs=1e292)


@pytest.mark.usefixtures("small_pieces")
def test_sums_of_pieces_that_only_together_pass_every_double(tmp_path: Path) -> None:
    large = float(np.finfo("f8").max) / 200
    got = read(safetensors_look(tmp_path, struct.pack("<d", large) * 512, "F64"))
    assert got.mean == pytest.approx(large, rel=1e-14)


def test_integers_are_exact_past_what_a_double_holds(tmp_path: Path) -> None:
    got = read(safetensors_look(tmp_path, struct.pack("<3Q", 2**64 - 1, 2**53 + 1, 7), "U64"))
    assert (got.smallest, got.largest, got.first) == (7, 2**64 - 1, (2**64 - 1, 2**53 + 1, 7))


def test_the_small_known_file(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, sketch().data)
    got = read(observation, b"blk.0.counts.weight")
    assert (got.begin, got.first) == (384, (0.5, 1.5, 2.5, 3.5, 4.5, 5.5))
    assert (got.smallest, got.largest, got.mean, got.plausible) == (0.5, 5.5, 3.0, 6)


def test_ignoring_the_alignment_reads_six_zeros_and_nothing_complains(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, sketch().data)
    got = read(observation, b"blk.0.counts.weight", ignore_alignment=True)
    assert (got.begin, got.count, got.first) == (327, 6, (0.0,) * 6)
    assert (got.not_finite, got.stop, got.identity) == (0, None, "unchanged")


def test_an_empty_tensor_has_no_numbers(tmp_path: Path) -> None:
    got = read(looked_at(tmp_path, gguf([], [Tensor("t", [0, 4], F32, 0)], data=bytes(32)).data))
    assert (got.declared, got.count, got.first, got.mean, got.stop) == (0, 0, (), None, None)


@pytest.mark.parametrize(("kept", "count"), [(0, 0), (3, 0), (4, 1), (18, 4), (39, 9)])
def test_a_file_that_ends_inside_the_tensor(kept: int, count: int, tmp_path: Path) -> None:
    raw = np.arange(1, 11, dtype="<f4").tobytes()
    whole = len(gguf([], [Tensor("t", [10], F32, 0)], data=b"").data)
    observation = gguf_look(tmp_path, raw, F32, 4, size=whole + kept)
    got = read(observation)
    assert (got.declared, got.count, got.first) == (10, count, tuple(map(float, range(1, count + 1)))[:8])
    assert got.stop is not None
    assert (got.stop.category, got.stop.offset) == ("content", whole + kept)
    assert f"{40 - kept} bytes of the tensor are not there" in got.stop.message
    assert got.ended_at == whole + 4 * count


def test_a_tensor_that_lies_past_every_file(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, gguf([], [Tensor("t", [8], F32, 2**64 - 32)], data=bytes(64)).data)
    got = read(observation)
    assert (got.count, got.stop is not None) == (0, True)


@pytest.mark.usefixtures("small_pieces")
def test_a_stop_keeps_what_was_read(tmp_path: Path) -> None:
    observation = safetensors_look(tmp_path, np.arange(1000, dtype="<f4").tobytes(), "F32")
    calls = iter(range(100))

    def checkpoint() -> None:
        if next(calls) == 3:
            message = "enough"
            raise InspectionStopped(message)

    got = read(observation, checkpoint=checkpoint)
    assert (got.count, got.largest, got.identity) == (512, 511.0, "unverified")
    assert got.stop is not None
    assert (got.stop.code, got.stop.message) == ("cancelled", "enough")


@pytest.mark.usefixtures("small_pieces")
def test_progress_is_in_bytes_of_the_tensor(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    observation = safetensors_look(tmp_path, bytes(2500), "U8")
    read(observation, progress=lambda done, wanted: told.append((done, wanted)))
    assert told == [(1024, 2500), (2048, 2500), (2500, 2500)]


def test_a_file_changed_since_its_header_was_read_is_said_to_be(tmp_path: Path) -> None:
    observation = safetensors_look(tmp_path, bytes(64), "F32")
    os.utime(observation.path, ns=(1, 1))
    assert read(observation).identity == "modified"


def test_another_file_at_the_path_is_said_to_be(tmp_path: Path) -> None:
    observation = safetensors_look(tmp_path, bytes(64), "F32")
    other = tmp_path / "other"
    other.write_bytes(Path(os.fsdecode(observation.path)).read_bytes())
    os.replace(other, observation.path)
    assert read(observation).identity == "replaced"


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    observation = safetensors_look(tmp_path, bytes(64), "F32")
    os.unlink(observation.path)
    got = read(observation)
    assert (got.count, got.identity) == (0, "unverified")
    assert got.stop is not None
    assert got.stop.category == "path"


@pytest.mark.parametrize(
    ("type_name", "words"),
    [
        ("Q4_K", "Q4_K is quantized; its numbers cannot be shown without dequantizing"),
        ("IQ4_KSS", "IQ4_KSS is quantized"),
        ("F8_E4M3", "F8_E4M3 is not shown: only BOOL, U8"),
        ("AMBIGUOUS_24", "no established meaning"),
        ("\x1b[31mnew", "no established meaning"),
    ],
)
def test_other_types_are_refused_in_plain_words(type_name: str, words: str) -> None:
    refused = refusal(type_name)
    assert refused is not None
    assert words in refused
    assert "\x1b" not in refused


def test_a_quantized_tensor_is_not_read(tmp_path: Path) -> None:
    observation = looked_at(tmp_path, gguf([], [Tensor("t", [256], Q4_K, 0)], data=bytes(144)).data)
    with pytest.raises(ValueError, match="plain"):
        read(observation)
