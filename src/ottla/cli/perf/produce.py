"""`ottla perf produce`: how fast a topic can be written, and how soon a record is acknowledged."""

from __future__ import annotations

import os
import time
from array import array
from threading import Event

import click
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from ottla.cli.client import (
    METADATA_TIMEOUT_S,
    Cluster,
    all_must_succeed,
    client_options,
    message_of,
)
from ottla.cli.errors import ExitCode, warn
from ottla.cli.interrupts import stoppable
from ottla.cli.latency import milliseconds_text, summary_of
from ottla.cli.live_line import LiveLine
from ottla.cli.name_completion import complete_topic
from ottla.cli.options import json_option
from ottla.cli.perf.leftover import DEFAULT_TOPIC, Leftover, delete_option
from ottla.cli.perf.rates import cut_short_text, rate_facts, rate_fields
from ottla.cli.tables import print_facts, print_json

_DEFAULT_RECORDS = 1_000_000
_RECORDS_A_CLOCK = 100
_POLL_S = 0.25
_LAST_FLUSH_S = 1.5


@click.command("produce")
@click.argument("topic", default=DEFAULT_TOPIC, shell_complete=complete_topic)
@click.option(
    "-n", "--records", type=click.IntRange(1), default=_DEFAULT_RECORDS, show_default=True
)
@click.option(
    "-s", "--size", type=click.IntRange(0), default=100, show_default=True, help="Bytes per record."
)
@click.option("--rate", type=click.IntRange(1), help="Records per second. [default: no limit]")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]))
@click.option("--linger-ms", type=click.IntRange(0), default=5, show_default=True)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="If TOPIC has to be created.",
)
@delete_option
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
    is_deleted: bool | None,
    as_json: bool,
) -> int:
    """Write records to TOPIC (created if missing) and measure until each is acknowledged.

    Latency is from the call to the acknowledgement; without --rate that is mostly the time in
    the client's own queue.

    With --json: {"records", "failed", "seconds", "records_per_s", "mb_per_s", "latency_ms":
    {"p50", "p95", "p99", "max"}}.
    """
    is_new = _make_topic(cluster, topic, partitions)
    leftover = Leftover(cluster, topic, is_new=is_new, is_deleted=is_deleted)
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
        left = leftover.settle(may_ask=False)
        warn(cut_short_text(run.delivered, size * run.delivered, seconds, left))
    else:
        _print_produced(run, size * run.delivered, seconds, as_json=as_json)
        if left := leftover.settle(may_ask=not as_json):
            warn(left)
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


def _make_topic(cluster: Cluster, topic: str, partitions: int) -> bool:
    """Whether it was not there."""
    admin = cluster.admin()
    if topic in admin.list_topics(timeout=METADATA_TIMEOUT_S).topics:
        return False
    futures = admin.create_topics(
        [NewTopic(topic, num_partitions=partitions, replication_factor=-1)]
    )
    all_must_succeed(futures, "could not create")
    return True


def _print_produced(run: _ProduceRun, size_bytes: int, seconds: float, *, as_json: bool) -> None:
    latency = summary_of(run.latencies_ms)
    if as_json:
        print_json(
            {
                "records": run.delivered,
                "failed": run.failed,
                **rate_fields(run.delivered, size_bytes, seconds),
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
    facts = rate_facts(run.delivered, size_bytes, seconds)
    if latency is not None:
        names = ("p50", "p95", "p99", "max")
        parts = [f"{n} {milliseconds_text(ms)}" for n, ms in zip(names, latency, strict=True)]
        facts.append(("latency", ", ".join(parts)))
    print_facts(facts)
