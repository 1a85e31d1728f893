"""The reference page ``config/findings.md``: verdicts, finding codes and constraints, from their tables.

``python -m auditd.report.reference`` prints it; a test holds the file to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from auditd.formats.detection import KINDS
from auditd.rules.findings import CONSTRAINTS, FINDINGS, VERDICT_MEANINGS, VERDICT_ORDER
from auditd.rules.set_findings import SET_FINDINGS, SET_VERDICT_MEANINGS

_HEAD = """\
# Verdicts, findings, constraints

Made from the program's own tables; `severity` is the default and can be changed by code and by root.
"""


def page() -> str:
    """The page as Markdown."""
    verdicts = [(f"`{verdict}`", VERDICT_MEANINGS[verdict]) for verdict in (*VERDICT_ORDER, "in_progress")]
    findings = [(f"`{c}`", kind.severity, kind.verdict, kind.meaning, kind.advice) for c, kind in FINDINGS.items()]
    set_verdicts = [(f"`{verdict}`", meaning) for verdict, meaning in SET_VERDICT_MEANINGS.items()]
    of_sets = [(f"`{c}`", kind.severity, kind.verdict, kind.meaning, kind.advice) for c, kind in SET_FINDINGS.items()]
    constraints = [(f"`{constraint}`", rule) for constraint, rule in CONSTRAINTS.items()]
    kinds = [(f"`{kind.word}`", kind.meaning, kind.advice) for kind in KINDS.values()]
    sections = (
        ("Verdicts, worst first", ("verdict", "meaning"), verdicts),
        ("Findings", ("code", "severity", "verdict", "meaning", "what to do"), findings),
        ("Verdicts of sets", ("verdict", "meaning"), set_verdicts),
        ("Findings of sets", ("code", "severity", "verdict", "meaning", "what to do"), of_sets),
        ("Constraints: the rule that broke", ("constraint", "the rule"), constraints),
        ("What a foreign file is (`actual` of `not_a_model`)", ("kind", "meaning", "what to do"), kinds),
    )
    return "\n".join((_HEAD, *(_section(*section) for section in sections)))


def _section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join((f"## {title}", "", *_table(heads, rows), ""))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "| " + " | ".join("---" for _ in heads) + " |"
    for cells in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - the page goes to standard output
