"""Results of seeds that were not run."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.simulate.job import Job, Result
from ottla.testing.simulation.entry import Entry

EXERCISED = {"elections": 12, "kills": 0}


def a_result(
    job: Job,
    *,
    problems: Sequence[str] = (),
    faults: Sequence[str] = ("kill:1", "pause:1", "kill:2"),
    entries: Sequence[Entry] = (),
    is_minimal: bool = False,
) -> Result:
    return Result(
        job,
        list(problems),
        f"hash-of-{job.seed}",
        list(faults),
        dict(EXERCISED),
        9 if job.shrinks else 1,
        is_minimal,
        list(entries),
    )
