"""``python -m tests.fuzz --seconds N [--seed S] [--target NAME] [--out DIR]``: one process, one campaign.

Prints what was reached and what broke; exit status 1 if the invariant broke. Inputs that broke it are written to
``--out``, each beside its story; ``--again FILE`` runs one of them.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Campaign, Tally
from tests.fuzz.targets import PEERS, TARGETS, more


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--target", action="append", choices=[target.name for target in (*TARGETS, *PEERS)])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--again", type=Path, help="one input, by the targets that are named (default: all)")
    return parser.parse_args()


def _told(tally: Tally) -> str:
    rate = tally.runs / tally.seconds if tally.seconds else 0
    return (
        f"{tally.target.name:12} {tally.runs:9,} runs {rate:7,.0f}/s {tally.checks:8,} checks {len(tally.kept):5,} kept"
    )


def main() -> int:
    """Run; the exit status."""
    arguments = _arguments()
    named = arguments.target or [target.name for target in TARGETS]
    targets = [target for target in (*TARGETS, *PEERS) if target.name in named]
    if arguments.again is not None:
        for target in targets:
            for step in (target.run, target.check):
                if step is not None:
                    step(arguments.again.read_bytes(), random.Random(arguments.seed))
        return 0
    campaign = Campaign(targets, arguments.seed, more=more)
    end = time.monotonic() + arguments.seconds
    campaign.run(lambda: time.monotonic() < end)
    for tally in campaign.tallies:
        print(_told(tally))  # noqa: T201
    runs, seconds = sum(tally.runs for tally in campaign.tallies), sum(tally.seconds for tally in campaign.tallies)
    print(f"seed {arguments.seed}: {runs:,} runs, {runs / seconds:,.0f} a second, {len(campaign.arcs):,} arcs")  # noqa: T201
    for key, each in sorted(campaign.breaks.items()):
        print(f"\n{key}\n{len(each.data)} bytes {each.data[:80]!r}\n{each.problem}")  # noqa: T201
        if arguments.out is not None:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / each.name).write_bytes(each.data)
            (arguments.out / f"{each.name}.txt").write_text(each.problem, encoding="utf-8")
    return 1 if campaign.breaks else 0


if __name__ == "__main__":
    sys.exit(main())
