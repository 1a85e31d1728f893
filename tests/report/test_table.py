"""The table of an audit: the worst first, at 80 columns, whatever the names hold."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from auditd.report.columns import width
from auditd.report.style import coloured
from auditd.report.table import Remark, Row, Rows, row, table, unseen_row
from tests.support.lines import harmless
from tests.support.records import accounting, error, evidence, finding

SOUND = row(evidence("/srv/models/sound.gguf"))
TRUNCATED = row(
    evidence(
        "/srv/models/short.gguf",
        verdict="truncated",
        accounting=accounting(residue=-1_048_576, missing=1_048_576),
        findings=[
            finding("no_tensors", "not worth a word"),
            finding("layout_derived", "only under k64"),
            finding("tensor_bytes_missing", "1,048,576 bytes of 3 tensors are past the end of the file"),
        ],
    )
)


def test_the_worst_first_and_a_line_for_each() -> None:
    lines = table(Rows([SOUND, TRUNCATED, unseen_row(b"/srv/models/private", "Permission denied")]), 14, 80)
    assert lines == [
        "VERDICT       RESIDUE  SIZE  FILE",
        "truncated  -1,048,576  96 B  /srv/models/short.gguf",
        "    tensor_bytes_missing: 1,048,576 bytes of 3 tensors are past the end of the",
        "    file",
        "    layout_derived: only under k64",
        "    -> The download did not finish. Fetch the file again and compare its size",
        "       and digest with the publisher's.",
        "not seen            ?     ?  /srv/models/private",
        "    not seen: Permission denied",
        "sound               0  96 B  /srv/models/sound.gguf",
        "",
        "2 files, 192 B: 1 truncated, 1 sound; 1 not seen; 14 other files",
    ]


def test_the_same_advice_is_given_once_in_a_row() -> None:
    short = row(evidence("/srv/models/short.gguf", verdict="truncated", findings=[finding("tensor_bytes_missing")]))
    lines = table(Rows([short, short, SOUND]), 0, 80)
    steps = [line for line in lines if line.lstrip().startswith("-> ")]
    assert [step.strip()[:27] for step in steps] == ["-> The download did not fin", "-> as above"]


def test_many_sound_files_are_counted_and_listed_when_asked_for() -> None:
    rows = Rows([*(Row("sound", 0, 10, f"/srv/{number}.gguf") for number in range(13)), TRUNCATED])
    lines = table(rows, 0, 80, list_sound=False)
    assert not any(line.startswith("sound") for line in lines)
    assert "13 sound files are not listed; --all lists them." in lines
    assert sum(line.startswith("sound") for line in table(rows, 0, 80)) == 13
    few = Rows(Row("sound", 0, 10, f"/srv/{number}.gguf") for number in range(12))
    assert sum(line.startswith("sound") for line in table(few, 0, 80, list_sound=False)) == 12


def test_a_set_without_all_of_its_members_stands_behind_what_is_broken() -> None:
    lines = table(Rows([Row("incomplete", None, 1, "/srv/set"), Row("foreign", None, 1, "/srv/page"), TRUNCATED]), 0)
    assert [line.split()[0] for line in lines if line.startswith(("trunc", "inc", "for"))] == [
        "truncated",
        "incomplete",
        "foreign",
    ]


def test_nothing_found() -> None:
    assert table(Rows([]), 0, 80) == ["0 files, 0 B"]
    assert table(Rows([]), 1, 80) == ["0 files, 0 B; 1 other file"]


def test_an_error_speaks_where_no_finding_does() -> None:
    lost = row(evidence(verdict="unknown", outcome="unavailable", gguf=None, accounting=None, error=error()))
    assert "    target_unavailable: no such file" in table(Rows([lost]), 0)


def test_a_sound_file_needs_no_words() -> None:
    assert row(evidence(findings=[finding("no_tensors")])).remarks == ()


def test_a_download_in_progress_says_so() -> None:
    partial = row(evidence(verdict="in_progress", outcome="skipped", accounting=None, findings=[finding("unfinished")]))
    assert any(line.startswith("    unfinished: ") for line in table(Rows([partial]), 0, 80))


HOSTILE = [
    b"/srv/two\nlines.gguf",
    b"/srv/\x1b[2J\x1b]0;title\x07.gguf",
    "/srv/\u202efugg.gguf".encode(),
    b"/srv/\xff\xfe.gguf",
    "/srv/\u200b\u2028\U000e0001.gguf".encode(),
    "/srv/models/非常に長い名前のモデル/とても長いディレクトリの下にある/モデルファイル-Q4_K_M.gguf".encode(),
    b"/srv/" + b"a" * 300 + b"-end.gguf",
]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_hostile_names_stay_on_their_line_and_within_the_columns(name: bytes, columns: int) -> None:
    record = evidence(
        _maybe_text(name), verdict="residue", findings=[finding("unowned_bytes", f"in {name.decode('latin1')}")]
    )
    lines = table(Rows([row(record)]), 0, columns)
    assert all(width(line) <= columns for line in lines)
    assert all(harmless(line) for line in lines)
    assert lines[1].endswith(".gguf")


def _maybe_text(name: bytes) -> str | bytes:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name


def test_a_digest_loses_its_end_first_and_stands_below_in_full() -> None:
    path = "/var/lib/ollama/models/blobs/sha256-" + "ab" * 32
    remark = Remark("critical", "digest_mismatch", "another", "Look.")
    lines = table(Rows([Row("mismatch", 0, 1, path, (remark,))]), 0, 80)
    assert lines[1].endswith("/var/lib/ollama/models/blobs/sha256-abababababab…")
    assert "".join(line.strip() for line in lines[2:4]) == path


def test_what_can_have_no_residue_has_none() -> None:
    part = evidence(gguf=None, accounting=None)
    part = replace(part, artifact=replace(part.artifact, format=None))
    assert table(Rows([row(part)]), 0)[1].split()[:2] == ["sound", "-"]
    lost = replace(part, verdict="unknown", outcome="failed")
    assert table(Rows([row(lost)]), 0)[1].split()[:2] == ["unknown", "?"]


def test_sentences_are_wider_on_a_wide_terminal() -> None:
    remark = Remark("critical", "unowned_bytes", "word " * 40, "")
    lines = table(Rows([Row("residue", 1, 1, "/a", (remark,))]), 0, 200)
    assert 110 < max(map(width, lines)) <= 120


def test_names_are_whole_where_nobody_says_how_wide_it_is() -> None:
    long = "/srv/" + "a" * 300
    assert long in table(Rows([Row("sound", 0, 1, long)]), 0)[1]


def test_colour_is_only_added() -> None:
    painted = table(Rows([SOUND, TRUNCATED]), 0, 80, coloured)
    assert painted[1].startswith("\x1b[31mtruncated\x1b[0m  -1,048,576")
    bare = [line.replace("\x1b[0m", "") for line in painted]
    for code in ("1", "31", "32", "36"):
        bare = [line.replace(f"\x1b[{code}m", "") for line in bare]
    assert bare == table(Rows([SOUND, TRUNCATED]), 0, 80)


def test_a_million_sound_files_are_counted_and_not_listed() -> None:
    rows = Rows(Row("sound", 0, 10, f"/srv/{number}.gguf") for number in range(1005))
    rows.add(TRUNCATED)
    lines = table(rows, 0, 80)
    assert len(rows.kept) == 1001
    assert "Not shown: 5 more sound; --json has them all." in lines
    assert lines[-1].startswith("1,006 files, ")
    assert lines[-1].endswith(": 1 truncated, 1,005 sound")
