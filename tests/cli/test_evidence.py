"""``model-auditd evidence``: every action, its exit statuses, and what it leaves alone."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from auditd.cli import evidence_place
from auditd.evidence.record import Evidence
from auditd.evidence_store import location
from auditd.evidence_store.connection import take_lock
from auditd.evidence_store.records import encoded
from auditd.evidence_store.store import EvidenceStore
from tests.evidence_store.stores import EXTREMES, at, entry, final, gguf_with, observation, tampered
from tests.support import models
from tests.support.commands import Command, Done
from tests.support.lines import harmless

SOUND, BAD = observation(gguf_with(EXTREMES, tensors=3)), observation(models.gguf(tail=b"x" * 100))
A, B, C = b"/m/sub/a.gguf", b"/m/b.gguf", b"/n/\x1b[2J\xe2\x80\xaec.gguf"
RECORDS = [final(SOUND, A, 0), final(BAD, B, 1), at(final(SOUND, C, 2), outcome="partial"), final(SOUND, A, 3)]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a store of four records."""
    directory = tmp_path / "state"
    with EvidenceStore(str(directory / "evidence.sqlite"), writer=True) as store:
        for evidence in RECORDS:
            store.record(entry(evidence, evidence.artifact.path.encode()))
        store.mark_logged(99)
    return directory


@pytest.fixture
def evidence(command: Command, home: Path) -> Command:
    """``evidence ACTION`` on that store."""

    def run(action: str, *arguments: object) -> Done:
        return command("evidence", action, "--store", home, *arguments)

    return run


def ids(done: Done) -> list[str]:
    assert (done.status, done.err) == (0, "")
    return [json.loads(line)["evidence_id"] for line in done.out.splitlines()]


NEWEST_FIRST = [record.evidence_id for record in reversed(RECORDS)]


# --- list ------------------------------------------------------------------------------------------------


def test_list(evidence: Command) -> None:
    done = evidence("list")
    assert (done.status, done.err) == (0, "")
    head, *rows, _, foot = done.out.splitlines()
    assert head.split() == ["EVIDENCE", "AGE", "VERDICT", "OUTCOME", "RESIDUE", "FILE"]
    assert [row.split()[0] for row in rows] == [name[:13] for name in NEWEST_FIRST]
    assert "residue" in rows[2]
    assert "+100" in rows[2]
    assert " d  " in rows[0]
    assert "partial" in rows[1]
    assert foot.startswith("4 records in ")
    assert foot.endswith("whether the file is still the same was not checked")
    assert all(map(harmless, done.out.splitlines()))


def test_list_as_json(evidence: Command) -> None:
    done = evidence("list", "--json")
    assert ids(done) == NEWEST_FIRST
    first = json.loads(done.out.splitlines()[0])
    assert first.pop("age_seconds") > 0
    assert first == {
        "evidence_id": NEWEST_FIRST[0],
        "recorded_at": "2024-01-04T00:00:00.000000Z",
        "verdict": "sound",
        "outcome": "complete",
        "residue": 0,
        "path": "/m/sub/a.gguf",
        "path_base64": None,
        "imported": False,
    }
    assert all(map(harmless, done.out.splitlines()))


FILTERS: dict[str, tuple[list[str], list[int]]] = {
    "path": (["--path", "/m/b.gguf"], [1]),
    "glob": (["--path", "*.gguf"], [3, 2, 1, 0]),
    "directory": (["--path", "/m"], [3, 1, 0]),
    "directory with a slash": (["--path", "/m/"], [3, 1, 0]),
    "part of a name": (["--path", "/m/s"], []),
    "verdict": (["--verdict", "residue"], [1]),
    "verdicts": (["--verdict", "residue", "--verdict", "sound"], [3, 2, 1, 0]),
    "since": (["--since", "2024-01-03T00:00:00Z"], [3, 2]),
    "since elsewhere": (["--since", "2024-01-03T02:00:00+02:00"], [3, 2]),
    "limit": (["--limit", "1"], [3]),
    "all together": (["--limit", "1", "--path", "/m", "--since", "2024-01-01T00:00:00Z", "--verdict", "residue"], [1]),
}


