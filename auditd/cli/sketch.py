"""``model-auditd sketch OUT``: write the small known file, read it back, compare every number."""

from __future__ import annotations

import os
import stat
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from auditd.cli.evidence_files import FileError
from auditd.cli.interruption import Interruption
from auditd.cli.options import Observation as InspectionOptions
from auditd.cli.options import also_not_seen
from auditd.cli.output_file import write
from auditd.cli.status import Status
from auditd.cli.terminal import Terminal
from auditd.errors import UsageError
from auditd.evidence.observation import Observation
from auditd.evidence.statistics import Numbers
from auditd.evidence.text import printable, quoted
from auditd.formats.writer import SKETCH_ALIGNMENT, SKETCH_HEADER_END, sketch, sketch_size
from auditd.inspection.inspector import observe_artifact
from auditd.inspection.request import Checkpoint
from auditd.inspection.tensor_statistics import summarise
from auditd.report.sketch import SketchSheet, lines, sheet, the_tensor

_COLUMNS: Final = 80

#: What a sketch may take: its padding is written, and grows with the alignment.
_MOST_BYTES: Final = 1024 * 1024

#: The four bytes of an earlier sketch that depend on its alignment.
_ALIGNMENT_AT: Final = slice(154, 158)


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Write a GGUF file of which every byte is known, read it back with the reader that reads models, and compare."
    )
    parser.add_argument("out", metavar="OUT", type=os.fsencode, help="where it is written; nothing is overwritten")
    parser.add_argument(
        "--align",
        metavar="N",
        type=_alignment,
        default=SKETCH_ALIGNMENT,
        help="the alignment that it declares and is padded to (default: %(default)s)",
    )
    parser.add_argument(
        "--ignore-alignment",
        action="store_true",
        help="make the mistake of reading the numbers where the header ends, to see that nothing gives it away",
    )
    parser.add_argument("--force", action="store_true", help="overwrite an earlier sketch, and nothing else")
    parser.add_argument("--json", action="store_true", help="print everything as one line of JSON and nothing else")
    # How it is read back is not the caller's to choose.
    parser.set_defaults(hash="header", digests="none", layout="auto", unfinished=True)
    parser.epilog = (
        "exit status: 0 everything that was written was found; 1 something was not, or --ignore-alignment read numbers "
        "that never went in; 2 the command line is wrong; 3 the file could not be written or read"
    )
    also_not_seen(parser, "whoever reads standard output leaves before its end")


def _alignment(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(2**32)) and 1 <= int(text) < 2**32):
        raise ArgumentTypeError(f"{quoted(text, 40)}: an alignment is a whole number from 1 to {2**32 - 1:,}")
    alignment = int(text)
    if sketch_size(alignment) > _MOST_BYTES:
        message = (
            f"the data of a sketch with an alignment of {alignment:,} begins at byte "
            f"{-(-SKETCH_HEADER_END // alignment) * alignment:,}; a sketch has at most {_MOST_BYTES:,} bytes"
        )
        raise ArgumentTypeError(message)
    return alignment


def run(arguments: Namespace, terminal: Terminal) -> Status:
    """Write, read back, show."""
    _check_place(arguments.out, force=arguments.force)
    written = sketch(arguments.align)
    _write(arguments.out, written.data, force=arguments.force)
    with Interruption() as interruption:
        read = _read_back(arguments, interruption.checkpoint)
    digest = sha256(written.data).hexdigest()
    shown = sheet(
        read.observation, written, arguments.align, digest, read.numbers, ignore_alignment=arguments.ignore_alignment
    )
    _show(shown, arguments, terminal)
    if read.observation.stop is not None:
        return Status.NOT_SEEN
    return Status.CLEAR if shown.same else Status.FINDINGS


def _write(out: bytes, data: bytes, *, force: bool) -> None:
    try:
        if force:
            write(out, (data,))
        else:
            with open(out, "xb") as file:  # what has come there meanwhile is not overwritten either
                file.write(data)
    except OSError as error:
        raise FileError(f"{printable(out)}: the sketch cannot be written: {error.strerror}") from None


def _show(shown: SketchSheet, arguments: Namespace, terminal: Terminal) -> None:
    if arguments.json:
        terminal.json(shown)
    else:
        terminal.lines(lines(shown, terminal.columns or _COLUMNS, terminal.style))


def _check_place(out: bytes, *, force: bool) -> None:
    """Refuse to overwrite anything but, if asked, an earlier sketch."""
    try:
        status = os.lstat(out)
    except OSError:  # nothing there; that it cannot be written is for the writing to say
        return
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"sketch: {printable(out)} is there already and no regular file")
    if not force:
        raise UsageError(f"sketch: {printable(out)} is there already; --force overwrites an earlier sketch")
    if not _is_sketch(out):
        raise UsageError(f"sketch: {printable(out)} is no sketch, and is not overwritten")


def _is_sketch(path: bytes) -> bool:
    """Whether a regular file is a sketch of any alignment, byte for byte."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError:
        return False
    alignment = int.from_bytes(data[_ALIGNMENT_AT], "little")
    return alignment > 0 and sketch_size(alignment) == len(data) <= _MOST_BYTES and sketch(alignment).data == data


@dataclass(frozen=True, slots=True)
class _Read:
    """What came back."""

    observation: Observation
    numbers: Numbers | None


def _read_back(arguments: Namespace, checkpoint: Checkpoint) -> _Read:
    path, ignore_alignment = arguments.out, arguments.ignore_alignment
    choices = Namespace(hash="header", digests="none", layout="auto", unfinished=True)
    observation = observe_artifact(InspectionOptions.of(choices).at(path), checkpoint)
    tensor = the_tensor(observation)
    if tensor is None:
        return _Read(observation, None)
    return _Read(observation, summarise(observation, tensor, ignore_alignment=ignore_alignment, checkpoint=checkpoint))
