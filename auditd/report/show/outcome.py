"""Where a reading ended, or what speaks against the file: the common last piece of every sheet that is not of a sound one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from auditd.evidence.exactness import exact_int, figure
from auditd.evidence.observation import Observation, Stop
from auditd.evidence.record import Figure, Finding, Severity, Verdict
from auditd.report.columns import defused, fold, wrap
from auditd.report.figures import exact
from auditd.report.finding_lines import finding_lines, step
from auditd.report.style import Style, plain
from auditd.rules.draft import FindingDraft
from auditd.rules.evaluate import evaluate, of_fault
from auditd.rules.findings import FINDINGS, VERDICT_MEANINGS, at_least, severity_of, worst_verdict

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
    "complete",
]

#: From here on a finding speaks against the file, and the exit status says so.
_ALARMS_FROM: Final[Severity] = "warning"

#: What a finding says of the reading; every other one that refuses the file breaks a rule of its format, and after one
#: that does not the reading is complete.
_OF_CODES: Final[Mapping[str, How]] = {
    "header_truncated": "truncated",
    "tensor_bytes_missing": "truncated",
    "unsupported_version": "unsupported",
    "resource_limit": "bound",
    "not_a_model": "foreign",
    "identity_changed": "changed",
}

#: What the words are painted as where no finding has a verdict: another one.
_TONES: Final[Mapping[How, str]] = {"truncated": "truncated", "unfinished": "in_progress"}

_OF_STOPS: Final[Mapping[str, How]] = {"path": "unavailable", "cancelled": "cancelled"}
_STOP_CODES: Final[Mapping[How, str]] = {"unavailable": "path_unavailable", "failed": "read_failed"}

_CANCELLED: Final = ("the reading was stopped", "What had been read by then is shown; run it again for the rest.")
_NO_MODEL: Final = "a part of a store that is no model: its content is not interpreted"
_SHORT: Final = "the file gave fewer bytes than its header needs"
_UNFINISHED: Final = "Wait until it is complete, or look at it all the same with --unfinished."

_INDENT: Final = "  "


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Why a sheet does not show all of a sound file.

    ``stopped`` says that nothing behind the place was interpreted; without it the walk went on past a broken rule, or
    came to the end (``complete``) and something else speaks against the file. ``code``, ``severity`` and ``verdict`` are
    those of the finding that is told, null where none is. ``field`` is a path into the header counted from 0, ``offset`` its first byte in the file; ``expected`` and
    ``actual`` are null where there is nothing to compare, and decimal digits past 2**53 - 1. ``others`` counts the
    broken rules beside this one; after ``complete`` the findings that speak against the file.
    """

    outcome: How
    meaning: str
    stopped: bool
    message: str
    code: str | None = None
    severity: Severity | None = None
    verdict: Verdict | None = None
    constraint: str | None = None
    field: str | None = None
    offset: int | None = None
    expected: Figure = None
    actual: Figure = None
    others: int = 0
    advice: str = ""


def ending(observation: Observation) -> Ending | None:
    """How the reading of ``look`` ended; None if it came to the end and nothing speaks against the file."""
    if observation.skipped:
        words = "its name says that a download is under way, so it was not read"
        return _plain("unfinished", FINDINGS["unfinished"].meaning, words, _UNFINISHED)
    if observation.stop is not None:
        return _of_stop(observation.stop)
    found = evaluate(observation)
    end = _ending_of_findings(observation, found)
    return end and msgspec.structs.replace(end, verdict=_verdict(end, found))


def _verdict(end: Ending, found: Sequence[FindingDraft]) -> Verdict | None:
    """What all that was found makes of the file, which may be worse than what is told."""
    return None if end.code is None else worst_verdict(drafts.verdict for drafts in found)


