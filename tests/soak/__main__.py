"""``python -m tests.soak --days N [--seed S] [--home DIR]``: one life; exit status 1 if something was not as it should be."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

import trio

from tests.soak.life import WARM_DAYS, Life, resident_bytes


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument(
        "--home", type=Path, help="an empty directory that is kept; by default one in memory that is not"
    )
    return parser.parse_args()


def main() -> int:
    """Live; the exit status."""
    arguments = _arguments()
    home = arguments.home or Path(mkdtemp(prefix="soak-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))  # noqa: S108
    began, memory = time.perf_counter(), resident_bytes()
    life = Life(home, arguments.seed)
    life.problems.say = lambda problem: print(problem, flush=True)  # noqa: T201
    trio.run(life.run, arguments.days, clock=life.clockwork.clock)
    seconds, figures = time.perf_counter() - began, life.figures
    said = sum(life.ledger.counts.values())
    warm = [size for day, size in figures.memory if day >= WARM_DAYS] or [memory]
    print(f"seed {arguments.seed}: {arguments.days:g} days in {seconds:.0f} s, {life.clockwork.jumps:,} jumps")  # noqa: T201
    print(f"{said:,} events said, {said / seconds:,.0f} a second; {figures}")  # noqa: T201
    print(f"memory {memory:,} at first, {warm[0]:,} when warm, {warm[-1]:,} at the end")  # noqa: T201
    print(dict(life.ledger.counts), dict(life.ledger.cleared_as))  # noqa: T201
    print(f"{life.problems.count} problems")  # noqa: T201
    if arguments.home is None:
        shutil.rmtree(home)
    return 1 if life.problems.count else 0


if __name__ == "__main__":
    sys.exit(main())
