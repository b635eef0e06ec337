from __future__ import annotations

import pytest

from ottla.cli.simulate.job import Job, Result
from ottla.testing.simulation.entry import Entry, Mark


@pytest.mark.parametrize("job", [Job(7), Job(7, ("kill:1",), is_traced=True), Job(7, (), True)])
def test_a_job_comes_through_a_pipe_as_it_was(job: Job) -> None:
    assert Job.from_json(job.to_json()) == job
    assert "\n" not in job.to_json()


def test_a_result_comes_through_a_pipe_as_it_was() -> None:
    result = Result(
        Job(7, ("kill:1",)),
        ["two\nlines"],
        "abc",
        ["kill:1"],
        {"kills": 1},
        3,
        True,
        [Entry(1.25, "broker1", Mark.ENDED, "is killed")],
    )
    assert Result.from_json(result.to_json()) == result
    assert "\n" not in result.to_json()
