"""A bug is put into a cluster: a seed that finds it needs few of its faults for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import Outcome, run_plan
from ottla.testing.simulation.shrinking import shrink
from tests.simulation.test_cluster_mutants import MUTANTS

SEEDS = range(3, 40)
"""Those before fail slowly: nothing is acknowledged any more, for a minute of each run."""
FAULTS_MIN = 4
RUNS_MAX = 8


def first_failure() -> Outcome:
    for seed in SEEDS:
        plan = replace(
            draw_plan(seed),
            fault_kinds=("kill_whoever_acknowledged", "pause"),
            workload_s=4.0,
            has_admin=False,
            has_rivals=False,
            has_priorities=False,
            is_consumer_protocol=False,
            topic_config={},
        )
        outcome = run_plan(plan)
        if outcome.problems and len(outcome.faults) >= FAULTS_MIN:
            return outcome
    pytest.fail(f"none of {len(SEEDS)} seeds fails with {FAULTS_MIN} faults")


def test_a_failing_seed_still_fails_with_fewer_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["committed_by_the_leader_alone"].apply(monkeypatch)
    failed = first_failure()
    shrunk = shrink(failed, runs_max=RUNS_MAX).outcome
    print(f"{failed.faults} became {shrunk.faults}")
    assert shrunk.problems
    assert set(shrunk.faults) < set(failed.faults)
    again = run_plan(replace(failed.plan, kept_faults=frozenset(shrunk.faults)))
    assert (again.problems, again.digest) == (shrunk.problems, shrunk.digest)
    monkeypatch.undo()
    assert run_plan(shrunk.plan).problems == [], "it was the bug, and not the faults"
