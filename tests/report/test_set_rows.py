"""Sets for a person."""

from __future__ import annotations

from auditd.model_sets.facts import MissingMember, SetFacts, SetFigures, SetMember
from auditd.report.set_rows import set_page, set_row
from auditd.report.table import Rows, table
from tests.support.lines import harmless
from tests.support.sets import composed

FACTS = SetFacts(
    kind="gguf_split",
    name="m-*-of-00003.gguf",
    directory=b"/srv/models",
    members=(SetMember(b"m-00001-of-00003.gguf", b"/srv/models/m-00001-of-00003.gguf", 2048, verdict="sound"),),
    missing=(MissingMember(b"m-00002-of-00003.gguf"), MissingMember(b"m-00003-of-00003.gguf", 4096, dangling=True)),
    declared=SetFigures(members=3),
    found=SetFigures(members=1),
)


def test_a_row() -> None:
    row = set_row(composed(FACTS))
    assert (row.verdict, row.residue, row.size) == ("incomplete", None, 2048)
    assert row.path == "/srv/models/m-*-of-00003.gguf (1 of 3 members)"
    assert [(one.code, one.message) for one in row.remarks] == [
        ("set_incomplete", '1 of 3 members is missing: "m-00002-of-00003.gguf"'),
        ("missing_target", '1 of 3 members is a link that leads to nothing: "m-00003-of-00003.gguf" (4,096 bytes)'),
    ]
    assert all(one.advice for one in row.remarks)


def test_a_sound_set_has_nothing_to_say() -> None:
    row = set_row(composed(SetFacts("ollama_model", "a:b", b"/m", FACTS.members)))
    assert (row.verdict, row.path, row.remarks) == ("sound", "a:b (1 member)", ())


def test_a_store_that_does_not_say_how_many_there_are() -> None:
    facts = SetFacts("hf_snapshot", "org/name@main", b"/hub", FACTS.members, FACTS.missing)
    assert set_row(composed(facts)).path == "org/name@main (1 of 3 members)"
    assert "in          /hub" in set_page(composed(facts))


def test_a_row_stands_in_the_table() -> None:
    lines = table(Rows([set_row(composed(FACTS))]), 0)
    assert any(line.startswith("incomplete") for line in lines)


def test_a_page() -> None:
    lines = set_page(composed(FACTS))
    assert lines[0] == "incomplete: something that belongs to the set is not there"
    assert "members     1 of 3 members, 2.0 KiB" in lines
    assert "            m-00001-of-00003.gguf  2.0 KiB  sound" in lines
    assert "missing     m-00002-of-00003.gguf" in lines
    assert "            m-00003-of-00003.gguf, 4.0 KiB, a link that leads to nothing" in lines
    assert any(line.strip().startswith("-> Fetch what is missing") for line in lines)


def test_names_cannot_touch_a_terminal() -> None:
    name = b"\x1b[31m\n\xff" + "\u202e".encode()
    facts = SetFacts(
        "gguf_split",
        name.decode("utf-8", "backslashreplace"),
        b"/" + name,
        (SetMember(name, b"/" + name, verdict="truncated"),),
        (MissingMember(name),),
        stray=(name,) * 50,
        unfinished=(name,),
        stale=(name,),
    )
    record = composed(facts)
    lines = set_page(record)
    assert all(harmless(line) for line in (*lines, set_row(record).path))
    assert "            and 30 more" in lines
