"""The fewest faults with which a seed still fails.

Delta debugging (Zeller and Hildebrandt, 2002): leave out a part of the faults; where it still
fails, go on with what is left, and where it does not, try other and smaller parts. A run is the
same as before up to the first fault that is left out, and another one from there. So the last ones
are tried first, and any problem counts: one bug shows itself in several ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ottla.testing.simulation.plan import Plan
from ottla.testing.simulation.run import Outcome, run_plan

RUNS_MAX = 60


class Shrunk(NamedTuple):
    outcome: Outcome
    """Of the last run that failed."""
    run_count: int
    is_minimal: bool
    """Without any one of its faults it does not fail. Else there were too many runs to tell."""


def shrink(
    failed: Outcome,
    run: Callable[[Plan], Outcome] = run_plan,
    *,
    runs_max: int = RUNS_MAX,
) -> Shrunk:
    run_count = 0
    part_count = 2
    while failed.faults and run_count < runs_max:
        for kept in _without_a_part(failed.faults, part_count):
            if run_count == runs_max:
                break
            run_count += 1
            outcome = run(replace(failed.plan, kept_faults=frozenset(kept)))
            if outcome.problems:
                failed = outcome
                part_count = max(2, part_count - 1)
                break
        else:
            if part_count >= len(failed.faults):
                return Shrunk(failed, run_count, is_minimal=True)
            part_count *= 2
    return Shrunk(failed, run_count, is_minimal=not failed.faults)


def _without_a_part(faults: Sequence[str], part_count: int) -> list[list[str]]:
    """One for each of so many parts, all about as long; first without the last of them."""
    part_count = min(part_count, len(faults))
    bounds = [len(faults) * number // part_count for number in range(part_count + 1)]
    parts = reversed(list(pairwise(bounds)))
    return [[*faults[:begin], *faults[end:]] for begin, end in parts]
