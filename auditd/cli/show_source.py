"""What ``show`` shows: a file that is looked at now, or a header that was dumped. Either is one ``Look``."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from typing import Final

from auditd.cli.evidence_files import opened
from auditd.cli.interruption import Interruption
from auditd.cli.options import Observation as InspectionOptions
from auditd.cli.status import Status, status_from
from auditd.cli.terminal import Terminal, progress_of
from auditd.errors import UsageError
from auditd.evidence.observation import Observation
from auditd.evidence.text import printable
from auditd.inspection.composition import outcome_of
from auditd.inspection.inspector import observe_artifact
from auditd.rules.evaluate import evaluate
from auditd.rules.findings import severity_of

_SCHEMA: Final = re.compile(rb'[ \t\r\n]*+\{[ \t\r\n]*+"schema"[ \t\r\n]*+:[ \t\r\n]*+"([^"\\]{1,100})"')


def observation_of(arguments: Namespace, terminal: Terminal, interruption: Interruption) -> Observation:
    """The look at the file that is asked for, with a progress line while it is read."""
    line = terminal.progress_line()
    if line:
        line.begin(printable(arguments.file))
    observation = observe_artifact(
        InspectionOptions.of(arguments).at(arguments.file), interruption.checkpoint, progress_of(line)
    )
    if line:
        line.clear()
    return observation


def dumped_observation(path: bytes, layout: str) -> Observation:
    """The look of a dump; ``-`` is standard input. Raises ``AuditError`` for a bad one.

    One byte more than a dump can have is read, and then refused.
    """
    from auditd.header_dump import codec as dump  # noqa: PLC0415 - takes long to import, and most looks are at files

    with opened(path) as file:
        text = file.read(dump.DUMP_BYTES + 1)
    refuse_other(path, text)
    return dump.decode(text, layout=layout, name=os.fsdecode(path))


def schema_of(begun: bytes) -> str | None:
    """What a JSON document says first that it is; None if it does not, or is none.

    No model begins so: a GGUF file has its magic there, a safetensors file a length.
    """
    said = _SCHEMA.match(begun)
    return said.group(1).decode("utf-8", "backslashreplace") if said else None


def refuse_other(path: bytes, text: bytes) -> None:
    """Raise ``UsageError`` for what does not even begin as a JSON document does: a model, a page."""
    if not text.lstrip(b" \t\r\n").startswith(b"{"):
        raise UsageError(f"{printable(path)}: not a dumped header, which is JSON that model-auditd dump writes")


def status_of_observation(observation: Observation) -> Status:
    """The exit status that the record of ``look`` would have."""
    found = evaluate(observation)
    return status_from(outcome_of(observation, found), (severity_of(drafts.code, {}) for drafts in found))
