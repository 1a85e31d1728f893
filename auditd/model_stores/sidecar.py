"""Files beside a file that say what it should be: checksum lists, ComfyUI's ``.dl-meta``.

``<file>.sha256`` and ``SHA256SUMS`` (by several names) in the forms that coreutils and BSD write, for the file's own
directory and for directories above it. A list that names a file twice with different digests says nothing of it, and
neither does a ``.sha256`` that names another file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from auditd.evidence.expectation import NOTHING, Expectation, Reference
from auditd.model_stores.cache import Dependencies, ReadCache
from auditd.model_stores.checked_json import checked
from auditd.model_stores.checksum_files import ListKind, Lists, agreed, listed, lists_above
from auditd.model_stores.files import plain_parts, small_at
from auditd.model_stores.signing import SIGNED
from auditd.model_stores.status import text_of

#: Names of lists in a directory.
LISTS: Final = (
    b"SHA256SUMS",
    b"SHA256SUMS.txt",
    b"sha256sums.txt",
    b"sha256sums",
    b"sha256sum.txt",
    b"checksums.sha256",
)
#: A few lines, and one object.
_SIDECAR_BYTES: Final = 1 << 16
_META_BYTES: Final = 1 << 16

#: A line that may be one, found without looking at all others; a path has at most 4096 bytes, escaped twice that.
_CANDIDATE: Final = re.compile(rb"^\\?(?:[0-9A-Fa-f]{64} [ *]|SHA256 \().{1,8300}$", re.MULTILINE)
#: ``[\]<hex> [ *]<name>``; a leading backslash says that the name is escaped.
_PLAIN: Final = re.compile(rb"(\\?)([0-9A-Fa-f]{64}) [ *](.+)", re.DOTALL)
_TAGGED: Final = re.compile(rb"(\\?)SHA256 \((.+)\) = ([0-9A-Fa-f]{64})", re.DOTALL)
_BARE: Final = re.compile(rb"[0-9A-Fa-f]{64}")
_ESCAPED: Final = re.compile(rb"(?:[^\\]++|\\[\\nr])*+")
_ESCAPE: Final = re.compile(rb"\\(.)")
_ESCAPES: Final = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}

_ETAG: Final = re.compile(r'(?:W/)?"?([0-9a-f]{64})"?', re.ASCII)
_SIZE_LIMIT: Final = 1 << 63


class _Meta(msgspec.Struct):
    expected_size: int | None = msgspec.field(default=None, name="expectedSize")
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Sidecars:
    """The files beside the files of a directory, and the ``lists`` there and above."""

    lists: Lists
    cache: ReadCache

    @classmethod
    def recognise(cls, directory: bytes, cache: ReadCache, watch: Dependencies) -> Sidecars:
        """Every file may have some."""
        return cls(lists_above(directory, _LISTS, watch), cache)

    def expectation(self, path: bytes, status: os.stat_result | None) -> Expectation:  # noqa: ARG002 (only its name counts)
        """What the file's own sidecars say of it, then the lists."""
        size, etag = _meta(path + b".dl-meta")
        own = _own(path)
        if own is None and etag is None and size is None and not self.lists:
            return NOTHING
        references = [*([own] if own else []), *([etag] if etag else []), *listed(path, self.lists, self.cache)]
        return Expectation(references=tuple(references), size=size)


def parse_list(raw: bytes) -> dict[bytes, str]:
    """The digest, in lower case, that a checksum list has for each relative path.

    What is no such line is passed over, and so is a path that leads elsewhere than down.
    """
    pairs = ((plain_parts(name), digest) for name, digest in _lines(raw))
    return agreed((b"/".join(parts), digest) for parts, digest in pairs if parts is not None)


def _lines(raw: bytes) -> Iterator[tuple[bytes, str]]:
    for match in _CANDIDATE.finditer(raw):
        parsed = parse_line(match.group())
        if parsed is not None:
            yield parsed


def parse_line(line: bytes) -> tuple[bytes, str] | None:
    """The path and the digest, in lower case, of one line; None for a line that has none."""
    line = line.removesuffix(b"\r")
    if match := _PLAIN.fullmatch(line):
        escaped, digest, name = match.groups()
    elif match := _TAGGED.fullmatch(line):
        escaped, name, digest = match.groups()
    else:
        return None
    unescaped = _unescape(name) if escaped else name
    return None if unescaped is None else (unescaped, digest.decode("ascii").lower())


def _unescape(name: bytes) -> bytes | None:
    r"""A name in which coreutils wrote ``\\``, ``\n`` and ``\r``; None if it has an escape that it does not write."""
    if not _ESCAPED.fullmatch(name):
        return None
    return _ESCAPE.sub(lambda match: _ESCAPES[match.group(1)], name)


def _own(path: bytes) -> Reference | None:
    """What ``<file>.sha256`` says: a digest alone, or the line whose path ends in the file's name, wherever made."""
    sidecar = path + b".sha256"
    raw = small_at(sidecar, _SIDECAR_BYTES)
    if raw is None:
        return None
    if _BARE.fullmatch(raw.strip()):
        digest: str | None = raw.strip().decode("ascii").lower()
    else:
        by_name = agreed((os.path.basename(name), digest) for name, digest in _lines(raw))
        digest = by_name.get(os.path.basename(path))
    return None if digest is None else Reference("sha256", digest, text_of(sidecar))


def _meta(path: bytes) -> tuple[int | None, Reference | None]:
    """The size and the digest that a ``.dl-meta`` expects."""
    raw = small_at(path, _META_BYTES)
    meta = None if raw is None else checked(raw, _Meta)
    if meta is None:
        return None, None
    size = meta.expected_size
    match = _ETAG.fullmatch(meta.etag or "")
    reference = Reference("sha256", match.group(1), text_of(path)) if match else None
    return (size if size is not None and 0 <= size < _SIZE_LIMIT else None), reference


_LISTS: Final = (ListKind(LISTS, parse_list), SIGNED)
