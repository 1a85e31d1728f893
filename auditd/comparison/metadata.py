"""Metadata entries of two records by key: added, removed, changed, and those of which nobody can say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from auditd.comparison.difference import Entry, EntryChange, MetadataDifference, Name, TemplateChange, Value
from auditd.comparison.subject import Key, Known, Paired, Subject, paired
from auditd.comparison.texts import first_change
from auditd.evidence.record import ArrayPreview, MetadataRow, Scalar

#: Characters of a text that are shown; of a text in an array fewer.
_TEXT_CHARACTERS: Final = 160
_ELEMENT_CHARACTERS: Final = 60

_TEMPLATE_KEY: Final = "tokenizer.chat_template"


class _Judged(NamedTuple):
    """The entries that both have: how many are the same or differ, the first that do, and which cannot be told."""

    same: int
    differ: int
    changed: list[EntryChange]
    unclear: list[Key]


def metadata_difference(a: Subject, b: Subject, limit: int) -> MetadataDifference:
    """The metadata of two records; lists hold the first ``limit`` of their kind."""
    known = Known.of(a.evidence.coverage.metadata, b.evidence.coverage.metadata)
    pairs = paired(_named(a), _named(b))
    judged = _judge(pairs, a, b, limit)
    # What one side lacks and never read is neither added nor removed.
    added, removed = pairs.only_b if known.a else (), pairs.only_a if known.b else ()
    unread = [*(() if known.a else pairs.only_b), *(() if known.b else pairs.only_a)]
    unclear = [*judged.unclear, *(key for key, _ in unread)]
    templates = list(_templates(a, b))
    ordered = a.evidence.gguf is not None and b.evidence.gguf is not None
    return MetadataDifference(
        extent=known.extent,
        reason=known.reason,
        unchanged=judged.same,
        added_count=len(added),
        removed_count=len(removed),
        changed_count=judged.differ,
        not_compared_count=len(unclear),
        order_changed=pairs.order_changed if ordered else None,
        added=_entries(added, limit),
        removed=_entries(removed, limit),
        changed=judged.changed,
        not_compared=[Name(key=text, key_base64=base64) for text, base64, _ in unclear[:limit]],
        templates_changed=len(templates),
        templates=templates[:limit],
    )


def _rows(subject: Subject) -> Sequence[MetadataRow]:
    """Entries of either format as one kind of row."""
    if subject.evidence.gguf is not None:
        return subject.evidence.gguf.metadata or ()
    texts = (subject.evidence.safetensors and subject.evidence.safetensors.metadata) or {}
    return [
        MetadataRow(index=index, key=key, type="string", value=value)
        for index, (key, value) in enumerate(texts.items())
    ]


def _named(subject: Subject) -> Iterator[tuple[str, str | None, MetadataRow]]:
    return ((row.key, row.key_base64, row) for row in _rows(subject))


def _entries(only: Sequence[tuple[Key, MetadataRow]], limit: int) -> list[Entry]:
    return [Entry(key=row.key, key_base64=row.key_base64, value=_shown(row)) for _, row in only[:limit]]


# -- what both have ---------------------------------------------------------------------------------


def _judge(pairs: Paired[MetadataRow], a: Subject, b: Subject, limit: int) -> _Judged:
    same = differ = 0
    changed: list[EntryChange] = []
    unclear: list[Key] = []
    digests = a.evidence.read.header_sha256, b.evidence.read.header_sha256
    one_header = None not in digests and digests[0] == digests[1]
    for key, ours, theirs in pairs.both:
        equal: bool | None = _equal(ours, theirs)
        behind = equal is True and not one_header and not _is_whole(ours)
        if behind:
            equal = _same_bytes(a, ours, b, theirs)
        if equal is None:
            unclear.append(key)
        elif equal:
            same += 1
        else:
            differ += 1
            if differ <= limit:
                changed.append(_change(ours, theirs, array_differs=behind))
    return _Judged(same, differ, changed, unclear)


def _equal(a: MetadataRow, b: MetadataRow) -> bool:
    """Whether the records say the same of both; types are compared, so that 1, 1.0 and true are three values."""
    return (
        (a.type, a.element_type, a.count, a.value_base64) == (b.type, b.element_type, b.count, b.value_base64)
        and a.value == b.value
        and a.preview == b.preview
        and a.preview_base64 == b.preview_base64
    )


def _is_whole(row: MetadataRow) -> bool:
    """Whether the record has all of the value, arrays in arrays included."""
    if row.preview is None:
        return True
    if not row.preview_complete:
        return False
    inner = [item for item in row.preview if isinstance(item, ArrayPreview)]
    while inner:
        array = inner.pop()
        if not array.preview_complete:
            return False
        inner += [item for item in array.preview if isinstance(item, ArrayPreview)]
    return True


def _same_bytes(a: Subject, ours: MetadataRow, b: Subject, theirs: MetadataRow) -> bool | None:
    """Whether two long arrays are the same by their digests; None if one is not there or they are not alike."""
    orders = [gguf and gguf.byte_order for gguf in (a.evidence.gguf, b.evidence.gguf)]
    digests = a.array_sha256.get(ours.index), b.array_sha256.get(theirs.index)
    if None in digests or orders[0] != orders[1]:
        return None
    return digests[0] == digests[1]


def _change(a: MetadataRow, b: MetadataRow, *, array_differs: bool = False) -> EntryChange:
    ours, theirs = _shown(a), _shown(b)
    text = None
    if isinstance(a.value, str) and isinstance(b.value, str) and a.type == b.type == "string":
        text = first_change(a.value, b.value)
    return EntryChange(key=a.key, key_base64=a.key_base64, a=ours, b=theirs, text=text, array_differs=array_differs)


# -- values -----------------------------------------------------------------------------------------


def _shown(row: MetadataRow) -> Value:
    """The value, cut."""
    if row.preview is not None:
        elements, complete = _elements(row.preview)
        return Value(
            type=row.type,
            value=None,
            complete=complete and _is_whole(row),
            element_type=row.element_type,
            count=row.count,
            preview=elements,
        )
    text = row.value if isinstance(row.value, str) else None
    complete = text is None or len(text) <= _TEXT_CHARACTERS
    return Value(
        type=row.type,
        value=row.value if text is None else text[:_TEXT_CHARACTERS],
        complete=complete,
        value_base64=row.value_base64 if complete else None,
        characters=None if text is None else len(text),
    )


def _elements(preview: Sequence[bool | int | float | str | ArrayPreview]) -> tuple[list[Scalar | None], bool]:
    """The elements, long texts cut, and whether nothing was left out."""
    shown: list[Scalar | None] = []
    complete = True
    for item in preview:
        if isinstance(item, ArrayPreview):
            shown.append(None)
            complete = False
        elif isinstance(item, str):
            shown.append(item[:_ELEMENT_CHARACTERS])
            complete = complete and len(item) <= _ELEMENT_CHARACTERS
        else:
            shown.append(item)
    return shown, complete


# -- chat templates ---------------------------------------------------------------------------------


def _templates(a: Subject, b: Subject) -> Iterator[TemplateChange]:
    """Templates by name; the digests stand in a record even where the entries do not."""
    ours, theirs = _digests(a), _digests(b)
    texts = _template_texts(a), _template_texts(b)
    for name in dict.fromkeys([*ours, *theirs]):
        before, after = ours.get(name), theirs.get(name)
        if before == after:
            continue
        old, new = texts[0].get(name), texts[1].get(name)
        yield TemplateChange(
            name=name,
            change="added" if before is None else "removed" if after is None else "changed",
            a_sha256=before,
            b_sha256=after,
            text=None if old is None or new is None else first_change(old, new),
        )


def _digests(subject: Subject) -> dict[str, str]:
    gguf = subject.evidence.gguf
    return {} if gguf is None else {template.name: template.sha256 for template in gguf.chat_templates}


def _template_texts(subject: Subject) -> dict[str, str]:
    """The texts by the names that the digests have."""
    return {
        row.key[len(_TEMPLATE_KEY) + 1 :] or "default": row.value
        for row in _rows(subject)
        if isinstance(row.value, str) and (row.key == _TEMPLATE_KEY or row.key.startswith(_TEMPLATE_KEY + "."))
    }
