"""`ottla produce`: lines of standard input or of a file become records."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, BinaryIO, NamedTuple

import click
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ottla.cli.client import Cluster, client_options, find_topic, message_of
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.interrupts import stoppable, until_stopped
from ottla.cli.json_records import BadRecord, InputRecord, parse_record
from ottla.cli.name_completion import complete_topic
from ottla.cli.options import pairs

_SHOWN_ERRORS = 3
_OUTCOME_UNKNOWN = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""With these a record may be in the topic or not."""
_LINES_A_POLL = 1000
_POLL_S = 0.25
_LAST_FLUSH_S = 1.5
"""What Ctrl-C waits for those on their way, at most."""

Advance = Callable[[int], None]


class LineFormat(NamedTuple):
    """How a line becomes a record."""

    is_json: bool
    key_separator: bytes | None
    null_marker: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int | None

    def parse(self, line: bytes) -> InputRecord:
        if self.is_json:
            record = parse_record(line)
        else:
            key, value = self._split(line)
            record = InputRecord(value=self._null_or(value), key=key)
        if not self.headers and self.partition is None:
            return record
        return record._replace(
            headers=record.headers + self.headers,
            partition=record.partition if self.partition is None else self.partition,
        )

    def _split(self, line: bytes) -> tuple[bytes | None, bytes]:
        if self.key_separator is None:
            return None, line
        key, separator, value = line.partition(self.key_separator)
        if not separator:
            raise BadRecord(f"there is no key separator {self.key_separator.decode()!r}")
        return self._null_or(key), value

    def _null_or(self, value: bytes) -> bytes | None:
        return None if value == self.null_marker else value


