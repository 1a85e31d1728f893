"""Everything that is fuzzed: what it starts from, how that is changed, what must hold. A new reader is a row here."""

from __future__ import annotations

import atexit
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from auditd.evidence.canonical import encode
from auditd.evidence.text import harmless_json, printable
from auditd.evidence.view import ViewError, view
from auditd.evidence_store.bundle import lines, manifest
from auditd.formats.detection import kind_of
from auditd.formats.foreign import foreign_of, pointer_target
from auditd.formats.gguf.elements import BrokenElements, ElementWalk
from auditd.formats.protobuf import model_word
from auditd.formats.quoting import shown
from auditd.header_dump import codec as dump
from auditd.inspection.descriptor import Descriptor
from auditd.inspection.embedded import inspect_contents
from auditd.inspection.inspector import inspect, observe_artifact
from auditd.inspection.request import Request
from auditd.model_sets.index import parse_index
from auditd.model_sets.names import Listing, finished_name, index_stem, series_of
from auditd.model_stores.ollama_manifests import read_manifest
from auditd.model_stores.sidecar import parse_list
from auditd.model_stores.signing import parse_bundle
from auditd.service.watching.mounts import type_of
from tests.builders import PRODUCER, Tensor, observation, simple, sketch
from tests.fuzz import gguf_changes, json_changes, seeds, zip_changes
from tests.fuzz.changes import PLAIN, Change, Dice
from tests.fuzz.invariant import check_file, check_printable
from tests.fuzz.readings import check_pieces, read


@dataclass(frozen=True)
class Target:
    """One reader of bytes from outside.

    ``seeds`` are made when they are first asked for. ``run`` is the part whose arcs count, and holds what can be held
    at once; ``check`` is dearer and done for what reaches new code and for one in ``checks`` of the rest.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    changes: Sequence[Change]
    run: Callable[[bytes, Dice], object]
    check: Callable[[bytes, Dice], object] | None = None
    checks: int = 16


@cache
def _place() -> str:
    """A file for the inspections, in memory where there is such a place."""
    shared = "/dev/shm"  # noqa: S108 - a directory of its own below it
    directory = tempfile.mkdtemp(prefix="fuzz-", dir=shared if os.access(shared, os.W_OK) else None)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return os.path.join(directory, "model.gguf")


def _written(data: bytes) -> bytes:
    path = os.fsencode(_place())
    with open(path, "wb") as file:
        file.write(data)
    return path


def _file(data: bytes, dice: Dice) -> None:
    check_pieces(data, dice)
    check_file(_place(), data, dice)


def _archive(data: bytes, _dice: Dice) -> None:
    """An archive is looked into whatever its kind is said to be, and reading stays in proportion."""
    descriptor = Descriptor(_written(data))
    try:
        found = inspect_contents(descriptor, len(data), "zip")
    finally:
        descriptor.close()
    if found is not None:
        # The tail, the directory, an entry's own header and first bytes, and at most 16 headers.
        assert found.bytes_read <= 20 * len(data) + 46 * 2000, f"{found.bytes_read} bytes read of {len(data)}"
        assert all(0 <= inner.begin <= inner.begin + inner.length <= len(data) for inner in found.models)
        check_printable([found.told(foreign_of(data[:1024], len(data))).words])


def _foreign(data: bytes, _dice: Dice) -> None:
    foreign = foreign_of(data, len(data))
    check_printable([foreign.words, kind_of(data[:1024]).word, shown(data), printable(data)])
    pointer_target(data[:1024])
    model_word(data[:1024])


def _manifest(data: bytes, _dice: Dice) -> None:
    """Digests of a manifest are digests: nothing of them can name another place."""
    manifest = read_manifest(_written(data), "x")
    for layer in manifest.layers or ():
        assert len(layer.digest) == 64
        assert set(layer.digest) <= set("0123456789abcdef")
        assert 0 <= layer.size < 2**63


def _below(names: Iterable[bytes]) -> None:
    """Relative paths that only lead down."""
    for name in names:
        parts = name.split(b"/")
        assert b"" not in parts
        assert b"." not in parts
        assert b".." not in parts
        assert b"\0" not in name


def _list(data: bytes, _dice: Dice) -> None:
    _below(parse_list(data))


def _signature(data: bytes, _dice: Dice) -> None:
    _below(parse_bundle(seeds.signature(data)))
    _below(parse_bundle(data))


def _index(data: bytes, _dice: Dice) -> None:
    found = parse_index(data)
    if hasattr(found, "message"):
        check_printable([found.message])
        return
    for name in found.files:
        assert name not in {b"", b".", b".."}
        assert b"/" not in name
        assert b"\0" not in name


def _name(data: bytes, _dice: Dice) -> None:
    listing = Listing()
    for name in data[:255], data[:255] + b".aria2":
        listing.add(name)
        found = series_of(name)
        if found is not None:
            assert found[0].member(found[1]) == name or found[0].kind == "pieces" or b"0" in name
        index_stem(name)
        finished_name(name)
    listing.under_way((data[:255],))


@cache
def _records() -> tuple[bytes, ...]:
    tensors = list(seeds.safetensors_files())[:2]
    files = (sketch().data, *tensors, simple(Tensor("q", [64], 9)).data, b"<html>")
    return tuple(encode(inspect(Request(path=_written(data), producer=PRODUCER))) for data in files)


def _record(data: bytes, _dice: Dice) -> None:
    """A record that was changed, alone and in a bundle that names it: taken in as it is, or refused in one line."""
    for told in (io.BytesIO(data), io.BytesIO(manifest([data]) + data + b"\n")):
        for each in lines(told):
            check_printable([each.problem or ""])
            if each.evidence is not None:
                assert harmless_json(each.record) == each.record


def _dumps() -> list[bytes]:
    files = (sketch().data, *list(seeds.gguf_files())[2:4], *list(seeds.safetensors_files())[:3], b"<html>")
    return [dump.encode(observe_artifact(Request(path=_written(data), producer=PRODUCER))) for data in files]


def _dump(data: bytes, _dice: Dice) -> None:
    """A dump that was changed is refused in one line, or stands for a header whose dump can be read again."""
    try:
        observation = dump.decode(data, name="x.json")
    except dump.DumpError as refused:
        check_printable([str(refused)])
        return
    again = dump.encode(observation)
    assert dump.encode(dump.decode(again)) == again


@cache
def _evidence() -> object:
    return inspect(Request(path=_written(list(seeds.gguf_files())[2]), producer=PRODUCER))


def _view(data: bytes, _dice: Dice) -> None:
    try:
        view(_evidence(), data)  # type: ignore[arg-type]
    except ViewError as refused:
        check_printable([printable(str(refused))])


def _elements(data: bytes, dice: Dice) -> None:
    """An array's own bytes, in pieces: the elements do not depend on the pieces."""
    told = []
    cut = dice.randint(1, 9)
    for size in (len(data) or 1, cut):
        walk = ElementWalk("little")
        found: list[object] = []
        try:
            for at in range(0, len(data), size):
                found.extend(walk.feed(data[at : at + size]))
        except BrokenElements as broken:
            found.append(str(broken))
        told.append(repr(found))
    assert told[0] == told[1], "the elements depend on the pieces"


