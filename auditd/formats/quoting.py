"""Names from a header inside messages: quoted, cut, and nothing in them but printable ASCII."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = 80


def shown(raw: bytes | str) -> str:
    """``raw`` between double quotes, escaped, cut after 80 characters with a count of the rest."""
    text = raw.decode("utf-8", "backslashreplace") if isinstance(raw, bytes) else raw
    head = text[:_SHOWN].encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return f'"{head}"' if len(text) <= _SHOWN else f'"{head}" and {len(text) - _SHOWN} more characters'
