"""Stores as people have reported them, if the collection of input files is at hand."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from auditd.model_stores.homes import Homes
from auditd.model_stores.locate import locate
from auditd.model_stores.status import EntryStatus
from auditd.model_stores.stores import ModelStores
from tests.builders import CASES
from tests.model_stores.trees import sha256
from tests.test_cases import Case, cases

FIELD = ("field/ollama/", "field/hf/")
ROWS = [case for case in cases() if case.file.startswith(FIELD)]
pytestmark = pytest.mark.skipif(not ROWS, reason=f"no collection of input files at {CASES}")

#: Verdicts of rows that a store tells by itself, without the content, and how it tells them.
TOLD = {
    "in_progress": {"unfinished", "leftover"},
    "store:orphan": {"orphan"},
    "store:missing_target": {"missing_target"},
}


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stores with their links: a collection that came as plain files has the links' text in their place."""
    root = tmp_path_factory.mktemp("cases")
    for folder in ("ollama", "hf"):
        shutil.copytree(CASES / "field" / folder, root / "field" / folder, symlinks=True)
    for path in (root / "field" / "hf").glob("hub/*/snapshots/*/*"):
        if not path.is_symlink() and path.read_bytes().startswith(b"../../blobs/"):
            text = path.read_text()
            path.unlink()
            path.symlink_to(text)
    return root


@pytest.fixture(scope="module")
def standings(field: Path) -> dict[str, EntryStatus]:
    found = ModelStores().survey(bytes(field))
    return {os.fsdecode(os.path.relpath(item.path, bytes(field))): item for item in found}


def rows(*verdicts: str) -> list[object]:
    return [pytest.param(case, id=case.file) for case in ROWS if case.verdict in verdicts] or [
        pytest.param(None, id="none", marks=pytest.mark.skip)
    ]


@pytest.mark.parametrize("case", rows("in_progress", "store:orphan", "store:missing_target"))
def test_a_store_tells_what_stands_wrong_in_it(case: Case, field: Path, standings: dict[str, EntryStatus]) -> None:
    found = standings[case.file]
    assert found.kind in TOLD[case.verdict]
    if case.figures["size"]:
        assert found.size == int(case.figures["size"])
    assert ("leftover" in case.right) == (found.kind == "leftover")


@pytest.mark.parametrize("case", rows("mismatch"))
def test_a_mismatch_is_one_of_content_and_promise(case: Case, field: Path) -> None:
    path = field / case.file
    values = {item.value for item in ModelStores().expectation(bytes(path)).references}
    assert len(values) == 1
    assert sha256(path.read_bytes()) not in values


@pytest.mark.parametrize("case", rows("sound", "sound|notice"))
def test_what_is_sound_is_what_was_promised(case: Case, field: Path) -> None:
    path = (field / case.file).resolve()
    known = ModelStores().expectation(bytes(path))
    content = path.read_bytes()
    assert {item.value for item in known.references} == (set() if "nolinks" in case.file else {sha256(content)})
    assert known.size in {None, len(content)}


@pytest.mark.parametrize("case", rows("set:incomplete", "store:sound"))
def test_sets_are_whole_or_say_what_is_missing(case: Case, field: Path) -> None:
    sets = [
        facts
        for facts in ModelStores().models(bytes(field))
        if bytes(field / case.file) in {facts.source, facts.directory}
    ]
    (facts,) = sets
    assert bool(facts.missing or facts.remarks) == (case.verdict == "set:incomplete")
    for member in facts.members:
        with open(member.path, "rb") as file:
            assert f"sha256:{hashlib.sha256(file.read()).hexdigest()}".encode() == member.name


def test_every_row_is_looked_at() -> None:
    looked_at = {*TOLD, "mismatch", "sound", "sound|notice", "set:incomplete", "store:sound"}
    assert {case.verdict for case in ROWS} <= looked_at


def test_all_else_is_well(field: Path, standings: dict[str, EntryStatus]) -> None:
    told = {case.file for case in ROWS if case.verdict != "sound"}
    unexpected = {name: item.kind for name, item in standings.items() if name not in told}
    # The blob of the model that cannot run, and a blob that only its content makes a mismatch.
    assert {kind for name, kind in unexpected.items() if "cccc" in name} == {"missing_target"}
    assert {name for name in unexpected if "cccc" not in name} == set()


def test_the_names_that_people_use_lead_to_the_files(field: Path) -> None:
    homes = Homes((bytes(field / "field/ollama/models"),), (bytes(field / "field/hf/hub"),))
    found = locate("ollama:good", homes)
    with open(found, "rb") as file:
        assert os.path.basename(found).decode() == f"sha256-{hashlib.sha256(file.read()).hexdigest()}"
    assert os.path.realpath(locate("hf:org/name/model.safetensors", homes)).endswith(
        b"cfefcbb5cc25b494bd7dbe8a00cf3fe794f1502b803324d2567c9400cf56ab9e"
    )
