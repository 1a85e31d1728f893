"""What ``dump`` says of a header that it wrote or compared; the header itself is its own document."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from auditd.comparison.difference import Difference
from auditd.evidence.exactness import exact_int
from auditd.evidence.observation import Observation
from auditd.evidence.text import exact as exact_text
from auditd.evidence.text import printable
from auditd.formats.declarations import GgufHeader
from auditd.report import difference as of_difference
from auditd.report.columns import wrap
from auditd.report.figures import counted, exact
from auditd.report.show.layout import File, facts, file_of, section, title, within_columns
from auditd.report.style import Style

_DIGEST_SHOWN: Final = 16
_SAME_BYTES: Final = "the same bytes"
_SAME: Final = "other bytes, and the same declarations: only the file's name, or what its store says of it, has changed"


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A dump: where it is (null: written nowhere), how many bytes it has, its digest."""

    path: str | None
    path_base64: str | None
    bytes: int
    sha256: str


class DumpSheet(msgspec.Struct, frozen=True, kw_only=True):
    """The dump of a header, and how it stands to an earlier one.

    ``metadata`` and ``tensors`` count the rows in it, which are fewer than are ``declared`` where the header broke off or
    was cut (null where it does not say, or past 2**53 - 1); ``size`` stands in ``file``. ``same`` is null where that cannot be
    said or nothing was compared; ``difference`` is from the earlier dump to the file, null where the bytes are the same.
    """

    schema: str = "model-auditd/dump/1"
    file: File
    metadata: int | None
    tensors: int | None
    declared_metadata: int | None
    declared_tensors: int | None
    dump: Text
    against: Text | None
    same_bytes: bool | None
    same: bool | None
    difference: Difference | None


def text_of(path: bytes | None, text_bytes: int, sha256: str) -> Text:
    """What is said of a dump."""
    shown, path_base64 = (None, None) if path is None else exact_text(path)
    return Text(path=shown, path_base64=path_base64, bytes=text_bytes, sha256=sha256)


def sheet(
    observation: Observation, dump: Text, against: Text | None = None, difference: Difference | None = None
) -> DumpSheet:
    """What was dumped of ``look``; ``difference`` is None where both dumps are the same bytes."""
    header = observation.header
    metadata = None if header is None else header.metadata
    same_bytes = None if against is None else against.sha256 == dump.sha256
    return DumpSheet(
        file=file_of(observation),
        metadata=None
        if header is None or not (isinstance(header, GgufHeader) or header.complete)
        else len(metadata or ()),
        tensors=None if header is None else exact_int(len(header.tensors)),
        declared_metadata=exact_int(header.metadata_count) if isinstance(header, GgufHeader) else None,
        declared_tensors=None if header is None else exact_int(header.tensor_count),
        dump=dump,
        against=against,
        same_bytes=same_bytes,
        same=True if same_bytes else None if difference is None else difference.same,
        difference=difference,
    )


@within_columns
def lines(sheet: DumpSheet, columns: int, style: Style) -> Iterator[str]:
    """The sheet for a terminal; what differs last."""
    yield title("the header of", sheet.file, columns, style)
    yield ""
    yield from facts(list(_facts(sheet)), columns)
    if sheet.against is None:
        return
    yield from section(f"against {_path(sheet.against)}", style)
    yield from facts(
        [("it has", _digest(sheet.against)), ("this one", _digest(sheet.dump))],
        columns,
    )
    yield ""
    if sheet.same_bytes:
        yield style(_SAME_BYTES, "sound")
    elif sheet.same and sheet.difference is not None:
        yield from (style(line, "sound") for line in wrap(_SAME, columns))
    elif sheet.difference is not None:
        yield from of_difference.lines(sheet.difference, columns, style)


def _facts(sheet: DumpSheet) -> Iterator[tuple[str, str]]:
    yield "the model", counted(sheet.file.size, "byte")
    metadata = _of(sheet.metadata, sheet.declared_metadata, "metadata entry", "metadata entries")
    rows = f"{metadata} and {_of(sheet.tensors, sheet.declared_tensors, 'tensor', 'tensors')}"
    yield "its header", f"{counted(sheet.dump.bytes, 'byte')}: {rows}, and no weights"
    if sheet.dump.path is not None:
        yield "written to", _path(sheet.dump)
    yield "sha256", sheet.dump.sha256


def _of(rows: int | None, declared: int | None, noun: str, plural: str) -> str:
    """``34 metadata entries``; ``27 of 34 metadata entries`` where the file declares more than was read."""
    if declared is None or declared == rows:
        return counted(rows, noun, plural)
    return f"{exact(rows)} of {counted(declared, noun, plural)}"


def _path(text: Text) -> str:
    return printable(base64.b64decode(text.path_base64) if text.path_base64 else text.path or "")


def _digest(text: Text) -> str:
    return f"{exact(text.bytes)} bytes, sha256 {text.sha256[:_DIGEST_SHOWN]}"
