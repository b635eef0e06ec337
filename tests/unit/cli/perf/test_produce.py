"""`ottla perf produce`: counting and reporting. tests/compat tries it on brokers."""

from __future__ import annotations

import json
from threading import Event
from typing import Any

import pytest

from ottla.cli.perf.produce import _print_produced, _ProduceRun
from tests.unit.cli.perf.fakes import FakeProducer


@pytest.mark.parametrize("rate", [None, 1_000_000])
def test_every_record_is_delivered_or_counted_as_failed(rate: int | None) -> None:
    producer: Any = FakeProducer()
    run = _ProduceRun(producer, "t", b"x" * 100)

    run.send_all(25, rate, Event())

    assert (run.delivered, run.failed) == (23, 2)
    assert set(run.latencies_ms) == {2.0}
    assert "MSG_TIMED_OUT" in str(run.first_error)


def finished_run(latencies_ms: list[float]) -> _ProduceRun:
    producer: Any = FakeProducer()
    run = _ProduceRun(producer, "t", b"")
    run.latencies_ms.extend(latencies_ms)
    return run


def test_results_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _print_produced(finished_run([1, 2, 3, 4]), 50_000_000, 2.0, as_json=True)

    assert json.loads(capsys.readouterr().out) == {
        "records": 4,
        "failed": 0,
        "seconds": 2.0,
        "records_per_s": 2.0,
        "mb_per_s": 25.0,
        "latency_ms": {"p50": 2.0, "p95": 4.0, "p99": 4.0, "max": 4.0},
    }


def test_results_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    _print_produced(finished_run([12.0] * 1000), 1_000_000, 0.5, as_json=False)

    assert capsys.readouterr().out == (
        "records  1,000 in 0.50 s\n"
        "rate     2,000 records/s, 2.0 MB/s\n"
        "latency  p50 12 ms, p95 12 ms, p99 12 ms, max 12 ms\n"
    )
