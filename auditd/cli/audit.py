"""``model-auditd audit PATH...``: every model file of files and trees, each once, in one table."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from auditd.cli.interruption import Interruption
from auditd.cli.options import Detail, Observation, add_inspection_options, add_json, also_not_seen, detailed
from auditd.cli.path_list import opened
from auditd.cli.status import Status, status_from, status_of, worst
from auditd.cli.targets import Target, targets
from auditd.cli.terminal import Terminal, progress_of
from auditd.errors import InspectionStopped, UsageError
from auditd.evidence.text import printable
from auditd.inspection.inspector import inspect
from auditd.inspection.request import Checkpoint
from auditd.inspection.scan import Other, Unseen
from auditd.inspection.set_discovery import INDEX_SUFFIX, SetsOnTheWay
from auditd.inspection.timestamps import now_text
from auditd.model_sets.composition import compose_set
from auditd.model_sets.facts import SetFacts
from auditd.model_sets.record import encode_set, set_summary
from auditd.model_stores.homes import Homes
from auditd.model_stores.stores import ModelStores
from auditd.report.figures import counted
from auditd.report.progress import ProgressLine
from auditd.report.set_rows import set_row
from auditd.report.table import Rows, row, table, unseen_row

#: Notes on stores that are shown.
_NOTES: Final = 8

#: How things stand in a store that no file and no set has a line for.
_STANDINGS: Final = frozenset({"nothing_downloaded", "unreadable"})


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("paths", metavar="PATH", nargs="*", type=os.fsencode, help="a file, or a directory to walk")
    parser.add_argument(
        "--files-from",
        metavar="FILE",
        type=os.fsencode,
        help="also the paths in this file (-: standard input), separated by NUL if there is one in it, else by lines",
    )
    add_inspection_options(parser, default_hash="expected")
    add_json(parser, "one evidence a line as JSON")
    parser.add_argument("--all", action="store_true", help="list the sound files, too, however many there are")
    parser.add_argument("--follow-links", action="store_true", help="follow links to directories, and out of a PATH")
    also_not_seen(parser, "whoever reads standard output leaves before its end")


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Inspect every target; the worst status is the command's."""
    source = arguments.files_from
    if not arguments.paths and source is None:
        raise UsageError("audit: give a PATH, or --files-from FILE")
    observation = Observation.of(arguments)
    audit = _Audit(terminal, observation, arguments.json, arguments.detail, terminal.progress_line(), arguments.all)
    with opened(source) as listed, Interruption() as interruption:
        audit.sets = SetsOnTheWay(interruption.checkpoint)
        try:
            for target in targets(
                chain(arguments.paths, listed),
                alone=source is None and len(arguments.paths) == 1,
                follow_links=arguments.follow_links,
                checkpoint=interruption.checkpoint,
            ):
                audit.take(target, interruption.checkpoint)
            audit.take_sets(audit.sets.leave())
            audit.survey(arguments.paths, interruption.checkpoint)
            audit.notes += _absent(arguments.paths)
        except InspectionStopped as stopped:
            audit.statuses.add(Status.NOT_SEEN)
            terminal.say(f"{stopped}; what follows is not everything" if not arguments.json else str(stopped))
        except UsageError:
            # The list went bad on the way; what was seen until then is not lost.
            if audit.inspected:
                audit.finish()
            raise
        audit.finish()
    return worst(audit.statuses)


def _absent(paths: Iterable[bytes]) -> Iterator[str]:
    """For whoever names a place that is not there: where models are on this machine."""
    absent = next((path for path in paths if not os.path.lexists(path)), None)
    if absent is None:
        return
    homes = Homes.of(os.environ)
    there = [printable(home) for home in (*homes.ollama, *homes.huggingface) if os.path.isdir(home)]
    where = (
        f"models of this machine are in {', '.join(there)}" if there else "give the directory that your models are in"
    )
    yield f"nothing is at {printable(absent)}; {where}"


