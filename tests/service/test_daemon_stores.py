"""The daemon over the stores that people keep: names, references, pulls under way, sets, switched links."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.service.processes import House
from tests.support.models import gguf, safetensors

pytestmark = pytest.mark.system

MODEL = gguf(tensors=2)
LICENCE = b"do what you like"
MEDIA = "application/vnd.ollama.image."


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def blob(home: Path, content: bytes, *, name: str | None = None) -> Path:
    path = home / "blobs" / f"sha256-{name or digest(content)}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def manifest(home: Path, model: str, layers: dict[str, bytes], tag: str = "latest") -> Path:
    """What ``ollama pull`` writes last, by rename."""
    path = home / "manifests" / "registry.ollama.ai" / "library" / model / tag
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = [
        {"mediaType": MEDIA + kind, "digest": f"sha256:{digest(content)}", "size": len(content)}
        for kind, content in layers.items()
    ]
    temporary = path.with_name("manifest.tmp")
    temporary.write_text(json.dumps({"schemaVersion": 2, "mediaType": "x", "config": listed[-1], "layers": listed}))
    temporary.rename(path)
    return path


def about(events: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    return [event for event in events if event.get("path") == str(path)]


def test_a_pull_that_completes_under_its_eyes(house: House) -> None:
    """Its parts are no models; finished, it is one evidence with the model's name, hashed against its own name."""
    home = house.models
    (home / "blobs").mkdir()
    partial = home / "blobs" / f"sha256-{digest(MODEL)}-partial"
    partial.write_bytes(bytes(len(MODEL)))
    (home / "blobs" / f"sha256-{digest(MODEL)}-partial-0").write_text('{"N":0,"Offset":0,"Size":96,"Completed":10}')
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    partial.write_bytes(MODEL)
    (home / "blobs" / f"sha256-{digest(MODEL)}-partial-0").unlink()
    path = partial.rename(home / "blobs" / f"sha256-{digest(MODEL)}")
    blob(home, LICENCE)
    manifest(home, "small", {"model": MODEL, "license": LICENCE})
    hashed = daemon.wait_for("inspection_finished", path=str(path), scope="full")
    assert (hashed["verdict"], hashed["sha256"]) == ("sound", digest(MODEL))
    judged = daemon.wait_for("set_judged", verdict="sound")
    assert judged["kind"] == "ollama_model"
    assert judged["set"].endswith("small:latest")
    assert daemon.stop() == 0
    assert not daemon.named("alert_raised")
    assert {event["verdict"] for event in daemon.named("inspection_finished")} <= {"sound", "notice"}
    lines = house.lines()
    last = [line for line in lines if line["schema"].endswith("/evidence/1") and line["artifact"]["path"] == str(path)]
    assert last[-1]["artifact"]["names"][0] == "small:latest"
    assert last[-1]["artifact"]["store"] == "ollama"
    assert [line["set"]["name"] for line in lines if line["schema"].endswith("/set-evidence/1")] == ["small:latest"]


def test_a_zeroed_blob_is_told_by_its_name_and_by_whom_it_hits(house: House) -> None:
    home = house.models
    path = blob(home, bytes(len(MODEL)), name=digest(MODEL))
    manifest(home, "zeroed", {"model": MODEL})
    daemon = house.start()
    alert = daemon.wait_for("alert_raised", code="digest_mismatch")
    assert (alert["path"], alert["severity"], alert["level"]) == (str(path), "critical", "error")
    assert "zeroed:latest" in alert["message"]
    assert alert["sha256"] == digest(bytes(len(MODEL)))
    daemon.wait_for("daemon_ready")
    temporary = home / "blobs" / "new.part"
    temporary.write_bytes(MODEL)
    temporary.rename(path)
    assert daemon.wait_for("alert_cleared", code="digest_mismatch")["cleared_as"] == "repaired"
    assert daemon.stop() == 0