@pytest.mark.parametrize(("arguments", "expected"), FILTERS.values(), ids=FILTERS)
def test_list_filters(evidence: Command, arguments: list[str], expected: list[int]) -> None:
    assert ids(evidence("list", "--json", *arguments)) == [RECORDS[index].evidence_id for index in expected]


@pytest.mark.parametrize(
    "arguments", [["--since", "yesterday"], ["--limit", "0"], ["--verdict", "good"], ["--limit", "x"]]
)
def test_list_usage(evidence: Command, arguments: list[str]) -> None:
    assert evidence("list", *arguments).status == 2


# --- show ------------------------------------------------------------------------------------------------


def test_show_by_the_beginning_of_an_id_and_by_path(evidence: Command) -> None:
    for target in (RECORDS[3].evidence_id, RECORDS[3].evidence_id[:12], RECORDS[3].evidence_id[3:15], A.decode()):
        done = evidence("show", target)
        assert (done.status, done.err) == (0, "")
        first, second, *_ = done.out.splitlines()
        assert first == RECORDS[3].evidence_id
        assert second.startswith("age ")
        assert second.endswith(" d: looked at 2024-01-04T00:00:00.000000Z, and not again now")
    assert "blk" not in evidence("show", A.decode()).out
    assert "i64.least" in evidence("show", A.decode(), "--detail", "complete").out


def test_show_as_it_is_stored(evidence: Command) -> None:
    done = evidence("show", RECORDS[0].evidence_id, "--json")
    assert done.out.encode() == encoded(RECORDS[0]) + b"\n"
    short = json.loads(evidence("show", RECORDS[0].evidence_id, "--json", "--detail", "summary").out)
    assert (short["detail"], short["gguf"]["tensors"]) == ("summary", None)


def test_show_what_is_not_there(evidence: Command, home: Path) -> None:
    for target in ("ev_0000", "/no/such/file", "abc"):
        done = evidence("show", target)
        assert (done.status, done.out) == (2, "")
        assert "no such evidence_id and no such path" in done.err


def test_an_ambiguous_beginning(command: Command, tmp_path: Path) -> None:
    records = [final(SOUND, A, day) for day in range(28)]
    with EvidenceStore(str(tmp_path / "evidence.sqlite"), writer=True) as store:
        for record in records:
            store.record(entry(record, A))
    with closing(sqlite3.connect(tmp_path / "evidence.sqlite")) as connection:
        connection.execute("UPDATE evidence SET evidence_id = 'ev_abcd' || sequence")
        connection.commit()
    done = command("evidence", "show", "--store", tmp_path, "abcd")
    assert done.status == 2
    assert "abcd: several records begin so: ev_abcd1, ev_abcd10, ev_abcd11, ev_abcd12, ev_abcd13" in done.err


# --- view ------------------------------------------------------------------------------------------------

TENSORS = '{"collection": "tensors", "names": ["b"], "fields": ["shape"]}'


def test_view(evidence: Command, tmp_path: Path) -> None:
    page = json.loads(evidence("view", A.decode(), "--view", TENSORS, "--json").out)
    assert page["rows"] == [{"index": 1, "shape": ["8"]}]
    assert 'shape=["8"]' in evidence("view", RECORDS[3].evidence_id[:12], "--view", TENSORS).out
    file = tmp_path / "record.json"
    file.write_bytes(encoded(RECORDS[3]) + b"\n")
    assert json.loads(evidence("view", file, "--view", TENSORS, "--json").out) == page


