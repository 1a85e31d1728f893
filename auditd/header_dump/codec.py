"""A header as one JSON document that stands in for its file: ``encode`` and ``decode``.

Everything that does not need the weights can be computed from it again: a 4.7 GB model takes about 45 KB. It is made to
be kept and compared: one row a line, in a stable order, nothing that follows from the rest of a row, and
``encode(decode(text)) == text`` for every text that ``encode`` wrote.

A dump is other people's text like any other: it is bounded, decoded strictly, checked for names that come twice - which
msgspec does not see - and for figures that contradict each other, in linear time and before anything is built on it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from auditd.accounting.account import account_gguf, account_safetensors
from auditd.errors import AuditError, UsageError
from auditd.evidence.observation import Observation
from auditd.evidence.text import harmless_json, printable
from auditd.formats.bounds import NESTING_DEPTH
from auditd.formats.declarations import GgufHeader, SafetensorsHeader
from auditd.formats.detection import HEAD_BYTES, KINDS
from auditd.formats.strict_json import JsonFault, Scanner
from auditd.header_dump.forms import SCHEMA, Contradiction, ForeignForm, Form, GgufForm, SafetensorsForm
from auditd.header_dump.gguf import gguf_form, gguf_header
from auditd.header_dump.parts import check_texts, expectation_form, expectation_of, file_form, file_name
from auditd.header_dump.safetensors import safetensors_form, safetensors_header

#: No header that is dumped takes more: its rows weigh at most a third of it.
DUMP_BYTES: Final = 100 * 1024 * 1024

#: An array inside 31 others takes two containers a level, and the document a few of its own.
_JSON_DEPTH: Final = 2 * NESTING_DEPTH + 8

#: What an error quotes.
_SHOWN: Final = 200

_DECODER: Final = msgspec.json.Decoder(Form, strict=True)


class DumpError(UsageError):
    """A text that is no dump; says where and why."""


class NotDumpable(AuditError):
    """A look whose header cannot stand in for its file; says why."""


# -- encoding ---------------------------------------------------------------------------------------


def encode(observation: Observation) -> bytes:
    """The dump of a look; raises :class:`NotDumpable`. Ends with a newline; no character that a terminal acts upon."""
    return harmless_json(b"".join(_document(form_of(observation))))


def form_of(observation: Observation) -> Form:
    """The same as a value; raises :class:`NotDumpable` where something of the header is not known or not kept."""
    why_not = obstacle(observation)
    if why_not is not None:
        raise NotDumpable(why_not)
    if isinstance(observation.header, GgufHeader):
        return gguf_form(observation, observation.header)
    return (
        _foreign_form(observation) if observation.header is None else safetensors_form(observation, observation.header)
    )


def obstacle(observation: Observation) -> str | None:
    """Why a look has no dump, None if it has one."""
    if observation.skipped:
        return "the name says that a download is under way, so the header was not read"
    if observation.stop is not None:
        return observation.stop.message
    if observation.identity in ("modified", "replaced"):
        return "the file changed while it was read"
    if observation.header is None:
        return "nothing of the file was read" if observation.foreign is None else None
    return _obstacle_of_header(observation.header)


def _obstacle_of_header(header: GgufHeader | SafetensorsHeader) -> str | None:
    if not header.complete and header.stopped is None:
        return "the header was not read to its end"
    if isinstance(header, SafetensorsHeader) and not header.complete:
        return None  # it was refused, so it has no rows at all and none is left out
    if not header.rows_complete:
        return "the header declares more than is kept of it, so a dump would not have all of its rows"
    if isinstance(header, SafetensorsHeader) and not header.metadata_kept:
        return "the header has more metadata than is kept of it"
    return None


def _foreign_form(observation: Observation) -> ForeignForm:
    return ForeignForm(
        schema=SCHEMA,
        file=file_form(observation),
        kind="unknown" if observation.foreign is None else observation.foreign.word,
        head_base64=base64.b64encode(observation.foreign_head).decode("ascii"),
        expectation=expectation_form(observation.expectation),
        details=observation.foreign_details,
    )


def _document(form: Form) -> Iterator[bytes]:
    """``{``, one member a line, one row of a list a line, ``}``."""
    yield b'{\n"schema": "%s"' % SCHEMA.encode()
    yield b',\n"format": "%s"' % str(form.__struct_config__.tag).encode()
    for attribute, name in zip(form.__struct_fields__, form.__struct_encode_fields__, strict=True):
        if name == "schema":
            continue
        yield b',\n"%s": ' % name.encode()
        value = getattr(form, attribute)
        if isinstance(value, list) and value:
            yield b"[\n" + b",\n".join(map(msgspec.json.encode, value)) + b"\n]"
        else:
            yield msgspec.json.encode(value)
    yield b"\n}\n"


# -- decoding ---------------------------------------------------------------------------------------


def decode(text: bytes, *, layout: str = "auto", name: str | None = None) -> Observation:
    """The look that ``text`` is the dump of, its account computed again under ``layout``.

    ``name`` is what an error calls the text. Raises :class:`DumpError`. The path of the look is the file's name
    without a directory, and its identity is unverified, since no file is there to have one.
    """
    try:
        return _look(_form(text), layout)
    except Contradiction as error:
        raise _error(str(error), name) from None
    except msgspec.ValidationError as error:
        raise _error(str(error).replace("`$.", "`"), name) from None
    except msgspec.DecodeError as error:
        raise _error(str(error), name) from None
    except JsonFault as error:
        raise _error(f"byte {error.at}: {error.message}", name) from None


def _error(problem: str, name: str | None) -> DumpError:
    shown = printable(problem, _SHOWN).replace("\\\\", "\\")
    return DumpError(f"{printable(name)}: {shown}" if name else f"no dumped header: {shown}")


def _form(text: bytes) -> Form:
    if len(text) > DUMP_BYTES:
        raise Contradiction("the text", f"{len(text):,} bytes; a dumped header has at most {DUMP_BYTES:,}")
    _check_json(text)
    return _DECODER.decode(text)


def _check_json(text: bytes) -> None:
    """Strict JSON, bounded in depth, no name twice in an object: what the decoder is not asked for."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Contradiction("the text", f"not UTF-8 at byte {error.start}") from None
    scanner = Scanner(text)
    scanner.space()
    for _ in scanner.skip_value(NESTING_DEPTH - _JSON_DEPTH):
        pass
    if scanner.space() != -1:
        scanner.fail("the end of the text")


