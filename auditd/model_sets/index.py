"""The index of sharded safetensors files: which tensor is in which file, from bytes. Strict, and it never raises.

``parse_index`` returns an :class:`Index`, or an :class:`IndexProblem` with the reason in words: no strict JSON, a name
twice, no ``weight_map``, a value that is no plain file name. Time and memory are in proportion to the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from auditd.evidence.exactness import is_exact
from auditd.evidence.text import quoted
from auditd.formats.strict_json import CLOSE_OBJECT, COMMA, OPEN_OBJECT, QUOTE, JsonFault, Scanner
from auditd.formats.uniqueness import Seen
from auditd.formats.utf8 import is_utf8
from auditd.model_sets.packed_names import PackedNames

#: The largest index that is read. One of a million tensors with long names has about 100 bytes for each of them; the
#: largest published ones have a tenth of this.
INDEX_BYTES: Final = 64 * 1024 * 1024

#: Files that one index may name.
INDEX_FILES: Final = 100_000

#: The longest file name that Linux takes.
_NAME_BYTES: Final = 255

#: Entries between two pauses.
_PAUSE_ENTRIES: Final = 1 << 14

_INTEGER: Final = re.compile(rb"([0-9]{1,16})(?:\.0{1,16})?")


#: A tensor and its file, and the comma behind them.
_PLAIN_WEIGHT: Final = re.compile(
    rb'[ \t\n\r]*+"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+,'
)


@dataclass(frozen=True, slots=True)
class Index:
    """``files``: the names of the tensors that each file holds; ``total_size``: bytes of all tensors, if it says so."""

    files: dict[bytes, PackedNames]
    total_size: int | None

    @property
    def tensors(self) -> int:
        """How many tensors it names."""
        return sum(len(names) for names in self.files.values())


@dataclass(frozen=True, slots=True)
class IndexProblem:
    """Why there is no index; one printable sentence without its full stop."""

    message: str


class _RefusedError(Exception):
    """The reason, for :class:`IndexProblem`."""


def parse_index(data: bytes, pause: Callable[[], None] = lambda: None) -> Index | IndexProblem:
    """The index in ``data``. ``pause`` is called every now and then, and what it raises passes through."""
    if len(data) > INDEX_BYTES:
        return IndexProblem(f"it has more than {INDEX_BYTES:,} bytes")
    if not is_utf8(data):
        return IndexProblem("it is not UTF-8")
    try:
        return _Reader(data, pause).index()
    except JsonFault as fault:
        reason = "it ends inside its JSON" if fault.at >= len(data) else f"byte {fault.at:,}: {fault.message}"
        return IndexProblem(reason)
    except _RefusedError as refused:
        return IndexProblem(str(refused))


class _Reader:
    """One pass over the JSON of an index."""

    def __init__(self, data: bytes, pause: Callable[[], None]) -> None:
        self._scanner = Scanner(data)
        self._pause = pause
        self._files: dict[bytes, bytearray] = {}
        self._total: int | None = None
        self._mapped = False

    def index(self) -> Index:
        self._object(self._member)
        if self._scanner.space() != -1:
            self._scanner.fail("the end of the file")
        if not self._mapped:
            raise _RefusedError("it has no weight_map")
        if not self._files:
            raise _RefusedError("its weight_map is empty")
        return Index({name: PackedNames.joined(bytes(names)) for name, names in self._files.items()}, self._total)

    def _object(self, member: Callable[[str], None], run: Callable[[Seen], None] | None = None) -> None:
        """An object; ``member`` is called at each value with its name and has to pass over the value.

        ``run`` may take members together with the commas behind them, as many as it likes.
        """
        scanner, names, count = self._scanner, Seen(), 0
        scanner.take(OPEN_OBJECT, "'{'")
        if scanner.space() == CLOSE_OBJECT:
            scanner.pos += 1
            return
        while True:
            if run is not None:
                run(names)
            scanner.space()
            member(scanner.member(names))
            count += 1
            if count % _PAUSE_ENTRIES == 0:
                self._pause()
            if scanner.space() != COMMA:
                break
            scanner.pos += 1
        scanner.take(CLOSE_OBJECT, "',' or '}'")

    def _member(self, name: str) -> None:
        if name == "weight_map":
            self._mapped = True
            self._object(self._weight, self._plain_weights)
        elif name == "metadata" and self._scanner.space() == OPEN_OBJECT:
            self._object(self._detail)
        else:
            self._skip(1)

    def _skip(self, depth: int) -> None:
        for _ in self._scanner.skip_value(depth):
            self._pause()

    def _detail(self, name: str) -> None:
        begin = self._scanner.pos
        self._skip(2)
        if name == "total_size":
            # Some writers sum in floating point: 24.0 is 24. Anything else says nothing.
            match = _INTEGER.fullmatch(self._scanner.data[begin : self._scanner.pos])
            self._total = int(match[1]) if match is not None and is_exact(int(match[1])) else None

    def _weight(self, tensor: str) -> None:
        if self._scanner.space() != QUOTE:
            self._scanner.fail("a file name")
        file = self._scanner.string().encode("utf-8")
        names = self._files.get(file)
        if names is None:
            names = self._new_file(file)
        names += PackedNames.marked(tensor.encode("utf-8"))

    def _plain_weights(self, names: Seen) -> None:
        """Entries without escapes, one match each: nearly all of them, and there can be millions."""
        scanner, files, count = self._scanner, self._files, 0
        while (match := _PLAIN_WEIGHT.match(scanner.data, scanner.pos)) is not None:
            tensor, file = match.groups()
            if not names.add(tensor):
                return  # where it stands is said by the scanner, which finds it again
            held = files.get(file)
            if held is None:
                held = self._new_file(file)
            held += PackedNames.marked(tensor)
            scanner.pos = match.end()
            count += 1
            if count % _PAUSE_ENTRIES == 0:
                self._pause()

    def _new_file(self, file: bytes) -> bytearray:
        if len(self._files) >= INDEX_FILES:
            raise _RefusedError(f"it names more than {INDEX_FILES:,} files")
        if not _is_plain(file):
            raise _RefusedError(f"it names {quoted(file)}, which is not a plain file name")
        return self._files.setdefault(file, bytearray())


def _is_plain(file: bytes) -> bool:
    """Whether the name can only be that of a file in the index's own directory."""
    return 0 < len(file) <= _NAME_BYTES and file not in (b".", b"..") and b"/" not in file and b"\0" not in file
