"""``diff``: files, dumped headers and records, mixed as one likes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import ARCHITECTURE, F32, Q4_K, Q6_K, Array, Built, Entry, Tensor, gguf, safetensors, st_entry
from tests.support.commands import Command, Write
from tests.support.lines import harmless


def built(last: str = "t19", down: int = Q4_K) -> Built:
    """A model with a vocabulary of 20 tokens, the last of which is this one."""
    words = [*(f"t{index}" for index in range(19)), last]
    tensors = [Tensor("blk.0.ffn_down.weight", [256], down), Tensor("output.weight", [8], F32)]
    return gguf([ARCHITECTURE, Entry("tokenizer.ggml.tokens", "array", Array("string", words))], tensors)


def compared(command: Command, *arguments: object) -> tuple[int, dict[str, Any]]:
    """The exit status and the comparison as JSON."""
    done = command("diff", "--json", *arguments)
    assert (done.err, done.out.count("\n")) == ("", 1)
    return done.status, json.loads(done.out)


@pytest.fixture
def forms(command: Command, model: Write, tmp_path: Path) -> dict[str, Path]:
    """One model as a file, a dumped header and a record."""
    file = model("one.gguf", built().data)
    dump = tmp_path / "one.json"
    dump.write_text(command("dump", file).out)
    record = tmp_path / "one.record"
    record.write_text(command("inspect", "--json", file).out)
    return {"file": file, "dump": dump, "record": record}


SOURCES = ("file", "dump", "record")


@pytest.mark.parametrize("a", SOURCES)
@pytest.mark.parametrize("b", SOURCES)
def test_every_form_of_one_model_is_the_same(command: Command, forms: dict[str, Path], a: str, b: str) -> None:
    status, result = compared(command, forms[a], forms[b])
    assert (status, result["same"], result["conclusion"]["code"]) == (0, True, "same_header")
    assert (result["a"]["source"], result["b"]["source"]) == (a, b)
    assert result["bytes"]["same_class"] == len(built().data)


def test_a_token_far_inside_is_found_where_the_bytes_are(
    command: Command, model: Write, forms: dict[str, Path]
) -> None:
    other = model("other.gguf", built("t-1").data)
    for form in ("file", "dump"):
        status, result = compared(command, forms[form], other)
        (change,) = result["metadata"]["changed"]
        assert (status, change["key"], change["array_differs"]) == (1, "tokenizer.ggml.tokens", True)
    status, result = compared(command, forms["record"], other)
    assert (status, result["metadata"]["changed"]) == (1, [])
    assert [name["key"] for name in result["metadata"]["not_compared"]] == ["tokenizer.ggml.tokens"]


def test_two_files_tell_which_token_it_is(command: Command, model: Write, forms: dict[str, Path]) -> None:
    other = model("other.gguf", built("t-1").data)
    _, result = compared(command, forms["file"], other)
    (change,) = result["metadata"]["changed"]
    assert change["element"] == {"path": [19], "a": "t19", "b": "t-1", "differing": 1}
    assert '1 element changed; the first is [19]: "t19" -> "t-1"' in " ".join(
        command("diff", forms["file"], other).out.split()
    )


def test_elements_of_every_kind(command: Command, model: Write) -> None:
    """The last two of twenty differ in their bits, or in arrays inside the array; the rest is the same."""
    nan, infinity = float("nan"), float("inf")
    cases: dict[str, tuple[list[Any], list[Any], object, object, int | None]] = {
        "u64": ([1, 1 << 63], [1, 1], str(1 << 63), 1, 1),
        "f32": ([nan, 0.0], [nan, -0.0], 0.0, -0.0, 1),
        "f64": ([nan, infinity], [1.5, -infinity], "NaN", 1.5, 2),
        "string": ([b"\xff", b"x"], [b"\xfe", b"y"], "\\xff", "\\xfe", 2),
        "array": ([Array("u8", b"ab")] * 2, [Array("u8", b"ab"), Array("u8", b"abc")], None, 99, None),
    }
    for kind, (first, second, a, b, differing) in cases.items():
        same = [Array("u8", b"ab") if kind == "array" else b"" if kind == "string" else 1] * 18
        paths = [
            model(f"{name}.gguf", gguf([Entry("x", "array", Array(kind, same + last))]).data)
            for name, last in (("a", first), ("b", second))
        ]
        (change,) = compared(command, *paths)[1]["metadata"]["changed"]
        element = change["element"]
        assert (element["a"], element["b"], element["differing"]) == (a, b, differing), kind


def test_a_vocabulary_that_only_moved_is_the_same(command: Command, model: Write, forms: dict[str, Path]) -> None:
    words = [f"t{index}" for index in range(20)]
    tensors = [Tensor("blk.0.ffn_down.weight", [256], Q4_K), Tensor("output.weight", [8], F32)]
    metadata = [
        ARCHITECTURE,
        Entry("general.name", "string", "x"),
        Entry("tokenizer.ggml.tokens", "array", Array("string", words)),
    ]
    other = model("other.gguf", gguf(metadata, tensors).data)
    _, result = compared(command, forms["file"], other)
    assert [entry["key"] for entry in result["metadata"]["added"]] == ["general.name"]
    assert (result["metadata"]["changed_count"], result["metadata"]["not_compared_count"]) == (0, 0)


def test_for_a_person(command: Command, model: Write) -> None:
    done = command("diff", model("a.gguf", built().data), model("b.gguf", built(down=Q6_K).data))
    assert (done.status, done.err) == (1, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("requantized, the same tensors and shapes: ")
    assert any("blk.N.ffn_down.weight: Q4_K -> Q6_K in 1 block: 0" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_safetensors(command: Command, model: Write) -> None:
    header = {"w": st_entry("F32", [2], 0, 8)}
    a = model("a.safetensors", safetensors(header, bytes(8)))
    b = model("b.safetensors", safetensors({"__metadata__": {"x": "y"}, **header}, bytes(8)))
    status, result = compared(command, a, b)
    assert (status, result["conclusion"]["code"]) == (1, "other_metadata")


def test_all_of_both_is_read_if_asked_for(command: Command, model: Write) -> None:
    data = built().data
    a, b = model("a.gguf", data), model("b.gguf", data[:-1] + b"\x01")
    assert compared(command, a, b)[0] == 0
    status, result = compared(command, "--hash", "full", a, b)
    assert (status, result["conclusion"]["code"], result["file"]["sha256"]) == (1, "other_weights", "differs")
    assert [change["name"] for change in result["tensors"]["first"]] == ["output.weight"]


def test_lists_are_as_long_as_asked_for(command: Command, model: Write) -> None:
    a = model("a.gguf", gguf([ARCHITECTURE, *(Entry(f"k{index}") for index in range(5))]).data)
    b = model("b.gguf", gguf([ARCHITECTURE]).data)
    _, result = compared(command, "--limit", "2", a, b)
    assert (len(result["metadata"]["removed"]), result["metadata"]["removed_count"]) == (2, 5)


def test_hostile_names_are_harmless(command: Command, model: Write) -> None:
    evil = "\x1b[2J\u202e\n\x07"
    a = model("a\x1b[31m.gguf", gguf([ARCHITECTURE, Entry(evil, "string", evil)], [Tensor(evil, [8])]).data)
    b = model("b.gguf", gguf([ARCHITECTURE, Entry(evil, "string", evil + "x")], [Tensor(evil + "y", [8])]).data)
    assert all(map(harmless, command("diff", a, b).out.splitlines()))
    done = command("diff", "--json", a, b)
    assert harmless(done.out.removesuffix("\n"))
    assert json.loads(done.out)["metadata"]["changed"][0]["key"] == evil


# -- what cannot be compared ------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["a"], ["a", "b", "c"], ["--limit", "0", "a", "b"]], ids=" ".join)
def test_wrong_usage(command: Command, arguments: list[str]) -> None:
    done = command("diff", *arguments)
    assert (done.status, done.out) == (2, "")


def test_what_is_not_there(command: Command, model: Write, tmp_path: Path) -> None:
    for pair in ((model(), tmp_path / "gone"), (tmp_path / "gone", model())):
        done = command("diff", *pair)
        assert (done.status, done.out) == (3, "")
        assert "gone" in done.err


def test_an_unfinished_download(command: Command, model: Write) -> None:
    path, other = model("model.gguf.part"), model()
    assert command("diff", path, other).status == 3
    assert command("diff", "--unfinished", path, other).status == 0


def test_a_foreign_file(command: Command, model: Write) -> None:
    status, result = compared(command, model(), model("page.gguf", b"<html>no model</html>"))
    assert (status, result["conclusion"]["code"]) == (1, "other_format")


def test_a_summary_has_no_rows(command: Command, model: Write, tmp_path: Path) -> None:
    short = tmp_path / "short.json"
    short.write_text(command("inspect", "--json", "--detail", "summary", model()).out)
    done = command("diff", short, model())
    assert (done.status, done.out) == (2, "")
    assert "summary" in done.err


def test_a_record_that_was_altered(command: Command, forms: dict[str, Path], tmp_path: Path) -> None:
    altered = tmp_path / "altered"
    altered.write_text(forms["record"].read_text().replace('"alignment":32', '"alignment":64', 1))
    assert altered.read_text() != forms["record"].read_text()
    assert command("diff", altered, forms["file"]).status == 2


def test_a_dump_that_was_altered(command: Command, forms: dict[str, Path], tmp_path: Path) -> None:
    altered = tmp_path / "altered"
    altered.write_text(forms["dump"].read_text().replace('"size":', '"sise":', 1))
    done = command("diff", altered, forms["file"])
    assert (done.status, done.out) == (2, "")


def test_json_of_another_kind(command: Command, model: Write, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"schema": "model-auditd/evidence-bundle/1", "records": 0}')
    done = command("diff", other, model())
    assert (done.status, done.out) == (2, "")
    assert "evidence-bundle" in done.err