@dataclass(slots=True)
class _Audit:
    """A run under way: what was seen so far."""

    terminal: Terminal
    observation: Observation
    json: bool
    detail: Detail | None
    line: ProgressLine | None
    list_sound: bool
    rows: Rows = field(default_factory=Rows)
    statuses: set[Status] = field(default_factory=set)
    other_files: int = 0
    #: Links that lead nowhere or out of the path, pipes, sockets, devices.
    special_files: int = 0
    inspected: int = 0
    sets: SetsOnTheWay = field(default_factory=SetsOnTheWay)
    set_rows: Rows = field(default_factory=Rows)
    #: Asked for what the files of a store are.
    stores: ModelStores = field(default_factory=ModelStores)
    #: What is to be said of stores beside their files.
    notes: list[str] = field(default_factory=list)

    def take(self, target: Target, checkpoint: Checkpoint) -> None:
        """Look at one target, and show or keep what is found."""
        if isinstance(target, Other):
            self.other_files += not target.special
            self.special_files += target.special
            if target.path.endswith(INDEX_SUFFIX):
                self.take_sets(self.sets.enter(target.path))
        elif isinstance(target, Unseen):
            self._unseen(target)
        else:
            checkpoint()
            self._inspect(target, checkpoint)

    def _inspect(self, path: bytes, checkpoint: Checkpoint) -> None:
        self.inspected += 1
        if self.line:
            self.line.begin(f"file {self.inspected:,}  {printable(path)}")
        self.take_sets(self.sets.enter(path))
        evidence = inspect(self.observation.at(path), checkpoint, progress_of(self.line))
        self.sets.take(path, evidence)
        self.statuses.add(status_of(evidence))
        if self.json:
            self._clear()
            self.terminal.record(detailed(evidence, self.detail))
        else:
            self.rows.add(row(evidence, self.stores.part(path)))

    def take_sets(self, sets: Iterable[SetFacts]) -> None:
        """Judge sets and show or keep what is found."""
        for facts in sets:
            evidence = compose_set(
                facts, producer=self.observation.producer, trigger="command", recorded_at=now_text(), severities={}
            )
            self.statuses.add(status_from("complete", (finding.severity for finding in evidence.findings)))
            if self.json:
                self._clear()
                self.terminal.line(encode_set(evidence if self.detail != "summary" else set_summary(evidence)))
            else:
                self.set_rows.add(set_row(evidence))

    def survey(self, paths: Iterable[bytes], checkpoint: Checkpoint) -> None:
        """The models of the stores below ``paths``, and what in them nothing else here speaks of."""
        for path in paths:
            if os.path.isdir(path):
                self.take_sets(self.stores.models(os.path.abspath(path), checkpoint))
                for standing in self.stores.survey(os.path.abspath(path), checkpoint):
                    if standing.kind == "unreadable":
                        self.statuses.add(Status.NOT_SEEN)
                    if standing.kind in _STANDINGS:
                        self.notes.append(f"{printable(standing.path)}: {standing.message}")

    def _unseen(self, target: Unseen) -> None:
        """A directory that cannot be read has no record in JSON but its own: the same look, which fails alike."""
        self.statuses.add(Status.NOT_SEEN)
        if self.json:
            self._clear()
            self.terminal.record(detailed(inspect(self.observation.at(target.path)), self.detail))
        else:
            self.rows.add(unseen_row(target.path, os.strerror(target.errno)))

    def _clear(self) -> None:
        if self.line:
            self.line.clear()

    def finish(self) -> None:
        """Show what was kept."""
        self._clear()
        if not self.json:
            width, style = self.terminal.columns, self.terminal.style
            lines = table(self.rows, self.other_files, width, style, list_sound=self.list_sound, sets=self.set_rows)
            self.terminal.lines(lines)
        for note in self.notes[:_NOTES]:
            self.terminal.say(f"audit: {note}")
        if len(self.notes) > _NOTES:
            self.terminal.say(f"audit: and {len(self.notes) - _NOTES:,} more such places in stores")
        if self.special_files:
            passed = f"passed over: {counted(self.special_files, 'link or special file', 'links and special files')}"
            self.terminal.say(f"audit: {passed}; --follow-links follows links out of a PATH")
        if not self.inspected:
            self.terminal.say("audit: no model file was found")
