from __future__ import annotations

from dataclasses import replace

from ottla.testing.history.events import Acknowledged, Ended, OffsetsCommitted, Polled
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import run_plan


def test_a_run_without_faults_has_no_problems_and_all_kinds_of_clients() -> None:
    plan = replace(draw_plan(0), fault_kinds=(), workload_s=1.0, has_admin=True)
    outcome = run_plan(plan)
    assert outcome.problems == []
    kinds = {type(event) for event in outcome.history}
    assert kinds >= {Acknowledged, Ended, OffsetsCommitted, Polled}
    assert {entry.host for entry in outcome.entries} >= {"store", "broker1", "producer0", "last1"}
    assert outcome.faults == []
    assert outcome.exercised["records acknowledged"] > 0
    assert outcome.exercised["rebalances"] > 0
    assert outcome.exercised["kills"] == 0
    assert run_plan(plan).digest == outcome.digest


def test_a_plan_keeps_faults_by_name() -> None:
    plan = replace(draw_plan(0), fault_kinds=("kill_and_start_at_once", "pause"), workload_s=4.0)
    kept = replace(plan, kept_faults=frozenset({"kill_and_start_at_once:1"}))
    outcome = run_plan(kept)
    assert outcome.problems == []
    assert outcome.faults == ["kill_and_start_at_once:1"]
    assert (outcome.exercised["kills"], outcome.exercised["pauses"]) == (1, 0)
    assert run_plan(kept).digest == outcome.digest


def test_what_goes_wrong_is_a_problem_of_the_outcome() -> None:
    plan = replace(draw_plan(0), fault_kinds=(), topic_config={"no.such.setting": "1"})
    (problem,) = run_plan(plan).problems
    assert "topics are made" in problem
