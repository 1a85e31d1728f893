"""The metadata of two models compared, for a person: what was added, removed and changed, and where texts differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from auditd.comparison.difference import Entry, EntryChange, MetadataDifference, TemplateChange, TextChange, Value
from auditd.evidence.record import Scalar
from auditd.evidence.text import printable, quoted
from auditd.report.columns import defused
from auditd.report.declarations import shown_value
from auditd.report.figures import counted, exact

_KEY_CHARACTERS: Final = 80
_TEMPLATE_KEY: Final = "tokenizer.chat_template"

#: A label, and a text that is wrapped beside it.
Fact: TypeAlias = tuple[str, str]


def metadata_head(metadata: MetadataDifference) -> str:
    """The counts of a comparison."""
    counts = (
        ("added", metadata.added_count),
        ("removed", metadata.removed_count),
        ("changed", metadata.changed_count),
        ("unchanged", metadata.unchanged),
        ("not compared", metadata.not_compared_count),
    )
    return ", ".join(f"{count:,} {word}" for word, count in counts if count) or "none on either side"


def metadata_facts(metadata: MetadataDifference, room: int) -> Iterator[Fact]:
    """Labels and texts; a value takes about ``room`` characters."""
    if metadata.reason:
        yield "in part", defused(metadata.reason)
    if metadata.order_changed:
        yield "order", "the keys that both have stand in another order"
    yield from _listed("added", [_entry(entry, room) for entry in metadata.added], metadata.added_count)
    yield from _listed("removed", [_entry(entry, room) for entry in metadata.removed], metadata.removed_count)
    for change in metadata.changed:
        # A template has rows of its own.
        if change.text is None or not _is_template(change.key):
            yield from _change(change, room)
    yield from _listed("changed", [], metadata.changed_count - len(metadata.changed))
    for template in metadata.templates:
        yield from _template(template)
    yield from _listed("template", [], metadata.templates_changed - len(metadata.templates))
    names = [printable(name.key, _KEY_CHARACTERS) for name in metadata.not_compared]
    yield from _listed("unclear", names, metadata.not_compared_count)


def _listed(label: str, texts: Sequence[str], count: int) -> Iterator[Fact]:
    """Texts under one label, and how many more there are."""
    yield from ((label, text) for text in texts)
    if count > len(texts):
        yield label, f"and {exact(count - len(texts))} more"


def _entry(entry: Entry, room: int) -> str:
    return f"{printable(entry.key, _KEY_CHARACTERS)} = {_value(entry.value, room)}"


def _change(change: EntryChange, room: int) -> Iterator[Fact]:
    key = printable(change.key, _KEY_CHARACTERS)
    if change.array_differs:
        yield "changed", f"{key}: {_type(change.a)}, {_behind(change)}"
    elif change.text is not None and not (change.a.complete and change.b.complete):
        yield "changed", f"{key}: {_where(change.text)}"
        yield from _excerpts(change.text)
    else:
        yield "changed", f"{key}: {_value(change.a, room)} -> {_value(change.b, room)}"


def _behind(change: EntryChange) -> str:
    """What is known of an array whose first elements are the same."""
    element = change.element
    if element is None:
        return f"and an element behind the first {_elements(change.a)} differs"
    index = "".join(f"[{exact(number)}]" for number in element.path)
    number = "some differ" if element.differing is None else f"{counted(element.differing, 'element')} changed"
    return f"{number}; the first is {index}: {_shown(element.a)} -> {_shown(element.b)}"


def _shown(value: Scalar | None) -> str:
    return "nothing" if value is None else shown_value(value)


def _type(value: Value) -> str:
    return value.type if value.element_type is None else f"{exact(value.count)} of {value.element_type}"


def _elements(value: Value) -> str:
    return str(len(value.preview or ()))


def _value(value: Value, room: int) -> str:
    """The value with its type, cut."""
    if value.preview is None:
        more = (value.characters or 0) - min(room, len(str(value.value)))
        cut = f" and {exact(more)} more" if more > 0 and isinstance(value.value, str) else ""
        return f"{shown_value(value.value, room)}{cut} ({value.type})"
    items = ", ".join("[…]" if item is None else shown_value(item, room // 4) for item in value.preview)
    return f"[{items}{'' if len(value.preview) == value.count else ', …'}] ({_type(value)})"


def _template(template: TemplateChange) -> Iterator[Fact]:
    where = f" in {_where(template.text)}" if template.text else ""
    yield "template", f"{printable(template.name, _KEY_CHARACTERS)}: {template.change}{where}"
    if template.text:
        yield from _excerpts(template.text)


def _is_template(key: str) -> bool:
    return key == _TEMPLATE_KEY or key.startswith(_TEMPLATE_KEY + ".")


def _where(text: TextChange) -> str:
    return f"line {exact(text.line)}, column {exact(text.column)}"


def _excerpts(text: TextChange) -> Iterator[Fact]:
    cut = "…" if text.excerpt_column > 1 else ""
    for name, excerpt in (("A", text.a), ("B", text.b)):
        yield f"  {name}", "no such line" if excerpt is None else cut + quoted(excerpt, len(excerpt) + 1)
