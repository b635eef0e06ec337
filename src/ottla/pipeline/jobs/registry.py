"""The pipelines that there are, by name. A job's module is imported when it is asked for, so that
`ottla pipeline list` needs no Spark."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.pipeline.jobs.job import Job


class _Entry(NamedTuple):
    module: str
    """Has the Job, as `JOB`."""
    summary: str


_ENTRIES: dict[str, _Entry] = {
    "activity": _Entry(
        "ottla.pipeline.jobs.activity",
        "Page views, searches and clicks: traffic, visitors, sessions, top pages and searches.",
    ),
    "logs": _Entry(
        "ottla.pipeline.jobs.logs",
        "Log lines of many services in one lake table, and the rate of their errors.",
    ),
    "metrics": _Entry(
        "ottla.pipeline.jobs.metrics",
        "Metrics of hosts in windows of 10 s, 1 min and 1 h, and alarms by rules.",
    ),
    "mirror": _Entry(
        "ottla.pipeline.jobs.mirror",
        "Topics of one cluster copied to another, exactly once, with their groups' offsets.",
    ),
}


def summaries() -> dict[str, str]:
    """Of every job, by name."""
    return {name: entry.summary for name, entry in _ENTRIES.items()}


def find_job(name: str) -> Job:
    """Raises KeyError for a name that no job has."""
    job: Job = importlib.import_module(_ENTRIES[name].module).JOB
    return job
