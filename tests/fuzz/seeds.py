"""What the fuzzer starts from: small files that touch every part of the grammars, and a list of files made to do harm."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from tests.builders import (
    ARCHITECTURE,
    CASES,
    F16,
    F32,
    Q4_0,
    Q4_K,
    Q8_0,
    Q8_1,
    Array,
    Entry,
    Tensor,
    aligned,
    gguf,
    safetensors,
    simple,
    sketch,
    st_entry,
)

#: Input files of the collection beside this checkout that are short enough to be changed by the thousand.
_CASE_BYTES: Final = 3000

_SCALARS: Final = {
    "u8": 200, "i8": -3, "u16": 60_000, "i16": -9, "u32": 7, "i32": -7, "f32": 0.5, "bool": 1, "u64": 2**63,
    "i64": -(2**62), "f64": 0.1,
}  # fmt: skip


def gguf_files() -> Iterator[bytes]:
    """Small GGUF files: every value type, every kind of size, both byte orders."""
    yield sketch().data
    yield sketch(None).data
    for endian in "<>":
        entries = [Entry(f"k.{kind}", kind, value) for kind, value in _SCALARS.items()]
        entries += [
            Entry("tokenizer.ggml.tokens", "array", Array("string", [f"t{n}" for n in range(150)])),
            Entry("a.bool", "array", Array("bool", [0, 1] * 9)),
            Entry("a.f", "array", Array("f32", [0.5] * 12)),
            Entry("a.a", "array", Array("array", [Array("u8", b"12"), Array("string", ["x", "y"])])),
            Entry("tokenizer.chat_template", "string", "{{ messages }}"),
        ]
        yield gguf([ARCHITECTURE, *entries], [Tensor("w", [4], F32)], endian=endian).data
    yield simple(
        Tensor("a", [32], Q8_0),
        Tensor("b", [256], Q4_K, length=144),
        Tensor("c", [0, 4], 99, length=0),
        Tensor("d", [], F32),
    ).data
    yield simple(Tensor("q", [64, 2], Q8_1), Tensor("r", [32], Q4_0), Tensor("s", [3, 2], F16)).data
    yield simple(Tensor("q", [64, 2], Q8_1, length=160), Tensor("s", [3], F32)).data
    for type_id in (16, 24, 25, 31, 36, 42, 5, 144):
        yield simple(Tensor("blk.0.w", [256], type_id, length=256), Tensor("blk.1.w", [256], type_id, length=256)).data
    yield gguf([ARCHITECTURE, aligned(8)], [Tensor("a", [3], F32), Tensor("b", [3], F32)], alignment=8).data
    yield gguf([ARCHITECTURE, Entry("k", "f32", 1.5)], []).data
    yield gguf([ARCHITECTURE], [Tensor("a", [3], F32), Tensor("a\0b", [3], F32)], version=2).data
    yield simple(Tensor("a", [8], F32, 0), Tensor("b", [8], F32, 16), Tensor("c", [8], F32, 4096)).data


def safetensors_files() -> Iterator[bytes]:
    """Small safetensors files in every form that JSON allows."""
    yield safetensors({"__metadata__": {"k": "v"}, "a": st_entry("F32", [2, 2], 0, 16)}, bytes(16))
    many = {f"layers.{n}.w": st_entry("F16", [2], 4 * n, 4 * n + 4) for n in range(12)}
    yield safetensors(many, bytes(48))
    kinds = {"u": st_entry("U8", [3], 0, 3), "e": st_entry("F32", [0], 3, 3), "s": st_entry("F4", [2, 1], 3, 4)}
    yield safetensors({**kinds, "n": st_entry("NEW", [9], 4, 8)}, bytes(8))
    odd = b' {"a\\u0062" : {"x":[1,[{}],"s",null,-1.5e3],"shape":[ ],"data_offsets":[0,1],"dtype":"U8"} }\n '
    yield safetensors(odd, b"x")
    yield safetensors({"a": {**st_entry("BOOL", [1], 0, 1), "y": {"z": {"k": [True, False]}}}}, b"\1")
    yield safetensors("{}")
    yield safetensors({"__metadata__": None, "ü": st_entry("I64", [1], 0, 8)}, bytes(8))


def foreign_files() -> Iterator[bytes]:
    """Files that are no models and say what they are."""
    yield b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 4683073952\n"
    yield b"<!DOCTYPE html><html><head><title>429 Too Many &amp; &#x1b;[31m</title></head></html>"
    yield b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>no &#0; no</Message></Error>"
    yield b'{"error": "Repository not found", "lfs": {"oid": "x"}}'
    yield b"\x1f\x8b\x08\x08\0\0\0\0\0\x03model.gguf\0" + bytes(60)
    yield b"\x80\x02}q\0X\x05\0\0\0modelq\1."
    yield b"dir/model.gguf".ljust(257, b"\0") + b"ustar\x0000" + bytes(240)
    yield b"\x08\x07\x12\x07pytorch\x1a\x042.1:\x10" + b"\x0a\x04node" * 4
    yield b"\x93NUMPY\1\0\x46\0{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n"
    yield b"\x7fELF" + bytes(60)
    yield b"tjgg" + struct.pack("<II", 1, 51_864) + bytes(40)
    yield b"\xff\xfeG\0G\0U\0F\0" + bytes(30)
    yield bytes(300)
    yield b""


def archives() -> Iterator[bytes]:
    """ZIP archives with models inside, in front of which another program may stand."""
    model = gguf([], [Tensor("w", (8,), F32)]).data
    tensors = safetensors({"a": st_entry("U8", [4], 0, 4)}, b"abcd")
    members = {"dir/model.gguf": model, "b.safetensors": tensors, "readme.txt": b"text", "c.gguf": model + b"more"}
    for stub, method in ((b"", zipfile.ZIP_STORED), (b"MZqFpD='\n" + bytes(70), 0), (b"", zipfile.ZIP_DEFLATED)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as made:
            made.comment = b"a comment"
            for name, data in members.items():
                made.writestr(name, data)
        yield stub + out.getvalue()


def cases() -> list[bytes]:
    """The short files of the collection beside this checkout, if there is one."""
    if not CASES.is_dir():
        return []
    files = sorted(path for path in CASES.rglob("*") if path.is_file() and path.suffix in {".gguf", ".safetensors"})
    return [path.read_bytes() for path in files if path.stat().st_size <= _CASE_BYTES]


# --- files made to do harm -------------------------------------------------------------------------------


def _directory(names: Sequence[bytes], offsets: Sequence[int]) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(names), 0)
    rows = (
        struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, 8, F32, offset)
        for name, offset in zip(names, offsets, strict=True)
    )
    return head + b"".join(rows)


@cache
def adversarial(count: int) -> dict[str, bytes]:
    """Headers whose parts number ``count``, each against one weakness that readers have had."""
    distinct = [b"t%d" % index for index in range(count)]
    offsets = [32 * index for index in range(count)]
    entry = struct.pack("<Q", 1) + b"k" + struct.pack("<IB", 0, 7)
    text = struct.pack("<Q", 1)
    element = b'{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
    return {
        "the same tensor name": _directory([b"same"] * count, offsets),
        "the same key": b"GGUF" + struct.pack("<IQQ", 3, 0, count) + entry * count,
        "names equal up to a NUL": _directory([b"n\0%d" % index for index in range(count)], offsets),
        "all tensors at one place": _directory(distinct, [0] * count),
        "nested extents": _directory(distinct, list(reversed(offsets))),
        "misaligned offsets": _directory(distinct, [offset + 1 for offset in offsets]),
        "holes between tensors": _directory(distinct, [2 * offset for offset in offsets]),
        "empty arrays in an array": gguf([Entry("k", "array", Array("array", [Array("u8", b"")] * count))]).data,
        "strings that are not UTF-8": _texts((text + b"\xff") * count, count),
        "long strings among short ones": _texts(
            (text + b"x" + struct.pack("<Q", 200) + b"y" * 200) * (count // 2), count
        ),
        "the same JSON name": safetensors(b"{" + b",".join([b'"a":' + element % (0, 1)] * count) + b"}", b"x"),
        "JSON ranges that overlap": safetensors(
            b"{" + b",".join(b'"%d":' % index + element % (0, count - index) for index in range(count)) + b"}"
        ),
        "JSON ranges that leave gaps": safetensors(
            b"{" + b",".join(b'"%d":' % index + element % (2 * index, 2 * index + 1) for index in range(count)) + b"}",
            bytes(2 * count),
        ),
        "empty JSON tensors": safetensors(
            b"{" + b",".join(b'"%d":' % index + element % (0, 0) for index in range(count)) + b"}"
        ),
        "a long shape": safetensors(
            b'{"a":{"dtype":"U8","shape":[' + b"1," * count + b'1],"data_offsets":[0,1]}}', b"x"
        ),
        "an ignored array": safetensors(b'{"a":{"x":[' + b"[],{}," * count + b"0],"),
        "escapes": safetensors(b'{"' + b"\\u0061" * count + b'":0}'),
        "a string that never ends": safetensors(b'{"' + b"a" * count),
        "white space": safetensors(b" " * count + b"{" + b"\t" * count + b"}" + b"\n" * count),
        "open brackets": safetensors(b'{"a":' + b"[" * count),
        "open objects": safetensors(b'{"a":' * count),
        "metadata": safetensors(json.dumps({"__metadata__": {str(index): "\\" * 9 for index in range(count)}})),
    }


def _texts(raw: bytes, count: int) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k"
    return head + struct.pack("<IIQ", 9, 8, count) + raw


@cache
def pointed() -> dict[str, bytes]:
    """Short files with one figure that allocates, loops, wraps or recurses in a reader that believes it."""
    made: dict[str, bytes] = {}
    for value in (2**31, 2**32, 2**53, 2**63, 2**64 - 1):
        made[f"{value} tensors"] = gguf(tensor_count=value).data
        made[f"{value} entries"] = gguf(metadata_count=value).data
        made[f"{value} elements"] = gguf([Entry("k", raw=struct.pack("<IIQ", 9, 4, value))]).data
        made[f"{value} texts"] = gguf([Entry("k", raw=struct.pack("<IIQ", 9, 8, value))]).data
        made[f"{value} arrays"] = gguf([Entry("k", raw=struct.pack("<IIQ", 9, 9, value))]).data
        made[f"a text of {value}"] = gguf([Entry("k", raw=struct.pack("<IQ", 8, value))]).data
        made[f"a dimension of {value}"] = simple(Tensor("w", [value], F32, 0, 0)).data
        made[f"dimensions {value}"] = simple(Tensor("w", [value, value, 2], Q8_0, 0, 0)).data
        made[f"an offset of {value}"] = simple(Tensor("w", [1], F32, value, 4), data=bytes(32)).data
        made[f"a header of {value}"] = struct.pack("<Q", value) + b"{}      "
        made[f"a range to {value}"] = safetensors({"a": st_entry("U8", [value], 0, value)})
        made[f"an alignment of {value}"] = gguf([aligned(value % 2**32)], [Tensor("w", [1])], data=b"").data
    for depth in (31, 32, 33, 5000):
        raw = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * (depth - 1) + struct.pack("<IQ", 0, 1) + b"\1"
        made[f"{depth} arrays in each other"] = gguf([Entry("k", raw=raw)]).data
        made[f"{depth} lists in each other"] = safetensors(b'{"a":{"x":' + b"[" * depth + b"]" * depth + b"}}")
    for name, text in (("half a pair", b'"\\ud800"'), ("raw half", b'"\xed\xa0\x80"'), ("pair", b'"\\ud83d\\ude00"')):
        made[f"JSON text: {name}"] = safetensors(b"{" + text + b':{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}')
    return made


# --- what else is read -----------------------------------------------------------------------------------

_HEX: Final = "0123456789abcdef" * 4

MANIFESTS: Final = (
    json.dumps(
        {
            "schemaVersion": 2,
            "config": {"mediaType": "application/x", "digest": f"sha256:{_HEX}", "size": 9},
            "layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{_HEX}", "size": 2**40}],
        }
    ).encode(),
    b'{"layers":[]}',
)

LISTS: Final = (
    f"{_HEX}  model.gguf\n{_HEX} *dir/other.gguf\r\n\\{_HEX}  a\\nb\\\\c\nSHA256 (x (1).gguf) = {_HEX.upper()}\n".encode(),
    f"{_HEX}\n".encode(),
)

_STATEMENT: Final = {
    "predicateType": "https://model_signing/signature/v1.0",
    "subject": [{"name": "m", "digest": {"sha256": _HEX}}],
    "predicate": {
        "resources": [{"name": "model.gguf", "digest": _HEX, "algorithm": "sha256"}],
        "serialization": {"method": "files"},
    },
}


def signature(statement: bytes) -> bytes:
    """A bundle around the JSON of a statement."""
    payload = base64.b64encode(statement).decode()
    return json.dumps({"dsseEnvelope": {"payload": payload, "payloadType": "application/vnd.in-toto+json"}}).encode()


STATEMENTS: Final = (json.dumps(_STATEMENT).encode(), b'{"predicateType":"x","subject":[{"name":"a","digest":{}}]}')

INDEXES: Final = (
    b'{"metadata":{"total_size":24.0},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"m.safetensors"}}',
)

NAMES: Final = (
    b"m-00001-of-00003.gguf", b"model-00001-of-00002.fp16.safetensors", b"m.gguf.part1of2", b"m.gguf.001",
    b"m.gguf-split-a", b"model.safetensors.index.fp16.json", b"m.gguf.aria2", b"m.gguf-partial-2", b"m.gguf.crdownload",
)  # fmt: skip

VIEWS: Final = (
    b'{"collection":"tensors","names":["w"],"indices":[0,1],"storage_validation":["consistent"],"limit":5}',
    b'{"collection":"metadata","keys":["k.u8"],"fields":["key","value"],"offset":1}',
    b'{"collection":"types","types":["F32"]}',
)

MOUNTS: Final = (
    b"36 35 98:0 / /mnt\\0402 rw,noatime master:1 - fuse.sshfs host:/x rw\n25 0 8:1 / / rw - ext4 /dev/sda rw\n",
)
