"""Numbers in fields that nobody asked for: what no double holds is said, because the reference refuses it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from auditd.evidence.record import Evidence
from auditd.formats.strict_json import _is_double
from tests.builders import codes, finding, observe_artifact, safetensors

FINITE = ["0", "-0", "1e308", "1.7976931348623157e308", "-1.7976931348623157e308", "1e-400", "0e999", "0.0E+999",
          "9" * 308, "0." + "0" * 500 + "1e700", "1" + "0" * 400 + "e-200", "1e0000000000000000001", "0." + "9" * 2000,
          "179769313486231570000e288"]  # fmt: skip
INFINITE = ["1e309", "-1e309", "1e999", "1.7976931348623159e308", "1" + "0" * 309, "9" * 309, "0.001e320",
            "1e" + "9" * 5000, "1" + "0" * 400 + "e-90", "179769313486231590000e288"]  # fmt: skip


@pytest.mark.parametrize("text", FINITE, ids=lambda text: text[:24])
def test_a_number_that_a_double_holds(text: str) -> None:
    assert math.isfinite(float(text))
    assert _is_double(text.encode())


@pytest.mark.parametrize("text", INFINITE, ids=lambda text: text[:24])
def test_a_number_that_none_holds(text: str) -> None:
    assert math.isinf(float(text))
    assert not _is_double(text.encode())


def look_at_value(place: Path, value: str) -> Evidence:
    text = '{"a":{"x":VALUE,"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    return observe_artifact(place, safetensors(text.replace("VALUE", value), b"x"), "m.safetensors")


@pytest.mark.parametrize("form", ["N", "[1,N,2]", "[1,2,3,N]", '{"y":N}', "[[],N,{},N]"])
def test_where_it_stands_makes_no_difference(tmp_path: Path, form: str) -> None:
    evidence = look_at_value(tmp_path, form.replace("N", "1e999"))
    assert (evidence.outcome, evidence.verdict) == ("complete", "notice")
    said = finding(evidence, "json_number")
    assert (said.offset, said.count) == (8 + len('{"a":{"x":') + form.index("N"), form.count("N"))
    assert "json_number" not in codes(look_at_value(tmp_path, form.replace("N", "1e300")))