def test_a_missing_layer_is_a_model_that_cannot_run(house: House) -> None:
    home = house.models
    blob(home, LICENCE)
    manifest(home, "gone", {"model": MODEL, "license": LICENCE})
    daemon = house.start()
    alert = daemon.wait_for("alert_raised", code="set_incomplete")
    assert alert["path"].endswith("/gone:latest")
    daemon.wait_for("daemon_ready")
    blob(home, MODEL)
    cleared = daemon.wait_for("alert_cleared", code="set_incomplete")
    assert cleared["cleared_as"] == "repaired"
    assert daemon.stop() == 0


def shard(tensor: str) -> bytes:
    header = b'{"%b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}' % tensor.encode()
    return len(header).to_bytes(8, "little") + header + b"\1\2\3\4"


def test_a_set_is_whole_once_its_last_member_is_there(house: House) -> None:
    first, last = (house.models / f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    weights = {"a": first.name, "b": last.name}
    index = house.models / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": weights}))
    first.write_bytes(shard("a"))
    daemon = house.start()
    alert = daemon.wait_for("alert_raised", code="set_incomplete")
    assert last.name in alert["message"]
    assert (alert["path"], alert["severity"]) == (str(index), "warning")
    daemon.wait_for("daemon_ready")
    last.write_bytes(shard("b"))
    assert daemon.wait_for("alert_cleared", code="set_incomplete")["cleared_as"] == "repaired"
    last.unlink()
    daemon.wait_for("alert_raised", code="set_incomplete")
    index.unlink()
    first.unlink()
    assert daemon.wait_for("alert_cleared", code="set_incomplete")["cleared_as"] == "removed"
    assert daemon.stop() == 0
    verdicts = [line["verdict"] for line in house.lines() if line["schema"].endswith("/set-evidence/1")]
    assert verdicts[:3] == ["incomplete", "sound", "incomplete"]


def test_a_model_switched_by_its_link(house: House) -> None:
    """A snapshot entry and its blob are one artifact; when the name leads elsewhere, the other blob gets it."""
    repository = house.models / "models--org--name"
    old, new = safetensors(), gguf(tensors=2)
    for content in (old, new):
        path = repository / "blobs" / digest(content)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    commit = "1" * 40
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    link = snapshot / "model.bin"
    link.symlink_to(f"../../blobs/{digest(old)}")
    daemon = house.start()
    for content in (old, new):
        daemon.wait_for("inspection_finished", path=str(repository / "blobs" / digest(content)), scope="full")
    daemon.wait_for("daemon_ready")
    fresh = snapshot / "fresh"
    fresh.symlink_to(f"../../blobs/{digest(new)}")
    os.replace(fresh, link)
    moved = repository / "blobs" / digest(new)
    daemon.wait_for("inspection_finished", path=str(moved), scope="header", trigger="change")
    assert daemon.stop() == 0
    named = [
        line
        for line in house.lines()
        if line["schema"].endswith("/evidence/1") and line["artifact"]["path"] == str(moved)
    ]
    assert f"org/name@{commit[:12]}/model.bin" in named[-1]["artifact"]["names"]
    assert not daemon.named("alert_raised")
    hashes = [event for event in about(daemon.events, moved) if event.get("scope") == "full"]
    assert len(hashes) == 1


def test_a_reference_that_comes_later_is_compared_with(house: House) -> None:
    path = house.models / "model.gguf"
    path.write_bytes(MODEL)
    house.configure(schedule="rescan_seconds = 1")
    daemon = house.start()
    assert daemon.wait_for("inspection_finished", path=str(path))["scope"] == "header"
    daemon.wait_for("daemon_ready")
    (house.models / "model.gguf.sha256").write_text(f"{'0' * 64}  model.gguf\n")
    alert = daemon.wait_for("alert_raised", code="digest_mismatch")
    assert "model.gguf.sha256" in alert["message"]
    (house.models / "model.gguf.sha256").write_text(f"{digest(MODEL)}  model.gguf\n")
    assert daemon.wait_for("alert_cleared", code="digest_mismatch")["cleared_as"] == "repaired"
    # The other reference, and none at all, are held against the digest that is known: nothing is read again.
    (house.models / "model.gguf.sha256").write_text(f"{'1' * 64}  model.gguf\n")
    daemon.wait_for("alert_raised", code="digest_mismatch")
    (house.models / "model.gguf.sha256").unlink()
    assert daemon.wait_for("alert_cleared", code="digest_mismatch")["cleared_as"] == "repaired"
    assert daemon.stop() == 0
    assert sum(event["scope"] == "full" for event in about(daemon.named("inspection_finished"), path)) == 1


def test_a_poisoned_template_is_an_alert_that_a_second_look_does_not_take_back(house: House) -> None:
    path = house.models / "model.gguf"
    path.write_bytes(gguf(template="{{ a }}"))
    daemon = house.start()
    daemon.wait_for("inspection_finished", path=str(path))
    daemon.wait_for("daemon_ready")
    temporary = house.models / "new.part"
    temporary.write_bytes(gguf(template="{{ evil }}"))
    temporary.rename(path)
    alert = daemon.wait_for("alert_raised", code="template_changed")
    assert alert["severity"] == "warning"
    daemon.stop()
    # Another configuration looks at it again; the alert stands.
    house.configure(more='[inspect]\nhash = "full"')
    again = house.start()
    again.wait_for("inspection_finished", path=str(path), scope="full")
    again.wait_for("daemon_ready")
    assert again.stop() == 0
    assert not again.named("alert_cleared")


def test_many_mismatches_on_one_mount_are_one_alert_on_the_mount(house: House) -> None:
    home = house.models
    paths = [blob(home, f"content {number}".encode(), name=digest(b"%d" % number)) for number in range(6)]
    daemon = house.start()
    mount = daemon.wait_for("alert_raised", constraint="mount")
    assert os.path.ismount(mount["path"])
    assert mount["code"] == "digest_mismatch"
    for path in paths:
        if not about(daemon.named("inspection_finished"), path):
            daemon.wait_for("inspection_finished", path=str(path), scope="full")
    daemon.wait_for("daemon_ready")
    for number, path in enumerate(paths[:4]):
        temporary = house.models / "new.part"
        temporary.write_bytes(b"%d" % number)
        temporary.rename(path)
    assert daemon.wait_for("alert_cleared", constraint="mount")["cleared_as"] == "repaired"
    for path in paths[4:]:
        if not about(daemon.named("alert_raised"), path):
            daemon.wait_for("alert_raised", path=str(path))
    assert daemon.stop() == 0
    # Two were told before there were many, and the two that are left once nobody speaks for them any more.
    single = [event for event in daemon.named("alert_raised") if event["constraint"] != "mount"]
    bad = {event["path"] for event in single if event["code"] == "digest_mismatch"}
    assert {str(path) for path in paths[4:]} <= bad
    assert all("quiet" not in event for event in daemon.events)


def test_names_of_one_file_are_one_evidence(house: House) -> None:
    first, second = house.models / "a.gguf", house.models / "b.gguf"
    first.write_bytes(MODEL)
    second.hardlink_to(first)
    (house.models / "c.gguf").symlink_to(first)
    (house.models / "loop").symlink_to(house.models)
    (house.models / "dangling.gguf").symlink_to(house.models / "nowhere")
    daemon = house.start()
    daemon.wait_for("daemon_ready")
    daemon.wait_for("inspection_finished")
    (house.models / "later.gguf").write_bytes(gguf(tensors=3))
    daemon.wait_for("inspection_finished", path=str(house.models / "later.gguf"))
    assert daemon.stop() == 0
    names = {Path(event["path"]).name for event in daemon.named("inspection_finished")}
    assert len(names & {"a.gguf", "b.gguf"}) == 1
    assert names <= {"a.gguf", "b.gguf", "later.gguf"}
