"""Two long arrays element by element: which is the first that differs, and how many do.

The elements come in a stream, and none is kept. They are numbers, or the bytes of texts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Final

from msgspec.structs import replace

from auditd.comparison.difference import Difference, ElementChange, EntryChange
from auditd.evidence.exactness import is_exact
from auditd.evidence.record import Scalar
from auditd.evidence.text import exact
from auditd.formats.gguf.elements import Element

_TEXT_CHARACTERS: Final = 60


def element_change(a: Iterable[Element], b: Iterable[Element]) -> ElementChange | None:
    """The first element that differs; None if none does. Both are read to their ends, or until arrays inside differ."""
    first: tuple[Element | None, Element | None] | None = None
    differing = 0
    for ours, theirs in zip_longest(a, b):
        alike = ours is not None and theirs is not None and ours[:2] == theirs[:2]
        if alike and _same(ours.value, theirs.value):
            continue
        first = first or (ours, theirs)
        differing += 1
        if not alike:
            return _change(*first, None)
    return None if first is None else _change(*first, differing)


def _same(a: float | bytes, b: float | bytes) -> bool:
    """Whether two elements of one type are the same; floats bit by bit, so that NaN is NaN and -0 is not 0."""
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    return a == b


def _change(a: Element | None, b: Element | None, differing: int | None) -> ElementChange:
    either = a or b
    return ElementChange(
        path=[] if either is None else list(either.path),
        a=None if a is None else _shown(a.value),
        b=None if b is None else _shown(b.value),
        differing=differing,
    )


def _shown(value: float | bytes) -> Scalar:
    """The value as JSON can hold it, a long text cut."""
    if isinstance(value, bytes):
        return exact(value)[0][:_TEXT_CHARACTERS]
    if isinstance(value, int):
        return value if is_exact(value) else str(value)
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else f"{'+' if value > 0 else '-'}Infinity"


def with_elements(
    difference: Difference, elements: Mapping[tuple[str, str | None], ElementChange | None]
) -> Difference:
    """The comparison with what is known of long arrays, by key and its base64."""

    def told(change: EntryChange) -> EntryChange:
        return replace(change, element=elements.get((change.key, change.key_base64)))

    changed = [told(change) if change.array_differs else change for change in difference.metadata.changed]
    return replace(difference, metadata=replace(difference.metadata, changed=changed))
