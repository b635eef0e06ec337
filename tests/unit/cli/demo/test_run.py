"""The demo's parts: how it ends, and what it says. tests/pipeline runs the whole of it."""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.demo.run import PIPELINE_SETTINGS, Demo, Spark, commands_to_try, settle
from ottla.cli.errors import Failure
from ottla.cli.interrupts import GRACE_S
from ottla.cli.pipeline.results.activity_results import Results
from tests.support.demo_snapshot import some_results


def demo_of(
    *,
    delivered: int = 5,
    read_back: int = 5,
    failed: str | None = None,
    broker_exit: int | None = None,
    pipeline_exit: int | None = None,
    spark_rows: int | None = None,
    results: Results | None = None,
) -> Demo:
    broker: Any = SimpleNamespace(
        bootstrap="127.0.0.1:9092",
        start_s=0.12,
        exit_code=lambda: broker_exit,
        log_text=lambda: "disk full\n",
        memory_bytes=lambda: 40_000_000,
    )
    feed: Any = SimpleNamespace(delivered=delivered, failed=failed, start=lambda: None)
    reader: Any = SimpleNamespace(
        count=read_back, failed=None, last_records=deque(), take_latencies=lambda: [1.5]
    )
    if spark_rows is None:
        return Demo(broker, feed, reader, None)
    pipeline: Any = SimpleNamespace(
        rows={"traffic": spark_rows},
        last={},
        stages=[("Java", 1.5)],
        elapsed_s=lambda: 3.0,
        exit_code=lambda: pipeline_exit,
        reason=lambda: "no Java",
    )
    results_reader: Any = SimpleNamespace(results=results or Results())
    return Demo(broker, feed, reader, Spark(pipeline, results_reader))


def test_it_leaves_a_page_and_the_last_line_names_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    demo = demo_of(spark_rows=4, results=some_results())
    demo.refresh()

    assert demo.finish(path) == 0

    assert capsys.readouterr().out == (
        "5 records written, 4 read by Spark: 44,123 page views of 12,345 visitors, 8 sessions; "
        f"page: {path}\n"
    )
    assert "of the demo found out" in path.read_text()


def test_the_page_is_a_temporary_file_if_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    demo = demo_of()
    demo.refresh()

    demo.finish(None)

    (path,) = tmp_path.iterdir()
    assert path.name.startswith("ottla-demo-")
    assert capsys.readouterr().out == (
        f"5 records written, 5 read back, p50 1.5 ms end to end; page: {path}\n"
    )


def test_records_that_did_not_come_back_are_a_failure(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="2 of 5 records did not come back"):
        demo_of(read_back=3).finish(tmp_path / "page.html")
    with pytest.raises(Failure, match="the demo's clients failed: the disk is full"):
        demo_of(failed="the disk is full").finish(tmp_path / "page.html")


def test_control_c_leaves_time_for_the_page_whatever_the_broker_is_at() -> None:
    waited_s: list[float] = []
    feed: Any = SimpleNamespace(delivered=5, stop=waited_s.append)
    read_back: Any = SimpleNamespace(catch_up=lambda count, timeout_s: waited_s.append(timeout_s))
    stop = Event()
    settle(feed, read_back, stop)
    assert sum(waited_s) > GRACE_S

    waited_s.clear()
    stop.set()
    settle(feed, read_back, stop)
    assert len(waited_s) == 2
    assert sum(waited_s) <= GRACE_S / 2


def test_a_part_that_ends_is_a_failure() -> None:
    with pytest.raises(Failure, match="the broker ended: disk full"):
        demo_of(broker_exit=1).show(60, Event())
    with pytest.raises(Failure, match="the pipeline ended: no Java"):
        demo_of(spark_rows=0, pipeline_exit=1).show(60, Event())


def test_elsewhere_than_on_a_terminal_it_says_where_all_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    demo, stop = demo_of(spark_rows=0), Event()
    demo.page_url = "http://127.0.0.1:8123/"
    stop.set()

    demo.show(None, stop)

    assert capsys.readouterr().out.splitlines()[1:] == [
        "charts, live: http://127.0.0.1:8123/",
        "in another terminal: ottla consume activity, ottla topics list",
    ]


def test_it_looks_at_all_parts() -> None:
    demo = demo_of(spark_rows=4)
    demo.refresh()

    snapshot = demo.shown
    assert (snapshot.written, snapshot.read_back, snapshot.lag) == (5, 5, 1)
    assert snapshot.spark is not None
    assert snapshot.spark.stages[:2] == [("Java", 1.5), ("Spark session", None)]
    (sample,) = snapshot.samples
    assert (sample.p50_ms, sample.memory_bytes) == (1.5, 40_000_000)


def test_other_terminals_need_the_address_only_where_they_do_not_know_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OTTLA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("OTTLA_COMMAND", raising=False)
    usual = ["ottla consume activity", "ottla topics list"]
    assert commands_to_try("127.0.0.1:9092") == usual
    elsewhere = [f"{command} --bootstrap 127.0.0.1:40123" for command in usual]
    assert commands_to_try("127.0.0.1:40123") == elsewhere

    monkeypatch.setenv("OTTLA_BOOTSTRAP", "far:9092")
    monkeypatch.setenv("OTTLA_COMMAND", "./ottla")
    assert commands_to_try("127.0.0.1:9092")[1] == "./ottla topics list --bootstrap 127.0.0.1:9092"


def test_spark_keeps_little_of_what_is_done() -> None:
    """tests/pipeline/test_demo_bounds.py runs a thousand batches with these."""
    assert PIPELINE_SETTINGS["spark.cleaner.periodicGC.interval"] == "1min"
    assert int(PIPELINE_SETTINGS["spark.sql.streaming.minBatchesToRetain"]) <= 10
