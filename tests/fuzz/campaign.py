"""A campaign: change, run, keep what reaches new code, and tell what breaks the invariant."""

from __future__ import annotations

import hashlib
import random
import time
import traceback
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.fuzz.arcs import Arcs
from tests.fuzz.changes import Dice, changed
from tests.fuzz.targets import Target

#: One run in so many is measured.
_MEASURED: Final = 128

#: Runs of one target before the next has its turn.
_TURN: Final = 50

#: Memory that a run may take: what parsers hold in any case, and so many bytes for one of the file.
_FIXED_BYTES: Final = 24 << 20
_BYTES_PER_BYTE: Final = 512

#: The same for processor time. Generous: a slow machine is not a fault, a square is.
_FIXED_SECONDS: Final = 2.0
_SECONDS_PER_BYTE: Final = 200e-6

#: Kept inputs of one target.
_KEPT: Final = 4000


@dataclass(frozen=True)
class Break:
    """An input that breaks the invariant: the target, the bytes, what happened."""

    target: str
    data: bytes
    problem: str

    @property
    def name(self) -> str:
        """The same for the same bytes."""
        return f"{self.target}-{hashlib.sha256(self.data).hexdigest()[:12]}"


@dataclass
class Tally:
    """One target's inputs, and how they fared."""

    target: Target
    kept: list[bytes] = field(default_factory=list)
    runs: int = 0
    checks: int = 0
    seconds: float = 0.0


class Campaign:
    """Fuzzes ``targets`` in turn. The same ``seed`` makes the same inputs as long as the code reaches the same arcs."""

    def __init__(
        self,
        targets: Sequence[Target],
        seed: int,
        *,
        arcs: Arcs | None = None,
        more: Callable[[Target], Sequence[bytes]] = lambda _target: (),
        measured: bool = True,
    ) -> None:
        self._dice: Dice = random.Random(seed)
        self._more = more
        self._measured = measured
        self.arcs = Arcs() if arcs is None else arcs
        self.tallies = [Tally(target) for target in targets]
        self.breaks: dict[str, Break] = {}

    def run(self, carries_on: Callable[[], bool]) -> None:
        """Fuzz until ``carries_on`` says no; it is asked after each turn. All seeds come first."""
        for tally in self.tallies:
            for data in (*tally.target.seeds(), *self._more(tally.target)):
                self._one(tally, data)
        turn = 0
        while carries_on():
            tally = self.tallies[turn % len(self.tallies)]
            turn += 1
            for _ in range(_TURN):
                self._one(tally, changed(self._chosen(tally), self._dice, tally.target.changes, tally.kept))

    def _chosen(self, tally: Tally) -> bytes:
        """Any of the inputs, and one of the latest as often as all others."""
        if self._dice.random() < 0.5:
            return self._dice.choice(tally.kept[-40:])
        return self._dice.choice(tally.kept)

    def _one(self, tally: Tally, data: bytes) -> None:
        began = time.process_time()
        tally.runs += 1
        is_new = not tally.runs % tally.target.checks
        try:
            before = len(self.arcs)
            with self.arcs.watch():
                tally.target.run(data, self._dice)
            if len(self.arcs) > before or not tally.kept:
                is_new = True
                if len(tally.kept) < _KEPT:
                    tally.kept.append(data)
            if is_new and tally.target.check is not None:
                tally.checks += 1
                tally.target.check(data, self._dice)
            if self._measured and not tally.runs % _MEASURED:
                self._measure(tally.target, data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what was looked for
            self._broken(tally.target, data, error)
        tally.seconds += time.process_time() - began

    def _measure(self, target: Target, data: bytes) -> None:
        """Processor time and memory of one run, against what its bytes allow."""
        began = time.process_time()
        tracemalloc.start()
        try:
            target.run(data, self._dice)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        seconds = time.process_time() - began
        assert peak <= _FIXED_BYTES + _BYTES_PER_BYTE * len(data), f"{peak:,} bytes of memory for {len(data):,}"
        assert seconds <= _FIXED_SECONDS + _SECONDS_PER_BYTE * len(data), f"{seconds:.1f} s for {len(data):,} bytes"

    def _broken(self, target: Target, data: bytes, error: Exception) -> None:
        """Keep the shortest input for each place where the invariant breaks."""
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1]
        key = f"{target.name} {type(error).__name__} {last.filename}:{last.lineno}"
        known = self.breaks.get(key)
        if known is None or len(data) < len(known.data):
            self.breaks[key] = Break(target.name, data, "".join(traceback.format_exception(error)))
