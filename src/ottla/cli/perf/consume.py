"""`ottla perf consume`: how fast a topic can be read."""

from __future__ import annotations

import time
from threading import Event
from typing import NamedTuple

import click
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from ottla.cli.client import Cluster, client_options, find_topic
from ottla.cli.command_line import command_line
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.interrupts import stoppable
from ottla.cli.latency import milliseconds_text
from ottla.cli.live_line import LiveLine
from ottla.cli.name_completion import complete_topic
from ottla.cli.options import json_option
from ottla.cli.perf.leftover import DEFAULT_TOPIC, Leftover, delete_option
from ottla.cli.perf.rates import cut_short_text, rate_facts, rate_fields
from ottla.cli.tables import print_facts, print_json

_CONSUME_BATCH = 5_000
# A consumer that asked for more records than there are ends after this long without one.
_IDLE_S = 10.0


@click.command("consume")
@click.argument("topic", default=DEFAULT_TOPIC, shell_complete=complete_topic)
@click.option("-n", "--records", type=click.IntRange(1), help="[default: all that are there]")
@delete_option
@json_option
@client_options
def consume(
    cluster: Cluster, topic: str, records: int | None, is_deleted: bool | None, as_json: bool
) -> int:
    """Read TOPIC from the beginning and measure. No consumer group is involved.

    The clock runs from the first request to the last record.

    With --json: {"records", "seconds", "records_per_s", "mb_per_s", "first_record_ms"}.
    """
    leftover = Leftover(cluster, topic, is_new=False, is_deleted=is_deleted)
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
        raise Failure(f"{topic} is empty; fill it with `{command_line(f'perf produce {topic}')}`")
    if stop.is_set() and not as_json:
        left = leftover.settle(may_ask=False)
        warn(cut_short_text(consumed.records, consumed.size_bytes, consumed.seconds, left))
    else:
        _print_consumed(consumed, as_json=as_json)
        if left := leftover.settle(may_ask=not as_json):
            warn(left)
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


def _print_consumed(consumed: _Consumed, *, as_json: bool) -> None:
    rate = (consumed.records, consumed.size_bytes, consumed.seconds)
    first_record_ms = consumed.first_record_s * 1000
    if as_json:
        print_json(
            {
                "records": consumed.records,
                **rate_fields(*rate),
                "first_record_ms": round(first_record_ms, 3),
            }
        )
    else:
        first = ("first record", f"after {milliseconds_text(first_record_ms)}")
        print_facts([*rate_facts(*rate), first])
