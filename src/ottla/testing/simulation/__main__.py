"""Runs seeds: `python -m ottla.testing.simulation FIRST [LAST] [--trace] [--keep FILE]`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

from ottla.testing.simulation.kept_seeds import keep_seed
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import run_plan


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.testing.simulation")
    parser.add_argument("first", type=int, help="a seed")
    parser.add_argument("last", type=int, nargs="?", help="the last of several")
    parser.add_argument("--keep", type=Path, help="a file for seeds that reach something new")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    given = parser.parse_args(arguments)
    logging.getLogger("ottla").setLevel(logging.INFO)
    logging.getLogger("ottla").propagate = False
    failed_count = 0
    for seed in range(given.first, (given.last or given.first) + 1):
        began_s = time.monotonic()
        outcome = run_plan(draw_plan(seed))
        if given.trace:
            print("\n".join(outcome.lines))
        kinds = ", ".join(outcome.plan.fault_kinds)
        took_s = time.monotonic() - began_s
        print(f"seed {seed} ({kinds}): {outcome.digest}, {took_s:.1f} s", flush=True)
        if given.keep is not None:
            for combination in keep_seed(given.keep, outcome):
                print(f"  new: {combination}", flush=True)
        for problem in outcome.problems:
            print(f"  {problem}", flush=True)
        failed_count += bool(outcome.problems)
    return min(failed_count, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
