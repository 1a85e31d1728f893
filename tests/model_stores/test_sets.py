"""Sets as they stand in directories: which files belong together, and whether all of them are there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gguf as gguf_library
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditd.inspection.set_candidates import candidates, candidates_of, lone
from auditd.model_sets import names as set_names
from auditd.model_sets.assess import assess
from auditd.model_sets.candidate import IndexCandidate, SplitCandidate
from auditd.model_sets.members import MemberFacts
from auditd.model_sets.names import Listing
from auditd.model_stores.files import Unknown
from tests.builders import CASES, Tensor, observation, property_test, simple
from tests.support.sets import (
    composed,
    index_json,
    judged,
    members_of,
    missing,
    only,
    shard,
    sharded,
    split,
    tensors,
    told,
)
from tests.test_cases import cases

PAGE = b"<!DOCTYPE html><html><title>404</title></html>"


def set_cases() -> list[Any]:
    rows = [
        pytest.param(case, id=case.file)
        for case in cases()
        if case.file.startswith(("field/gguf/split/", "field/st/index/"))
    ]
    skip = pytest.mark.skip(reason=f"no collection of input files at {CASES}")
    return rows or [pytest.param(None, marks=skip, id="none")]


@pytest.mark.parametrize("case", set_cases())
def test_the_collection(case: Any) -> None:
    evidence = only(CASES / case.file)
    assert evidence.verdict in case.verdict.removeprefix("set:").split("|")


# --- GGUF splits


def test_a_split_that_the_reference_writer_made_is_whole(tmp_path: Path) -> None:
    writer = gguf_library.GGUFWriter(tmp_path / "m.gguf", "test", split_max_tensors=2)
    for at in range(5):
        writer.add_tensor(f"blk.{at}.weight", np.full((4, 8), at, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert len(list(tmp_path.iterdir())) == 3
    evidence = only(tmp_path)
    assert (evidence.verdict, evidence.findings, evidence.limitations) == ("sound", [], [])
    assert evidence.set.name == "m-*-of-00003.gguf"
    assert evidence.set.totals.declared.members == evidence.set.totals.found.members == 3
    assert evidence.set.totals.declared.tensors == evidence.set.totals.found.tensors == 5
    (tmp_path / "m-00001-of-00003.gguf").unlink()
    assert missing(only(tmp_path)) == ["m-00001-of-00003.gguf"]


def test_members_that_are_not_there(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"], ["c"], ["d", "e"], without=[2, 3])
    evidence = only(tmp_path)
    assert evidence.verdict == "incomplete"
    assert missing(evidence) == ["m-00002-of-00004.gguf", "m-00003-of-00004.gguf"]
    (finding,) = evidence.findings
    assert (finding.code, finding.severity, finding.count) == ("set_incomplete", "warning", 2)
    assert (finding.expected, finding.actual) == (4, 2)
    assert finding.message.endswith("3 of 5 tensors are here")
    rows = evidence.set.members or []
    assert [(row.number, row.name, row.tensors, row.verdict, row.present) for row in rows] == [
        (1, "m-00001-of-00004.gguf", 1, "sound", True),
        (4, "m-00004-of-00004.gguf", 2, "sound", True),
    ]
    assert all(row.evidence_id and row.path == str(tmp_path / row.name) for row in rows)


def test_uneven_members_are_normal(tmp_path: Path) -> None:
    split(tmp_path, "m", [], ["a", "b", "c"], ["d"])
    assert only(tmp_path).verdict == "sound"


def test_two_sets_of_one_model_are_judged_apart(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"])
    split(tmp_path, "m", ["a"], ["b"], ["c"], without=[3])
    assert [(one.set.name, one.verdict) for one in judged(tmp_path)] == [
        ("m-*-of-00002.gguf", "sound"),
        ("m-*-of-00003.gguf", "incomplete"),
    ]


@pytest.mark.parametrize("count", [None, 0, 1])
def test_without_a_split_count_a_file_stands_alone_whatever_its_name(tmp_path: Path, count: int | None) -> None:
    (tmp_path / "m-00001-of-00003.gguf").write_bytes(shard(None, count, None, ["a"]))
    assert judged(tmp_path) == []


def test_a_whole_file_with_the_keys_of_a_split_has_a_stale_key(tmp_path: Path) -> None:
    (tmp_path / "m-00001-of-00003.gguf").write_bytes(shard(0, 3, 5, ["a", "b", "c", "d", "e"]))
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("notice", {"set_stale"})
    assert [row.name for row in evidence.set.stale or []] == ["m-00001-of-00003.gguf"]


def test_a_file_that_speaks_of_others_under_a_plain_name(tmp_path: Path) -> None:
    path = tmp_path / "renamed.gguf"
    for content, verdict, code in (
        (shard(1, 3, 5, ["a", "b"]), "incomplete", "set_incomplete"),
        (shard(0, 3, 2, ["a", "b"]), "notice", "set_stale"),
    ):
        path.write_bytes(content)
        candidate = lone(os.fsencode(path), len(content))
        facts = assess(candidate, members_of(candidate), standing_still=True)
        assert facts is not None
        evidence = composed(facts)
        assert evidence.verdict == verdict
        assert code in told(evidence)
    path.write_bytes(shard(None, None, None, ["a"]))
    assert assess(candidate, members_of(candidate), standing_still=True) is None
    assert judged(tmp_path) == []


def test_the_header_beats_the_name(tmp_path: Path) -> None:
    for at in (1, 2):
        (tmp_path / f"m-{at:05d}-of-00002.gguf").write_bytes(shard(at - 1, 3, 3, [f"t{at}"]))
    evidence = only(tmp_path)
    assert (evidence.verdict, missing(evidence)) == ("incomplete", ["m-00003-of-00003.gguf"])
    assert set(told(evidence)) == {"set_incomplete", "set_contradictory"}


def test_two_members_with_the_same_number(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"], ["c"])
    (tmp_path / "m-00003-of-00003.gguf").write_bytes(shard(1, 3, 3, ["c"]))
    evidence = only(tmp_path)
    assert evidence.verdict == "incomplete"
    assert "both say that they are number 2" in told(evidence)["set_contradictory"]


def test_a_member_of_another_set(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"], ["c"])
    (tmp_path / "m-00003-of-00003.gguf").write_bytes(shard(2, 4, 9, ["c"]))
    message = told(only(tmp_path))["set_contradictory"]
    assert 'split.count is 3 in most members, and "m-00003-of-00003.gguf" says 4' in message
    assert "split.tensors.count is 3 in most members" in message


@pytest.mark.parametrize(
    ("total", "verdict", "code"), [(4, "incomplete", "set_incomplete"), (1, "notice", "set_stale")]
)
def test_a_total_that_is_not_the_sum(tmp_path: Path, total: int, verdict: str, code: str) -> None:
    for at in (1, 2):
        (tmp_path / f"m-{at:05d}-of-00002.gguf").write_bytes(shard(at - 1, 2, total, [f"t{at}"]))
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == (verdict, {code})


def test_more_tensors_than_the_keys_say(tmp_path: Path) -> None:
    for at, names in enumerate((["a", "b"], ["c", "d"]), 1):
        (tmp_path / f"m-{at:05d}-of-00002.gguf").write_bytes(shard(at - 1, 2, 3, names))
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("notice", {"set_contradictory"})


def test_a_tensor_in_two_members(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a", "same"], ["b"], ["same"])
    evidence = only(tmp_path)
    assert evidence.verdict == "notice"
    message = told(evidence)["set_tensor_repeated"]
    assert message == 'the tensor "same" is in "m-00001-of-00003.gguf" and in "m-00003-of-00003.gguf"'


def test_the_first_member_has_the_architecture(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"])
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(shard(0, 2, 2, ["a"], architecture=False))
    assert set(told(only(tmp_path))) == {"set_architecture_absent"}


def test_a_member_that_is_cut_is_there_and_is_named(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"])
    path = tmp_path / "m-00002-of-00002.gguf"
    path.write_bytes(path.read_bytes()[:-10])
    evidence = only(tmp_path)
    assert evidence.verdict == "notice"
    assert told(evidence) == {"set_member_unsound": '"m-00002-of-00002.gguf" is truncated'}


def test_a_page_in_a_members_place_is_not_the_member(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"])
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(PAGE)
    evidence = only(tmp_path)
    assert (evidence.verdict, missing(evidence)) == ("incomplete", ["m-00002-of-00002.gguf"])
    assert [row.present for row in evidence.set.members or []] == [True, False]


def test_pointers_in_place_of_all_members(tmp_path: Path) -> None:
    for at in (1, 2):
        (tmp_path / f"m-{at:05d}-of-00002.gguf").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    evidence = only(tmp_path)
    assert (evidence.verdict, evidence.set.missing_count) == ("incomplete", 2)


@pytest.mark.parametrize(
    "names",
    [
        ("m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"),
        ("m.gguf.part1of3", "m.gguf.part2of3", "m.gguf.part3of3"),
        ("m.gguf.001", "m.gguf.002", "m.gguf.003"),
        ("m.gguf-split-a", "m.gguf-split-b", "m.gguf-split-c"),
    ],
)
def test_pieces_are_a_model_only_when_they_are_joined(tmp_path: Path, names: tuple[str, ...]) -> None:
    whole = simple(*(Tensor(f"t{at}", [64]) for at in range(8))).data
    for at, name in enumerate(names):
        (tmp_path / name).write_bytes(whole[at * 900 : (at + 1) * 900])
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("notice", {"set_raw_pieces"})
    assert evidence.set.totals.found.bytes == len(whole)
    assert "Join them" in evidence.findings[0].advice
    last = tmp_path / names[2]
    last.write_bytes(last.read_bytes()[:-1])
    evidence = only(tmp_path)
    assert evidence.verdict == "incomplete"
    assert f"have {len(whole) - 1:,} bytes" in told(evidence)["set_incomplete"]
    last.unlink()
    assert only(tmp_path).verdict == "incomplete"


def test_a_link_to_nothing(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"], without=[2])
    (tmp_path / "m-00002-of-00002.gguf").symlink_to("gone")
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("incomplete", {"missing_target"})
    assert [row.dangling for row in evidence.set.missing or []] == [True]


def test_what_is_missing_may_still_come(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"], without=[2])
    evidence = only(tmp_path, standing_still=False)
    assert (evidence.verdict, set(told(evidence))) == ("in_progress", {"set_unfinished"})
    assert missing(evidence) == ["m-00002-of-00002.gguf"]
    assert only(tmp_path).verdict == "incomplete"


@pytest.mark.parametrize("tail", [".part", ".incomplete", ".crdownload"])
def test_a_download_under_way(tmp_path: Path, tail: str) -> None:
    split(tmp_path, "m", ["a"], ["b"], without=[2])
    (tmp_path / f"m-00002-of-00002.gguf{tail}").write_bytes(b"GG")
    evidence = only(tmp_path)
    assert evidence.verdict == "in_progress"
    assert [row.name for row in evidence.set.unfinished or []] == [f"m-00002-of-00002.gguf{tail}"]


def test_a_control_file_beside_a_member(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"])
    (tmp_path / "m-00002-of-00002.gguf.aria2").write_bytes(b"\0")
    evidence = only(tmp_path)
    assert (evidence.verdict, missing(evidence)) == ("in_progress", ["m-00002-of-00002.gguf"])


def test_a_leftover_beside_the_whole_set_is_no_progress(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"])
    (tmp_path / "m-00002-of-00002.gguf.part").write_bytes(b"GG")
    assert only(tmp_path).verdict == "sound"


def test_a_huge_count_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(shard(0, 65535, 5, ["a"]))
    (tmp_path / "n-999998-of-999999.gguf").write_bytes(PAGE)
    for evidence, count in zip(judged(tmp_path), (65534, 999_999), strict=True):
        assert evidence.set.missing_count == count
        assert len(evidence.set.missing or []) == 1000
        assert [limit.code for limit in evidence.limitations] == ["lists_cut"]


def test_members_without_a_record_are_known_by_name(tmp_path: Path) -> None:
    split(tmp_path, "m", ["a"], ["b"], ["c"], without=[3])
    (candidate,) = candidates(os.fsencode(tmp_path))
    facts = assess(candidate, {}, standing_still=True)
    assert facts is not None
    evidence = composed(facts)
    assert (evidence.verdict, missing(evidence)) == ("incomplete", ["m-00003-of-00003.gguf"])
    (limit,) = evidence.limitations
    assert (limit.code, limit.count) == ("member_not_inspected", 2)


# --- safetensors and their index


def test_an_index_and_its_files(tmp_path: Path) -> None:
    sharded(tmp_path, ["a", "b", "c"], ["d"])
    evidence = only(tmp_path)
    assert (evidence.verdict, evidence.findings, evidence.limitations) == ("sound", [], [])
    assert evidence.set.source == str(tmp_path / "model.safetensors.index.json")
    assert evidence.set.totals.declared == evidence.set.totals.found
    assert (evidence.set.totals.found.tensors, evidence.set.totals.found.bytes) == (4, 32)


@pytest.mark.parametrize(
    ("stem", "index"),
    [
        ("diffusion_pytorch_model", "diffusion_pytorch_model.safetensors.index.json"),
        ("model.fp16", "model.fp16.safetensors.index.json"),
        ("model.fp16", "model.safetensors.index.fp16.json"),
        ("anything", "model.safetensors.index.json"),
    ],
)
def test_indexes_under_other_names(tmp_path: Path, stem: str, index: str) -> None:
    sharded(tmp_path, ["a"], ["b"], stem=stem, index=index)
    evidence = only(tmp_path)
    assert (evidence.verdict, evidence.set.name) == ("sound", index)
    (tmp_path / f"{stem}-00002-of-00002.safetensors").unlink()
    assert missing(only(tmp_path)) == [f"{stem}-00002-of-00002.safetensors"]


def test_a_tensor_that_its_file_does_not_have(tmp_path: Path) -> None:
    sharded(tmp_path, ["a", "b"], ["c", "gone"])
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(tensors("c"))
    evidence = only(tmp_path)
    assert evidence.verdict == "incomplete"
    assert [row.name for row in evidence.set.missing_tensors or []] == ["gone"]
    assert told(evidence) == {"set_incomplete": '3 of 4 tensors are here; not where they should be: "gone"'}


def test_tensors_that_the_index_does_not_name(tmp_path: Path) -> None:
    sharded(tmp_path, ["a", "b"], ["c"])
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(tensors("c", "more", "most"))
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("notice", {"set_not_indexed"})
    assert evidence.findings[0].count == 2


def test_a_tensor_in_two_files(tmp_path: Path) -> None:
    sharded(tmp_path, ["a", "b"], ["c"])
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(tensors("a", "c"))
    evidence = only(tmp_path)
    assert evidence.verdict == "notice"
    first, second = '"model-00001-of-00002.safetensors"', '"model-00002-of-00002.safetensors"'
    assert told(evidence)["set_tensor_repeated"] == f'the tensor "a" is in {first} and in {second}'


@pytest.mark.parametrize(
    ("total", "verdict"),
    [(24, "sound"), (24.0, "sound"), (32, "notice"), (None, "sound"), ("24", "sound"), (-24, "sound")],
)
def test_the_total_of_the_index(tmp_path: Path, total: Any, verdict: str) -> None:
    files = sharded(tmp_path, ["a", "b"], ["c"])
    (tmp_path / "model.safetensors.index.json").write_bytes(index_json(files, total))
    evidence = only(tmp_path)
    assert evidence.verdict == verdict
    assert [(finding.expected, finding.actual) for finding in evidence.findings] == [(32, 24)] * (verdict == "notice")


def test_files_in_no_index(tmp_path: Path) -> None:
    sharded(tmp_path, ["a"], ["b"])
    (tmp_path / "model-mtp-of-00003.safetensors").write_bytes(tensors("m"))
    (tmp_path / "model.safetensors").write_bytes(tensors("a", "b"))
    (tmp_path / "consolidated.safetensors").write_bytes(tensors("a", "b"))
    (tmp_path / "notes.txt").write_bytes(b"")
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("notice", {"set_stray"})
    assert [row.name for row in evidence.set.stray or []] == [
        "consolidated.safetensors",
        "model-mtp-of-00003.safetensors",
        "model.safetensors",
    ]


def test_a_stray_file_belongs_to_the_index_that_it_is_named_after(tmp_path: Path) -> None:
    sharded(tmp_path, ["a"], ["b"])
    sharded(tmp_path, ["x"], ["y"], stem="other")
    (tmp_path / "other-extra.safetensors").write_bytes(tensors("m"))
    assert [(one.set.name, one.verdict) for one in judged(tmp_path)] == [
        ("model.safetensors.index.json", "sound"),
        ("other.safetensors.index.json", "notice"),
    ]


def test_an_index_of_another_sharding_is_stale(tmp_path: Path) -> None:
    sharded(tmp_path, ["a"], ["b"], ["c"])
    for at in (1, 2, 3):
        (tmp_path / f"model-{at:05d}-of-00003.safetensors").unlink()
    for at, names in enumerate((["a", "b"], ["c"]), 1):
        (tmp_path / f"model-{at:05d}-of-00002.safetensors").write_bytes(tensors(*names))
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("notice", {"set_stale"})
    assert [row.name for row in evidence.set.stale or []] == ["model.safetensors.index.json"]
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(tensors("z"))
    assert only(tmp_path).verdict == "incomplete"


def test_an_index_beside_the_one_file_that_took_its_place_is_stale(tmp_path: Path) -> None:
    sharded(tmp_path, ["a"], ["b"])
    for at in (1, 2):
        (tmp_path / f"model-{at:05d}-of-00002.safetensors").unlink()
    (tmp_path / "model.safetensors").write_bytes(tensors("a", "b"))
    assert told(only(tmp_path)).keys() == {"set_stale"}


def test_numbered_files_without_an_index(tmp_path: Path) -> None:
    sharded(tmp_path, ["a"], ["b"], ["c"])
    (tmp_path / "model.safetensors.index.json").unlink()
    assert only(tmp_path, standing_still=False).verdict == "in_progress"
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("notice", {"set_index_absent"})
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    evidence = only(tmp_path)
    assert (evidence.verdict, missing(evidence)) == ("incomplete", ["model-00002-of-00003.safetensors"])
    (tmp_path / "model.safetensors.index.json.incomplete").write_bytes(b"{")
    assert only(tmp_path).verdict == "in_progress"


def test_one_file_of_one_needs_no_index(tmp_path: Path) -> None:
    (tmp_path / "model-00001-of-00001.safetensors").write_bytes(tensors("a"))
    assert judged(tmp_path) == []


def test_a_download_of_a_file_that_the_index_names(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_bytes(
        index_json({"one.safetensors": ["a"], "two.safetensors": ["b"]})
    )
    (tmp_path / "one.safetensors").write_bytes(tensors("a"))
    (tmp_path / "two.safetensors.part").write_bytes(b"")
    assert only(tmp_path).verdict == "in_progress"


@pytest.mark.parametrize("content", [b"", b"{}", PAGE, b'{"weight_map": {"a": "../model-00001-of-00002.safetensors"}}'])
def test_an_index_that_cannot_be_used(tmp_path: Path, content: bytes) -> None:
    sharded(tmp_path, ["a"], ["b"])
    (tmp_path / "model.safetensors.index.json").write_bytes(content)
    evidence = only(tmp_path)
    assert (evidence.verdict, set(told(evidence))) == ("incomplete", {"set_index_unusable"})
    assert evidence.set.missing == []
    assert only(tmp_path, standing_still=False).verdict == "in_progress"


@pytest.mark.parametrize("kind", ["fifo", "directory", "out", "loop", "nowhere"])
def test_an_index_that_is_no_plain_file_is_never_waited_for_or_followed(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    sharded(place, ["a"], ["b"])
    index = place / "model.safetensors.index.json"
    index.rename(tmp_path / "outside.json")
    if kind == "fifo":
        os.mkfifo(index)
    elif kind == "directory":
        index.mkdir()
    else:
        targets = {"out": str(tmp_path / "outside.json"), "loop": str(index), "nowhere": "gone"}
        index.symlink_to(targets[kind])
    evidence = only(place)
    assert set(told(evidence)) == {"set_index_absent" if kind == "directory" else "set_index_unusable"}
    if kind == "out":
        assert only(place, within=tmp_path).verdict == "sound"


def test_a_snapshot_is_links_to_blobs(tmp_path: Path) -> None:
    model = tmp_path / "models--org--name"
    snapshot = model / "snapshots" / ("1" * 40)
    blobs = model / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    sharded(snapshot, ["a"], ["b"])
    for at, path in enumerate(sorted(snapshot.iterdir())):
        path.rename(blobs / f"{at:064x}")
        path.symlink_to(f"../../blobs/{at:064x}")
    evidence = only(snapshot)
    assert evidence.verdict == "sound"
    assert [row.path for row in evidence.set.members or []] == [str(blobs / f"{at:064x}") for at in (0, 1)]
    (blobs / f"{1:064x}").unlink()
    assert set(told(only(snapshot))) == {"missing_target"}


def test_members_have_the_paths_that_a_walk_comes_by(tmp_path: Path) -> None:
    (tmp_path / "real" / "place").mkdir(parents=True)
    (tmp_path / "linked").symlink_to("real")
    place = tmp_path / "linked" / "place"
    split(place, "m", ["a"], ["b"])
    (place / "m-00002-of-00002.gguf").rename(place / "blob")
    (place / "m-00002-of-00002.gguf").symlink_to("blob")
    (candidate,) = candidates(os.fsencode(place))
    assert [entry.path for entry in candidate.entries] == [
        os.fsencode(place / "m-00001-of-00002.gguf"),
        os.fsencode(place / "blob"),
    ]


def test_names_of_any_bytes(tmp_path: Path) -> None:
    stem = os.fsencode(tmp_path) + b"/\xff\x1b[31m\n"
    for at in (1, 2):
        with open(stem + b"-%05d-of-00003.gguf" % at, "wb") as file:
            file.write(shard(at - 1, 3, 3, [f"\x1b{at}"]))
    evidence = only(tmp_path)
    assert (evidence.set.missing or [])[0].name_base64 is not None
    assert "\x1b" not in told(evidence)["set_incomplete"]


def test_a_place_without_sets(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(tensors("a"))
    (tmp_path / "model.gguf").write_bytes(shard(None, None, None, ["a"]))
    assert judged(tmp_path) == []
    assert list(candidates(os.fsencode(tmp_path / "nothing"))) == []


def test_a_place_with_more_names_than_are_kept_is_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_names, "KEPT_NAMES", 2)
    split(tmp_path, "m", ["a"], ["b"])
    (tmp_path / "notes.txt").write_bytes(b"")
    assert only(tmp_path).verdict == "sound"
    split(tmp_path, "n", ["a"])
    with pytest.raises(Unknown):
        list(candidates(os.fsencode(tmp_path)))


# --- properties


def test_a_checkpoint_ends_the_work(tmp_path: Path) -> None:
    sharded(tmp_path, ["a"], ["b"])

    class Ended(Exception):
        pass

    def stop() -> None:
        raise Ended

    with pytest.raises(Ended):
        list(candidates(os.fsencode(tmp_path), checkpoint=stop))
    (candidate,) = candidates(os.fsencode(tmp_path))
    with pytest.raises(Ended):
        assess(candidate, members_of(candidate), standing_still=True, pause=stop)


@given(data=st.data())
@property_test(30)
def test_the_order_of_names_and_members_does_not_matter(tmp_path: Path, data: st.DataObject) -> None:
    place = tmp_path / "place"
    if not place.exists():
        place.mkdir()
        split(place, "m", ["a", "x"], ["b"], ["c", "x"], ["d"], without=[3])
        (place / "m-00004-of-00004.gguf").write_bytes(shard(1, 4, 9, ["x"]))
        sharded(place, ["a"], ["b", "gone"], ["c"])
        (place / "model-00002-of-00003.safetensors").write_bytes(tensors("b", "c", "more"))
        (place / "model-00004-of-00004.safetensors").write_bytes(tensors("z"))
        FACTS.update({entry: MemberFacts.of(observation(place / os.fsdecode(entry))) for entry in _members(place)})
    names = sorted(map(os.fsencode, os.listdir(place)))
    wanted = _records(place, names, reverse=False)
    assert len(wanted) == 2
    assert _records(place, data.draw(st.permutations(names)), reverse=data.draw(st.booleans())) == wanted


#: Facts of the files of the test above: one inspection each.
FACTS: dict[bytes, MemberFacts] = {}


def _members(place: Path) -> list[bytes]:
    return [os.fsencode(path.name) for path in place.iterdir() if path.suffix != ".json"]


def _records(place: Path, names: list[bytes], *, reverse: bool) -> list[str]:
    listing = Listing()
    for name in names:
        listing.add(name)
    found = []
    for candidate in candidates_of(listing, os.fsencode(place)):
        assert isinstance(candidate, (SplitCandidate, IndexCandidate))
        members = {entry.name: FACTS[entry.name] for entry in candidate.entries}
        if reverse:
            members = dict(reversed(members.items()))
        facts = assess(candidate, members, standing_still=True)
        assert facts is not None
        found.append(composed(facts).evidence_id)
    return found
