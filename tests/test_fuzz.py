"""The fuzzer in short: a fixed stretch of every target, work that grows no faster than the bytes, and its own teeth."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz import gguf_changes, seeds
from tests.fuzz.arcs import Arcs
from tests.fuzz.campaign import Campaign
from tests.fuzz.changes import PLAIN, Dice, changed
from tests.fuzz.invariant import check_file
from tests.fuzz.readings import check_pieces, read
from tests.fuzz.targets import TARGETS, Target

#: One seed in so many begins a short campaign: all of them take a minute.
SEEDS = 4

#: Parts of the small and of the large header of :func:`test_work_grows_with_the_bytes`.
SMALL, LARGE = 25, 200


def turns(count: int) -> Iterator[bool]:
    yield from [True] * count
    yield False


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_invariant_holds(target: Target) -> None:
    starts = target.seeds()[::SEEDS]
    campaign = Campaign([replace(target, seeds=lambda: starts, checks=25)], 1, measured=False)
    left = turns(1)
    campaign.run(lambda: next(left))
    (tally,) = campaign.tallies
    assert tally.runs == len(starts) + 50
    assert tally.kept
    assert [f"{key}\n{each.data!r}\n{each.problem}" for key, each in campaign.breaks.items()] == []


@pytest.mark.parametrize("name", seeds.adversarial(1))
def test_files_made_to_do_harm(tmp_path: Path, name: str) -> None:
    data = seeds.adversarial(60)[name]
    check_pieces(data, random.Random(1))
    check_file(str(tmp_path / "model.gguf"), data, random.Random(1))


def test_one_figure_that_does_harm() -> None:
    """No count, length or depth that the file does not hold makes a reader loop, allocate or recurse."""
    steps = {name: read(data).steps for name, data in seeds.pointed().items()}
    assert len(steps) > 60
    assert max(steps.values()) <= 8, steps


@pytest.mark.parametrize("name", seeds.adversarial(1))
def test_work_grows_with_the_bytes(name: str) -> None:
    """Lines of the parsers that run, not seconds: eight times the parts are less than twelve times the work."""
    small, large = (lines_for(seeds.adversarial(count)[name]) for count in (SMALL, LARGE))
    assert large < 12 * small


def lines_for(data: bytes) -> int:
    arcs = Arcs()
    with arcs.watch(every_line=True):
        read(data)
    return arcs.lines


# --- its own teeth ---------------------------------------------------------------------------------------


def staged(data: bytes, _dice: Dice) -> None:
    """A parser with a fault behind three bytes, each of which opens new code."""
    if data[:1] == b"\x7f":
        length = len(data)
        if data[1:2] == b"\xff":
            length += 1
            if data[2:3] == b"\x80":
                raise ValueError(length)


def test_it_finds_what_is_hidden_behind_several_steps() -> None:
    target = Target("staged", lambda: (bytes(6),), PLAIN, staged)
    campaign = Campaign([target], 1, arcs=Arcs((__file__,)), measured=False)
    left = turns(400)
    campaign.run(lambda: not campaign.breaks and next(left))
    (found,) = campaign.breaks.values()
    assert found.data[:3] == b"\x7f\xff\x80"
    assert len(campaign.tallies[0].kept) < 10


def test_it_measures_memory() -> None:
    campaign = Campaign([Target("large", lambda: (b"x",) * 128, PLAIN, lambda _data, _dice: bytes(1 << 25))], 1)
    campaign.run(lambda: False)
    (found,) = campaign.breaks.values()
    assert "bytes of memory for 1" in found.problem


def test_a_square_is_told_from_a_line() -> None:
    """What :func:`test_work_grows_with_the_bytes` would say of a parser that compares each part with all others."""
    arcs = Arcs((__file__,))
    work = []
    for count in (SMALL, LARGE):
        with arcs.watch(every_line=True):
            before = arcs.lines
            compare_all(count)
        work.append(arcs.lines - before)
    assert work[1] > 12 * work[0]


def compare_all(count: int) -> int:
    same = 0
    for one in range(count):
        for other in range(one):
            same += one == other
    return same


def test_changes_know_the_grammar() -> None:
    """The fields of a sound file are all found, and most changes leave a file that gets past its first fields."""
    data = next(seeds.gguf_files())
    kinds = [field.kind for field in gguf_changes.fields(data)]
    assert (kinds.count("entry"), kinds.count("tensor"), kinds.count("offset")) == (5, 1, 1)
    assert gguf_changes.fields(data)[-1].begin + gguf_changes.fields(data)[-1].size == 327
    dice = random.Random(2)
    headers = (read(changed(data, dice, gguf_changes.CHANGES)).header for _ in range(100))
    assert sum(header is not None and header.metadata_done > 0 for header in headers) > 50  # type: ignore[union-attr]
