"""Whether bytes are UTF-8, fast for short strings too."""

from __future__ import annotations

import re
from typing import Final

#: Up to this many bytes a match is cheaper than an exception; past it decoding is.
_SHORT: Final = 128

#: Valid UTF-8 (RFC 3629, section 4): no overlong form, no surrogate, nothing past U+10FFFF. For short strings a
#: match costs a fifth of an exception, and a hostile vocabulary is all exceptions.
_UTF8: Final = re.compile(
    rb"(?:[\x00-\x7f]++|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*+"
)


def is_utf8(raw: bytes) -> bool:
    """Whether ``raw`` is valid UTF-8 (surrogates are not)."""
    if raw.isascii():
        return True
    if len(raw) < _SHORT:
        return _UTF8.fullmatch(raw) is not None
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
