"""`ottla perf`: how fast this machine's clients can write to and read from a cluster."""

from __future__ import annotations

import os
import sys
import time
from array import array
from collections.abc import Callable
from threading import Event
from typing import NamedTuple

import click
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic

from ottla.cli.client import (
    METADATA_TIMEOUT_S,
    Cluster,
    client_options,
    find_topic,
    message_of,
    one_line,
    wait_for,
)
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.interrupts import stoppable
from ottla.cli.latency import milliseconds_text, summary_of
from ottla.cli.name_completion import complete_topic
from ottla.cli.options import json_option
from ottla.cli.suggestions import CommandGroup
from ottla.cli.tables import print_facts, print_json

_DEFAULT_TOPIC = "ottla-perf"
_DEFAULT_RECORDS = 1_000_000
_LIVE_PERIOD_S = 1.0
_RECORDS_A_CLOCK = 100
_CONSUME_BATCH = 5_000
# A consumer that asked for more records than there are ends after this long without one.
_IDLE_S = 10.0
_SHORTEST_S = 1e-6
_POLL_S = 0.25
_LAST_FLUSH_S = 1.5

Clock = Callable[[], float]


class LiveLine:
    """Rate so far, once a second on standard error: in place on a terminal, else a line each."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._is_terminal = sys.stderr.isatty()
        self._shown_s = clock()
        self._shown_records = 0

    def update(self, records: int, size_bytes: int, note: str = "") -> None:
        now_s = self._clock()
        elapsed_s = now_s - self._shown_s
        if elapsed_s < _LIVE_PERIOD_S:
            return
        rate = (records - self._shown_records) / elapsed_s
        text = (
            f"{records:>12,} records  {rate:>10,.0f}/s  {rate * size_bytes / 1e6:>8.1f} MB/s{note}"
        )
        self._shown_s, self._shown_records = now_s, records
        print(
            f"\r\x1b[K{text}" if self._is_terminal else text,
            file=sys.stderr,
            flush=True,
            end="" if self._is_terminal else "\n",
        )

    def clear(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", file=sys.stderr, end="", flush=True)


@click.group("perf", cls=CommandGroup)
def command() -> None:
    """Measure producing and consuming.

    \b
    ottla perf produce --records 1000000 --size 100
    ottla perf consume --records 1000000
    """


@command.command("produce")
@click.argument("topic", default=_DEFAULT_TOPIC, shell_complete=complete_topic)
@click.option(
    "-n", "--records", type=click.IntRange(1), default=_DEFAULT_RECORDS, show_default=True
)
@click.option("-s", "--size", type=click.IntRange(0), default=100, show_default=True, help="Bytes.")
@click.option("--rate", type=click.IntRange(1), help="Records a second. [default: no limit]")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]))
@click.option("--linger-ms", type=click.IntRange(0), default=5, show_default=True)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="When TOPIC is not there yet and gets created.",
)
@json_option
@client_options
def produce(
    cluster: Cluster,
    topic: str,
    records: int,
    size: int,
    rate: int | None,
    acks: str,
    compression: str | None,
    linger_ms: int,
    partitions: int,
    as_json: bool,
) -> int:
    """Write records to TOPIC (created if need be) and measure until each is acknowledged.

    Latency is from the call to the acknowledgement; without --rate that is mostly the time in
    the client's own queue.

    With --json: {"records", "failed", "seconds", "records_per_s", "mb_per_s", "latency_ms":
    {"p50", "p95", "p99", "max"}}.
    """
    _make_topic(cluster, topic, partitions)
    producer = cluster.producer(
        {
            "acks": acks,
            "enable.idempotence": acks == "all",
            "compression.type": compression or "none",
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 500_000,
        }
    )
    run = _ProduceRun(producer, topic, os.urandom(size))
    started_s = time.monotonic()
    with stoppable() as stop:
        run.send_all(records, rate, stop)
        if stop.is_set():
            producer.purge()
        producer.flush(_LAST_FLUSH_S)
    run.live.clear()
    seconds = time.monotonic() - started_s
    if stop.is_set() and not as_json:
        warn(_cut_short_text(run.delivered, size * run.delivered, seconds))
    else:
        _print_produced(run, size * run.delivered, seconds, as_json=as_json)
    if run.failed:
        warn(f"{run.failed:,} records were not delivered: {run.first_error}")
    if stop.is_set():
        return ExitCode.INTERRUPTED
    return ExitCode.FAILED if run.failed else ExitCode.OK


class _ProduceRun:
    """One measurement. Owned by the command."""

    def __init__(self, producer: Producer, topic: str, value: bytes) -> None:
        self._producer = producer
        self._topic = topic
        self._value = value
        self.latencies_ms: array[float] = array("d")
        self.failed = 0
        self.first_error: str | None = None
        self.live = LiveLine()

    @property
    def delivered(self) -> int:
        return len(self.latencies_ms)

    def send_all(self, records: int, rate: int | None, stop: Event) -> None:
        produce, poll = self._producer.produce, self._producer.poll
        started_s = time.monotonic()
        for sent in range(records):
            while not stop.is_set():
                try:
                    produce(self._topic, self._value, on_delivery=self._on_delivery)
                    break
                except BufferError:
                    poll(0.05)
            if stop.is_set():
                return
            if rate is not None:
                self._wait_until(started_s + sent / rate, stop)
            elif sent % _RECORDS_A_CLOCK == 0:
                poll(0)
                self.live.update(self.delivered, len(self._value))
        while len(self._producer) and not stop.is_set():
            poll(0.1)
            self.live.update(self.delivered, len(self._value))

    def _wait_until(self, due_s: float, stop: Event) -> None:
        self._producer.poll(0)
        while (left_s := due_s - time.monotonic()) > 0 and not stop.is_set():
            self._producer.poll(min(left_s, _POLL_S))
        self.live.update(self.delivered, len(self._value))

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.latencies_ms.append((message.latency() or 0.0) * 1000)
        elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            self.failed += 1
            self.first_error = self.first_error or message_of(KafkaException(error))


@command.command("consume")
@click.argument("topic", default=_DEFAULT_TOPIC, shell_complete=complete_topic)
@click.option("-n", "--records", type=click.IntRange(1), help="[default: all there are now]")
@json_option
@client_options
def consume(cluster: Cluster, topic: str, records: int | None, as_json: bool) -> int:
    """Read TOPIC from the beginning and measure. No consumer group is involved.

    The clock runs from the first request to the last record.

    With --json: {"records", "seconds", "records_per_s", "mb_per_s", "first_record_ms"}.
    """
    consumer = cluster.consumer(
        {
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "queued.min.messages": 200_000,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
        }
    )
    try:
        partitions = sorted(find_topic(consumer, topic).partitions)
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        with stoppable() as stop:
            consumed = _consume_all(consumer, set(partitions), records, stop)
    finally:
        consumer.close()
    if consumed.records == 0 and not stop.is_set():
        raise Failure(f"{topic} is empty; fill it with `ottla perf produce {topic}`")
    if stop.is_set() and not as_json:
        warn(_cut_short_text(consumed.records, consumed.size_bytes, consumed.seconds))
    else:
        _print_consumed(consumed, as_json=as_json)
    if stop.is_set():
        return ExitCode.INTERRUPTED
    if records is not None and consumed.records < records:
        warn(f"{topic} has only {consumed.records:,} of the {records:,} records asked for")
        return ExitCode.FAILED
    return ExitCode.OK


class _Consumed(NamedTuple):
    records: int
    size_bytes: int
    seconds: float
    """From the first request to the last record."""
    first_record_s: float
    """From the first request to the first record: what the client needs to find its way."""


def _consume_all(
    consumer: Consumer, unfinished: set[int], records: int | None, stop: Event
) -> _Consumed:
    live = LiveLine()
    count = size_bytes = 0
    began_s = first_s = last_s = time.monotonic()
    while (records is None and unfinished) or (records is not None and count < records):
        wanted = _CONSUME_BATCH if records is None else min(_CONSUME_BATCH, records - count)
        batch = consumer.consume(wanted, timeout=0.1)
        now_s = time.monotonic()
        for message in batch:
            error = message.error()
            if error is None:
                first_s = now_s if count == 0 else first_s
                count += 1
                size_bytes += len(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition() or 0)
            else:
                raise KafkaException(error)
        if batch:
            last_s = now_s
        elif now_s - last_s > _IDLE_S:
            break
        if stop.is_set():
            break
        live.update(count, size_bytes // max(1, count))
    live.clear()
    return _Consumed(count, size_bytes, last_s - began_s, first_s - began_s)


def _make_topic(cluster: Cluster, topic: str, partitions: int) -> None:
    admin = cluster.admin()
    if topic in admin.list_topics(timeout=METADATA_TIMEOUT_S).topics:
        return
    futures = admin.create_topics(
        [NewTopic(topic, num_partitions=partitions, replication_factor=-1)]
    )
    _, failures = wait_for(futures)
    if failures:
        raise Failure(f"could not create {one_line(failures.items())}")


def _print_produced(run: _ProduceRun, size_bytes: int, seconds: float, *, as_json: bool) -> None:
    latency = summary_of(run.latencies_ms)
    if as_json:
        print_json(
            {
                "records": run.delivered,
                "failed": run.failed,
                **_rate_fields(run.delivered, size_bytes, seconds),
                "latency_ms": latency
                and {
                    "p50": round(latency.p50_ms, 3),
                    "p95": round(latency.p95_ms, 3),
                    "p99": round(latency.p99_ms, 3),
                    "max": round(latency.max_ms, 3),
                },
            }
        )
        return
    facts = _rate_facts(run.delivered, size_bytes, seconds)
    if latency is not None:
        names = ("p50", "p95", "p99", "max")
        parts = [f"{n} {milliseconds_text(ms)}" for n, ms in zip(names, latency, strict=True)]
        facts.append(("latency", ", ".join(parts)))
    print_facts(facts)


def _print_consumed(consumed: _Consumed, *, as_json: bool) -> None:
    rate = (consumed.records, consumed.size_bytes, consumed.seconds)
    first_record_ms = consumed.first_record_s * 1000
    if as_json:
        print_json(
            {
                "records": consumed.records,
                **_rate_fields(*rate),
                "first_record_ms": round(first_record_ms, 3),
            }
        )
    else:
        first = ("first record", f"after {milliseconds_text(first_record_ms)}")
        print_facts([*_rate_facts(*rate), first])


def _rate_fields(records: int, size_bytes: int, seconds: float) -> dict[str, float]:
    return {
        "seconds": round(seconds, 3),
        "records_per_s": round(records / max(seconds, _SHORTEST_S), 1),
        "mb_per_s": round(size_bytes / max(seconds, _SHORTEST_S) / 1e6, 3),
    }


def _rate_facts(records: int, size_bytes: int, seconds: float) -> list[tuple[str, str]]:
    rate = records / max(seconds, _SHORTEST_S)
    mb_rate = size_bytes / max(seconds, _SHORTEST_S) / 1e6
    return [
        ("records", f"{records:,} in {seconds:.2f} s"),
        ("rate", f"{rate:,.0f} records/s, {mb_rate:,.1f} MB/s"),
    ]


def _cut_short_text(records: int, size_bytes: int, seconds: float) -> str:
    return "until it was stopped: " + ", ".join(
        text for _, text in _rate_facts(records, size_bytes, seconds)
    )