def test_view_refusals(evidence: Command, tmp_path: Path) -> None:
    assert evidence("view", A.decode(), "--view", "{}").status == 2
    assert evidence("view", A.decode()).status == 2
    assert evidence("view", "/nowhere", "--view", TENSORS).status == 2
    file = tmp_path / "record.json"
    file.write_bytes(encoded(RECORDS[3]).replace(b'"name":"b"', b'"name":"c"'))
    done = evidence("view", file, "--view", TENSORS)
    assert done.status == 3
    assert "has the identifier" in done.err


# --- export and import -----------------------------------------------------------------------------------


def test_export_one_record(evidence: Command, tmp_path: Path) -> None:
    target = RECORDS[1].evidence_id[:15]
    assert evidence("export", target).out.encode() == encoded(RECORDS[1]) + b"\n"
    output = tmp_path / "one.json"
    assert evidence("export", target, "--output", output) == Done(0, "", "")
    assert output.read_bytes() == encoded(RECORDS[1]) + b"\n"


@pytest.mark.parametrize(
    "arguments", [[], ["--bundle"], ["--all"], ["--all", "--bundle", "ev_1234"], [A.decode(), B.decode()]]
)
def test_export_usage(evidence: Command, arguments: list[str]) -> None:
    done = evidence("export", *arguments)
    assert (done.status, done.out) == (2, "")


def test_export_cannot_be_written(evidence: Command, tmp_path: Path) -> None:
    done = evidence("export", B.decode(), "--output", tmp_path / "no" / "where")
    assert done.status == 3
    assert "cannot be written" in done.err
    output = tmp_path / "full"
    output.symlink_to("/dev/full")
    assert evidence("export", B.decode(), "--output", output).status == 3


def test_a_bundle_in_the_order_of_the_chain(evidence: Command) -> None:
    done = evidence("export", "--bundle", A.decode(), RECORDS[1].evidence_id, RECORDS[0].evidence_id, A.decode())
    manifest, *records = done.out.encode().splitlines()
    assert json.loads(manifest)["records"] == 3
    assert records == [encoded(RECORDS[index]) for index in (0, 1, 3)]


def test_there_and_back(evidence: Command, command: Command, tmp_path: Path) -> None:
    bundle, other = tmp_path / "all.jsonl", tmp_path / "other"
    assert evidence("export", "--all", "--bundle", "--output", bundle).status == 0
    assert command("evidence", "verify", bundle).out == f"{bundle}: 4 records: all as it was written\n"
    done = command("evidence", "import", "--bundle", "--store", other, bundle)
    assert (done.status, done.out) == (0, f"4 records taken into {other}/evidence.sqlite\n")
    again = command("evidence", "import", "--bundle", "--store", other, bundle)
    assert again.out == f"0 records taken into {other}/evidence.sqlite, 4 were there already\n"
    assert command("evidence", "export", "--store", other, "--all", "--bundle").out.encode() == bundle.read_bytes()
    assert command("evidence", "verify", "--store", other).status == 0
    assert "(imported)" in command("evidence", "list", "--store", other).out


def test_import_refused(evidence: Command, command: Command, tmp_path: Path) -> None:
    bundle, other = tmp_path / "all.jsonl", tmp_path / "other"
    evidence("export", "--all", "--bundle", "--output", bundle)
    done = command("evidence", "import", "--store", other, bundle)
    assert (done.status, done.out) == (1, "")
    assert done.err.endswith("line 1: a bundle, and one record is wanted; nothing was taken in\n")
    assert not other.exists()
    assert command("evidence", "import", "--store", other, tmp_path / "none").status == 3
    assert command("evidence", "import", "--store", other).status == 2


