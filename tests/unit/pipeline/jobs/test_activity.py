"""How the activity pipeline is put together. tests/pipeline runs it."""

from __future__ import annotations

from pathlib import Path

from ottla.pipeline.jobs.activity import JOB
from ottla.pipeline.jobs.job import Settings

PAGE = Path(__file__).parents[4] / "docs/pipelines/activity.md"
SETTINGS = Settings(bootstrap="here:1", folder=Path("f"), lake="l")


def test_only_what_is_kept_reads_more_than_values_and_timestamps() -> None:
    columns = {query.name: query.columns for query in JOB.queries(SETTINGS)}

    needed = ("value", "timestamp")
    assert {name for name, names in columns.items() if names != needed} == {"events"}


def test_the_page_names_all_that_is_written() -> None:
    text = PAGE.read_text()

    for query in JOB.queries(SETTINGS):
        for name in (query.name, *query.topics, *query.tables):
            assert f"`{name}`" in text
