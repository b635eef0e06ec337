"""kill -9 while many producers write transactions: every one that was committed is there whole and
once, and no other is seen."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import MakeBroker
from tests.support.counts import count

TOPIC = "transactions"
PARTITION_COUNT = 10
PRODUCER_COUNT = 20
TIMEOUT_S = 60
SEED = 20_240_506
LAST = b"the last record of its partition"

Found = dict[int, list[bytes]]
"""Values by partition, in the order of offsets."""


class Sent(NamedTuple):
    """One record of a transaction."""

    partition: int
    value: bytes


class Writer:
    """One transactional producer, in a thread of its own. It remembers what became of each of its
    transactions."""

    def __init__(self, bootstrap: str, name: str, seed: int) -> None:
        self.name = name
        self.committed: list[list[Sent]] = []
        self.unknown: list[list[Sent]] = []
        """The answer to the commit was lost, and the producer cannot find out."""
        self.failure: BaseException | None = None
        self._number = 0
        self._random = random.Random(seed)
        self._bootstrap = bootstrap
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._guarded, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """After its last transaction has ended."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()
        assert self.failure is None, f"{self.name}: {self.failure!r}"

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.failure = error

    def _run(self) -> None:
        producer = self._new_producer()
        while not self._stopping.is_set():
            if not self._write_one(producer, self._next_transaction()):
                producer = self._new_producer()

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self.name,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._resume(producer.init_transactions)
        return producer

    def _resume(self, step: Callable[[float], object]) -> None:
        """Until it is done: the broker may be away for longer than one call waits."""
        deadline_s = time.monotonic() + 2 * TIMEOUT_S
        while True:
            try:
                step(5)
                return
            except KafkaException as error:
                if error.args[0].code() != KafkaError._TIMED_OUT or time.monotonic() > deadline_s:
                    raise

    def _next_transaction(self) -> list[Sent]:
        self._number += 1
        size = self._random.randrange(1, 6)
        return [
            Sent(
                self._random.randrange(PARTITION_COUNT),
                b"%s %d %d/%d" % (self.name.encode(), self._number, one, size),
            )
            for one in range(size)
        ]

    def _write_one(self, producer: Producer, transaction: list[Sent]) -> bool:
        """False when the producer is of no more use."""
        is_asked_for = False
        try:
            producer.begin_transaction()
            for sent in transaction:
                producer.produce(TOPIC, sent.value, partition=sent.partition)
            if self._random.random() < 0.2:
                producer.flush(TIMEOUT_S)
                self._resume(producer.abort_transaction)
                return True
            is_asked_for = True
            self._resume(producer.commit_transaction)
            self.committed.append(transaction)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._resume(producer.abort_transaction)
                return True
            if not error.args[0].fatal():
                raise
            if is_asked_for:
                self.unknown.append(transaction)
            return False
        return True


class Reader:
    """Reads what is committed, from the beginning, in a thread of its own, and is not restarted."""

    def __init__(self, bootstrap: str) -> None:
        self.found: Found = {number: [] for number in range(PARTITION_COUNT)}
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(TOPIC, number, 0) for number in self.found])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is None:  # Else the broker is away.
                    self.found[message.partition() or 0].append(message.value() or b"")

    def read_to_the_end(self) -> Found:
        """Up to the last records, when nobody writes any more."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while any(values[-1:] != [LAST] for values in self.found.values()):
            assert time.monotonic() < deadline_s, "what is committed cannot be read"
            time.sleep(0.01)
        return {number: values[:-1] for number, values in self.found.items()}

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # Small segments: kills also hit rolling, snapshots and the index of aborted transactions.
    config = {"internal.segment.bytes": "50000"}
    wanted = NewTopic(TOPIC, PARTITION_COUNT, 1, config=config)
    admin.create_topics([wanted])[TOPIC].result(TIMEOUT_S)


def write_last_records(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(PARTITION_COUNT):
        producer.produce(TOPIC, LAST, partition=number)
    assert producer.flush(TIMEOUT_S) == 0


def wait_for_commits(writers: list[Writer], commit_count: int) -> None:
    """Until each writer has so many more: none starves while the broker is killed on and on."""
    goals = [len(writer.committed) + commit_count for writer in writers]
    deadline_s = time.monotonic() + 2 * TIMEOUT_S
    while any(
        len(writer.committed) < goal and writer.failure is None
        for writer, goal in zip(writers, goals, strict=True)
    ):
        assert time.monotonic() < deadline_s, "producers make no progress"
        time.sleep(0.005)


def assert_whole_and_once(found: Found, writers: list[Writer]) -> None:
    transactions: dict[tuple[bytes, bytes], list[Sent]] = defaultdict(list)
    """By producer and number: what is there of each."""
    for partition, values in found.items():
        for value in values:
            name, number, _ = value.split()
            transactions[name, number].append(Sent(partition, value))
    for writer in writers:
        for transaction in writer.committed:
            assert taken_from(transactions, transaction) == sorted(transaction), "committed"
        for transaction in writer.unknown:
            assert taken_from(transactions, transaction) in ([], sorted(transaction)), "whole"
    assert not transactions, "and no other"
    for values in found.values():
        numbers: dict[bytes, int] = defaultdict(int)
        for value in values:
            name, number, _ = value.split()
            assert numbers[name] <= int(number), f"{name!r} in the order that it was written"
            numbers[name] = int(number)


def taken_from(
    transactions: dict[tuple[bytes, bytes], list[Sent]], transaction: list[Sent]
) -> list[Sent]:
    name, number, _ = transaction[0].value.split()
    return sorted(transactions.pop((name, number), []))


@pytest.mark.timeout(900)
def test_kill_in_the_middle_of_transactions(make_broker: MakeBroker) -> None:
    rng = random.Random(SEED)
    broker = make_broker()
    create_topic(broker.bootstrap)
    writers = [
        Writer(broker.bootstrap, f"writer-{number}", SEED + number)
        for number in range(PRODUCER_COUNT)
    ]
    for writer in writers:
        writer.start()
    with closing(Reader(broker.bootstrap)) as reader:
        try:
            for _ in range(count(full=30, quick=3)):
                wait_for_commits(writers, rng.randrange(1, 40))
                broker.kill()
                broker.start()
            wait_for_commits(writers, 1)
        finally:
            for writer in writers:
                writer.stop()
            for writer in writers:
                writer.join()
        write_last_records(broker.bootstrap)
        seen_meanwhile = reader.read_to_the_end()
    with closing(Reader(broker.bootstrap)) as reader:
        seen_afterwards = reader.read_to_the_end()
    assert_whole_and_once(seen_meanwhile, writers)
    assert seen_afterwards == seen_meanwhile
