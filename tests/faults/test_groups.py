"""kill -9 while groups rebalance and commit: every acknowledged commit is there, and the group goes
on without a restart of any client."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import MakeBroker
from tests.support.counts import count
from tests.support.ottla_process import OttlaProcess

TOPIC = "t"
PARTITION_COUNT = 6
TIMEOUT_S = 90
SEED = 20_240_502


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITION_COUNT, 1)])[TOPIC].result(TIMEOUT_S)


def settings(bootstrap: str, group_id: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
        **more,
    }


class Committer:
    """Commits growing offsets for a group of its own, in a thread of its own, and remembers which
    were acknowledged."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        self.group_id = group_id
        self.acknowledged = [-1] * PARTITION_COUNT
        self.sent = [-1] * PARTITION_COUNT
        self.acknowledged_count = 0
        self._consumer = Consumer(settings(bootstrap, group_id))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=group_id)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        offset = 0
        while not self._stopping.is_set():
            partition = offset % PARTITION_COUNT
            self.sent[partition] = offset
            wanted = TopicPartition(TOPIC, partition, offset)
            try:
                (done,) = self._consumer.commit(offsets=[wanted], asynchronous=False)
            except KafkaException:
                time.sleep(0.01)  # The broker is away.
                continue
            if done.error is None:
                self.acknowledged[partition] = offset
                self.acknowledged_count += 1
                offset += 1


def committed(bootstrap: str, group_id: str) -> list[int]:
    consumer = Consumer(settings(bootstrap, group_id))
    wanted = [TopicPartition(TOPIC, number) for number in range(PARTITION_COUNT)]
    try:
        return [one.offset for one in consumer.committed(wanted, TIMEOUT_S)]
    finally:
        consumer.close()


def wait_until(condition: Any, what: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        time.sleep(0.01)


@pytest.mark.timeout(300)
def test_kill_in_the_middle_of_commits(make_broker: MakeBroker) -> None:
    rng = random.Random(SEED)
    broker = make_broker()
    create_topic(broker.bootstrap)
    committers = [Committer(broker.bootstrap, f"group-{number}") for number in range(4)]
    for committer in committers:
        committer.start()
    try:
        for _ in range(count(15, quick=4)):
            goals = [one.acknowledged_count + rng.randrange(1, 300) for one in committers]
            wait_until(
                lambda goals=goals: all(
                    one.acknowledged_count >= goal
                    for one, goal in zip(committers, goals, strict=True)
                ),
                "commits",
            )
            broker.kill()
            broker.start()
    finally:
        for committer in committers:
            committer.stop()
    for committer in committers:
        found = committed(broker.bootstrap, committer.group_id)
        for offset, acknowledged, sent in zip(
            found, committer.acknowledged, committer.sent, strict=True
        ):
            # One that was not acknowledged may have been written all the same.
            assert acknowledged <= offset <= sent, f"{committer.group_id}: {found}"


class GroupReader:
    """A member in a thread of its own, which is never restarted. It commits what it has read, and
    remembers for each partition the numbers it saw."""

    def __init__(self, bootstrap: str, strategy: str) -> None:
        self.seen: list[tuple[int, int]] = []
        self.assigned: set[int] = set()
        self.errors: list[str] = []
        self._consumer = Consumer(
            settings(bootstrap, "readers", **{"partition.assignment.strategy": strategy})
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._consumer.subscribe([TOPIC])
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            self.assigned = {one.partition for one in self._consumer.assignment()}
            if message is None:
                continue
            if error := message.error():
                if error.fatal():
                    self.errors.append(str(error))
                continue
            self.seen.append((message.partition() or 0, int(message.value() or b"0")))
            self._consumer.commit(asynchronous=True)
        self._commit_all()
        self._consumer.close()

    def _commit_all(self) -> None:
        """A commit that was sent behind a JoinGroup comes with the generation before, is refused,
        and nobody sends it again: after the last record that would be for good."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while self.assigned and time.monotonic() < deadline_s:
            try:
                self._consumer.commit(asynchronous=False)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._NO_OFFSET:
                    return  # It has read nothing since.
                self._consumer.poll(0.1)
            else:
                return


def produce(bootstrap: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce(TOPIC, str(number), partition=number % PARTITION_COUNT)
    assert producer.flush(TIMEOUT_S) == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_kill_in_the_middle_of_a_rebalance(make_broker: MakeBroker, strategy: str) -> None:
    rng = random.Random(SEED)
    broker = make_broker()
    create_topic(broker.bootstrap)
    readers: list[GroupReader] = []
    number = 0
    try:
        for _ in range(count(6, quick=3)):
            reader = GroupReader(broker.bootstrap, strategy)
            readers.append(reader)
            reader.start()  # A rebalance begins.
            produce(broker.bootstrap, range(number, number + 60))
            number += 60
            time.sleep(rng.uniform(0, 1.5))
            broker.kill()
            broker.start()
        produce(broker.bootstrap, range(number, number + 60))
        number += 60
        expect_all_read(readers, number)
        expect_settled(readers)
    finally:
        for reader in readers:
            reader.stop()
    assert [error for reader in readers for error in reader.errors] == []
    expect_all_committed(broker, readers, number)


def expect_all_read(readers: list[GroupReader], record_count: int) -> None:
    everything = {(number % PARTITION_COUNT, number) for number in range(record_count)}
    wait_until(
        lambda: {one for reader in readers for one in list(reader.seen)} == everything,
        "every record is read by some member",
    )


def expect_settled(readers: list[GroupReader]) -> None:
    """Each partition is owned by one member."""

    def is_settled() -> bool:
        owned = [one for reader in readers for one in reader.assigned]
        return sorted(owned) == list(range(PARTITION_COUNT))

    wait_until(is_settled, "every partition has one owner")


def expect_all_committed(broker: OttlaProcess, readers: list[GroupReader], total: int) -> None:
    """Whoever joins now has nothing left to read."""
    found = committed(broker.bootstrap, "readers")
    assert found == [total // PARTITION_COUNT] * PARTITION_COUNT
