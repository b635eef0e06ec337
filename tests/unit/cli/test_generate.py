"""`ottla generate`: pacing, counting and reporting. tests/compat tries it on brokers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ottla.cli.generate import Topic, send_all
from ottla.cli.json_records import parse_record
from ottla.cli.main import main
from ottla.cli.produce import Tally
from ottla.pipeline.generate.activity import Generator
from ottla.pipeline.generate.event import Event, limited

NEW_YEAR = "2026-01-01T00:00:00Z"
NEW_YEAR_MS = 1_767_225_600_000


class FakeTarget:
    """Remembers when each event was sent. Its clock goes on by pauses only."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.sent: list[tuple[float, Event[Any]]] = []

    def send(self, event: Event[Any]) -> bool:
        self.sent.append((self.now_s - 50.0, event))
        return True

    def pause(self, seconds: float) -> None:
        self.now_s += seconds


def event(at_ms: int, *, late_ms: int = 0, is_broken: bool = False) -> Event[str]:
    fact = None if is_broken else "fact"
    return Event(1000 + at_ms - late_ms, 1000 + at_ms, b"k", b"value", fact)


def test_paced_each_event_is_sent_when_it_arrives() -> None:
    target = FakeTarget()
    events = [event(0), event(250), event(250), event(3000)]

    send_all(events, target, 1000, threading.Event(), clock=lambda: target.now_s)

    assert target.sent == list(zip([0, 0.25, 0.25, 3.0], events, strict=True))


def test_fast_no_event_waits() -> None:
    target = FakeTarget()

    send_all([event(0), event(60_000)], target, None, threading.Event(), clock=lambda: target.now_s)

    assert [at_s for at_s, _ in target.sent] == [0, 0]


def test_it_counts_what_it_sends() -> None:
    events = [event(0), event(5000, late_ms=4000), event(6000, is_broken=True)]

    sent = send_all(events, FakeTarget(), None, threading.Event())

    assert (sent.records, sent.late, sent.broken, sent.size_bytes) == (3, 1, 1, 18)
    assert not sent.is_interrupted


def test_told_to_stop_it_ends_with_what_was_sent() -> None:
    stop = threading.Event()

    def events() -> Iterator[Event[str]]:
        yield event(0)
        stop.set()
        yield event(0)

    sent = send_all(events(), FakeTarget(), None, stop)

    assert (sent.records, sent.is_interrupted) == (1, True)


def test_told_to_stop_it_waits_neither_for_time_nor_for_room() -> None:
    class Full(FakeTarget):
        def send(self, event: Event[Any]) -> bool:
            stop.set()
            return False

        def pause(self, seconds: float) -> None:
            stop.set()

    for paced_from_ms in (None, 0):
        stop = threading.Event()
        sent = send_all([event(3_600_000)], Full(), paced_from_ms, stop, clock=lambda: 0.0)
        assert (sent.records, sent.is_interrupted) == (0, True)


class FakeProducer:
    """Is full with two records, and fails those with the key `bad`."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, bytes]] = []
        self._queued: list[tuple[bytes, Callable[..., None]]] = []

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Any) -> None:
        if len(self._queued) == 2:
            raise BufferError
        self.sent.append((topic, key, value))
        self._queued.append((key, on_delivery))

    def poll(self, _timeout_s: float) -> None:
        for key, on_delivery in self._queued:
            on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT) if key == b"bad" else None, None)
        self._queued.clear()


def test_a_topic_gets_key_and_value_also_when_the_queue_is_full(
    capsys: pytest.CaptureFixture[str],
) -> None:
    producer: Any = FakeProducer()
    tally = Tally()
    topic = Topic(producer, "t", tally)

    events = [Event(0, 0, key, b"v", "fact") for key in (b"a", b"bad", b"c")]
    send_all(events, topic, None, threading.Event())
    topic.pause(0)

    assert producer.sent == [("t", b"a", b"v"), ("t", b"bad", b"v"), ("t", b"c", b"v")]
    assert (tally.delivered, tally.failed, tally.unacknowledged) == (2, 0, 1)
    assert "MSG_TIMED_OUT" in capsys.readouterr().err


def test_standard_output_has_what_produce_reads(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--rate", "20", "--seed", "3", "--start", NEW_YEAR, "--count", "1000", "--fast"]
    assert main(["generate", "activity", *args, "--to-stdout"]) == 0

    records = [parse_record(line.encode()) for line in capsys.readouterr().out.splitlines()]
    events = list(limited(Generator(3, 20, NEW_YEAR_MS), count=1000))
    assert [(r.key, r.value) for r in records] == [(e.key, e.value) for e in events]


def test_seconds_are_those_of_event_time(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--rate", "1", "--start", NEW_YEAR, "--seconds", "600", "--fast", "--to-stdout"]
    assert main(["generate", "metrics", *args]) == 0

    lines = capsys.readouterr().out.splitlines()
    times = [json.loads(json.loads(line)["value"])["time"] for line in lines[:5]]
    assert times[0].startswith("2026-01-01T00:00:0")
    assert 300 < len(lines) < 400  # The night has 0.6 and less of the rate.


@pytest.mark.parametrize(
    "args",
    [
        ["weather"],
        ["activity", "--rate", "0"],
        ["activity", "--to-stdout", "--json"],
        ["activity", "--to-stdout", "--topic", "t"],
        ["activity", "--start", "soon"],
        ["activity", "--count", "0"],
    ],
)
def test_nonsense_is_a_usage_error(args: list[str]) -> None:
    assert main(["generate", *args]) == 2


def test_without_a_broker_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "logs", "--count", "1", "--bootstrap", "127.0.0.1:1"]) == 1
    assert "no broker answers at 127.0.0.1:1" in capsys.readouterr().err


def test_it_needs_nothing_of_spark() -> None:
    code = (
        "import sys, ottla.cli.generate; "
        "print([n for n in ('numpy', 'pyarrow', 'pyspark') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
