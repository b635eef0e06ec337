"""What can be set is in docs/pipelines/README.md, all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.jobs.registry import summaries
from ottla.pipeline.run import settings
from ottla.pipeline.sink import write_options
from ottla.pipeline.source import read_options

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "pipelines"
OF_SPARK_ITSELF = {"checkpointLocation", "queryName"}
NOT_THERE_YET = {"kafka.security.protocol"}
FIXED = {"kafka.acks"}
"""Writes need all, and say so."""


@pytest.mark.parametrize(
    "names", [read_options._KNOWN, write_options._KNOWN], ids=["reading", "writing"]
)
def test_options_of_the_data_source(names: tuple[str, ...]) -> None:
    text = (FOLDER / "README.md").read_text()
    wanted = set(names) - OF_SPARK_ITSELF - NOT_THERE_YET - FIXED
    assert sorted(name for name in wanted if f"`{name}`" not in text) == []


def test_keys_of_the_file() -> None:
    text = (FOLDER / "README.md").read_text()
    assert sorted(key for key in settings._PARSERS if f"{key} = " not in text) == []


def test_every_pipeline_has_a_page() -> None:
    text = (FOLDER / "README.md").read_text()
    for name in summaries():
        assert f"[{name}]({name}.md)" in text
        assert (FOLDER / f"{name}.md").exists(), name
