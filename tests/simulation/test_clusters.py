"""Whole clusters under faults, from seeds: three brokers with their controllers, idempotent and
transactional producers, a group of either protocol, an administrator. Each seed ends healed, and
its history and logs are checked.

A third of the seeds are new in each run. The base seed is in the first line of a failure, with the
command that replays it.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.simulation.kept_seeds import read_kept_seeds
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import run_plan
from tests.support.counts import count

SEED_COUNT = count(300, quick=24)
KEPT_COUNT = count(100, quick=4)
BASE_SEED = int(os.environ.get("OTTLA_BASE_SEED", "0")) or random.SystemRandom().randrange(1 << 31)
KNOWN = range(SEED_COUNT * 2 // 3)
FRESH = range(BASE_SEED, BASE_SEED + SEED_COUNT - len(KNOWN))
KEPT = sorted({*read_kept_seeds(Path(__file__).with_name("kept_seeds.txt")).values()})
"""Each reaches a state that others do not. To look for more: `python -m tools.keep_seeds`."""
PAST_FAILURES = [
    2000139,  # A follower that registered anew while it had nothing to fetch never joined the ISR.
    1755697631,  # A controller whose session expired in the middle of an event told brokers on.
]


def check(seed: int) -> None:
    outcome = run_plan(draw_plan(seed))
    replay = f"./ottla simulate --seed {seed} --trace"
    problems = "\n".join(outcome.problems[:10])
    assert not outcome.problems, f"seed {seed} fails. To replay it: {replay}\n{problems}"


@pytest.mark.parametrize(
    "seed", [*KNOWN, *PAST_FAILURES, *(each for each in KEPT[:KEPT_COUNT] if each not in KNOWN)]
)
def test_a_cluster_keeps_its_promises_whatever_happens(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("number", range(len(FRESH)))
def test_a_cluster_keeps_its_promises_under_new_seeds(number: int) -> None:
    print(f"base seed {BASE_SEED}: OTTLA_BASE_SEED={BASE_SEED} repeats this run")
    check(FRESH[number])


def test_a_seed_is_the_same_run_in_every_process() -> None:
    """Whatever ran in it before."""
    hashes = {run_plan(draw_plan(107)).digest}
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "ottla", "simulate", "--seed", "107", "--json"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        )
        hashes.add(json.loads(done.stdout)["hash"])
    assert len(hashes) == 1
