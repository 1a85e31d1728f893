"""Tensors of either format as one kind of value, sized under the layout that the account selected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from auditd.accounting.account import Account
from auditd.accounting.sizes import sizings_of
from auditd.formats import layouts
from auditd.formats.declarations import GgufHeader, GgufTensor, SafetensorsHeader, SafetensorsTensor
from auditd.formats.layouts import Sizing


@dataclass(frozen=True, slots=True)
class Storage:
    """A quantized tensor's blocks: how many, of how many elements, in how many bytes each."""

    blocks: int
    elements: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TensorFact:
    """One tensor.

    ``shape`` is as the file declares it: fastest dimension first in GGUF, last in safetensors. ``type`` is what the
    selected layout calls the type, or the dtype. ``offset`` is in bytes from the data start, ``file_offset`` from
    the file's, None while the data start is unknown; ``byte_length`` is None where no size is known. ``storage`` is
    None unless a type is used whose elements share blocks.
    """

    index: int
    name: bytes
    shape: tuple[int, ...]
    type: str
    type_id: int | None
    elements: int | None
    offset: int
    file_offset: int | None
    byte_length: int | None
    storage: Storage | None = None


def tensor_facts(header: GgufHeader | SafetensorsHeader | None, account: Account | None) -> Iterator[TensorFact]:
    """Every tensor whose row was kept, in the order of the header's rows."""
    if isinstance(header, GgufHeader):
        sizings = sizings_of(account)
        for tensor in header.tensors:
            yield _gguf(tensor, header.data_offset, sizings.get(tensor.type_id))
    elif header is not None:
        for index, entry in enumerate(header.tensors):
            yield _safetensors(index, entry, header.data_offset)


def _gguf(tensor: GgufTensor, data_offset: int | None, sizing: Sizing | None) -> TensorFact:
    length = None
    if tensor.elements == 0:
        length = 0
    elif sizing is not None and tensor.elements is not None:
        length = sizing.byte_length(tensor.elements, tensor.shape[0] if tensor.shape else 1)
    return TensorFact(
        index=tensor.index,
        name=tensor.name,
        shape=tensor.shape,
        type=layouts.type_label(tensor.type_id) if sizing is None else sizing.name,
        type_id=tensor.type_id,
        elements=tensor.elements,
        offset=tensor.offset,
        file_offset=None if data_offset is None else data_offset + tensor.offset,
        byte_length=length,
        storage=None if length is None or sizing is None else _storage(tensor.elements, sizing),
    )


def _storage(elements: int | None, sizing: Sizing) -> Storage | None:
    if not elements or sizing.block == 1:
        return None
    return Storage(elements // sizing.block, sizing.block, sizing.size)


def _safetensors(index: int, tensor: SafetensorsTensor, data_offset: int | None) -> TensorFact:
    return TensorFact(
        index=index,
        name=tensor.name.encode("utf-8"),
        shape=tensor.shape,
        type=tensor.dtype,
        type_id=None,
        elements=tensor.elements,
        offset=tensor.begin,
        file_offset=None if data_offset is None else data_offset + tensor.begin,
        byte_length=tensor.end - tensor.begin if tensor.begin <= tensor.end else None,
    )
