from __future__ import annotations

from ottla.testing.simulation.fault_kinds import KINDS
from ottla.testing.simulation.plan import draw_plan


def test_a_seed_draws_the_same_plan_each_time() -> None:
    assert draw_plan(7) == draw_plan(7)
    assert draw_plan(7) != draw_plan(8)


def test_all_kinds_of_faults_are_drawn_two_to_four_at_a_time() -> None:
    plans = [draw_plan(seed) for seed in range(100)]
    assert {kind for plan in plans for kind in plan.fault_kinds} == set(KINDS)
    assert {len(plan.fault_kinds) for plan in plans} == {2, 3, 4}