def _arrays() -> list[bytes]:
    """The values of array entries: what follows the type in the first entry of a header."""
    made = seeds.adversarial(20)
    names = ("empty arrays in an array", "strings that are not UTF-8", "long strings among short ones")
    return [made[name][24 + 8 + 1 + 4 :] for name in names]


_GGUF: Final = (*gguf_changes.CHANGES, *gguf_changes.CHANGES, *PLAIN)
_JSON: Final = (*json_changes.CHANGES, *json_changes.CHANGES, *PLAIN)


def _ggufs() -> list[bytes]:
    return [*seeds.gguf_files(), *seeds.pointed().values()]


def _tensors() -> list[bytes]:
    harm = [data for data in seeds.pointed().values() if data[:4] != b"GGUF"]
    return [*seeds.safetensors_files(), *harm]


def more(target: Target) -> list[bytes]:
    """Seeds from the collection beside this checkout: more than a short run can go through."""
    wanted = {"gguf": True, "safetensors": False}.get(target.name.removeprefix("peer-"))
    return [case for case in seeds.cases() if (case[:4] == b"GGUF") is wanted]


TARGETS: Final = (
    Target("gguf", _ggufs, _GGUF, read, _file),
    Target("safetensors", _tensors, (*json_changes.SAFETENSORS, *json_changes.SAFETENSORS, *PLAIN), read, _file),
    Target("foreign", lambda: [*seeds.foreign_files(), *seeds.archives()], PLAIN, _foreign, _file),
    Target(
        "archive", lambda: [*seeds.archives()], (*zip_changes.CHANGES, *zip_changes.CHANGES, *PLAIN), _archive, _file
    ),
    Target("manifest", lambda: seeds.MANIFESTS, _JSON, _manifest),
    Target("list", lambda: seeds.LISTS, PLAIN, _list),
    Target("signature", lambda: (*seeds.STATEMENTS, seeds.signature(seeds.STATEMENTS[0])), _JSON, _signature),
    Target("index", lambda: seeds.INDEXES, _JSON, _index),
    Target("name", lambda: seeds.NAMES, PLAIN, _name),
    Target("record", _records, _JSON, _record),
    Target("dump", _dumps, _JSON, _dump),
    Target("view", lambda: seeds.VIEWS, _JSON, _view),
    Target("elements", _arrays, PLAIN, _elements),
    Target("mounts", lambda: seeds.MOUNTS, PLAIN, lambda data, _dice: type_of(b"/mnt/x", data)),
)


def _peer_gguf(data: bytes, _dice: Dice) -> None:
    """What another reader says of the file is the same, or the difference is explained."""
    from tests.fuzz import peers

    if data[:4] == b"GGUF" and peers.is_askable(data):
        path = os.fsdecode(_written(data))
        for difference in peers.ask_gguf(path, observation(path)):
            assert peers.explanation(difference) is not None, f"unexplained: {difference}"


def _peer_safetensors(data: bytes, _dice: Dice) -> None:
    from tests.fuzz import peers

    path = os.fsdecode(_written(data))
    for difference in peers.ask_safetensors(data, observation(path)):
        assert peers.explanation(difference) is not None, f"unexplained: {difference}"


#: Differential fuzzing: the packages have to be installed, and the first is slow, so they are asked for by name.
PEERS: Final = (
    Target("peer-gguf", _ggufs, _GGUF, read, _peer_gguf, checks=1),
    Target("peer-safetensors", _tensors, json_changes.SAFETENSORS, read, _peer_safetensors, checks=1),
)
