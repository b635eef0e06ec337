"""The list of jobs."""

from __future__ import annotations

import pytest

from ottla.pipeline.jobs import registry


def test_there_are_four() -> None:
    assert list(registry.summaries()) == ["activity", "logs", "metrics", "mirror"]
    assert all(summary.endswith(".") for summary in registry.summaries().values())


def test_another_name_is_none() -> None:
    with pytest.raises(KeyError):
        registry.find_job("acitvity")
