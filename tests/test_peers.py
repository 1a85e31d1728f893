"""Files written by the packages that everybody writes them with: sound here, with the same shapes and places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auditd.evidence.record import Evidence
from tests.builders import codes, observation, observe_artifact

gguf = pytest.importorskip("gguf", reason="the gguf package is not installed")
safetensors = pytest.importorskip("safetensors", reason="the safetensors package is not installed")
st_numpy = pytest.importorskip("safetensors.numpy", reason="the safetensors package is not installed")

TYPES = sorted(gguf.GGML_QUANT_SIZES, key=int)

#: Types whose size every released layout agrees on (Q8_1 and the K types have had two, 16 to 25 several meanings).
OPEN = {9, *range(10, 26)}

#: gguf 0.19.0 still writes 40 bytes for a block of Q8_1, and ids that upstream and forks both use are contested.
PEER_VERDICTS = {9: ("notice", "q8_1-40")}


def writer(path: Path, **options: Any) -> Any:
    return gguf.GGUFWriter(path, "test", **options)


def close(made: Any, *, tensors: bool = True) -> None:
    made.write_header_to_file()
    made.write_kv_data_to_file()
    if tensors:
        made.write_tensors_to_file()
    made.close()


def compare(evidence: Evidence, path: Path) -> None:
    """Our rows against what the peer's own reader says of the file."""
    reader = gguf.GGUFReader(path)
    assert evidence.gguf is not None
    assert evidence.gguf.tensors is not None
    assert evidence.accounting is not None
    assert evidence.gguf.tensor_count == len(reader.tensors)
    for row, peer in zip(evidence.gguf.tensors, reader.tensors, strict=True):
        assert row.name == peer.name
        assert row.type_id == int(peer.tensor_type)
        assert row.shape == [str(dim) for dim in peer.shape.tolist()]
        assert row.elements == str(peer.n_elements)
        assert row.file_offset == peer.data_offset
        if row.byte_length is not None:
            assert row.byte_length == peer.n_bytes
    assert evidence.gguf.alignment == reader.alignment
    if reader.tensors:
        assert evidence.accounting.data_offset == reader.data_offset
        assert evidence.accounting.tensor_bytes == sum(int(peer.n_bytes) for peer in reader.tensors)
    assert evidence.accounting.residue == 0


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: str(kind.name))
def test_gguf_every_type(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "model.gguf"
    block, size = gguf.GGML_QUANT_SIZES[kind]
    made = writer(path)
    blocks = 4096 // block
    made.add_tensor("w", np.zeros((3, blocks * size), dtype=np.uint8), raw_dtype=kind)
    made.add_tensor("v", np.zeros((2, blocks * size), dtype=np.uint8), raw_dtype=kind)
    close(made)
    evidence = observation(path)
    verdict, layout = PEER_VERDICTS.get(int(kind), ("sound", "ggml-current"))
    assert evidence.verdict == verdict, sorted(codes(evidence))
    assert evidence.accounting is not None
    assert evidence.accounting.layout is not None
    assert evidence.accounting.layout.name == layout
    assert evidence.gguf is not None
    assert evidence.gguf.tensors is not None
    established = int(kind) not in OPEN and int(kind) != 42
    assert all((row.byte_length is not None) is established for row in evidence.gguf.tensors)
    compare(evidence, path)


def test_gguf_every_type_of_numpy(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    made = writer(path)
    for dtype in (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64):
        made.add_tensor(np.dtype(dtype).name, np.zeros((3, 5), dtype=dtype))
    close(made)
    evidence = observation(path)
    assert evidence.verdict == "sound"
    compare(evidence, path)


@pytest.mark.parametrize("alignment", [8, 16, 64, 256, 4096])
def test_gguf_alignments(tmp_path: Path, alignment: int) -> None:
    path = tmp_path / "model.gguf"
    made = writer(path)
    made.add_custom_alignment(alignment)
    for length in (1, 7, 8, 9, 500):
        made.add_tensor(f"w{length}", np.zeros(length, dtype=np.float32))
    close(made)
    evidence = observation(path)
    assert evidence.verdict == "sound"
    compare(evidence, path)


def test_gguf_big_endian(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    made = writer(path, endianess=gguf.GGUFEndian.BIG)
    made.add_uint32("test.n", 7)
    made.add_tensor("w", np.zeros((2, 3), dtype=np.float32))
    close(made)
    evidence = observation(path)
    assert evidence.verdict == "notice"
    assert evidence.gguf is not None
    assert evidence.gguf.byte_order == "big"
    compare(evidence, path)


def test_gguf_metadata_only(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    made = writer(path)
    made.add_token_list([f"t{n}" for n in range(1000)])
    close(made, tensors=False)
    evidence = observation(path)
    assert evidence.verdict == "sound"
    assert evidence.accounting is not None
    assert evidence.accounting.residue == 0
    assert evidence.gguf is not None
    assert evidence.gguf.tensor_count == 0


def test_gguf_every_value(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    made = writer(path)
    scalars: dict[str, tuple[str, Any, Any]] = {
        "t.u8": ("uint8", 200, 200),
        "t.i8": ("int8", -100, -100),
        "t.u16": ("uint16", 60_000, 60_000),
        "t.i16": ("int16", -30_000, -30_000),
        "t.u32": ("uint32", 4_000_000_000, 4_000_000_000),
        "t.i32": ("int32", -2_000_000_000, -2_000_000_000),
        "t.f32": ("float32", 0.5, 0.5),
        "t.u64": ("uint64", 2**63 + 1, str(2**63 + 1)),
        "t.i64": ("int64", -(2**62), str(-(2**62))),
        "t.f64": ("float64", 0.1, 0.1),
        "t.bool": ("bool", True, True),
        "t.text": ("string", "naïve 🦙", "naïve 🦙"),
    }
    for key, (method, value, _) in scalars.items():
        getattr(made, f"add_{method}")(key, value)
    arrays: dict[str, list[Any]] = {
        "a.text": ["a", "ü", ""],
        "a.int": [1, 2, 3],
        "a.float": [0.5, 1.5],
        "a.bool": [True, False],
    }
    for key, items in arrays.items():
        made.add_array(key, items)
    made.add_array("a.long", list(range(100)))
    made.add_tensor("w", np.zeros(4, dtype=np.float32))
    close(made)
    evidence = observation(path)
    assert evidence.verdict == "sound"
    assert evidence.gguf is not None
    assert evidence.gguf.metadata is not None
    rows = {row.key: row for row in evidence.gguf.metadata}
    for key, (_, _, expected) in scalars.items():
        assert rows[key].value == expected
    for key, items in arrays.items():
        assert (rows[key].preview, rows[key].count) == (items, len(items))
    assert (rows["a.long"].count, rows["a.long"].preview, rows["a.long"].preview_complete) == (
        100,
        list(range(8)),
        False,
    )
    peer = gguf.GGUFReader(path)
    assert [row.key for row in evidence.gguf.metadata] == [key for key in peer.fields if not key.startswith("GGUF.")]
    compare(evidence, path)


def test_gguf_quantized_by_the_package(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    made = writer(path)
    weights = np.linspace(-1, 1, 512 * 4, dtype=np.float32).reshape(4, 512)
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16", "TQ1_0", "TQ2_0"):
        kind = gguf.GGMLQuantizationType[name]
        made.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)
    close(made)
    evidence = observation(path, hash_mode="full")
    assert evidence.verdict == "sound"
    compare(evidence, path)


#: Names of dtypes as ``safetensors.serialize`` takes them, and as the file holds them, with their bytes.
DTYPES = {
    "bool": ("BOOL", 1),
    "uint8": ("U8", 1),
    "int8": ("I8", 1),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "int16": ("I16", 2),
    "uint16": ("U16", 2),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "int32": ("I32", 4),
    "uint32": ("U32", 4),
    "float32": ("F32", 4),
    "int64": ("I64", 8),
    "uint64": ("U64", 8),
    "float64": ("F64", 8),
    "complex64": ("C64", 8),
}


def compare_safetensors(evidence: Evidence, data: bytes) -> None:
    assert evidence.safetensors is not None
    assert evidence.safetensors.tensors is not None
    peer = dict(safetensors.deserialize(data))
    assert [row.name for row in evidence.safetensors.tensors] == sorted(peer)
    for row in evidence.safetensors.tensors:
        other = peer[row.name]
        assert row.dtype == other["dtype"]
        assert row.shape == [str(dim) for dim in other["shape"]]
        assert row.byte_length == len(other["data"])
        assert row.file_offset is not None
        assert data[row.file_offset : row.file_offset + (row.byte_length or 0)] == bytes(other["data"])
        assert row.storage_validation == "consistent"
    assert evidence.accounting is not None
    assert evidence.accounting.tensor_bytes == sum(len(other["data"]) for other in peer.values())
    assert evidence.accounting.residue == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_safetensors_every_dtype(tmp_path: Path, dtype: str) -> None:
    name, size = DTYPES[dtype]
    content = {
        "w": np.arange(15 * size, dtype=np.uint8),
        "empty": np.zeros(0, np.uint8),
        "one": np.ones(size, np.uint8),
    }
    shapes = {"w": [3, 5], "empty": [0, 5], "one": []}
    tensors = {
        key: safetensors.TensorSpec(dtype=dtype, shape=shapes[key], data_ptr=raw.ctypes.data, data_len=raw.nbytes)
        for key, raw in content.items()
    }
    data = safetensors.serialize(tensors, {"format": "pt"})
    evidence = observe_artifact(tmp_path, bytes(data), "model.safetensors")
    assert evidence.verdict == "sound", sorted(codes(evidence))
    assert evidence.safetensors is not None
    assert evidence.safetensors.metadata == {"format": "pt"}
    assert {row.dtype for row in evidence.safetensors.tensors or []} == {name}
    compare_safetensors(evidence, bytes(data))


def test_safetensors_many(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    dice = np.random.default_rng(7)
    tensors = {
        f"layer.{index}.{kind}": dice.standard_normal((index % 7, 3)).astype(kind)
        for index in range(120)
        for kind in ("float16", "float32", "int64")
    }
    st_numpy.save_file(tensors, path, {"é": "\n"})
    evidence = observation(path, hash_mode="full")
    assert evidence.verdict == "sound"
    compare_safetensors(evidence, path.read_bytes())


def test_safetensors_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    st_numpy.save_file({}, path)
    assert observation(path).verdict == "sound"
