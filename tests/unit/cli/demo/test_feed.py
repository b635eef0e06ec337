"""The demo's input."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ottla.cli.demo.feed import SENT_NS, Feed
from ottla.cli.demo.site_clock import SiteClock
from ottla.pipeline.generate.activity import Generator

NOW_MS = 1_763_294_400_000
DAY_S = 86_400.0


class FakeProducer:
    """Its time passes only while somebody polls."""

    def __init__(self, error: int | None = None) -> None:
        self._error = None if error is None else KafkaError(error)
        self.full_times = 0
        self.elapsed_s = 0.0
        self.poll_count = 0
        self.is_flushed = False
        self.sent: list[tuple[float, dict[str, Any]]] = []
        self.on_sent: Callable[[], None] = lambda: None

    def produce(self, topic: str, value: bytes, key: bytes, headers: Any, on_delivery: Any) -> None:
        if self.full_times:
            self.full_times -= 1
            raise BufferError
        self.sent.append((self.elapsed_s, {"topic": topic, "value": value, "headers": headers}))
        on_delivery(self._error, None)
        self.on_sent()

    def poll(self, timeout: float) -> None:
        self.poll_count += 1
        self.elapsed_s += timeout

    def flush(self, _timeout: float) -> None:
        self.is_flushed = True


def feed_over(producer: FakeProducer, rate: int = 1000) -> Feed:
    cluster: Any = type("FakeCluster", (), {"producer": lambda self, settings: producer})()
    return Feed(cluster, "activity", rate, SiteClock(NOW_MS), Event())


def send(feed: Feed, producer: FakeProducer, count: int) -> None:
    def stop_when_sent() -> None:
        if len(producer.sent) == count:
            feed._is_stopping.set()

    producer.on_sent = stop_when_sent
    feed.send(lambda: producer.elapsed_s)


def times_of(producer: FakeProducer) -> list[tuple[float, datetime]]:
    """When a record was sent, and which time it has; one in a hundred is broken."""
    found = []
    for elapsed_s, record in producer.sent:
        try:
            found.append((elapsed_s, datetime.fromisoformat(json.loads(record["value"])["time"])))
        except (ValueError, KeyError):
            pass
    return found


def test_a_minute_of_the_site_passes_in_a_second() -> None:
    producer = FakeProducer()
    feed = feed_over(producer)
    send(feed, producer, 5000)

    times = times_of(producer)
    first = times[0][1].replace(second=0, microsecond=0)
    assert (first.hour, first.minute) == (8, 0)
    for elapsed_s, time_ in times:
        # Some records come up to two minutes late, none too early.
        assert timedelta(0) <= first + timedelta(minutes=elapsed_s + 0.1) - time_
        assert first + timedelta(minutes=elapsed_s) - time_ < timedelta(minutes=3)
    assert feed.sent == feed.delivered == 5000
    # It sleeps between records: to poll for each took half a processor.
    assert producer.poll_count < 150 * producer.elapsed_s
    assert {record["topic"] for _, record in producer.sent} == {"activity"}
    assert all(record["headers"][0][0] == SENT_NS for _, record in producer.sent)


def test_after_a_week_and_after_a_month_no_record_is_from_the_future() -> None:
    """The activity pipeline refuses a time that is more than a day after the record's own."""
    for days in (7, 30):
        producer = FakeProducer()
        feed = feed_over(producer, rate=1)
        site = SiteClock(NOW_MS)
        # By how much the site is on after so many days.
        low, high = site.start_ms, site.start_ms + 5000 * 86_400_000
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if site.due_s(middle) < days * DAY_S else (low, middle)
        feed._events = islice(Generator(1, 1, low), 300)
        producer.elapsed_s = days * DAY_S
        feed.send(lambda producer=producer: producer.elapsed_s)  # type: ignore[misc]

        times = times_of(producer)
        assert len(times) > 250
        for elapsed_s, time_ in times:
            assert time_.timestamp() * 1000 <= NOW_MS + elapsed_s * 1000 + 1000


def test_a_full_queue_is_waited_for() -> None:
    producer = FakeProducer()
    producer.full_times = 3
    feed = feed_over(producer)
    send(feed, producer, 10)

    assert feed.sent == 10


def test_it_stops_while_the_queue_is_full() -> None:
    class Full(FakeProducer):
        def poll(self, timeout: float) -> None:
            super().poll(timeout)
            if self.full_times:
                feed._is_stopping.set()

    producer = Full()
    producer.full_times = 1000
    feed = feed_over(producer)
    feed.send(lambda: 3600.0)  # each event is due

    assert (feed.sent, producer.full_times) == (0, 999)


def test_what_was_not_delivered_is_told() -> None:
    producer = FakeProducer(KafkaError._MSG_TIMED_OUT)
    feed = feed_over(producer)
    send(feed, producer, 1)

    assert feed.delivered == 0
    assert feed.failed is not None
    assert "MSG_TIMED_OUT" in feed.failed


def test_it_runs_from_start_to_stop_even_if_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.demo.feed._START_S_MAX", 0.01)
    producer = FakeProducer()
    producer.poll = time.sleep  # type: ignore[assignment]
    feed = feed_over(producer)
    feed.start()
    while feed.delivered < 20:
        time.sleep(0.01)
    feed.stop(5)

    assert producer.is_flushed
    assert feed.delivered == len(producer.sent)


def test_it_begins_when_somebody_reads() -> None:
    producer, first = FakeProducer(), Event()
    producer.on_sent = first.set
    producer.poll = time.sleep  # type: ignore[assignment]
    feed = feed_over(producer)
    feed._is_read.set()
    feed.start()
    assert first.wait(60)
    feed.stop(5)


def test_nobody_waits_for_one_that_has_not_begun() -> None:
    producer = FakeProducer()
    feed = feed_over(producer)
    feed._is_stopping.set()
    feed.start()
    feed.stop(5)
    assert (producer.sent, producer.is_flushed) == ([], True)
