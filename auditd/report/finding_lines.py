"""One finding for a person: its code, what was found, where, which figures, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from auditd.evidence.record import Finding
from auditd.report.columns import defused, wrap
from auditd.report.figures import UNKNOWN, exact
from auditd.report.style import Style

#: In front of what to do, in sheets and tables alike.
ARROW: Final = "-> "

_INDENT: Final = "  "
_VALUE_CHARACTERS: Final = 200
#: Of 2**64: what is longer is text, and reading it as a number would take quadratic time.
_DIGITS: Final = 20

#: What the two figures of a finding are called, by its rule or its code: first what is expected, then what is there.
_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "count_past_end": ("room for", "declared"),
    "length_past_end": ("room for", "declared"),
    "magic": ("expected", "found"),
    "tensor_bytes_missing": ("needs", "has"),
    "digest_mismatch": ("published", "found"),
    "size_mismatch": ("published", "found"),
    "silent_corruption": ("before", "now"),
    "header_changed": ("before", "now"),
    "template_changed": ("before", "now"),
    "weights_changed": ("before", "now"),
    "unstable_read": ("first", "then"),
    "self_hash_differs": ("stated", "found"),
    "layout_derived": ("today's", "found"),
}
_PLAIN_WORDS: Final = ("allowed", "found")


def finding_lines(finding: Finding, columns: int, style: Style) -> Iterator[str]:
    """The finding in lines of at most ``columns`` cells."""
    rule = f" ({finding.constraint})" if finding.constraint else ""
    yield style(f"{finding.severity}: {finding.code}{rule}", finding.severity)
    for text in filter(None, (defused(finding.message), _place(finding), _figures(finding))):
        yield from (_INDENT + line for line in wrap(text, columns - len(_INDENT)))
    yield from step(defused(finding.advice), columns, _INDENT)


def step(advice: str, columns: int, indent: str) -> Iterator[str]:
    """What to do, marked as such; nothing where there is no advice."""
    if advice:
        first, *others = wrap(advice, columns - len(indent) - len(ARROW))
        yield indent + ARROW + first
        yield from (indent + " " * len(ARROW) + line for line in others)


def _place(finding: Finding) -> str:
    parts = [
        f"at {defused(finding.subject, _VALUE_CHARACTERS)}" if finding.subject and _is_a_field(finding.subject) else "",
        f"byte {exact(finding.offset)}" if finding.offset is not None else "",
        f"{finding.count:,} times in all" if finding.count > 1 else "",
    ]
    return ", ".join(filter(None, parts))


def _is_a_field(subject: str) -> bool:
    """Whether a person can find the subject in the file; a region is told by its byte."""
    return not subject.startswith("accounting.")


def _figures(finding: Finding) -> str:
    if finding.expected is None and finding.actual is None:
        return ""
    expected, actual = _WORDS.get(finding.constraint or "") or _WORDS.get(finding.code) or _PLAIN_WORDS
    found = f"{actual} {_figure(finding.actual)}"
    return found if finding.expected is None else f"{expected} {_figure(finding.expected)}, {found}"


def _figure(figure: int | str | None) -> str:
    if figure is None:
        return UNKNOWN
    if isinstance(figure, int) or (figure.isdecimal() and len(figure) <= _DIGITS):
        return exact(int(figure))
    return defused(figure, _VALUE_CHARACTERS)
