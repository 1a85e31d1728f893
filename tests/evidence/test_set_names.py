"""What names say: series, indexes, downloads."""

from __future__ import annotations

import pytest

from auditd.model_sets import names as set_names
from auditd.model_sets.names import Listing, finished_name, index_stem, series_of


@pytest.mark.parametrize(
    ("name", "kind", "number", "count", "label"),
    [
        (b"m-00001-of-00003.gguf", "gguf", 1, 3, b"m-*-of-00003.gguf"),
        (b"m-00001-of-00003.GGUF", "gguf", 1, 3, b"m-*-of-00003.GGUF"),
        (b"a-1-of-2-00002-of-00002.gguf", "gguf", 2, 2, b"a-1-of-2-*-of-00002.gguf"),
        (b"model-00001-of-000163.safetensors", "safetensors", 1, 163, b"model-*-of-000163.safetensors"),
        (b"m-00001-of-00002.fp16.safetensors", "safetensors", 1, 2, b"m-*-of-00002.fp16.safetensors"),
        (b"\xff\n-00001-of-00002.safetensors", "safetensors", 1, 2, b"\xff\n-*-of-00002.safetensors"),
        (b"m.gguf.part2of3", "pieces", 2, 3, b"m.gguf.part*of3"),
        (b"m.gguf.002", "pieces", 2, None, b"m.gguf.*"),
        (b"m.gguf-split-b", "pieces", 2, None, b"m.gguf-split-*"),
    ],
)
def test_a_numbered_name(name: bytes, kind: str, number: int, count: int | None, label: bytes) -> None:
    found = series_of(name)
    assert found is not None
    series, at = found
    assert (series.kind, at, series.count, series.label) == (kind, number, count, label)
    assert series.member(number) == name


@pytest.mark.parametrize(
    "name",
    [
        b"m.gguf",
        b"-00001-of-00002.gguf",
        b"m-00001-of-00002.gguf.bak",
        b"m-00001-of-.gguf",
        b"m-1234567-of-1234567.gguf",
        b"m-one-of-two.gguf",
        b"model-mtp-of-00003.safetensors",
        b"m-00001-of-00002.bin",
        b"m.gguf.part",
        b"m.gguf-split-A",
        b"",
    ],
)
def test_a_plain_name(name: bytes) -> None:
    assert series_of(name) is None


def test_names_of_others_in_the_series() -> None:
    found = series_of(b"m-00001-of-00003.gguf")
    assert found is not None
    assert found[0].member(2) == b"m-00002-of-00003.gguf"
    assert found[0].member(2, 12) == b"m-00002-of-00012.gguf"
    assert found[0].member(123456, 1234567) == b"m-123456-of-1234567.gguf"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        (b"model.safetensors.index.json", b"model"),
        (b"diffusion_pytorch_model.safetensors.index.json", b"diffusion_pytorch_model"),
        (b"model.fp16.safetensors.index.json", b"model.fp16"),
        (b"model.safetensors.index.fp16.json", b"model.fp16"),
        (b".safetensors.index.json", None),
        (b"pytorch_model.bin.index.json", None),
        (b"model.safetensors.index.json.bak", None),
        (b"model_index.json", None),
    ],
)
def test_the_name_of_an_index(name: bytes, stem: bytes | None) -> None:
    assert index_stem(name) == stem


@pytest.mark.parametrize(
    ("name", "finished"),
    [
        (b"m.gguf.part", b"m.gguf"),
        (b"m.gguf.aria2", b"m.gguf"),
        (b"m.gguf.incomplete", b"m.gguf"),
        (b"sha256-ab-partial-3", b"sha256-ab"),
        (b"m.gguf", None),
        (b".aria2", None),
        (b"m.gguf.part1of2", None),
    ],
)
def test_a_download_under_way(name: bytes, finished: bytes | None) -> None:
    assert finished_name(name) == finished


def test_a_listing_keeps_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_names, "KEPT_NAMES", 3)
    listing = Listing()
    for at in range(1000):
        listing.add(b"notes-%d.txt" % at)
    assert not listing.cut
    for at in range(5):
        listing.add(b"%d.safetensors" % at)
    assert listing.cut
    assert len(listing.safetensors) == 3
