"""`ottla consume`: records of a topic on standard output. No consumer group is involved."""

from __future__ import annotations

import json
import re
import select
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import click
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from ottla.cli.client import Cluster, client_options, find_topic, message_of
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.json_records import bytes_field
from ottla.cli.options import iso_of, timestamp_ms

_BATCH = 500
_POLL_S = 0.25
_TIMEOUT_S = 30.0
_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "log-append"}
# A terminal obeys control characters, and a record may come from anybody.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Formatter = Callable[[Message], bytes]


class Start(NamedTuple):
    """Where reading begins: one of the three is set, else at the end."""

    offset: str | None
    timestamp: int | None


@click.command("consume")
@click.argument("topic")
@click.option("-b", "--from-beginning", is_flag=True, help="Begin with the oldest record.")
@click.option("-o", "--offset", metavar="N|end-N", help="Begin at offset N, or N before the end.")
@click.option(
    "--from-timestamp", metavar="TIME", help="Begin at a time: ISO 8601, or milliseconds."
)
@click.option("-p", "--partition", "chosen", type=int, multiple=True, help="[default: all]")
@click.option("-n", "--max", "max_count", type=click.IntRange(1), help="End after so many records.")
@click.option("-e", "--until-end", is_flag=True, help="End where the topic ends now.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; see above.")
@click.option("--key", "show_key", is_flag=True, help="Show the key, and a tab.")
@click.option("--headers", "show_headers", is_flag=True, help="Show the headers, and a tab.")
@click.option("--meta", "show_meta", is_flag=True, help="Show time, partition, offset, and a tab.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_uncommitted",
    show_default=True,
)
@client_options
def command(
    cluster: Cluster,
    topic: str,
    from_beginning: bool,
    offset: str | None,
    from_timestamp: str | None,
    chosen: tuple[int, ...],
    max_count: int | None,
    until_end: bool,
    as_json: bool,
    show_key: bool,
    show_headers: bool,
    show_meta: bool,
    isolation: str,
) -> int:
    """Read records of TOPIC: the new ones, or from where an option says.

    \b
    ottla consume clicks --from-beginning
    ottla consume clicks --offset end-10 --until-end --key
    ottla consume clicks --from-timestamp 2026-01-31T12:00:00Z --max 100 --json

    \b
    With --json: {"topic", "partition", "offset", "timestamp" (ms), "timestamp_type", "key",
    "value", "headers": [{"key", "value"}, ...]}; bytes that are not UTF-8 stand as base64 in
    key_base64 and value_base64.
    """
    if sum((from_beginning, offset is not None, from_timestamp is not None)) > 1:
        raise click.UsageError("give one of --from-beginning, --offset and --from-timestamp")
    start = Start(
        "earliest" if from_beginning else _checked_offset(offset),
        None if from_timestamp is None else timestamp_ms(from_timestamp),
    )
    consumer = cluster.consumer(
        {
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        partitions = _partitions_of(consumer, topic, chosen)
        consumer.assign(_positions(consumer, topic, partitions, start))
        if sys.stdout.isatty() and start == Start(None, None) and not until_end:
            warn(f"waiting for new records of {topic} (-b shows the old ones too); Ctrl-C ends")
        formatter = _json_line if as_json else _text_formatter(show_key, show_headers, show_meta)
        return _Reading(consumer, topic, partitions, formatter, max_count, until_end).run()
    finally:
        consumer.close()


def _checked_offset(text: str | None) -> str | None:
    if text is None or re.fullmatch(r"\d+|end-\d+|earliest|latest", text):
        return text
    raise click.BadParameter(
        f"{text!r} is neither a number nor end-NUMBER", param_hint="'--offset'"
    )


def _partitions_of(consumer: Consumer, topic: str, chosen: Sequence[int]) -> list[int]:
    known = sorted(find_topic(consumer, topic).partitions)
    for partition in chosen:
        if partition not in known:
            raise Failure(f"{topic} has partitions 0 to {len(known) - 1} only, no {partition}")
    return sorted(set(chosen)) if chosen else known


def _positions(
    consumer: Consumer, topic: str, partitions: Iterable[int], start: Start
) -> list[TopicPartition]:
    if start.timestamp is not None:
        wanted = [TopicPartition(topic, partition, start.timestamp) for partition in partitions]
        return consumer.offsets_for_times(wanted, timeout=_TIMEOUT_S)
    return [
        TopicPartition(topic, partition, _offset_of(consumer, topic, partition, start.offset))
        for partition in partitions
    ]


def _offset_of(consumer: Consumer, topic: str, partition: int, offset: str | None) -> int:
    if offset is None or offset == "latest":
        return OFFSET_END
    if offset == "earliest":
        return OFFSET_BEGINNING
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT_S)
    if offset.startswith("end-"):
        return max(low, high - int(offset.removeprefix("end-")))
    if not low <= int(offset) <= high:
        raise Failure(
            f"offset {offset} is out of range: {topic}-{partition} has offsets {low} to {high}"
        )
    return int(offset)


class _Reading:
    """One run of the command, from the first poll to the last record shown."""

    def __init__(
        self,
        consumer: Consumer,
        topic: str,
        partitions: Iterable[int],
        formatter: Formatter,
        max_count: int | None,
        until_end: bool,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._unfinished = set(partitions)
        self._formatter = formatter
        self._max_count = max_count
        self._until_end = until_end
        self._count = 0

    def run(self) -> int:
        try:
            while not self._is_done():
                first = self._consumer.poll(_POLL_S)
                if first is not None:
                    self._show([first, *self._consumer.consume(_BATCH, timeout=0)])
                elif _reader_is_gone():
                    return ExitCode.BROKEN_PIPE
        except KeyboardInterrupt:
            self._report()
            # Without an end to reach, Ctrl-C is the way to end, and no failure.
            is_endless = self._max_count is None and not self._until_end
            return ExitCode.OK if is_endless else ExitCode.INTERRUPTED
        if sys.stdout.isatty():
            self._report()
        return ExitCode.OK

    def _is_done(self) -> bool:
        if self._max_count is not None and self._count >= self._max_count:
            return True
        return self._until_end and not self._unfinished

    def _show(self, messages: Iterable[Message]) -> None:
        lines = []
        for message in messages:
            error = message.error()
            if error is None:
                # Records behind the end that was reached are new, and not asked for.
                if self._until_end and message.partition() not in self._unfinished:
                    continue
                lines.append(self._formatter(message))
                self._count += 1
                if self._count == self._max_count:
                    break
            elif error.code() == KafkaError._PARTITION_EOF:
                self._unfinished.discard(message.partition() or 0)
            else:
                self._fail(error, message)
        if lines:
            sys.stdout.buffer.write(b"".join(lines))
            sys.stdout.buffer.flush()

    def _fail(self, error: KafkaError, message: Message) -> None:
        if error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            return  # librdkafka reconnects, and the connection watch has said so
        where = f"{message.topic() or self._topic}-{message.partition()}"
        raise Failure(f"reading {where} failed: {message_of(KafkaException(error))}")

    def _report(self) -> None:
        warn(f"{self._count:,} record{'' if self._count == 1 else 's'} read from {self._topic}")


def _reader_is_gone() -> bool:
    """Whether `| head` has ended. A write would tell, but a quiet topic has nothing to write."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)  # errors are reported always
    return any(event & select.POLLERR for _, event in poller.poll(0))


def _json_line(message: Message) -> bytes:
    timestamp_type, timestamp = message.timestamp()
    fields = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if timestamp_type in _TIMESTAMP_TYPES else None,
        "timestamp_type": _TIMESTAMP_TYPES.get(timestamp_type),
        **bytes_field("key", _bytes(message.key())),
        **bytes_field("value", _bytes(message.value())),
        "headers": [
            {"key": key, **bytes_field("value", _bytes(value))} for key, value in _headers(message)
        ],
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _text_formatter(show_key: bool, show_headers: bool, show_meta: bool) -> Formatter:
    is_terminal = sys.stdout.isatty()

    def format_line(message: Message) -> bytes:
        parts = []
        if show_meta:
            _, timestamp = message.timestamp()
            parts.append(f"{iso_of(timestamp)} {message.partition()}:{message.offset()}".encode())
        if show_headers:
            headers = _headers(message)
            parts.append(b",".join(k.encode() + b"=" + _or_null(v) for k, v in headers))
        if show_key:
            parts.append(_or_null(message.key()))
        parts.append(_or_null(message.value()))
        line = b"\t".join(parts)
        return (_printable(line) if is_terminal else line) + b"\n"

    return format_line


def _headers(message: Message) -> list[tuple[str, str | bytes | None]]:
    headers: Any = message.headers()  # the stubs also allow what one may pass to a producer
    return headers or []


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _or_null(value: str | bytes | None) -> bytes:
    found = _bytes(value)
    return b"null" if found is None else found


def _printable(line: bytes) -> bytes:
    text = line.decode(errors="backslashreplace")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text).encode()
