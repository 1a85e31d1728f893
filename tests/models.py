"""Two published headers made anew: the same tensors, offsets, counts and lengths, other words in the vocabulary."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.builders import F32, KINDS, Q4_K, Q6_K, Q8_0, Tensor

Q5_0: Final = 6

#: type id: (name, elements a block, bytes a block)
SIZES: Final[dict[int, tuple[str, int, int]]] = {
    F32: ("F32", 1, 4),
    Q5_0: ("Q5_0", 32, 22),
    Q8_0: ("Q8_0", 32, 34),
    Q4_K: ("Q4_K", 256, 144),
    Q6_K: ("Q6_K", 256, 210),
}


def length_of(tensor: Tensor) -> int:
    """Bytes of a tensor from shape and type alone."""
    elements = 1
    for dim in tensor.dims:
        elements *= dim
    _, block, size = SIZES[tensor.type_id]
    return elements // block * size


@dataclass(frozen=True)
class Twin:
    """A header and what was published about the file it stands for."""

    header: bytes
    data_offset: int
    file_size: int
    tensors: tuple[Tensor, ...]
    offset_fields: tuple[int, ...]


def _string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _entry(key: str, kind: str, raw: bytes) -> bytes:
    return _string(key.encode()) + struct.pack("<I", KINDS[kind]) + raw


def _text(key: str, value: str) -> bytes:
    return _entry(key, "string", _string(value.encode()))


def _u32(key: str, value: int) -> bytes:
    return _entry(key, "u32", struct.pack("<I", value))


def _array(key: str, kind: str, count: int, raw: bytes) -> bytes:
    return _entry(key, "array", struct.pack("<IQ", KINDS[kind], count) + raw)


def _metadata(
    length: int, size_label: str, tokens: int, blocks: int, width: int, feed: int, heads: int, kv: int
) -> bytes:
    """Thirty-four entries that take exactly ``length`` bytes; the chat template takes what is left over."""
    vocabulary = b"".join([struct.pack("<Q", 6) + b"%06d" % index for index in range(tokens)])
    merges = b"".join([struct.pack("<Q", 13) + b"%06d %06d" % (index, index) for index in range(151_387)])
    entries = [
        _text("general.architecture", "qwen2"),
        _text("general.type", "model"),
        _text("general.name", f"Qwen2.5 {size_label} Instruct"),
        _text("general.finetune", "Instruct"),
        _text("general.basename", "Qwen2.5"),
        _text("general.size_label", size_label),
        _text("general.license", "apache-2.0"),
        _text("general.license.link", f"https://example.org/{size_label}/LICENSE"),
        _u32("general.base_model.count", 1),
        _text("general.base_model.0.name", f"Qwen2.5 {size_label}"),
        _text("general.base_model.0.organization", "Qwen"),
        _text("general.base_model.0.repo_url", f"https://example.org/{size_label}"),
        _array("general.tags", "string", 2, _string(b"chat") + _string(b"text-generation")),
        _array("general.languages", "string", 1, _string(b"en")),
        _u32("qwen2.block_count", blocks),
        _u32("qwen2.context_length", 32768),
        _u32("qwen2.embedding_length", width),
        _u32("qwen2.feed_forward_length", feed),
        _u32("qwen2.attention.head_count", heads),
        _u32("qwen2.attention.head_count_kv", kv),
        _entry("qwen2.rope.freq_base", "f32", struct.pack("<f", 1e6)),
        _entry("qwen2.attention.layer_norm_rms_epsilon", "f32", struct.pack("<f", 1e-6)),
        _u32("general.file_type", 15),
        _text("tokenizer.ggml.model", "gpt2"),
        _text("tokenizer.ggml.pre", "qwen2"),
        _array("tokenizer.ggml.tokens", "string", tokens, vocabulary),
        _array("tokenizer.ggml.token_type", "i32", tokens, struct.pack("<i", 1) * tokens),
        _array("tokenizer.ggml.merges", "string", 151_387, merges),
        _u32("tokenizer.ggml.eos_token_id", 151_645),
        _u32("tokenizer.ggml.padding_token_id", 151_643),
        _u32("tokenizer.ggml.bos_token_id", 151_643),
        _entry("tokenizer.ggml.add_bos_token", "bool", b"\x00"),
        b"",
        _u32("general.quantization_version", 2),
    ]
    empty_template = _text("tokenizer.chat_template", "")
    left = length - sum(map(len, entries)) - len(empty_template)
    entries[32] = _text("tokenizer.chat_template", "{%- if tools %}" + "x" * (left - 15))
    return b"".join(entries)


def _twin(metadata_bytes: int, file_size: int, header_end: int, tensors: list[Tensor], **words: int | str) -> Twin:
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 34))
    out += _metadata(metadata_bytes, **words)  # type: ignore[arg-type]
    offset = 0
    fields = []
    placed = []
    for tensor in tensors:
        assert isinstance(tensor.name, str)
        out += _string(tensor.name.encode()) + struct.pack("<I", len(tensor.dims))
        out += struct.pack(f"<{len(tensor.dims)}QI", *tensor.dims, tensor.type_id)
        fields.append(len(out))
        out += struct.pack("<Q", offset)
        placed.append(Tensor(tensor.name, tensor.dims, tensor.type_id, offset))
        offset += length_of(tensor)
    assert len(out) == header_end
    data_offset = file_size - offset
    return Twin(bytes(out) + bytes(data_offset - header_end), data_offset, file_size, tuple(placed), tuple(fields))


def _block(index: int, width: int, feed: int, kv: int, base: int, down: int, value: int) -> list[Tensor]:
    """The twelve tensors of one block in the order of their published offsets."""
    name = f"blk.{index}."
    return [
        Tensor(name + "attn_norm.weight", [width], F32),
        Tensor(name + "ffn_down.weight", [feed, width], down),
        Tensor(name + "ffn_gate.weight", [width, feed], base),
        Tensor(name + "ffn_up.weight", [width, feed], base),
        Tensor(name + "ffn_norm.weight", [width], F32),
        Tensor(name + "attn_k.bias", [kv], F32),
        Tensor(name + "attn_k.weight", [width, kv], base),
        Tensor(name + "attn_output.weight", [width, width], base),
        Tensor(name + "attn_q.bias", [width], F32),
        Tensor(name + "attn_q.weight", [width, width], base),
        Tensor(name + "attn_v.bias", [kv], F32),
        Tensor(name + "attn_v.weight", [width, kv], value),
    ]


@cache
def hero() -> Twin:
    """4,683,073,952 bytes: 28 blocks, 339 tensors; block 0 has both of its wider types."""
    tensors = [Tensor("token_embd.weight", [3584, 152_064], Q4_K)]
    for index in range(28):
        # 14 of each wider type: 12 blocks with both, 2 with either, 12 with none
        down = Q6_K if index < 14 else Q4_K
        value = Q6_K if index < 12 or index in (14, 15) else Q4_K
        tensors += _block(index, 3584, 18_944, 512, Q4_K, down, value)
    tensors += [Tensor("output.weight", [3584, 152_064], Q6_K), Tensor("output_norm.weight", [3584], F32)]
    return _twin(
        5_934_607,
        4_683_073_952,
        5_953_935,
        tensors,
        size_label="7B",
        tokens=152_064,
        blocks=28,
        width=3584,
        feed=18_944,
        heads=28,
        kv=4,
    )


@cache
def small() -> Twin:
    """397,807,936 bytes: 24 blocks, 290 tensors, no table of its own for the output."""
    tensors = [Tensor("token_embd.weight", [896, 151_936], Q8_0)]
    for index in range(24):
        wide = index % 2 == 0
        tensors += _block(index, 896, 4864, 128, Q5_0, Q6_K if wide else Q4_K, Q8_0 if wide else Q5_0)
    tensors += [Tensor("output_norm.weight", [896], F32)]
    directory = sum(8 + len(item.name) + 4 + 8 * len(item.dims) + 4 + 8 for item in tensors)
    return _twin(
        5_948_196 - 24 - directory,
        397_807_936,
        5_948_196,
        tensors,
        size_label="0.5B",
        tokens=151_936,
        blocks=24,
        width=896,
        feed=4864,
        heads=14,
        kv=2,
    )