def test_import_while_the_daemon_runs(evidence: Command, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_bytes(encoded(RECORDS[1]))
    with take_lock(str(home / "evidence.sqlite")):
        done = evidence("import", file)
    assert done.status == 3
    assert "another process writes this store" in done.err


# --- verify ----------------------------------------------------------------------------------------------


def test_verify_a_store(evidence: Command, home: Path) -> None:
    done = evidence("verify")
    assert (done.status, done.out) == (
        0,
        f"{home}/evidence.sqlite: 4 records, 4 links, 0 of them pruned: all as it was written\n",
    )
    assert json.loads(evidence("verify", "--json").out) == {
        "source": f"{home}/evidence.sqlite",
        "sound": True,
        "records": 4,
        "links": 4,
        "pruned": 0,
        "first_break": None,
        "broken": [],
    }


def test_verify_a_broken_store(evidence: Command, home: Path) -> None:
    tampered(
        home / "evidence.sqlite",
        ("UPDATE evidence SET residue = 0 WHERE sequence = 2", ()),
        ("UPDATE chain SET value = zeroblob(32) WHERE sequence = 3", ()),
    )
    done = evidence("verify")
    assert done.status == 1
    assert done.out.splitlines()[0] == (
        f"broken: 2 ({RECORDS[1].evidence_id}): the row is not as it was written; "
        "column residue is not what the record says"
    )
    assert done.out.splitlines()[1].startswith(f"broken: 3 ({RECORDS[2].evidence_id}): the chain breaks here")
    assert done.out.splitlines()[-1].endswith("2 things broken")
    told = json.loads(evidence("verify", "--json").out)
    assert (told["sound"], told["first_break"], [item["sequence"] for item in told["broken"]]) == (False, 3, [2, 3])


def test_verify_files(command: Command, home: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(encoded(RECORDS[0]) + b"\n")
    bad.write_bytes(encoded(RECORDS[0]).replace(b'"verdict":"sound"', b'"verdict":"notice"'))
    assert command("evidence", "verify", good).status == 0
    done = command("evidence", "verify", good, bad)
    assert done.status == 1
    assert "broken: 1: the content has the identifier" in done.out
    assert command("evidence", "verify", tmp_path / "none").status == 3
    assert command("evidence", "verify", home / "evidence.sqlite").out.endswith(
        "4 records, 4 links, 0 of them pruned: all as it was written\n"
    )
    assert command("evidence", "verify", good, "--store", tmp_path).status == 2


def test_what_is_no_store(command: Command, tmp_path: Path) -> None:
    for action in (["list"], ["verify"], ["show", "/m"], ["export", "/m"], ["prune"]):
        done = command("evidence", *action, "--store", tmp_path / "none")
        assert (done.status, done.out) == (3, "")
        assert "there is no such store" in done.err
    assert not (tmp_path / "none").exists()
    (tmp_path / "evidence.sqlite").write_bytes(b"no database, but long enough to be read as one" * 99)
    assert command("evidence", "verify", "--store", tmp_path).status == 3


# --- prune -----------------------------------------------------------------------------------------------


def test_prune(evidence: Command, home: Path) -> None:
    done = evidence("prune", "--dry-run")
    assert done.status == 0
    assert "1 record of /m/sub/a.gguf" in done.out
    assert "2 records would be pruned from " in done.out
    assert all(map(harmless, done.out.splitlines()))
    assert len(ids(evidence("list", "--json"))) == 4
    assert evidence("prune").out == f"2 records pruned from {home}/evidence.sqlite\n"
    assert ids(evidence("list", "--json")) == [RECORDS[3].evidence_id, RECORDS[1].evidence_id]
    assert evidence("verify").status == 0
    assert evidence("prune").out.startswith("0 records pruned")


def test_prune_by_age(evidence: Command, home: Path) -> None:
    assert "0 records would be pruned" in evidence("prune", "--dry-run", "--retention-days", "999999").out
    for wrong in ("-1", "nan", "inf", "x"):
        assert evidence("prune", "--retention-days", wrong).status == 2
    with take_lock(str(home / "evidence.sqlite")):
        assert evidence("prune").status == 3
        assert evidence("prune", "--dry-run").status == 0


# --- places and neighbours -------------------------------------------------------------------------------


def test_the_place(command: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence_place, "DEFAULT_PATH", str(tmp_path / "none.toml"))
    monkeypatch.setattr(location, "UNIT_DIRECTORY", str(tmp_path / "none"))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "none"))
    store = home / "evidence.sqlite"
    config = tmp_path / "config.toml"
    config.write_text(f'[[root]]\npath = "/m"\n[store]\npath = "{store}"\nretention_days = 36500\n')

    def found(*arguments: object) -> bool:
        return command("evidence", "list", *arguments).status == 0

    assert found("--store", home)
    assert found("--store", store)
    assert found("--config", config)
    assert not found()
    monkeypatch.setenv("STATE_DIRECTORY", f"{home}:/other")
    assert found()
    monkeypatch.delenv("STATE_DIRECTORY")
    monkeypatch.setattr(location, "UNIT_DIRECTORY", str(home))
    assert found()
    monkeypatch.setattr(location, "UNIT_DIRECTORY", str(tmp_path / "none"))
    monkeypatch.setattr(evidence_place, "DEFAULT_PATH", str(config))
    assert found()
    assert "0 records would be pruned" in command("evidence", "prune", "--dry-run").out  # its retention, too
    assert "2 records would" in command("evidence", "prune", "--dry-run", "--store", home).out
    config.write_text("=")
    assert command("evidence", "list").status == 2
    assert found("--store", home)
    assert command("evidence", "list", "--config", tmp_path / "gone.toml").status == 2


