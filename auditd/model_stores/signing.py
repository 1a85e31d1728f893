"""A signed list of digests beside a model: ``model.sig``, an in-toto statement inside a DSSE envelope. Pure.

The signature is not checked here, and every reference says so: it is a list of digests that somebody published, as a
checksum list is. Both forms that the tool has written are read, and any statement whose subjects are files.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from auditd.model_stores.checked_json import typed
from auditd.model_stores.checksum_files import ListKind, agreed
from auditd.model_stores.files import plain_parts

NAMES: Final = (b"model.sig",)

_PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
#: Its subject is a name for the whole model with a digest of digests; its resources are the files.
_MODEL_SIGNING: Final = "https://model_signing/signature/v1.0"

_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


class _Envelope(msgspec.Struct):
    payload: str
    payload_type: str = msgspec.field(name="payloadType")


class _Bundle(msgspec.Struct):
    """A sigstore bundle, or the envelope alone."""

    envelope: _Envelope | None = msgspec.field(default=None, name="dsseEnvelope")
    payload: str | None = None
    payload_type: str | None = msgspec.field(default=None, name="payloadType")


class _Subject(msgspec.Struct):
    name: str = ""
    digest: dict[str, str] = {}


class _Resource(msgspec.Struct):
    name: str
    digest: str
    algorithm: str


class _Serialization(msgspec.Struct):
    method: str = ""


class _Predicate(msgspec.Struct):
    resources: list[_Resource] = []
    serialization: _Serialization = msgspec.field(default_factory=_Serialization)


class _Statement(msgspec.Struct):
    predicate_type: str = msgspec.field(name="predicateType")
    subject: list[_Subject] = []
    predicate: msgspec.Raw = msgspec.Raw(b"null")


def parse_bundle(raw: bytes) -> dict[bytes, str]:
    """The SHA-256 that a bundle or an envelope lists for each relative path; nothing if it is anything else."""
    bundle = typed(raw, _Bundle)
    if bundle is None:
        return {}
    payload = bundle.envelope.payload if bundle.envelope else bundle.payload
    kind = bundle.envelope.payload_type if bundle.envelope else bundle.payload_type
    if payload is None or kind != _PAYLOAD_TYPE:
        return {}
    try:
        statement = typed(base64.b64decode(payload, validate=True), _Statement)
    except (binascii.Error, ValueError):
        return {}
    return {} if statement is None else agreed(_digests(statement))


def _digests(statement: _Statement) -> Iterator[tuple[bytes, str]]:
    for name, digest in _files(statement):
        parts = plain_parts(name.encode("utf-8"))
        if parts is not None and _DIGEST.fullmatch(digest):
            yield b"/".join(parts), digest


def _files(statement: _Statement) -> Iterator[tuple[str, str]]:
    if statement.predicate_type != _MODEL_SIGNING:
        return ((subject.name, subject.digest.get("sha256", "")) for subject in statement.subject)
    predicate = typed(bytes(statement.predicate), _Predicate)
    if predicate is None or predicate.serialization.method not in {"", "files"}:  # shards: digests of pieces
        return iter(())
    return ((item.name, item.digest) for item in predicate.resources if item.algorithm == "sha256")


SIGNED: Final = ListKind(NAMES, parse_bundle, " (its signature was not checked)")
