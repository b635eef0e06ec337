"""`python -m ottla.cli.simulate.child`: runs the seeds that its standard input names, one after
another, until that ends."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import TextIO

from ottla.cli.simulate.job import Job, Result
from ottla.testing.simulation.plan import draw_plan
from ottla.testing.simulation.run import run_plan
from ottla.testing.simulation.shrinking import shrink


def answer(job: Job) -> Result:
    plan = draw_plan(job.seed)
    if job.faults is not None:
        plan = replace(plan, kept_faults=frozenset(job.faults))
    outcome = run_plan(plan)
    run_count, is_minimal = 1, False
    if job.shrinks and outcome.problems:
        shrunk = shrink(outcome)
        outcome, is_minimal = shrunk.outcome, shrunk.is_minimal
        run_count += shrunk.run_count
    return Result(
        job,
        outcome.problems,
        outcome.digest,
        outcome.faults,
        outcome.exercised,
        run_count,
        is_minimal,
        outcome.entries if job.is_traced else [],
    )


def serve(jobs: Iterable[str], results: TextIO) -> None:
    for line in jobs:
        print(answer(Job.from_json(line)).to_json(), file=results, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Its parent tells it when to end.
    # What a trace shows. Nobody else hears of it.
    logging.getLogger("ottla").setLevel(logging.INFO)
    logging.getLogger("ottla.state_change").setLevel(logging.DEBUG)
    logging.getLogger("ottla").propagate = False
    try:
        serve(sys.stdin, sys.stdout)
    except BrokenPipeError:
        sys.stderr.close()  # The parent has gone.
