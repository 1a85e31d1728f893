"""Where a reading ended and why: the common last piece of every sheet of a broken, foreign or unreachable file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from auditd.evidence.exactness import exact_int, figure
from auditd.evidence.findings import FINDINGS
from auditd.evidence.judge import judge, of_fault
from auditd.evidence.judged import Judged
from auditd.evidence.look import Look, Stop
from auditd.evidence.record import Figure
from auditd.report.columns import defused, wrap
from auditd.report.figures import UNKNOWN, exact
from auditd.report.paint import Paint, plain

How: TypeAlias = Literal[
    "refused",
    "truncated",
    "unsupported",
    "bound",
    "foreign",
    "no_model",
    "cancelled",
    "unavailable",
    "failed",
    "changed",
    "unfinished",
]

#: What a finding says of the reading; every other one that refuses the file breaks a rule of its format.
_OF_CODES: Final[Mapping[str, How]] = {
    "header_truncated": "truncated",
    "tensor_bytes_missing": "truncated",
    "unsupported_version": "unsupported",
    "resource_limit": "bound",
    "not_a_model": "foreign",
    "identity_changed": "changed",
}

#: What the words are painted as: a verdict, a severity.
_TONES: Final[Mapping[How, str]] = {
    "refused": "malformed",
    "truncated": "truncated",
    "unsupported": "unsupported",
    "bound": "warning",
    "foreign": "foreign",
    "unfinished": "in_progress",
}

_OF_STOPS: Final[Mapping[str, How]] = {"path": "unavailable", "cancelled": "cancelled"}
_STOP_CODES: Final[Mapping[How, str]] = {"unavailable": "path_unavailable", "failed": "read_failed"}

_CANCELLED: Final = ("the reading was stopped", "What had been read by then is shown; run it again for the rest.")
_NO_MODEL: Final = "a part of a store that is no model: its content is not interpreted"
_SHORT: Final = "the file gave fewer bytes than its header needs"
_UNFINISHED: Final = "Wait until it is complete, or look at it all the same with --unfinished."

_FIELD_CHARACTERS: Final = 200
#: Of 2**64: what is longer is text, and reading it as a number would take quadratic time.
_DIGITS: Final = 20


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Why a sheet does not show all of a sound header.

    ``stopped`` says that nothing behind the place was interpreted; without it the walk went on past a broken rule.
    ``field`` is a path into the header counted from 0, ``offset`` its first byte in the file; ``expected`` and
    ``actual`` are null where there is nothing to compare, and decimal digits past 2**53 - 1. ``others`` counts the
    broken rules beside this one.
    """

    outcome: How
    meaning: str
    stopped: bool
    message: str
    constraint: str | None = None
    field: str | None = None
    offset: int | None = None
    expected: Figure = None
    actual: Figure = None
    others: int = 0
    advice: str = ""


def ending(look: Look) -> Ending | None:
    """How the reading of ``look`` ended; None if it came to the end of a header that breaks no rule."""
    if look.skipped:
        words = "its name says that a download is under way, so it was not read"
        return _plain("unfinished", FINDINGS["unfinished"].meaning, words, _UNFINISHED)
    if look.stop is not None:
        return _of_stop(look.stop)
    found = judge(look)
    if look.identity in ("modified", "replaced"):
        return _of_finding(found[0], stopped=False)
    refusing = [judged for judged in found if judged.refuses]
    stop = None if look.header is None else look.header.stopped
    if stop is not None:
        return _of_finding(of_fault(stop, 1), stopped=True, others=_count(refusing) - 1)
    if refusing:
        first = min(refusing, key=lambda judged: judged.offset or 0)
        return _of_finding(first, stopped=look.foreign is not None, others=_count(refusing) - 1)
    if look.header is None:
        told = (found[0].message, FINDINGS[found[0].code].advice) if found else (_NO_MODEL, "")
        return _plain("no_model", _NO_MODEL, *told)
    if not look.header.complete:
        return _plain("truncated", _SHORT, _SHORT, FINDINGS["identity_changed"].advice)
    return None


def _count(found: Sequence[Judged]) -> int:
    return sum(judged.count for judged in found)


def _of_stop(stop: Stop) -> Ending:
    how = _OF_STOPS.get(stop.category, "failed")
    if how == "cancelled":
        meaning, advice = _CANCELLED
    else:
        meaning, advice = FINDINGS[_STOP_CODES[how]].meaning, FINDINGS[_STOP_CODES[how]].advice
    return _plain(how, meaning, stop.message, advice, offset=stop.offset)


def _of_finding(found: Judged, *, stopped: bool, others: int = 0) -> Ending:
    return Ending(
        outcome=_OF_CODES.get(found.code, "refused"),
        meaning=FINDINGS[found.code].meaning,
        stopped=stopped,
        message=found.message,
        constraint=None if found.constraint is None else str(found.constraint),
        field=found.subject,
        offset=exact_int(found.offset),
        expected=figure(found.expected),
        actual=figure(found.actual),
        others=max(0, others),
        advice=found.advice or FINDINGS[found.code].advice,
    )


def _plain(how: How, meaning: str, message: str, advice: str, *, offset: int | None = None) -> Ending:
    return Ending(outcome=how, meaning=meaning, stopped=True, message=message, offset=exact_int(offset), advice=advice)


# -- lines ------------------------------------------------------------------------------------------


def ending_lines(end: Ending | None, columns: int = 80, paint: Paint = plain) -> Iterator[str]:
    """The ending for a terminal, behind an empty line; nothing if there is none."""
    if end is None:
        return
    yield ""
    rule = f" ({end.constraint})" if end.constraint else ""
    for line in wrap(f"{end.outcome}{rule}: {end.meaning}", columns):
        yield paint(line, _TONES.get(end.outcome, "warning"))
    message = "" if end.message in (end.meaning, end.advice) else defused(end.message)
    for text in filter(None, (message, _place(end), _figures(end), _rest(end), defused(end.advice))):
        yield from ("  " + line for line in wrap(text, columns - 2))


def _place(end: Ending) -> str:
    named = end.field is not None and not end.field.startswith("accounting.")
    at = f"at {defused(end.field or '', _FIELD_CHARACTERS)}" if named else ""
    byte = f"byte {exact(end.offset)}" if end.offset is not None else ""
    return ", ".join(filter(None, (at, byte)))


def _figures(end: Ending) -> str:
    if end.actual is None:
        return ""
    found = f"found {_figure(end.actual)}"
    return found if end.expected is None else f"allowed {_figure(end.expected)}, {found}"


def _figure(value: Figure) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, int) or (value.isdecimal() and len(value) <= _DIGITS):
        return exact(int(value))
    return defused(value, _FIELD_CHARACTERS)


def _rest(end: Ending) -> str:
    behind = "nothing behind it was read" if end.stopped and end.field and end.outcome != "foreign" else ""
    more = f"{end.others:,} more broken rules, which inspect lists" if end.others > 1 else ""
    one = "one more broken rule, which inspect lists" if end.others == 1 else ""
    return "; ".join(filter(None, (behind, more, one)))
