"""The logs job as it is defined; tests/pipeline/test_logs.py runs it."""

from __future__ import annotations

from pathlib import Path

from ottla.pipeline.jobs.job import Settings
from ottla.pipeline.jobs.logs import JOB


def test_what_the_job_writes() -> None:
    queries = JOB.queries(Settings(bootstrap="b:1", folder=Path("f"), lake="l"))

    assert JOB.default_topics == ("logs",)
    assert {query.name: (query.topics, query.tables) for query in queries} == {
        "lines": ((), ("logs", "dead_letters")),
        "error-rates": (("logs-error-rates",), ("logs_error_rates",)),
    }
