"""The demo with Spark: how it ends. tests/pipeline runs the whole of it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.demo.pipeline import _Demo
from ottla.cli.demo.results import TRAFFIC, Results
from ottla.cli.errors import Failure


def demo_of(
    *, broker_exit: int | None = None, pipeline_exit: int | None = None, **rows: int
) -> _Demo:
    results = Results()
    day = {"window": "day", "start": "2026-01-01T00:00:00.000Z", "page_views": 3, "visitors": 2}
    if rows:
        results.take(TRAFFIC, day)
    broker: Any = SimpleNamespace(
        bootstrap="here:1", exit_code=lambda: broker_exit, log_text=lambda: "disk full\n"
    )
    pipeline: Any = SimpleNamespace(
        rows=rows, last={}, exit_code=lambda: pipeline_exit, reason=lambda: "no Java"
    )
    feed: Any = SimpleNamespace(tally=SimpleNamespace(delivered=5))
    reader: Any = SimpleNamespace(results=results)
    return _Demo(broker, pipeline, feed, reader, 0.0)


def test_it_leaves_a_page_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"

    assert demo_of(traffic=4).finish(7.0, path) == 0

    assert capsys.readouterr().out == (
        f"5 records written, 4 read by Spark, 3 page views counted\nplots: {path}\n"
    )
    assert "What 7 seconds" in path.read_text()


def test_the_page_is_a_temporary_file_if_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    demo_of().finish(3.0, None)

    (path,) = tmp_path.iterdir()
    assert path.name.startswith("ottla-demo-")
    assert capsys.readouterr().out.splitlines() == [
        "5 records written, 0 read by Spark",
        f"plots: {path}",
    ]


def test_a_part_that_ends_is_a_failure() -> None:
    with pytest.raises(Failure, match="the broker ended: disk full"):
        demo_of(broker_exit=1).show(60)
    with pytest.raises(Failure, match="the pipeline ended: no Java"):
        demo_of(pipeline_exit=1).show(60)
