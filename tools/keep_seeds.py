"""Looks for seeds that are worth running in every test run, and adds them to the list:

.venv/bin/python -m tools.keep_seeds FIRST LAST
"""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.testing.simulation.kept_seeds import keep_seed
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import run_plan

KEPT_SEEDS = Path(__file__).resolve().parent.parent / "tests" / "simulation" / "kept_seeds.txt"


def main(first: int, last: int) -> None:
    for seed in range(first, last + 1):
        outcome = run_plan(draw_plan(seed))
        new = keep_seed(KEPT_SEEDS, outcome)
        print(f"seed {seed}: {'; '.join(new) or 'nothing new'}", flush=True)
        if outcome.problems:
            print(f"  it fails: ottla simulate --seed {seed}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