def _ending_of_findings(observation: Observation, found: Sequence[FindingDraft]) -> Ending | None:
    if observation.identity in ("modified", "replaced"):
        return _of_finding(found[0], stopped=False)
    refusing = [drafts for drafts in found if drafts.refuses]
    stop = None if observation.header is None else observation.header.stopped
    if stop is not None:
        return _of_finding(of_fault(stop, 1), stopped=True, others=_count(refusing) - 1)
    if refusing:
        first = min(refusing, key=lambda drafts: drafts.offset or 0)
        return _of_finding(first, stopped=observation.foreign is not None, others=_count(refusing) - 1)
    if observation.header is None:
        told = (found[0].message, FINDINGS[found[0].code].advice) if found else (_NO_MODEL, "")
        return _plain("no_model", _NO_MODEL, *told)
    if not observation.header.complete:
        return _plain("truncated", _SHORT, _SHORT, FINDINGS["identity_changed"].advice)
    alarms = [drafts for drafts in found if at_least(severity_of(drafts.code, {}), _ALARMS_FROM)]
    return _of_finding(alarms[0], stopped=False, others=len(alarms) - 1) if alarms else None


def _count(found: Sequence[FindingDraft]) -> int:
    return sum(drafts.count for drafts in found)


def _of_stop(stop: Stop) -> Ending:
    how = _OF_STOPS.get(stop.category, "failed")
    if how == "cancelled":
        meaning, advice = _CANCELLED
    else:
        meaning, advice = FINDINGS[_STOP_CODES[how]].meaning, FINDINGS[_STOP_CODES[how]].advice
    return _plain(how, meaning, stop.message, advice, offset=stop.offset)


def _of_finding(found: FindingDraft, *, stopped: bool, others: int = 0) -> Ending:
    return Ending(
        outcome=_OF_CODES.get(found.code, "refused" if found.refuses else "complete"),
        meaning=FINDINGS[found.code].meaning,
        stopped=stopped,
        message=found.message,
        code=found.code,
        severity=severity_of(found.code, {}),
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


def ending_lines(end: Ending | None, columns: int = 80, style: Style = plain) -> Iterator[str]:
    """The ending for a terminal, behind an empty line; nothing if there is none."""
    if end is None:
        return
    yield ""
    yield from _plain_lines(end, columns, style) if end.code is None else _finding_outcome_lines(end, columns, style)


def _finding_outcome_lines(end: Ending, columns: int, style: Style) -> Iterator[str]:
    """The verdict, and the finding that is told."""
    if end.verdict is not None:
        told = wrap(f"{end.verdict}: {VERDICT_MEANINGS[end.verdict]}", columns)
        yield from (style(line, end.verdict or "") for line in told)
    inner = columns - len(_INDENT)
    for line in finding_lines(_finding(end), inner, style):
        yield from fold(_INDENT + line, columns)
    rest = _rest(end)
    if rest:
        yield from (2 * _INDENT + line for line in wrap(rest, inner - len(_INDENT)))


def _finding(end: Ending) -> Finding:
    return Finding(
        code=end.code or "",
        constraint=end.constraint,
        severity=end.severity or _ALARMS_FROM,
        message=end.message,
        subject=end.field,
        offset=end.offset,
        expected=end.expected,
        actual=end.actual,
        count=1,
        advice=end.advice,
    )


def _plain_lines(end: Ending, columns: int, style: Style) -> Iterator[str]:
    """How the reading ended, where no finding says it."""
    tone = _TONES.get(end.outcome, "warning")
    yield from (style(line, tone) for line in wrap(f"{end.outcome}: {end.meaning}", columns))
    message = "" if end.message in (end.meaning, end.advice) else defused(end.message)
    place = f"byte {exact(end.offset)}" if end.offset is not None else ""
    for text in filter(None, (message, place)):
        yield from (_INDENT + line for line in wrap(text, columns - len(_INDENT)))
    yield from step(defused(end.advice), columns, _INDENT)


def _rest(end: Ending) -> str:
    behind = "nothing behind it was read" if end.stopped and end.field and end.outcome != "foreign" else ""
    one, more = _BROKEN if end.outcome == "refused" else _AGAINST
    others = one if end.others == 1 else more.format(f"{end.others:,}") if end.others else ""
    return "; ".join(filter(None, (behind, others)))


#: One more, and several.
_BROKEN: Final = ("one more broken rule, which inspect lists", "{} more broken rules, which inspect lists")
_AGAINST: Final = (
    "one more finding against it, which inspect lists",
    "{} more findings against it, which inspect lists",
)
