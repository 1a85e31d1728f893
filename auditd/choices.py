"""How much of a file is read and which layout is believed: the choices that the command line and the settings share.

Pure, and apart from the settings because a command for one file needs nothing else of them.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Final, get_args

from auditd.formats.layouts import LAYOUT_NAMES
from auditd.inspection.parts import Parts
from auditd.inspection.request import HashMode

HASH_CHOICES: Final[tuple[str, ...]] = get_args(HashMode)

PARTS_CHOICES: Final[tuple[str, ...]] = get_args(Parts)

#: What ``layout`` takes besides a layout's name: let the bytes decide, or decide nothing.
LAYOUT_CHOICES: Final[tuple[str, ...]] = ("auto", "strict", *LAYOUT_NAMES)


def choices_digest(hash_mode: HashMode, layout: str, parts: Parts = "none") -> str:
    """SHA-256 of the choices that change what an inspection looks at; evidence with another one is out of date."""
    chosen = {"hash": hash_mode, "layout": layout, **({} if parts == "none" else {"digests": parts})}
    return sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()
