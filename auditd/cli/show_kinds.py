"""The kinds of ``show``, in the order in which help lists them: their own arguments, and how their sheets are made.

A new kind is a row in :data:`KINDS` and a module with ``sheet`` and ``lines`` in ``auditd.report.show``, which is
imported only when it is asked for.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Final

import msgspec

from auditd.cli.output_file import refusal, write
from auditd.cli.show_kind import Asked, Kind
from auditd.cli.status import Status
from auditd.cli.terminal import progress_of
from auditd.errors import UsageError
from auditd.evidence.text import printable, quoted
from auditd.formats.declarations import ArrayValue, MetadataEntry
from auditd.formats.gguf.elements import Element

# -- meta -------------------------------------------------------------------------------------------


def _meta_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--key", metavar="KEY", type=os.fsencode, help="one value whole: all of a text, every element of an array"
    )


def _meta(module: Any, asked: Asked) -> msgspec.Struct:
    key: bytes | None = asked.arguments.key
    sheet: msgspec.Struct
    if key is None:
        sheet = module.sheet(asked.observation)
        return sheet
    long = _long_array(module, asked)
    if asked.arguments.json and long is not None:
        sheet = module.value_sheet(asked.observation, key, _elements(asked, long))
    else:
        sheet = module.value_sheet(asked.observation, key, following=long is not None)
    return sheet


def _long_array(module: Any, asked: Asked) -> MetadataEntry | None:
    """The array that is asked for if its file has to be read again, and is there."""
    if asked.arguments.key is None or asked.arguments.dump is not None:
        return None
    found: MetadataEntry | None = module.long_array(asked.observation, asked.arguments.key)
    return found


def _meta_more(module: Any, asked: Asked) -> Iterator[str]:
    """The elements of a long array, as they are read."""
    long = _long_array(module, asked)
    if long is not None:
        count = long.value.count if isinstance(long.value, ArrayValue) else 0
        yield from module.element_lines(_elements(asked, long), count)


def _elements(asked: Asked, entry: MetadataEntry) -> Iterator[Element]:
    from auditd.inspection.reread import elements  # noqa: PLC0415 - no other kind needs it

    return elements(asked.observation, entry, asked.checkpoint)


# -- fields -----------------------------------------------------------------------------------------


#: Behind every byte that a file can have.
_OPEN_END: Final = 2**64


def _range(text: str) -> tuple[int, int]:
    begin, colon, end = text.partition(":")
    try:
        found = int(begin or "0", 0), int(end, 0) if end else _OPEN_END
    except ValueError:
        colon, found = "", (0, 0)
    if not colon or not 0 <= found[0] < found[1]:
        message = (
            f"{quoted(text, 40)}: BEGIN:END, two file offsets, such as 0:408 or 0x100:0x200; without END up to the end"
        )
        raise ArgumentTypeError(message)
    return found


def _fields_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--range", metavar="BEGIN:END", type=_range, help="only fields that reach into these bytes of the file"
    )
    parser.add_argument(
        "--tensor", metavar="NAME", type=os.fsencode, help="only the record and the data of this tensor"
    )
    parser.add_argument("--limit", metavar="N", type=int, default=1000, help="at most so many (default: %(default)s)")
    parser.add_argument("--fine", action="store_true", help="entries in their pieces: lengths, key, type, value")


def _fields(module: Any, asked: Asked) -> msgspec.Struct:
    arguments, observation = asked.arguments, asked.observation
    choice = module.Choice(within=arguments.range, tensor=arguments.tensor, limit=arguments.limit, fine=arguments.fine)
    sheet: msgspec.Struct = module.sheet(observation, choice, _bytes_of(asked), asked.checkpoint)
    return sheet


def _bytes_of(asked: Asked) -> Callable[[Sequence[tuple[int, int]]], Sequence[bytes]] | None:
    """What gets at the bytes of the file, None if there is no file, or none that was read to the end."""
    observation = asked.observation
    if asked.arguments.dump is not None or observation.header is None or observation.stop is not None:
        return None
    from auditd.inspection.reread import prefixes  # noqa: PLC0415 - no other kind needs it

    return lambda spans: prefixes(observation, spans, asked.checkpoint)


# -- block ------------------------------------------------------------------------------------------


#: No name has a number of more digits in it that is a block's.
_MOST_DIGITS: Final = 9


def _block_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        message = f"{quoted(text, 40)}: N is the number of a block and stands before FILE, as in: show block 0 FILE"
        raise ArgumentTypeError(message)
    return int(text)


def _block_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "number", metavar="N", type=_block_number, help="the number of the block, counted as the file does"
    )
    parser.add_argument("--stack", metavar="NAME", help="which stack, in a file that has several")


def _block(module: Any, asked: Asked) -> msgspec.Struct:
    sheet: msgspec.Struct = module.sheet(asked.observation, asked.arguments.number, stack=asked.arguments.stack)
    return sheet


# -- floats -----------------------------------------------------------------------------------------


def _floats_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "tensor",
        metavar="TENSOR",
        nargs="?",
        type=os.fsencode,
        help="a tensor of plain numbers (default: the final norm, else the first that is plain)",
    )
    parser.add_argument(
        "--ignore-alignment",
        action="store_true",
        help="make the mistake of reading from where the header stops, to see that nothing gives it away",
    )


def _floats(module: Any, asked: Asked) -> msgspec.Struct:
    from auditd.inspection.tensor_statistics import summarise  # noqa: PLC0415 - no other kind needs it

    tensor = module.chosen(asked.observation, asked.arguments.tensor)
    mistake: bool = asked.arguments.ignore_alignment
    numbers = None
    if module.refused(tensor) is None:
        line = asked.terminal.progress_line()
        if line:
            line.begin(printable(tensor.name))
        numbers = summarise(
            asked.observation, tensor, ignore_alignment=mistake, checkpoint=asked.checkpoint, progress=progress_of(line)
        )
        if line:
            line.clear()
    sheet: msgspec.Struct = module.sheet(asked.observation, tensor, numbers, ignore_alignment=mistake)
    return sheet


def _floats_status(asked: Asked, sheet: Any) -> Status:  # noqa: ARG001 - one signature for all
    """A type without plain numbers cannot be asked for; numbers that were not read to their end were not seen."""
    if sheet.refused:
        return Status.USAGE
    return Status.NOT_SEEN if sheet.reading.stopped_because else Status.CLEAR


# -- map --------------------------------------------------------------------------------------------


_PICTURE: Final = "auditd.report.show.byte_map.picture"


def _map_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--svg", metavar="PICTURE", type=os.fsencode, help="also draw it, and write the picture into this file"
    )


def _map(module: Any, asked: Asked) -> msgspec.Struct:
    sheet: msgspec.Struct = module.sheet(asked.observation, asked.checkpoint)
    return sheet


def _check_picture(arguments: Namespace) -> None:
    refused = None if arguments.svg is None else refusal(arguments.svg, arguments.file)
    if refused:
        raise UsageError(f"--svg {printable(arguments.svg)}: {refused}")


def _write_picture(asked: Asked, sheet: Any) -> Status:
    output: bytes | None = asked.arguments.svg
    if output is None:
        return Status.CLEAR
    try:
        write(output, (import_module(_PICTURE).picture(sheet).encode("utf-8"),))
    except OSError as error:
        asked.terminal.say(f"{printable(output)}: the picture cannot be written: {error.strerror}")
        return Status.NOT_SEEN
    return Status.CLEAR


# -- all --------------------------------------------------------------------------------------------

KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("head", "what the model is, and where its header stops", "head"),
        Kind(
            "meta",
            "every metadata entry, in the order of the file; or one value whole",
            "meta",
            configure=_meta_arguments,
            make=_meta,
            more=_meta_more,
            heading="a value in the metadata",
            part="metadata",
        ),
        Kind(
            "fields",
            "every field and its bytes, in the order of the file",
            "fields",
            configure=_fields_arguments,
            make=_fields,
            heading="fields",
        ),
        Kind("stack", "every tensor, with the block number taken out of the name", "stack"),
        Kind(
            "block",
            "one block, tensor by tensor, and how the others compare",
            "block",
            configure=_block_arguments,
            make=_block,
            heading="block {number}",
        ),
        Kind("account", "the sum: every byte of the file and its owner", "account"),
        Kind(
            "floats",
            "the numbers of one tensor that is not quantized",
            "floats",
            configure=_floats_arguments,
            make=_floats,
            finish=_floats_status,
            from_dump=False,
            heading="numbers",
        ),
        Kind(
            "map",
            "what every byte of the file is for, drawn to scale",
            "byte_map.lines",
            configure=_map_arguments,
            make=_map,
            check=_check_picture,
            finish=_write_picture,
        ),
    )
}
