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
    assert outcome.lines
    assert run_plan(plan).digest == outcome.digest


def test_what_goes_wrong_is_a_problem_of_the_outcome() -> None:
    plan = replace(draw_plan(0), fault_kinds=(), topic_config={"no.such.setting": "1"})
    (problem,) = run_plan(plan).problems
    assert "topics are made" in problem
