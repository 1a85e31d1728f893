"""The world that the daemon looks at: files come, change and go, at random and in every way that one knows of.

Each act is done whole, told to the kernel, and noted: what was removed and what was touched, and when.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from watchfiles import Change

from tests.soak.clockwork import Clockwork
from tests.soak.contents import CATALOGUE, Content, content_for, cut_short, flipped, shard
from tests.soak.kernel import Kernel

SIDECAR: Final = ".sha256"
MODELS: Final = (".gguf", ".safetensors")
INDEX: Final = "model.safetensors.index.json"
SHARDS: Final = {f"model-0000{number}-of-00003.safetensors": name for number, name in ((1, "a"), (2, "b"), (3, "c"))}

#: Names of files and of directories that a root may hold; few, so that each is used again and again.
_NAMES: Final = [f"{letter}{number}{end}" for end in MODELS for letter in "mn" for number in range(5)]
_DIRECTORIES: Final = ["", "", "", "old", "new", "old/deep"]
_SET: Final = "set"

#: A root holds no more files than this.
_MOST_FILES: Final = 24


class World:
    """Files below some roots. ``away`` are the roots that are not there at present."""

    def __init__(self, roots: list[Path], chance: random.Random, clockwork: Clockwork, kernel: Kernel) -> None:
        self.roots = roots
        self.away: set[Path] = set()
        self.acts = 0
        #: When a name was last removed, and last touched in any way, its sidecar and its removal included (virtual time).
        self.removed: dict[str, float] = {}
        self.touched: dict[str, float] = {}
        #: What was written, by inode, size and both times.
        self.written: dict[tuple[object, ...], Content] = {}
        self._chance = chance
        self._clockwork = clockwork
        self._kernel = kernel
        for root in roots:
            root.mkdir()

    @property
    def _acts(self) -> list[Callable[[Path], None]]:
        return [
            *[self.create] * 4, self.download, self.download, self.overwrite, self.overwrite, self.replace, self.replace,
            self.flip_and_put_time_back, self.touch, self.cut, self.delete, self.delete, self.rename, self.rename,
            self.link, self.unlink_one_of_many, self.expectation, self.break_promise, self.break_promise, self.take_promise_back,
            self.move_directory, self.remove_directory, self.shard_comes, self.shard_comes, self.shard_goes,
        ]  # fmt: skip

    def act(self) -> None:
        """Do something at random, below a root that is there."""
        there = [root for root in self.roots if root not in self.away]
        if there:
            self._clockwork.moment()
            self.acts += 1
            self._chance.choice(self._acts)(self._chance.choice(there))
            self._note_states()

    def _note_states(self) -> None:
        for root in self.roots:
            for path in self.models(root):
                status = path.stat()
                state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                if state not in self.written:
                    self.written[state] = CATALOGUE[sha256(path.read_bytes()).hexdigest()]

    # --- what is there -----------------------------------------------------------------------------------

    @staticmethod
    def files(root: Path) -> Iterator[Path]:
        """Every regular file below ``root``."""
        for directory, _, names in os.walk(root):
            yield from (Path(directory, name) for name in sorted(names))

    def models(self, root: Path) -> list[Path]:
        """Every file with the name of a model, those of sets apart."""
        return [path for path in self.files(root) if path.suffix in MODELS and path.parent.name != _SET]

    def _model(self, root: Path) -> Path | None:
        models = self.models(root)
        return self._chance.choice(models) if models else None

    def _place(self, root: Path) -> Path:
        directory = root / self._chance.choice(_DIRECTORIES)
        self._make(directory)
        return directory / self._chance.choice(_NAMES)

    # --- what is told and noted --------------------------------------------------------------------------

    def _say(self, change: Change, path: Path) -> None:
        subject = str(path).removesuffix(SIDECAR)
        self.touched[subject] = self._clockwork.now()
        if change is Change.deleted:
            self.removed[str(path)] = self._clockwork.now()
        self._kernel.report(change, str(path))

    def _make(self, directory: Path) -> None:
        if not directory.exists():
            self._make(directory.parent)
            directory.mkdir()
            self._say(Change.added, directory)

    def _write(self, path: Path, data: bytes) -> None:
        fresh = not path.exists()
        path.write_bytes(data)
        self._touch(path, Change.added if fresh else Change.modified)

    def _touch(self, path: Path, change: Change = Change.modified) -> None:
        """One name of a file is told; all of them changed."""
        self._say(change, path)
        self._note_names(path.stat())

    def _note_names(self, status: os.stat_result) -> None:
        if status.st_nlink > 1:
            for root in self.roots:
                same = [other for other in self.files(root) if other.stat().st_ino == status.st_ino]
                self.touched |= dict.fromkeys(map(str, same), self._clockwork.now())

    def _move(self, path: Path, other: Path) -> None:
        before = other.stat() if other.exists() else path.stat()
        path.rename(other)
        self._note_names(before)
        self._say(Change.deleted, path)
        self._touch(other, Change.added)

    def _remove(self, path: Path) -> None:
        status = path.stat()
        path.unlink()
        self._say(Change.deleted, path)
        self._note_names(status)

    # --- single files ------------------------------------------------------------------------------------

    def create(self, root: Path) -> None:
        if len(self.models(root)) < _MOST_FILES:
            path = self._place(root)
            self._write(path, content_for(path.name, self._chance).data)

    def download(self, root: Path) -> None:
        """Begin one, go on with one that was begun, or finish it."""
        begun = [path for path in self.files(root) if path.suffix == ".part"]
        if not begun:
            path = self._place(root)
            self._write(path.with_name(path.name + ".part"), content_for(path.name, self._chance).data[:20])
        elif self._chance.random() < 0.5:
            self._write(begun[0], begun[0].read_bytes() + b"more")
        else:
            self._write(begun[0], content_for(begun[0].stem, self._chance).data)
            self._move(begun[0], begun[0].with_suffix(""))

    def overwrite(self, root: Path) -> None:
        path = self._model(root)
        if path is not None:
            self._write(path, content_for(path.name, self._chance).data)

    def replace(self, root: Path) -> None:
        path = self._model(root)
        if path is not None:
            fresh = path.with_name(path.name + ".tmp")
            fresh.write_bytes(content_for(path.name, self._chance).data)
            before = path.stat()
            fresh.rename(path)
            self._say(Change.added, path)
            self._note_names(before)

    def flip_and_put_time_back(self, root: Path) -> None:
        path = self._model(root)
        data = None if path is None else flipped(path.read_bytes())
        if path is not None and data is not None:
            before = path.stat()
            self._write(path, data)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def touch(self, root: Path) -> None:
        path = self._model(root)
        if path is not None:
            os.utime(path)
            self._touch(path)

    def cut(self, root: Path) -> None:
        """Cut a sound file in place; others make it anew some day."""
        path = self._model(root)
        data = None if path is None else cut_short(path.read_bytes(), self._chance)
        if path is not None and data is not None:
            os.truncate(path, len(data))
            self._touch(path)

    def delete(self, root: Path) -> None:
        path = self._model(root)
        if path is not None:
            self._remove(path)

    def rename(self, root: Path) -> None:
        path, other = self._model(root), self._place(root)
        if path is not None and path.suffix == other.suffix and path != other:
            self._move(path, other)

    def link(self, root: Path) -> None:
        path, other = self._model(root), self._place(root)
        if path is not None and path.suffix == other.suffix and not other.exists():
            os.link(path, other)
            self._touch(other, Change.added)

    def unlink_one_of_many(self, root: Path) -> None:
        many = [path for path in self.models(root) if path.stat().st_nlink > 1]
        if many:
            self._remove(self._chance.choice(many))

    # --- what others say of them -------------------------------------------------------------------------

    def expectation(self, root: Path) -> None:
        self._promise(root, lambda data: sha256(data).hexdigest())

    def break_promise(self, root: Path) -> None:
        self._promise(root, lambda data: sha256(data + b"!").hexdigest())

    def _promise(self, root: Path, digest: Callable[[bytes], str]) -> None:
        single = [path for path in self.models(root) if path.stat().st_nlink == 1]
        if single:
            path = self._chance.choice(single)
            self._write(path.with_name(path.name + SIDECAR), digest(path.read_bytes()).encode())

    def take_promise_back(self, root: Path) -> None:
        expectations = [path for path in self.files(root) if path.suffix == SIDECAR]
        if expectations:
            self._remove(self._chance.choice(expectations))

    # --- directories and sets ----------------------------------------------------------------------------

    def move_directory(self, root: Path) -> None:
        old, new = root / "old", root / self._chance.choice(["new", "moved"])
        if old.exists() and not new.exists():
            below = list(self.files(old))
            old.rename(new)
            for path in below:
                self.removed[str(path)] = self.touched[str(path)] = self._clockwork.now()
                self.touched[str(new / path.relative_to(old))] = self._clockwork.now()
            self._say(Change.deleted, old)
            self._say(Change.added, new)

    def remove_directory(self, root: Path) -> None:
        directory = root / self._chance.choice(["old", "new", "moved", "moved/deep"])
        if directory.exists():
            for path in self.files(directory):
                self._remove(path)
            shutil.rmtree(directory)
            self._say(Change.deleted, directory)

    def shard_comes(self, root: Path) -> None:
        self._make(root / _SET)
        absent = [name for name in SHARDS if not (root / _SET / name).exists()]
        if len(absent) == len(SHARDS):
            index = {"metadata": {"total_size": 12}, "weight_map": {tensor: name for name, tensor in SHARDS.items()}}
            self._write(root / _SET / INDEX, json.dumps(index).encode())
        if absent:
            name = self._chance.choice(absent)
            self._write(root / _SET / name, shard(SHARDS[name]).data)

    def shard_goes(self, root: Path) -> None:
        there = [path for path in self.files(root / _SET) if path.name in SHARDS]
        if there:
            self._remove(self._chance.choice(there))
            if len(there) == 1:
                self._remove(root / _SET / INDEX)

    # --- roots -------------------------------------------------------------------------------------------

    def vanish(self, root: Path) -> None:
        """The root is not there for a while."""
        root.rename(_elsewhere(root))
        self.away.add(root)
        self._kernel.report(Change.deleted, str(root))

    def come_back(self, root: Path) -> None:
        """The root is there again, as it was."""
        _elsewhere(root).rename(root)
        self.away.discard(root)


def _elsewhere(root: Path) -> Path:
    return root.with_name(root.name + ".away")
