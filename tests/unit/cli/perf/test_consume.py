"""`ottla perf consume`: counting and reporting. tests/compat tries it on brokers."""

from __future__ import annotations

import json
from threading import Event
from typing import Any

import pytest

from ottla.cli.perf.consume import _consume_all, _Consumed, _print_consumed
from tests.unit.cli.perf.fakes import FakeConsumer, FakeMessage


def test_consuming_ends_at_the_end_of_every_partition() -> None:
    ends = [FakeMessage(end_of=0), FakeMessage(end_of=1)]
    consumer: Any = FakeConsumer([FakeMessage(), ends[0], FakeMessage(50), ends[1], FakeMessage()])

    consumed = _consume_all(consumer, {0, 1}, None, Event())

    assert (consumed.records, consumed.size_bytes) == (3, 250)


def test_consuming_takes_no_more_than_asked_for() -> None:
    consumer: Any = FakeConsumer([FakeMessage()] * 10)

    consumed = _consume_all(consumer, {0}, 4, Event())

    assert (consumed.records, consumed.size_bytes) == (4, 400)


def test_results_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _print_consumed(_Consumed(10, 5_000_000, 0.5, 0.1), as_json=True)

    assert json.loads(capsys.readouterr().out) == {
        "records": 10,
        "seconds": 0.5,
        "records_per_s": 20.0,
        "mb_per_s": 10.0,
        "first_record_ms": 100.0,
    }


def test_results_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    _print_consumed(_Consumed(10, 5_000_000, 0.5, 0.1), as_json=False)

    assert capsys.readouterr().out == (
        "records       10 in 0.50 s\n"
        "rate          20 records/s, 10.0 MB/s\n"
        "first record  after 100 ms\n"
    )
