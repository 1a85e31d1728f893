"""Digests of parts of a file, taken while it streams by: the tensor data as a whole, and each tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from auditd.accounting.account import Account
from auditd.evidence.observation import PartDigests
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.safetensors.entries import SELF_HASH_KEY
from auditd.model.tensors import TensorFact, tensor_facts

#: Which parts are digested beside the whole: none, the tensor data, or that and each tensor.
Parts: TypeAlias = Literal["none", "data", "tensors"]


class _Extent(NamedTuple):
    begin: int
    end: int
    tensor: int


class PartHasher:
    """Fed a file's bytes in order from any position before the data start on; :meth:`result` at its end."""

    def __init__(self, data: tuple[int, int] | None, extents: Iterable[_Extent]) -> None:
        self._data = data
        self._whole = hashlib.sha256()
        self._hashed = 0
        self._extents = iter(extents)
        self._extent = next(self._extents, None)
        self._current = hashlib.sha256()
        self._digests: list[tuple[int, str]] = []

    def feed(self, begin: int, data: bytes | bytearray, size: int) -> None:
        """The file's bytes from ``begin`` on: the first ``size`` of ``data``."""
        view = memoryview(data)
        if self._data is not None:
            low, high = max(begin, self._data[0]), min(begin + size, self._data[1])
            if low < high:
                self._whole.update(view[low - begin : high - begin])
                self._hashed += high - low
        while self._extent is not None and self._extent.begin < begin + size:
            low, high = max(begin, self._extent.begin), min(begin + size, self._extent.end)
            self._current.update(view[low - begin : high - begin])
            if self._extent.end > begin + size:
                return
            self._digests.append((self._extent.tensor, self._current.hexdigest()))
            self._current = hashlib.sha256()
            self._extent = next(self._extents, None)

    def result(self) -> PartDigests:
        """What is known; the digest of the tensor data only once all of it has gone by."""
        complete = self._data is not None and self._hashed == self._data[1] - self._data[0]
        return PartDigests(self._whole.hexdigest() if complete else None, tuple(self._digests))


def hasher(parts: Parts, header: GgufHeader | SafetensorsHeader | None, account: Account | None) -> PartHasher | None:
    """What digests the parts that are asked for; None if none are, or if the file has no place for them.

    The tensor data reaches from the data start to the end of the last tensor: padding that some writers put behind
    it makes no difference. Tensors that overlap have no digests of their own.
    """
    wanted = "data" if parts == "none" and _hashes_itself(header) else parts
    if wanted == "none" or header is None or account is None or account.data_offset is None:
        return None
    end = tensor_data_end(header, account)
    if end is None:
        return None
    whole = wanted == "tensors" and header.rows_complete and account.figures.overlap == 0
    extents = _extents(tensor_facts(header, account), account.file_size) if whole else ()
    return PartHasher((account.data_offset, end), extents)


def _hashes_itself(header: GgufHeader | SafetensorsHeader | None) -> bool:
    return isinstance(header, SafetensorsHeader) and SELF_HASH_KEY in (header.metadata or {})


def tensor_data_end(header: GgufHeader | SafetensorsHeader, account: Account) -> int | None:
    """The file offset where the last tensor ends; None while a size is unknown or tensors reach past the file."""
    figures = account.figures
    if figures.residue is None or figures.missing or account.data_offset is None:
        return None
    if isinstance(header, SafetensorsHeader):
        ends = header.columns.ends if header.columns is not None else ()
        return account.data_offset + max(ends, default=0)
    # Every byte behind the data start is a tensor's, padding between them or surplus; what trails is listed.
    trailing = sum(run.end - run.begin for run in account.runs if run.kind in ("trailing", "padding_partial"))
    end = account.file_size - trailing
    return next((begin for begin, stop in _last(account) if stop == end), end)


def _last(account: Account) -> Iterator[tuple[int, int]]:
    """The last padding run, which may stand behind the last tensor."""
    last = None
    for last in account.padding_runs:  # noqa: B007 - the last one is what is wanted
        pass
    if last is not None:
        yield last


def _extents(facts: Iterable[TensorFact], file_size: int) -> Iterator[_Extent]:
    placed = (
        _Extent(fact.file_offset, fact.file_offset + fact.byte_length, fact.index)
        for fact in facts
        if fact.file_offset is not None and fact.byte_length
    )
    return iter(sorted(extent for extent in placed if extent.end <= file_size))