class Tally:
    """Counts what became of the records. Lives as long as the command; librdkafka's callbacks
    reach it from `poll` and `flush`, so from the command's own thread."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0
        """Refused: not in the topic."""
        self.unacknowledged = 0
        """May be in the topic or not."""

    def on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        elif error.code() in _OUTCOME_UNKNOWN:
            self.unacknowledged += 1
            self._show("acknowledged", message_of(KafkaException(error)))
        else:
            self.fail(message_of(KafkaException(error)))

    def fail(self, reason: str) -> None:
        self.failed += 1
        self._show("delivered", reason)

    def _show(self, what: str, reason: str) -> None:
        if self.failed + self.unacknowledged <= _SHOWN_ERRORS:
            warn(f"a record was not {what}: {reason}")

    def stop_waiting(self, producer: Producer) -> None:
        """For what is on its way still."""
        self.unacknowledged += len(producer)

    @property
    def is_whole(self) -> bool:
        return self.failed + self.unacknowledged == 0

    @property
    def problems_text(self) -> str:
        """Goes behind what was delivered; empty where all was."""
        text = f", {self.failed:,} failed" if self.failed else ""
        if self.unacknowledged:
            text += f", {self.unacknowledged:,} not acknowledged (may have been written)"
        return text


@click.command("produce")
@click.argument("topic", shell_complete=complete_topic)
@click.option(
    "-f", "--file", type=click.File("rb"), help="Read this file, with a progress bar. '-': stdin."
)
@click.option("-k", "--key-separator", metavar="TEXT", help="Separates key and value in a line.")
@click.option(
    "--null-value",
    "null_marker",
    metavar="TEXT",
    help="The text that means null, as a value or a key.",
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="KEY=VALUE",
    help="Added to every record. May be repeated.",
)
@click.option("-p", "--partition", type=click.IntRange(0), help="[default: by key, else sticky]")
@click.option("-z", "--compression", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]))
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Each line is a JSON object; see above.")
@click.option("--no-create", is_flag=True, help="Fail if the topic does not exist.")
@client_options
def command(
    cluster: Cluster,
    topic: str,
    file: BinaryIO | None,
    key_separator: str | None,
    null_marker: str | None,
    headers: tuple[str, ...],
    partition: int | None,
    compression: str | None,
    acks: str,
    as_json: bool,
    no_create: bool,
) -> int:
    """Write each line of standard input to TOPIC.

    \b
    echo hello | ottla produce clicks
    ottla produce clicks --file events.txt --key-separator : --compression zstd
    ottla consume clicks --from-beginning --until-end --json | ottla produce copy --json

    With --json a line is {"key", "value", "headers", "partition", "timestamp"}, as `consume
    --json` writes it. All fields may be left out; key_base64 and value_base64 hold bytes;
    headers is [{"key", "value"}, ...] or {NAME: VALUE, ...}.

    A TOPIC that does not exist is created by the broker, unless its auto.create.topics.enable is
    false. An invalid line ends the command, which names its number; on a terminal it is reported
    and skipped.
    """
    if as_json and (key_separator is not None or null_marker is not None):
        raise click.UsageError("--json lines name their key and null themselves")
    if key_separator == "":
        raise click.BadParameter("it is empty", param_hint="'--key-separator'")
    line_format = LineFormat(
        is_json=as_json,
        key_separator=None if key_separator is None else _unescaped(key_separator),
        null_marker=None if null_marker is None else null_marker.encode(),
        headers=tuple((k, v.encode()) for k, v in pairs(headers, "--header").items()),
        partition=partition,
    )
    producer = cluster.producer(_settings(compression, acks, may_create=not no_create))
    metadata = find_topic(producer, topic, may_appear=not no_create)
    if partition is not None and partition not in metadata.partitions:
        raise Failure(f"{topic} has partitions 0 to {len(metadata.partitions) - 1} only")
    source = sys.stdin.buffer if file is None else file
    if source.isatty():
        warn(f"each line becomes a record of {topic}; Ctrl-D ends")
    return _produce_all(producer, topic, source, line_format)


def _settings(compression: str | None, acks: str, *, may_create: bool) -> dict[str, object]:
    return {
        "acks": acks,
        # A retry must not write twice, which only acks=all can promise.
        "enable.idempotence": acks == "all",
        "compression.type": compression or "none",
        "linger.ms": 5,
        # The broker may create the topic, as it may for Kafka's console producer.
        "allow.auto.create.topics": may_create,
    }


def _unescaped(text: str) -> bytes:
    """A tab is hard to type into a shell."""
    return text.replace("\\t", "\t").encode()


def _produce_all(producer: Producer, topic: str, source: BinaryIO, line_format: LineFormat) -> int:
    tally = Tally()
    exit_code = ExitCode.OK
    with stoppable() as stop:
        try:
            with _progress(source) as advance:
                _send_lines(producer, topic, source, line_format, tally, advance, stop)
        except BadRecord as error:
            warn(f"{error}; stopped there")
            exit_code = ExitCode.FAILED
        flush(producer, stop)
    tally.stop_waiting(producer)
    plural = "" if tally.delivered == 1 else "s"
    warn(f"{tally.delivered:,} record{plural} written to {topic}{tally.problems_text}")
    if stop.is_set():
        return ExitCode.INTERRUPTED
    if exit_code == ExitCode.OK and not tally.is_whole:
        return ExitCode.FAILED
    return exit_code


def flush(producer: Producer, stop: Event) -> None:
    """Waits until the outcome of all is known; not for long when told to stop."""
    while len(producer) and not stop.is_set():
        producer.flush(_POLL_S)
    if stop.is_set():
        producer.flush(_LAST_FLUSH_S)


def _send_lines(
    producer: Producer,
    topic: str,
    source: BinaryIO,
    line_format: LineFormat,
    tally: Tally,
    advance: Advance,
    stop: Event,
) -> None:
    is_interactive = source.isatty()
    unseen_bytes = 0
    for number, line in enumerate(until_stopped(source), start=1):
        unseen_bytes += len(line)
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if line_format.is_json and not text.strip():
            continue
        try:
            record = line_format.parse(text)
        except BadRecord as error:
            if is_interactive:
                warn(f"not sent: {error}")
                continue
            raise BadRecord(f"line {number}: {error}") from error
        _send(producer, topic, record, tally, stop)
        if is_interactive:
            flush(producer, stop)
        elif number % _LINES_A_POLL == 0:
            producer.poll(0)
            advance(unseen_bytes)
            unseen_bytes = 0
    advance(unseen_bytes)


def _send(producer: Producer, topic: str, record: InputRecord, tally: Tally, stop: Event) -> None:
    place: dict[str, Any] = {}
    if record.partition is not None:
        place["partition"] = record.partition
    if record.timestamp is not None:
        place["timestamp"] = record.timestamp
    while not stop.is_set():
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers) or None,
                on_delivery=tally.on_delivery,
                **place,
            )
            return
        except BufferError:  # librdkafka's queue is full: wait for deliveries
            producer.poll(_POLL_S)
        except KafkaException as error:
            tally.fail(message_of(error))
            return


@contextmanager
def _progress(source: BinaryIO) -> Iterator[Advance]:
    """A bar for a file of known size, on a terminal; else nothing."""
    size_bytes = 0
    if source is not sys.stdin.buffer and sys.stderr.isatty():
        size_bytes = os.fstat(source.fileno()).st_size
    if size_bytes == 0:
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(os.path.basename(source.name), total=size_bytes)
        yield lambda count: progress.advance(task, count)
