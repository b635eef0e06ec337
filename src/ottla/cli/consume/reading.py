"""The loop: polled records become lines on standard output, until there is a reason to end."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterable
from threading import Event
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from ottla.cli.client import message_of
from ottla.cli.consume.assignment import Assignment
from ottla.cli.consume.key_filter import Filter
from ottla.cli.consume.lines import Formatter
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.offsets import Partition

_BATCH = 500
_POLL_S = 0.25


class Ending(NamedTuple):
    """When to end by itself. Without either, Ctrl-C is the way to end."""

    max_count: int | None = None
    until_end: bool = False

    @property
    def is_endless(self) -> bool:
        return self == Ending()


class Reading:
    """One run of the command, from the first poll to the last record shown."""

    def __init__(
        self,
        consumer: Consumer,
        assignment: Assignment,
        formatter: Formatter,
        ending: Ending,
        topics: str,
        is_wanted: Filter | None = None,
    ) -> None:
        self._consumer = consumer
        self._assignment = assignment
        self._formatter = formatter
        self._ending = ending
        self._topics = topics
        self._is_wanted = is_wanted
        self._is_report_wanted = sys.stdout.isatty()
        self._shown = 0
        self._read = 0

    def run(self, stop: Event) -> int:
        try:
            exit_code = self._read_all(stop)
        finally:
            self._assignment.finish()
        if self._is_report_wanted or exit_code == ExitCode.INTERRUPTED:
            self._report()
        return exit_code

    def _read_all(self, stop: Event) -> ExitCode:
        while not self._is_done():
            if stop.is_set():
                return ExitCode.INTERRUPTED
            first = self._consumer.poll(_POLL_S)
            if first is not None:
                self._show([first, *self._consumer.consume(_BATCH, timeout=0)])
            elif _reader_is_gone():
                return ExitCode.BROKEN_PIPE
            self._assignment.between_polls()
        return ExitCode.OK

    def _is_done(self) -> bool:
        if self._ending.max_count is not None and self._shown >= self._ending.max_count:
            return True
        return self._ending.until_end and self._assignment.unfinished == set()

    def _show(self, messages: Iterable[Message]) -> None:
        lines = []
        offsets: dict[Partition, int] = {}
        failure: Failure | None = None
        unfinished = self._assignment.unfinished or set()
        for message in messages:
            key = (message.topic() or "", message.partition() or 0)
            error = message.error()
            # Records behind the end that was reached are new, and not asked for.
            if self._ending.until_end and key not in unfinished and _is_of_the_log(error):
                continue
            if error is None:
                offsets[key] = (message.offset() or 0) + 1
                self._read += 1
                if self._is_wanted is not None and not self._is_wanted(message):
                    continue
                lines.append(self._formatter(message))
                self._shown += 1
                if self._shown == self._ending.max_count:
                    break
            elif error.code() == KafkaError._PARTITION_EOF:
                # Beyond the last record there may be markers of transactions: they are read too.
                offsets[key] = message.offset() or 0
                unfinished.discard(key)
            elif not _is_passing(error):
                failure = self._failure(error, message)
                break
        if lines:
            sys.stdout.buffer.write(b"".join(lines))
            sys.stdout.buffer.flush()
        self._assignment.wrote(offsets)
        if failure is not None:
            raise failure

    def _failure(self, error: KafkaError, message: Message) -> Failure:
        partition = message.partition()
        is_whole = message.topic() is None or partition is None or partition < 0
        where = self._topics if is_whole else f"{message.topic()}-{partition}"
        return Failure(f"reading {where} failed: {message_of(KafkaException(error))}")

    def _report(self) -> None:
        if self._is_wanted is None:
            warn(f"{_records(self._shown)} read from {self._topics}")
        else:
            warn(f"{_records(self._shown)} shown, of {self._read:,} read from {self._topics}")


def _is_of_the_log(error: KafkaError | None) -> bool:
    """A record, or an end."""
    return error is None or error.code() == KafkaError._PARTITION_EOF


def _is_passing(error: KafkaError) -> bool:
    """librdkafka reconnects, and the connection watch has said so."""
    return error.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT)


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"


def _reader_is_gone() -> bool:
    """Whether `| head` has ended. A write would tell, but a quiet topic has nothing to write."""
    poller = select.poll()
    poller.register(sys.stdout.fileno(), 0)  # errors are reported always
    return any(event & select.POLLERR for _, event in poller.poll(0))
