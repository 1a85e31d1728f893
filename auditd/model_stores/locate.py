"""From the name that people use for a model to its file: ``ollama:NAME[:TAG]`` and ``hf:ORG/NAME[@REV]/FILE``.

Raises in plain words :class:`auditd.errors.UsageError` for a name that makes no sense, and
:class:`auditd.errors.TargetError`, with the names that are there and look like it, for one that leads to nothing. Files
are looked for in the homes in their order; the first that has the model decides.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from auditd.errors import TargetError, UsageError
from auditd.evidence.text import printable, quoted
from auditd.model_stores.cache import ReadCache
from auditd.model_stores.files import Unknown, entries_of, is_plain, link_target, status_of
from auditd.model_stores.homes import Homes
from auditd.model_stores.huggingface import HubRepository
from auditd.model_stores.huggingface_links import COMMIT, commits, entries, read_ref, written_link
from auditd.model_stores.ollama import OllamaStore
from auditd.model_stores.ollama_manifests import (
    DEFAULT_NAMESPACE,
    DEFAULT_REGISTRY,
    DEFAULT_TAG,
    MODEL_LAYER,
    Manifest,
    manifests,
    model_name,
    read_manifest,
)
from auditd.model_stores.status import text_of

#: Names that are compared with one that leads nowhere, and how many are shown.
_COMPARED: Final = 5000
_SHOWN: Final = 5

#: Digits of a commit that are taken for one.
_COMMIT_DIGITS: Final = 4
#: A model's name on the registry has an organisation and a name.
_REPOSITORY_PARTS: Final = 2

OLLAMA: Final = "ollama:"
HUGGING_FACE: Final = "hf:"


def is_reference(text: str) -> bool:
    """Whether ``text`` names a model in a store and not a path."""
    return text.startswith(tuple(_FINDERS))


def locate(reference: str, homes: Homes) -> bytes:
    """The path of the file that ``reference`` names; an entry of a snapshot may be a link to its blob."""
    for prefix, find in _FINDERS.items():
        if reference.startswith(prefix):
            return find(reference.removeprefix(prefix), homes)
    raise UsageError(
        f"{quoted(reference)} names no store; there are {OLLAMA}NAME[:TAG], {HUGGING_FACE}ORG/NAME[@REV]/FILE"
    )


def _ollama(name: str, homes: Homes) -> bytes:
    parts = _ollama_parts(name)
    for home in map(os.path.realpath, homes.ollama):
        path = os.path.join(home, b"manifests", *parts)
        if status_of(path) is not None:
            return _ollama_blob(OllamaStore(home, ReadCache()), read_manifest(path, model_name(parts)))
    there = (text for home in homes.ollama for text in _ollama_names(os.path.realpath(home)))
    raise _not_found(f"no model {quoted(model_name(parts))} in an Ollama store", model_name(parts), there, homes.ollama)


def _ollama_parts(name: str) -> list[bytes]:
    """Registry, namespace, model and tag; a colon before the last slash is a port."""
    path, slash, last = name.rpartition("/")
    model, colon, tag = last.partition(":")
    parts = [*(path.split("/") if slash else []), model]
    full = [os.fsencode(part) for part in (*parts, tag)] if colon else [*map(os.fsencode, parts), DEFAULT_TAG]
    defaults = [DEFAULT_REGISTRY, DEFAULT_NAMESPACE]
    full = [*defaults[: 4 - len(full)], *full]
    if len(full) != 4 or not all(is_plain(part) for part in full):  # noqa: PLR2004 (as the docstring counts)
        raise UsageError(f"{quoted(name)} is no name of an Ollama model: it is [[REGISTRY/]NAMESPACE/]NAME[:TAG]")
    return full


def _ollama_blob(store: OllamaStore, manifest: Manifest) -> bytes:
    if manifest.layers is None:
        raise TargetError(f"the manifest of {quoted(manifest.name)} cannot be read: {printable(manifest.path)}")
    digest = next((layer.digest for layer in manifest.layers if layer.media_type == MODEL_LAYER), None)
    if digest is None:
        raise TargetError(f"the model {quoted(manifest.name)} has no layer with weights: {printable(manifest.path)}")
    try:
        blob = store.found_blob(digest)
    except Unknown as error:
        raise TargetError(f"the blobs of {quoted(manifest.name)} cannot be seen: {printable(store.home)}") from error
    if blob is None:
        raise TargetError(
            f"the model {quoted(manifest.name)} is listed and cannot run: its blob sha256-{digest} is not in "
            f"{printable(os.path.join(store.home, b'blobs'))}"
        )
    return blob


def _ollama_names(home: bytes) -> Iterator[str]:
    return (manifest.name for manifest in manifests(home) if manifest.layers is not None)


def _hugging_face(name: str, homes: Homes) -> bytes:
    organisation, model, revision, file = _hub_parts(name)
    folder = b"models--" + organisation + b"--" + model
    for home in map(os.path.realpath, homes.huggingface):
        repository = HubRepository.rooted(os.path.join(home, folder), ReadCache())
        if repository is not None:
            return _in_repository(repository, revision, file)
    there = (text for home in homes.huggingface for text in _repositories(os.path.realpath(home)))
    wanted = text_of(organisation + b"/" + model)
    raise _not_found(f"no model {quoted(wanted)} in a Hugging Face cache", wanted, there, homes.huggingface)


def _hub_parts(name: str) -> tuple[bytes, bytes, list[bytes] | None, list[bytes]]:
    """Organisation, name, what follows an ``@`` up to the end (a ref may have slashes), else the parts of the file."""
    parts = [os.fsencode(part) for part in name.split("/")]
    if len(parts) <= _REPOSITORY_PARTS or not all(is_plain(part) for part in parts):
        raise UsageError(f"{quoted(name)} is no file of a Hugging Face model: it is ORG/NAME[@REV]/FILE")
    model, at, revision = parts[1].partition(b"@")
    return parts[0], model, [revision] if at else None, parts[_REPOSITORY_PARTS:]


def _in_repository(repository: HubRepository, revision: list[bytes] | None, file: list[bytes]) -> bytes:
    """The first of ``revision`` and ``revision/…`` that is a ref or a commit counts; the rest is the file."""
    rest = [*(revision or [b"main"]), *file]
    for end in range(1, len(rest) if revision else 2):
        for commit in _commits_of(repository.home, b"/".join(rest[:end])):
            return _in_snapshot(repository, commit, b"/".join(rest[end:]))
    there = ", ".join(printable(commit[:12]) for commit in islice(_commits(repository.home), _SHOWN)) or "none"
    raise TargetError(f"{quoted(repository.name)} has no revision {quoted(rest[0])} here; commits that are: {there}")


def _commits_of(home: bytes, revision: bytes) -> Iterator[bytes]:
    """The commit that a ref, a commit or the begin of one means; several commits that begin so mean none."""
    commit = read_ref(os.path.join(home, b"refs", revision))
    if commit is None and len(revision) >= _COMMIT_DIGITS and b"/" not in revision:
        found = [name for name in _commits(home) if name.startswith(revision)]
        commit = found[0] if len(found) == 1 else None
    if commit is not None:
        yield commit


def _commits(home: bytes) -> Iterator[bytes]:
    try:
        yield from (name for name in commits(home) if COMMIT.fullmatch(name))
    except Unknown:
        return


def _in_snapshot(repository: HubRepository, commit: bytes, file: bytes) -> bytes:
    snapshot = os.path.join(repository.home, b"snapshots", commit)
    path = os.path.join(snapshot, file)
    if status_of(path) is None:
        what = f"no file {quoted(file)} in {quoted(repository.name + b'@' + commit[:12])}"
        raise _not_found(what, text_of(file), _files(repository.home, commit), [snapshot])
    blob = written_link(repository.home, path) if link_target(path) is None else None
    path = path if blob is None else os.path.join(repository.home, b"blobs", blob)
    real, cache = os.path.realpath(path), os.path.dirname(repository.home)
    if not real.startswith(cache + b"/"):
        raise TargetError(f"{printable(path)} leads out of the cache, to {printable(real)}")
    if status_of(real) is None:
        raise TargetError(
            f"the file {quoted(file)} of {quoted(repository.name)} is listed and not here: it is a link to "
            f"{printable(real)}, where nothing is"
        )
    return path


def _files(home: bytes, commit: bytes) -> Iterator[str]:
    try:
        yield from (text_of(entry.file) for entry in entries(home, commit))
    except Unknown:
        return


def _repositories(home: bytes) -> Iterator[str]:
    try:
        for name, kind in entries_of(home):
            if kind == stat.S_IFDIR and name.startswith(b"models--"):
                yield text_of(name.removeprefix(b"models--").replace(b"--", b"/"))
    except Unknown:
        return


def _not_found(what: str, wanted: str, there: Iterable[str], places: Iterable[bytes]) -> TargetError:
    """The error that says it with the nearest names that are there, or any, or where was looked and could not be."""
    names = sorted(set(islice(there, _COMPARED)))
    near = difflib.get_close_matches(wanted, names, _SHOWN, 0.5) or names[:_SHOWN]
    seen, hidden = _looked_in(places)
    if near:
        what += f"; there are, for example: {', '.join(map(quoted, near))}"
    elif seen or not hidden:
        what += f"; looked in: {', '.join(map(printable, seen)) or 'none of the places is there'}"
    if hidden:
        what += f"; cannot be seen from here: {', '.join(map(printable, hidden))}"
    return TargetError(what)


def _looked_in(places: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The places that are there, and those that somebody else's rights hide."""
    seen: list[bytes] = []
    hidden: list[bytes] = []
    for place in places:
        try:
            next(entries_of(os.path.join(place, b"")), None)
            seen.extend([place] if os.path.isdir(place) else [])
        except Unknown:
            hidden.append(place)
    return seen, hidden


_FINDERS: Final[dict[str, Callable[[str, Homes], bytes]]] = {OLLAMA: _ollama, HUGGING_FACE: _hugging_face}
