"""`ottla generate`: seeded input for the pipelines, sent as it would come, or at once."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import click
from confluent_kafka import KafkaException, Producer

from ottla.cli.client import Cluster, client_options, find_topic, message_of
from ottla.cli.errors import ExitCode, warn
from ottla.cli.interrupts import stoppable
from ottla.cli.json_records import bytes_field
from ottla.cli.live_line import LiveLine
from ottla.cli.options import iso_of, json_option, timestamp_ms
from ottla.cli.produce import Tally, flush
from ottla.cli.tables import print_facts, print_json
from ottla.pipeline.generate import activity, logs, metrics
from ottla.pipeline.generate.event import Event, limited

_EVENTS_A_POLL = 1000
_WAIT_S_MAX = 0.5

Events = Iterable[Event[Any]]

_GENERATORS: dict[str, Callable[[int, float, int], Events]] = {
    "activity": activity.Generator,
    "logs": logs.Generator,
    "metrics": metrics.Generator,
}


class Target(Protocol):
    """Where events go to."""

    def send(self, event: Event[Any]) -> bool:
        """Whether there was room for it; waits a moment when there is none."""

    def pause(self, seconds: float) -> None:
        """Lets time pass, and serves what has happened meanwhile."""


class Topic:
    """Sends to a topic. Owned by the command; what is on its way at a crash may be lost."""

    def __init__(self, producer: Producer, topic: str, tally: Tally) -> None:
        self._producer = producer
        self._topic = topic
        self._tally = tally

    def send(self, event: Event[Any]) -> bool:
        # The record's own timestamp is left to the client: brokers refuse one from the future,
        # which --fast soon reaches, and delete by one from the past. The value has the event time.
        try:
            self._producer.produce(
                self._topic, event.value, event.key, on_delivery=self._tally.on_delivery
            )
        except BufferError:  # librdkafka's queue is full: wait for deliveries
            self._producer.poll(0.1)
            return False
        except KafkaException as error:
            self._tally.fail(message_of(error))
        return True

    def pause(self, seconds: float) -> None:
        self._producer.poll(seconds)


class StandardOutput:
    """Writes lines that `produce --json` reads."""

    def send(self, event: Event[Any]) -> bool:
        fields = bytes_field("key", event.key) | bytes_field("value", event.value)
        sys.stdout.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n")
        return True

    def pause(self, seconds: float) -> None:
        sys.stdout.flush()
        time.sleep(seconds)


@dataclass(slots=True)
class Sent:
    records: int = 0
    late: int = 0
    broken: int = 0
    size_bytes: int = 0
    is_interrupted: bool = False


@click.command("generate")
@click.argument("kind", metavar="KIND", type=click.Choice(list(_GENERATORS)))
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=100,
    show_default=True,
    help="Records per second, averaged over a day.",
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--seconds", type=click.IntRange(1), help="Of event time. [default: until Ctrl-C]")
@click.option("--count", type=click.IntRange(1), help="Records. [default: until Ctrl-C]")
@click.option("--start", metavar="TIME", help="The first event time. [default: now]")
@click.option("--fast", is_flag=True, help="Send as fast as possible, not in real time.")
@click.option("--topic", help="[default: the KIND]")
@click.option("--to-stdout", is_flag=True, help="Write lines that `produce --json` reads.")
@json_option
@client_options
def command(
    cluster: Cluster,
    kind: str,
    rate: float,
    seed: int,
    seconds: int | None,
    count: int | None,
    start: str | None,
    fast: bool,
    topic: str | None,
    to_stdout: bool,
    as_json: bool,
) -> int:
    """Write realistic input for a pipeline to a topic: KIND is activity, logs or metrics.

    \b
    ottla generate activity --rate 1000
    ottla generate logs --rate 5 --seconds 86400 --fast --start 2026-01-01T00:00:00Z
    ottla generate metrics --count 3 --fast --to-stdout

    The rate follows the time of day (UTC), with bursts; 2 % of the records are late and 1 % broken.
    The same seed, rate and start give the same bytes, for which ottla.pipeline.generate computes
    the true results.

    With --json: {"records", "failed", "not_acknowledged", "late", "broken", "seed", "rate",
    "start_ms", "seconds"}. Records that were not acknowledged may have been written.
    """
    if to_stdout and (as_json or topic is not None):
        raise click.UsageError("--to-stdout goes with neither --json nor --topic")
    start_ms = time.time_ns() // 1_000_000 if start is None else timestamp_ms(start, "--start")
    end_ms = None if seconds is None else start_ms + seconds * 1000
    events = limited(_GENERATORS[kind](seed, rate, start_ms), count=count, end_ms=end_ms)
    paced_from_ms = None if fast else start_ms
    if to_stdout:
        with stoppable() as stop:
            sent = send_all(events, StandardOutput(), paced_from_ms, stop)
        return ExitCode.INTERRUPTED if sent.is_interrupted else ExitCode.OK

    began_s = time.monotonic()
    topic = topic or kind
    sent, tally = _send_to_topic(cluster, topic, events, paced_from_ms)
    facts = {
        "records": tally.delivered,
        "failed": tally.failed,
        "not_acknowledged": tally.unacknowledged,
        "late": sent.late,
        "broken": sent.broken,
        "seed": seed,
        "rate": rate,
        "start_ms": start_ms,
        "seconds": round(time.monotonic() - began_s, 3),
    }
    if as_json:
        print_json(facts)
    elif sent.is_interrupted:
        warn(f"records: {_records_text(facts, topic, tally)}; {_again_text(facts)}")
    else:
        _print_facts(facts, topic, tally)
    if sent.is_interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if tally.is_whole else ExitCode.FAILED


def _send_to_topic(
    cluster: Cluster, topic: str, events: Events, paced_from_ms: int | None
) -> tuple[Sent, Tally]:
    producer = cluster.producer(
        {"enable.idempotence": True, "linger.ms": 5, "allow.auto.create.topics": True}
    )
    find_topic(producer, topic, may_appear=True)
    tally = Tally()
    live = LiveLine()
    with stoppable() as stop:
        sent = send_all(events, Topic(producer, topic, tally), paced_from_ms, stop, live)
        flush(producer, stop)
    live.clear()
    tally.stop_waiting(producer)
    return sent, tally


def send_all(
    events: Events,
    target: Target,
    paced_from_ms: int | None,
    stop: threading.Event,
    live: LiveLine | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Sent:
    """Ends with the events, or when told to stop. Paced, an event that arrives n ms after
    `paced_from_ms` is sent n ms after the call; else each at once."""
    sent = Sent()
    began_s = clock()
    for event in events:
        if paced_from_ms is not None:
            due_s = began_s + (event.arrival_ms - paced_from_ms) / 1000
            while (left_s := due_s - clock()) > 0 and not stop.is_set():
                target.pause(min(left_s, _WAIT_S_MAX))
                _show(live, sent)
        while not stop.is_set() and not target.send(event):
            _show(live, sent)
        if stop.is_set():
            sent.is_interrupted = True
            break
        sent.records += 1
        sent.late += event.is_late
        sent.broken += event.is_broken
        sent.size_bytes += len(event.key) + len(event.value)
        if sent.records % _EVENTS_A_POLL == 0:
            target.pause(0)
            _show(live, sent)
    return sent


def _show(live: LiveLine | None, sent: Sent) -> None:
    if live is not None:
        live.update(sent.records, sent.size_bytes // max(1, sent.records))


def _print_facts(facts: dict[str, Any], topic: str, tally: Tally) -> None:
    print_facts(
        [
            ("records", _records_text(facts, topic, tally)),
            ("among them", f"{facts['late']:,} late, {facts['broken']:,} broken"),
        ]
    )
    warn(_again_text(facts))


def _records_text(facts: dict[str, Any], topic: str, tally: Tally) -> str:
    return f"{tally.delivered:,} to {topic} in {facts['seconds']:.2f} s{tally.problems_text}"


def _again_text(facts: dict[str, Any]) -> str:
    start = iso_of(facts["start_ms"])
    return f"the same again: --rate {facts['rate']} --seed {facts['seed']} --start {start}"
