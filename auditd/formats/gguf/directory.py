"""Walking the tensor directory of a GGUF header."""

from __future__ import annotations

import struct

from auditd.formats import layouts
from auditd.formats.bounds import GGML_NAME_BYTES, GGUF_DIMENSIONS, U64
from auditd.formats.declarations import GgufTensor, TensorColumns
from auditd.formats.faults import Constraint, Fault, FaultKind
from auditd.formats.gguf.cursor import Cursor
from auditd.formats.quoting import counted, shown
from auditd.formats.retention import Retention, text_cost
from auditd.formats.uniqueness import NameRegister
from auditd.formats.utf8 import is_utf8
from auditd.formats.window import Stopped, Walk


class DirectoryWalk:
    """The tensors so far: rows as far as they are kept, columns for all of them."""

    def __init__(self, cursor: Cursor, retention: Retention) -> None:
        self._cursor = cursor
        self._retention = retention
        self._names = NameRegister()
        self._furthest_offset = 0
        self.tensors: list[GgufTensor] = []
        self.columns = TensorColumns()

    def walk(self, count: int, alignment: int | None) -> Walk:
        """Walk ``count`` entries; ``alignment`` None means that it cannot be said."""
        window = self._cursor.window
        mark = "<" if self._cursor.order == "little" else ">"
        dims_of = [struct.Struct(f"{mark}{n}Q") for n in range(GGUF_DIMENSIONS + 1)]
        for index in range(count):
            begin = window.offset
            path = f"tensors[{index}]"
            name = yield from self._cursor.string(f"{path}.name")
            n_dims_at = window.offset
            n_dims = yield from self._cursor.unsigned(4, f"{path}.n_dims")
            if n_dims > GGUF_DIMENSIONS:
                message = f"{shown(name)} has {n_dims} dimensions; a GGUF tensor has at most {GGUF_DIMENSIONS}"
                raise Stopped(
                    Fault(
                        Constraint.DIMENSIONS,
                        FaultKind.MALFORMED,
                        f"{path}.n_dims",
                        n_dims_at,
                        message,
                        GGUF_DIMENSIONS,
                        n_dims,
                    )
                )
            if window.end - window.pos < n_dims * 8:
                yield from window.more(n_dims * 8, f"{path}.dims")
            dims_at = window.offset
            shape = dims_of[n_dims].unpack_from(window.data, window.pos)
            window.pos += n_dims * 8
            type_id = yield from self._cursor.unsigned(4, f"{path}.type")
            offset = yield from self._cursor.unsigned(8, f"{path}.offset")
            self._take_tensor(index, name, shape, type_id, offset, alignment, begin, dims_at)
        self._names = NameRegister()  # a large one weighs as much as the columns, and nobody asks any more

    def _take_tensor(
        self,
        index: int,
        name: bytes,
        shape: tuple[int, ...],
        type_id: int,
        offset: int,
        alignment: int | None,
        begin: int,
        dims_at: int,
    ) -> None:
        path = f"tensors[{index}]"
        self._check_name(name, path, begin)
        elements = self._elements(shape, name, path, dims_at)
        row = shape[0] if shape else 1
        multiple = layouts.row_multiple(type_id)
        whole = row % multiple == 0
        if not whole:
            label = layouts.type_label(type_id)
            message = f"{shown(name)} has rows of {counted(row, 'element')}; {label} is stored in blocks of {multiple}"
            self._cursor.fault(
                Constraint.ROW_BLOCKS, f"{path}.dims", dims_at, message, f"a multiple of {multiple}", row
            )
        end = self._cursor.window.offset
        if elements:
            self._check_offset(offset, alignment, name, path, end - 8)
        elif elements == 0 and whole:
            self._check_empty_row(type_id, row, name, f"{path}.dims", dims_at)
        self._check_type(type_id, elements, name, path, end - 12)
        self.columns.append(type_id, offset, elements, row, whole=whole)
        if self._retention.admit(text_cost(name) + 8 * len(shape)):
            sound = whole and elements is not None
            self.tensors.append(GgufTensor(index, name, shape, type_id, offset, elements, sound, begin, end))

    def _check_name(self, name: bytes, path: str, at: int) -> None:
        subject = f"{path}.name"
        standing = self._names.judge(name)
        if standing == "duplicate":
            message = f"a tensor {shown(name)} was there before"
            self._cursor.fault(Constraint.DUPLICATE_NAME, subject, at, message, None, shown(name))
        elif standing == "alias":
            self._cursor.notice("name_alias", subject, at, f"{shown(name)} equals another tensor's name up to a NUL")
        if len(name) > GGML_NAME_BYTES:
            message = f"{shown(name)} has {len(name)} bytes; ggml takes {GGML_NAME_BYTES}"
            self._cursor.notice("name_too_long", subject, at, message, GGML_NAME_BYTES, len(name))
        if not name.isascii() and not is_utf8(name):
            self._cursor.notice("name_not_utf8", subject, at, f"{shown(name)} is not UTF-8")

    def _elements(self, shape: tuple[int, ...], name: bytes, path: str, at: int) -> int | None:
        """The product of the dimensions in declaration order; None if it passes u64 on the way."""
        elements = 1
        for dimension in shape:
            if dimension >= 1 << 63:
                message = f"{shown(name)} has a dimension of {dimension}"
                self._cursor.notice(
                    "dimension_beyond_int64", f"{path}.dims", at, message, str(2**63 - 1), str(dimension)
                )
            elements *= dimension
            if elements >= U64:
                product = " x ".join(map(str, shape))
                message = f"{shown(name)} has {product} elements, which no 64-bit count holds"
                self._cursor.fault(Constraint.SHAPE_OVERFLOW, f"{path}.dims", at, message, "below 2^64", product)
                return None
        return elements

    def _check_offset(self, offset: int, alignment: int | None, name: bytes, path: str, at: int) -> None:
        """For a non-empty tensor: on the alignment, and not in front of one that stands before it."""
        subject = f"{path}.offset"
        if alignment is not None and offset % alignment:
            message = f"{shown(name)} begins at offset {offset}, which is no multiple of {alignment}"
            self._cursor.notice("offset_misaligned", subject, at, message, f"a multiple of {alignment}", offset)
        if offset < self._furthest_offset:
            message = f"{shown(name)} begins at offset {offset}, before tensors that the directory lists before it"
            self._cursor.notice("directory_order", subject, at, message, None, offset)
        else:
            self._furthest_offset = offset

    def _check_empty_row(self, type_id: int, row: int, name: bytes, subject: str, at: int) -> None:
        """An empty tensor has no byte under any layout; ggml asks for whole blocks of today all the same."""
        sizing = layouts.CURRENT.get(type_id)
        if sizing is not None and row % sizing.block:
            message = f"{shown(name)} is empty, with rows of {counted(row, 'element')}; {sizing.name} has blocks of {sizing.block}"
            self._cursor.notice("empty_tensor_row", subject, at, message, f"a multiple of {sizing.block}", row)

    def _check_type(self, type_id: int, elements: int | None, name: bytes, path: str, at: int) -> None:
        if layouts.is_removed(type_id):
            message = f"{shown(name)} has type {type_id} ({layouts.REMOVED[type_id]}), which ggml has removed"
            self._cursor.notice("removed_type", f"{path}.type", at, message, None, type_id)
        elif elements == 0 and not layouts.is_known(type_id):
            message = f"{shown(name)} is empty and of type {type_id}, which no release knows"
            self._cursor.notice("unknown_type", f"{path}.type", at, message, None, type_id)
