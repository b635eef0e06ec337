"""`ottla perf`: counting and reporting. tests/compat tries it on brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ottla.cli.perf import (
    LiveLine,
    _consume_all,
    _Consumed,
    _print_consumed,
    _print_produced,
    _ProduceRun,
)


class FakeMessage:
    def __init__(self, size_bytes: int = 100, end_of: int | None = None) -> None:
        self._size_bytes = size_bytes
        self.partition = lambda: end_of
        self.error = lambda: None if end_of is None else KafkaError(KafkaError._PARTITION_EOF)
        self.latency = lambda: 0.002

    def __len__(self) -> int:
        return self._size_bytes


class FakeConsumer:
    def __init__(self, messages: list[FakeMessage]) -> None:
        self._messages = messages

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        taken, self._messages = self._messages[:count], self._messages[count:]
        return taken


class FakeProducer:
    """Takes three records at a time, and fails every tenth."""

    def __init__(self) -> None:
        self._queued: list[Callable[..., None]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._queued)

    def produce(self, topic: str, value: bytes, on_delivery: Callable[..., None]) -> None:
        if len(self._queued) == 3:
            raise BufferError
        self._queued.append(on_delivery)

    def poll(self, timeout: float) -> None:
        for on_delivery in self._queued:
            self._count += 1
            error = KafkaError(KafkaError._MSG_TIMED_OUT) if self._count % 10 == 0 else None
            on_delivery(error, FakeMessage())
        self._queued.clear()


@pytest.mark.parametrize("rate", [None, 1_000_000])
def test_every_record_is_delivered_or_counted_as_failed(rate: int | None) -> None:
    producer: Any = FakeProducer()
    run = _ProduceRun(producer, "t", b"x" * 100)

    run.send_all(25, rate, Event())

    assert (run.delivered, run.failed) == (23, 2)
    assert set(run.latencies_ms) == {2.0}
    assert "MSG_TIMED_OUT" in str(run.first_error)


def test_consuming_ends_at_the_end_of_every_partition() -> None:
    ends = [FakeMessage(end_of=0), FakeMessage(end_of=1)]
    consumer: Any = FakeConsumer([FakeMessage(), ends[0], FakeMessage(50), ends[1], FakeMessage()])

    consumed = _consume_all(consumer, {0, 1}, None, Event())

    assert (consumed.records, consumed.size_bytes) == (3, 250)


def test_consuming_takes_no_more_than_asked_for() -> None:
    consumer: Any = FakeConsumer([FakeMessage()] * 10)

    consumed = _consume_all(consumer, {0}, 4, Event())

    assert (consumed.records, consumed.size_bytes) == (4, 400)


def test_the_live_line_comes_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = [100.0]
    live = LiveLine(lambda: now_s[0])
    for now_s[0], records in ((100.5, 50), (102.0, 4000), (102.9, 5000)):
        live.update(records, 1000)

    (line,) = capsys.readouterr().err.splitlines()
    assert line.split() == ["4,000", "records", "2,000/s", "2.0", "MB/s"]


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

    _print_consumed(_Consumed(10, 5_000_000, 0.5, 0.1), as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "records": 10,
        "seconds": 0.5,
        "records_per_s": 20.0,
        "mb_per_s": 10.0,
        "first_record_ms": 100.0,
    }


def test_results_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    _print_produced(finished_run([12.0] * 1000), 1_000_000, 0.5, as_json=False)
    _print_consumed(_Consumed(10, 5_000_000, 0.5, 0.1), as_json=False)

    assert capsys.readouterr().out == (
        "records  1,000 in 0.50 s\n"
        "rate     2,000 records/s, 2.0 MB/s\n"
        "latency  p50 12 ms, p95 12 ms, p99 12 ms, max 12 ms\n"
        "records       10 in 0.50 s\n"
        "rate          20 records/s, 10.0 MB/s\n"
        "first record  after 100 ms\n"
    )
