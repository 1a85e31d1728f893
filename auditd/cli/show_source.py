"""What ``show`` shows: a file that is looked at now, or a header that was dumped. Either is one ``Look``."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from typing import Final

from auditd.cli.evidence_files import opened
from auditd.cli.interruption import Interruption
from auditd.cli.options import Look as Looking
from auditd.cli.status import Status, status_from
from auditd.cli.terminal import Terminal, progress_of
from auditd.errors import UsageError
from auditd.evidence.compose import outcome_of
from auditd.evidence.findings import severity_of
from auditd.evidence.judge import judge
from auditd.evidence.look import Look
from auditd.evidence.text import printable
from auditd.inspection.inspector import look_at

_SCHEMA: Final = re.compile(rb'[ \t\r\n]*+\{[ \t\r\n]*+"schema"[ \t\r\n]*+:[ \t\r\n]*+"([^"\\]{1,100})"')


def look_of(arguments: Namespace, terminal: Terminal, interruption: Interruption) -> Look:
    """The look at the file that is asked for, with a progress line while it is read."""
    line = terminal.progress_line()
    if line:
        line.begin(printable(arguments.file))
    look = look_at(Looking.of(arguments).at(arguments.file), interruption.checkpoint, progress_of(line))
    if line:
        line.clear()
    return look


def dumped_look(path: bytes, layout: str) -> Look:
    """The look of a dump; ``-`` is standard input. Raises ``AuditError`` for a bad one.

    One byte more than a dump can have is read, and then refused.
    """
    from auditd.evidence.dump import codec as dump  # noqa: PLC0415 - takes long to import, and most looks are at files

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


def status_of_look(look: Look) -> Status:
    """The exit status that the record of ``look`` would have."""
    found = judge(look)
    return status_from(outcome_of(look, found), (severity_of(judged.code, {}) for judged in found))
