from __future__ import annotations

from collections.abc import Callable

from ottla.testing.history.history import History
from ottla.testing.simulation.plan import Plan, draw_plan
from ottla.testing.simulation.run import Outcome
from ottla.testing.simulation.shrinking import shrink

FAULTS = [f"kill:{number}" for number in range(1, 41)]


def outcome_of(plan: Plan, is_failing: Callable[[set[str]], bool]) -> Outcome:
    kept = [name for name in FAULTS if plan.kept_faults is None or name in plan.kept_faults]
    problems = ["lost write: x"] if is_failing(set(kept)) else []
    return Outcome(plan, problems, "", [], History(), kept, {}, frozenset())


def shrunk_by(
    is_failing: Callable[[set[str]], bool], runs_max: int = 1000
) -> tuple[list[str], int, bool]:
    def run(plan: Plan) -> Outcome:
        return outcome_of(plan, is_failing)

    outcome, run_count, is_minimal = shrink(run(draw_plan(0)), run, runs_max=runs_max)
    assert outcome.problems
    assert outcome.faults == run(outcome.plan).faults
    return outcome.faults, run_count, is_minimal


def test_what_is_left_are_those_that_it_takes() -> None:
    for needed in ({"kill:7"}, {"kill:1", "kill:40"}, {"kill:3", "kill:4", "kill:29"}):
        faults, run_count, is_minimal = shrunk_by(needed.issubset)
        assert set(faults) == needed
        assert is_minimal
        assert run_count < 60


def test_a_seed_that_fails_without_any_fault_is_left_with_none() -> None:
    assert shrunk_by(lambda kept: True) == ([], 6, True)


def test_it_ends_after_so_many_runs_with_what_it_has() -> None:
    needed = {"kill:3", "kill:4", "kill:29"}
    faults, run_count, is_minimal = shrunk_by(needed.issubset, runs_max=5)
    assert needed < set(faults) < set(FAULTS)
    assert (run_count, is_minimal) == (5, False)
