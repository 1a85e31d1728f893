"""JSON from others as checked values: strict syntax, no name twice, bounded nesting, the types that were asked for. Pure."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from auditd.formats.strict_json import JsonFault, Scanner

T = TypeVar("T")

#: The end of a buffer, as :meth:`Scanner.space` says it.
_END: Final = -1


def checked(raw: bytes, shape: type[T]) -> T | None:
    """``raw`` as a ``shape``, None if it is anything else.

    The scan goes before the decoder because the decoder lets the last of two equal names win, and two readers that
    disagree about which counts are how a file says one thing and does another.
    """
    return typed(raw, shape) if _is_strict(raw) else None


def typed(raw: bytes, shape: type[T]) -> T | None:
    """``raw`` as a ``shape`` in a fraction of the time, None if it is anything else; of two equal names the last counts."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_strict(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
        scanner = Scanner(raw)
        scanner.space()
        for _ in scanner.skip_value(0):
            pass
    except (JsonFault, UnicodeDecodeError):
        return False
    return scanner.space() == _END