def test_reading_beside_a_writer(evidence: Command, home: Path) -> None:
    """With the lock held, and in the middle of a transaction."""
    with EvidenceStore(str(home / "evidence.sqlite"), writer=True) as store:

        def meanwhile(connection: sqlite3.Connection) -> list[Done]:
            connection.execute("UPDATE evidence SET verdict = 'mismatch'")
            actions: list[list[Any]] = [["list"], ["show", A.decode()], ["verify"], ["export", "--all", "--bundle"]]
            return [evidence(*action) for action in actions]

        for done in store._change(meanwhile):
            assert (done.status, done.err) == (0, "")
            assert "  mismatch" not in done.out


def test_readers_change_nothing(evidence: Command, home: Path) -> None:
    store = home / "evidence.sqlite"
    before = store.read_bytes(), store.stat().st_mtime_ns
    for action in (["list"], ["show", A.decode()], ["verify"], ["export", A.decode()], ["prune", "--dry-run"]):
        assert evidence(*action).status == 0
    assert (store.read_bytes(), store.stat().st_mtime_ns) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_only_be_read(evidence: Command, home: Path) -> None:
    home.chmod(0o500)
    try:
        assert evidence("list").status == 0
    finally:
        home.chmod(0o700)


def test_a_reader_who_leaves(home: Path) -> None:
    arguments = [sys.executable, "-m", "auditd", "evidence", "export", "--all", "--bundle", "--store", str(home)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(30) == 3
        assert process.stderr.read() == b""


def test_starts_without_what_is_slow(home: Path) -> None:
    code = (
        "import sys; from auditd.__main__ import main; main(['evidence', 'list', '--store', sys.argv[1]]);"
        "sys.exit(bool({'trio', 'structlog', 'watchfiles'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code, str(home)], check=False, capture_output=True).returncode == 0


def test_a_damaged_record_is_named(evidence: Command, home: Path) -> None:
    tampered(home / "evidence.sqlite", ("UPDATE evidence SET record = x'00' WHERE sequence = 2", ()))
    for action in ("show", "export"):
        done = evidence(action, B.decode())
        assert (done.status, done.out) == (3, "")
        assert "record 2 is damaged" in done.err
    assert evidence("list").status == 0


def test_records_of_the_right_type() -> None:
    assert all(isinstance(record, Evidence) for record in RECORDS)