def _look(form: Form, layout: str) -> Observation:
    empty = Observation(
        path=file_name(form.file), scope="header", size=form.file.size, expectation=expectation_of(form.expectation)
    )
    if isinstance(form, GgufForm):
        return _gguf_observation(form, empty, layout)
    if isinstance(form, SafetensorsForm):
        return _safetensors_observation(form, empty)
    return _foreign_observation(form, empty)


def _gguf_observation(form: GgufForm, empty: Observation, layout: str) -> Observation:
    header, digests = gguf_header(form)
    return replace(
        empty,
        header=header,
        header_sha256=form.header_sha256,
        account=account_gguf(header, layout) if header.complete else None,
        array_sha256=digests,
    )


def _safetensors_observation(form: SafetensorsForm, empty: Observation) -> Observation:
    header = safetensors_header(form)
    return replace(
        empty,
        header=header,
        header_sha256=form.header_sha256,
        account=account_safetensors(header) if header.complete else None,
    )


def _foreign_observation(form: ForeignForm, empty: Observation) -> Observation:
    try:
        head = base64.b64decode(form.head_base64, validate=True)
    except (ValueError, binascii.Error):
        raise Contradiction("head_base64", "it is not base64") from None
    if form.kind not in KINDS:
        raise Contradiction("kind", "no kind of file has this name")
    if len(head) != min(HEAD_BYTES, form.file.size):
        raise Contradiction("head_base64", f"{len(head)} bytes, and the first {HEAD_BYTES} of the file are meant")
    check_texts("details", (form.details,))
    return replace(empty, foreign=KINDS[form.kind], foreign_head=head, foreign_details=form.details)
