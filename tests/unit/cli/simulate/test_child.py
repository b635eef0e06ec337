from __future__ import annotations

import io
from dataclasses import replace

import pytest

from ottla.cli.simulate import child
from ottla.cli.simulate.job import Job, Result
from ottla.testing.history.history import History
from ottla.testing.simulation.entry import Entry, Mark
from ottla.testing.simulation.plan import Plan
from ottla.testing.simulation.run import Outcome
from ottla.testing.simulation.shrinking import Shrunk

NAMES = ["kill:1", "kill:2"]


def run(plan: Plan) -> Outcome:
    """Fails as long as the first kill is there."""
    faults = [name for name in NAMES if plan.kept_faults is None or name in plan.kept_faults]
    problems = ["lost write: x"] if "kill:1" in faults else []
    entries = [Entry(0.5, "broker1", Mark.ENDED, "is killed")]
    return Outcome(
        plan, problems, "abc", entries, History(), faults, {"kills": len(faults)}, frozenset()
    )


def shrink(failed: Outcome) -> Shrunk:
    return Shrunk(run(replace(failed.plan, kept_faults=frozenset({"kill:1"}))), 4, True)


@pytest.fixture(autouse=True)
def _without_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "run_plan", run)
    monkeypatch.setattr(child, "shrink", shrink)


def answers(*jobs: Job) -> list[Result]:
    results = io.StringIO()
    child.serve([job.to_json() for job in jobs], results)
    return [Result.from_json(line) for line in results.getvalue().splitlines()]


def test_each_job_is_answered_by_a_line() -> None:
    everything, some = answers(Job(1), Job(2, ("kill:2",), is_traced=True))
    assert (everything.job, everything.faults, everything.problems) == (
        Job(1),
        NAMES,
        ["lost write: x"],
    )
    assert everything.entries == []
    assert (some.faults, some.problems, some.exercised) == (["kill:2"], [], {"kills": 1})
    assert [entry.text for entry in some.entries] == ["is killed"]


def test_a_failing_seed_is_shrunk_if_that_is_asked_for() -> None:
    (shrunk,) = answers(Job(1, shrinks=True))
    assert (shrunk.faults, shrunk.run_count, shrunk.is_minimal) == (["kill:1"], 5, True)


def test_what_does_not_fail_is_not_shrunk() -> None:
    (result,) = answers(Job(1, ("kill:2",), shrinks=True))
    assert (result.faults, result.run_count, result.is_minimal) == (["kill:2"], 1, False)
