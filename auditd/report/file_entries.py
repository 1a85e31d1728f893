"""Which file a record is about, for a person: its path, its names, its digests, and what it is a part of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from auditd.evidence.record import Evidence, Expected
from auditd.evidence.text import printable
from auditd.model_sets.members import split_of
from auditd.model_sets.names import series_of
from auditd.report.columns import defused
from auditd.report.figures import counted, exact, rounded
from auditd.report.table import shown_path

#: A label, a text, and what the text is about (see ``paint``). Texts with one label stand below each other.
Entry: TypeAlias = tuple[str, str, str]

#: The licence of a family can be a layer of hundreds of models.
_NAMES_SHOWN: Final = 8

#: What a file of a store is one of, and what a record of it alone does not speak of.
_PARTS: Final = {
    "ollama": "an Ollama model, of which only this layer was looked at; {audit} looks at every layer",
    "huggingface": "a Hugging Face repository, of which only this file was looked at; {audit} looks at every file",
}


def file_entries(evidence: Evidence) -> Iterator[Entry]:
    """The entries, the path first."""
    artifact = evidence.artifact
    yield "file", shown_path(artifact), ""
    yield from _names(evidence)
    if artifact.size is not None:
        yield "size", f"{rounded(artifact.size)} ({counted(artifact.size, 'byte')})", ""
    if artifact.sha256:
        yield "sha256", artifact.sha256, ""
    for expected in artifact.expected:
        # Apart, because algorithm and digest together are wider than a line.
        who = f"{printable(expected.algorithm)} ({printable(expected.source)}), {_compared(evidence, expected)}"
        yield "published", who, ""
        yield "published", printable(expected.value), ""
    yield from _whole(evidence)
    if evidence.error:
        yield from _ended(evidence, defused(evidence.error.message))


def _ended(evidence: Evidence, message: str) -> Iterator[Entry]:
    """How the inspection ended, and why where no finding says it."""
    told = any(defused(finding.message) == message for finding in evidence.findings)
    yield ("outcome", evidence.outcome, "warning") if told else (evidence.outcome, message, "warning")


def _names(evidence: Evidence) -> Iterator[Entry]:
    """The names that people have for the file, beside its path."""
    names = list(dict.fromkeys(name for name in evidence.artifact.names if name != evidence.artifact.path))
    for name in names[:_NAMES_SHOWN]:
        yield "known as", printable(name), ""
    if len(names) > _NAMES_SHOWN:
        yield "known as", f"and {len(names) - _NAMES_SHOWN:,} more", ""


def _compared(evidence: Evidence, expected: Expected) -> str:
    """What became of a published digest."""
    digests = evidence.digests
    if expected.algorithm == "sha256":
        actual = evidence.artifact.sha256
    else:
        actual = None if digests is None else digests.git_sha1
    if actual is not None:
        return "and the content has it" if actual == expected.value else "and the content has another"
    if evidence.read.scope == "header":
        return "not compared: inspect --hash expected reads all of the file and does"
    return "not compared"


def _whole(evidence: Evidence) -> Iterator[Entry]:
    """What the file is a part of, and how all of that is looked at."""
    store, path = evidence.artifact.store or "", shown_path(evidence.artifact)
    home = path.partition("/blobs/")[0] if store in _PARTS and "/blobs/" in path else ""
    directory = home or path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
    audit = f"model-auditd audit {directory}"
    place = _number(evidence)
    if place is not None:
        yield "part of", f"a set, {place[0]} of {exact(place[1])}; {audit} judges the set", ""
    if home:
        yield "part of", _PARTS[store].format(audit=audit), ""


def _number(evidence: Evidence) -> tuple[str, int] | None:
    """Which of how many files of a set this is, counted from 1: what the header says comes before any name."""
    split = None if evidence.gguf is None else split_of(evidence.gguf)
    if split is not None:
        number = "one" if split.number is None else f"number {exact(split.number + 1)}"
        return None if split.alone or split.count is None else (number, split.count)
    for name in (evidence.artifact.name, *evidence.artifact.names):
        found = series_of(name.rpartition("/")[2].encode("utf-8", "surrogateescape"))
        if found is not None and found[0].count is not None and found[0].count > 1:
            return f"number {exact(found[1])}", found[0].count
    return None
