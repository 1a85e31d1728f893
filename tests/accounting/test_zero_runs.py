"""Zeros at either end of a stream, and a second header behind the first, against a plain count."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.accounting.zero_runs import Appended, AppendedScan, ZeroRuns, ZeroScan
from tests.builders import CASES, gguf, property_test, safetensors, st_entry

MIB = 1 << 20


def pieces(data: bytes, cuts: list[int]) -> list[tuple[int, bytes]]:
    """``data`` in pieces that end at ``cuts``, each with its place."""
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    return [(begin, data[begin:end]) for begin, end in zip([0, *ends], ends, strict=False) if begin < end]


def feed(take: Callable[[int, bytes | bytearray, int], None], data: bytes, cuts: list[int], at: int) -> None:
    """As a full read does: into one buffer, whose rest holds what was in it before."""
    buffer = bytearray(b"\x55" * (max(len(data), 1) + 8))
    for begin, piece in pieces(data, cuts):
        buffer[: len(piece)] = piece
        take(at + begin, buffer, len(piece))


def zeros_of(data: bytes, cuts: list[int], at: int = 0) -> ZeroRuns:
    scan = ZeroScan(at)
    feed(scan.feed, data, cuts, at)
    return scan.result()


#: Runs of zeros and of other bytes, of lengths around those of the comparisons.
_RUNS = st.lists(
    st.one_of(
        st.sampled_from([1, 7, 63, 64, 65, 300, 320, 321, 1400, 5000]).map(bytes),
        st.binary(min_size=1, max_size=6),
        st.just(b"\x01"),
    ),
    max_size=6,
).map(b"".join)


@property_test(150)
@given(_RUNS, st.lists(st.integers(0, 12_000), max_size=8), st.integers(0, 1 << 50))
def test_zero_runs_are_those_of_a_plain_count_in_any_pieces(data: bytes, cuts: list[int], at: int) -> None:
    runs = zeros_of(data, cuts, at)
    head = next((place for place, byte in enumerate(data) if byte), len(data))
    tail = next((place for place, byte in enumerate(reversed(data)) if byte), len(data))
    assert runs == ZeroRuns(at, at + len(data), head, tail)
    assert runs.is_all_zero == (bool(data) and not any(data))


@pytest.mark.parametrize("length", [MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
def test_runs_longer_than_what_they_are_compared_with(length: int) -> None:
    data = bytes(length) + b"x" + bytes(length + 1)
    assert zeros_of(data, [MIB, 2 * MIB]) == ZeroRuns(0, len(data), length, length + 1)


def test_what_was_fed_before_is_passed_over() -> None:
    scan = ZeroScan(100)
    scan.feed(90, b"x" * 10 + bytes(5), 15)
    scan.feed(95, b"x" * 15, 10)
    scan.feed(105, bytes(3) + b"y", 3)
    assert scan.result() == ZeroRuns(100, 108, 8, 8)


def test_words_for_what_was_never_written() -> None:
    assert zeros_of(bytes(96), []).words == "all of it is zero: space was set aside and never written"
    assert zeros_of(bytes(96), []).offset == 0
    behind = zeros_of(bytes(2048), [], 160)
    assert behind.words == "all 2,048 bytes from byte 160 on are zero: space was set aside and never written"
    assert behind.offset == 160


def test_words_for_a_tail() -> None:
    runs = zeros_of(b"x" * 948 + bytes(1100), [512], 160)
    assert runs.words.startswith(
        "the last 1,100 bytes (53.7 percent of what follows byte 160) are zero from byte 1,108"
    )
    assert runs.offset == 1108
    almost = zeros_of(b"x" + bytes(100_000), [])
    assert "(99.9 percent" in almost.words


def test_words_for_a_head() -> None:
    runs = zeros_of(bytes(1500) + b"x" * 1500, [], 64)
    assert runs.words.startswith("1,500 bytes (50.0 percent of what follows byte 64) are zero from byte 64 on")
    assert runs.offset == 64


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"x" + bytes(1023), bytes(1023) + b"x", b"x" * 100_000 + bytes(20_000)],
    ids=["nothing", "one", "short tail", "short head", "small share"],
)
def test_zeros_that_any_model_has_are_not_worth_a_word(data: bytes) -> None:
    runs = zeros_of(data, [], 64)
    assert not runs.words
    assert runs.offset is None


def test_a_long_run_is_worth_a_word_in_a_file_of_any_size() -> None:
    assert ZeroRuns(0, 1 << 40, 0, MIB).words
    assert not ZeroRuns(0, 1 << 40, 0, MIB - 1).words


def test_case_of_a_tail_that_was_never_written() -> None:
    path = CASES / "field/gguf/cut/right_size_zero_tail.gguf"
    if not path.is_file():
        pytest.skip(f"no collection of input files at {CASES}")
    data = path.read_bytes()
    assert zeros_of(data[160:], [300], 160) == ZeroRuns(160, 2208, 0, 1100)


# --- a second header


def appended_in(data: bytes, cuts: list[int], begin: int, end: int, at: int = 0) -> Appended | None:
    scan = AppendedScan(begin, end)
    feed(scan.feed, data, cuts, at)
    return scan.result()


MODEL = gguf([], [], data=b"").data
TENSORS = safetensors({"a": st_entry("U8", [4], 0, 4)}, b"abcd")
# Bytes of marks and versions, whole and cut.
_NOISE = st.lists(
    st.sampled_from([b"GGUF", b"GG", b"UF", b"\3\0\0\0", b"\0\0\0\3", b"\2\0\0\0", b"\0", b"x", b"GGUF\3\0\0\0"]),
    max_size=12,
).map(b"".join)


@property_test(150)
@given(_NOISE, st.lists(st.integers(0, 60), max_size=8), st.integers(0, 20), st.integers(0, 60))
def test_the_first_mark_with_a_version_in_the_range_is_found(
    data: bytes, cuts: list[int], begin: int, end: int
) -> None:
    end = min(max(begin, end), len(data))
    places = [data[begin:end].find(b"GGUF" + version) for version in (b"\2\0\0\0", b"\3\0\0\0", b"\0\0\0\3")]
    found = min((place for place in places if place >= 0), default=None)
    expected = None if found is None else Appended("gguf", begin + found)
    assert appended_in(data, cuts, begin, end) == expected


@pytest.mark.parametrize("cuts", [[], [40], list(range(400))], ids=["whole", "two", "bytes"])
def test_whole_files_behind_the_data(cuts: list[int]) -> None:
    front = b"weights!" * 5
    for model, form in ((MODEL, "gguf"), (TENSORS, "safetensors")):
        data = front + model
        found = appended_in(data, cuts, len(front), len(data))
        assert found is not None
        assert (found.form, found.offset) == (form, 40)
        assert "at byte 40" in found.words
    assert appended_in(front + MODEL, cuts, 41, 40 + len(MODEL)) is None
    assert appended_in(front + bytes(64), cuts, 40, 104) is None
    assert appended_in(front, cuts, 40, 40) is None
