"""Transactions of clients that nobody here wrote, each read by every other."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.support.group_members import wait_until
from tests.support.transactional_clients import (
    PRODUCERS,
    READERS,
    TIMEOUT_S,
    ConfluentProducer,
    Fenced,
    Found,
    Isolation,
    MakeProducer,
    read_by_confluent,
)

PARTITION_COUNT = 3

each_make = pytest.mark.parametrize("make", PRODUCERS.values(), ids=PRODUCERS.keys())


@pytest.fixture
def bootstrap(transactional_bootstrap: str) -> str:
    return transactional_bootstrap


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITION_COUNT, 1)])[topic].result(TIMEOUT_S)


def expect(bootstrap: str, topic: str, isolation: Isolation, *values: bytes) -> None:
    """Of every reader, in every partition."""
    expected = {number: list(values) for number in range(PARTITION_COUNT)}
    found: dict[str, Found] = {
        name: read(bootstrap, topic, PARTITION_COUNT, isolation) for name, read in READERS.items()
    }
    assert found == dict.fromkeys(READERS, expected)


def send_everywhere(producer: Any, topic: str, *values: bytes) -> None:
    for number in range(PARTITION_COUNT):
        producer.send(topic, number, *values)


def committed(bootstrap: str, group: str, topic: str) -> list[int | None]:
    """As they stand, without waiting for transactions under way."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition(topic, number) for number in range(PARTITION_COUNT)]
    request = ConsumerGroupTopicPartitions(group, wanted)
    result = admin.list_consumer_group_offsets([request], require_stable=False)
    found = result[group].result(TIMEOUT_S).topic_partitions
    return [None if one.offset < 0 else one.offset for one in found]


def last_stable_offsets(bootstrap: str, topic: str) -> list[int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted: Any = {
        TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITION_COUNT)
    }
    found = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
    return [found[one].result(TIMEOUT_S).offset for one in wanted]


@each_make
def test_commit_and_abort(bootstrap: str, topic: str, make: MakeProducer) -> None:
    create(bootstrap, topic)
    producer = make(bootstrap, topic)
    for number, end in enumerate([producer.commit, producer.abort, producer.commit] * 2):
        producer.begin()
        send_everywhere(producer, topic, b"%d a" % number, b"%d b" % number)
        end()
    producer.close()
    kept = [b"%d %s" % (number, one) for number in (0, 2, 3, 5) for one in (b"a", b"b")]
    expect(bootstrap, topic, "read_committed", *kept)
    every = [b"%d %s" % (number, one) for number in range(6) for one in (b"a", b"b")]
    expect(bootstrap, topic, "read_uncommitted", *every)


@each_make
def test_what_is_open_is_not_read_as_committed(
    bootstrap: str, topic: str, make: MakeProducer
) -> None:
    create(bootstrap, topic)
    producer = make(bootstrap, topic)
    producer.begin()
    send_everywhere(producer, topic, b"first")
    producer.commit()
    producer.begin()
    send_everywhere(producer, topic, b"second")
    other = make(bootstrap, f"{topic}-other")
    other.begin()
    send_everywhere(other, topic, b"third")
    other.commit()
    other.close()
    # The third is committed, and waits behind the second, which is not.
    expect(bootstrap, topic, "read_committed", b"first")
    expect(bootstrap, topic, "read_uncommitted", b"first", b"second", b"third")
    producer.commit()
    producer.close()
    expect(bootstrap, topic, "read_committed", b"first", b"second", b"third")


@each_make
def test_a_zombie_is_fenced(bootstrap: str, topic: str, make: MakeProducer) -> None:
    create(bootstrap, topic)
    zombie = make(bootstrap, topic)
    zombie.begin()
    send_everywhere(zombie, topic, b"of the zombie")
    successor = make(bootstrap, topic)
    successor.begin()
    send_everywhere(successor, topic, b"of the successor")
    with pytest.raises(Fenced):
        zombie.commit()
    zombie.close()
    successor.commit()
    successor.close()
    expect(bootstrap, topic, "read_committed", b"of the successor")


@each_make
def test_a_zombie_is_fenced_when_it_writes(bootstrap: str, topic: str, make: MakeProducer) -> None:
    create(bootstrap, topic)
    zombie = make(bootstrap, topic)
    zombie.begin()
    send_everywhere(zombie, topic, b"of the zombie")
    make(bootstrap, topic).close()
    with pytest.raises(Fenced):
        send_everywhere(zombie, topic, b"also of the zombie")
    zombie.close()
    expect(bootstrap, topic, "read_committed")
    expect(bootstrap, topic, "read_uncommitted", b"of the zombie")


@each_make
def test_a_transaction_that_takes_too_long_is_aborted(
    bootstrap: str, topic: str, make: MakeProducer
) -> None:
    create(bootstrap, topic)
    producer = make(bootstrap, topic, timeout_ms=1000)
    producer.begin()
    send_everywhere(producer, topic, b"too late")
    wait_until(lambda: last_stable_offsets(bootstrap, topic) == [2] * PARTITION_COUNT, "aborted")
    with pytest.raises(Fenced):
        producer.commit()
    producer.close()
    expect(bootstrap, topic, "read_committed")
    successor = make(bootstrap, topic)
    successor.begin()
    send_everywhere(successor, topic, b"in time")
    successor.commit()
    successor.close()
    expect(bootstrap, topic, "read_committed", b"in time")


@each_make
def test_offsets_are_committed_with_the_transaction(
    bootstrap: str, topic: str, make: MakeProducer
) -> None:
    create(bootstrap, topic)
    group = f"{topic}-group"
    producer = make(bootstrap, topic)
    producer.begin()
    send_everywhere(producer, topic, b"first")
    producer.send_offsets(group, topic, [10, 11, 12])
    assert committed(bootstrap, group, topic) == [None] * PARTITION_COUNT
    producer.commit()
    assert committed(bootstrap, group, topic) == [10, 11, 12]
    producer.begin()
    send_everywhere(producer, topic, b"second")
    producer.send_offsets(group, topic, [20, 21, 22])
    assert committed(bootstrap, group, topic) == [10, 11, 12]
    producer.abort()
    assert committed(bootstrap, group, topic) == [10, 11, 12]
    producer.begin()
    producer.send_offsets(group, topic, [30, 31])
    producer.commit()
    producer.close()
    assert committed(bootstrap, group, topic) == [30, 31, 12], "also without a record"
    expect(bootstrap, topic, "read_committed", b"first")


def test_who_takes_over_waits_for_offsets_under_way(bootstrap: str, topic: str) -> None:
    """KIP-447: else it would begin before what is just being committed."""
    create(bootstrap, topic)
    group = f"{topic}-group"
    producer = ConfluentProducer(bootstrap, topic)
    producer.begin()
    producer.send_offsets(group, topic, [1, 1, 1])
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": "read_committed"}
    )
    wanted = [TopicPartition(topic, number) for number in range(PARTITION_COUNT)]
    with pytest.raises(KafkaException) as raised:
        consumer.committed(wanted, timeout=1)
    assert raised.value.args[0].code() == KafkaError._TIMED_OUT
    producer.commit()
    assert [one.offset for one in consumer.committed(wanted, TIMEOUT_S)] == [1, 1, 1]
    consumer.close()
    producer.close()


class Copier:
    """A member of a group that copies what it reads within transactions, with confluent-kafka."""

    def __init__(self, bootstrap: str, source: str, transactional_id: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{source}-group",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 300,
            }
        )
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
        )
        self.producer.init_transactions(TIMEOUT_S)
        self.consumer.subscribe([source])

    def wait_for_record(self) -> bytes:
        found: list[bytes] = []

        def has_record() -> bool:
            message = self.consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
            return bool(found)

        wait_until(has_record, "a record")
        return found[0]

    def send(self, target: str, value: bytes) -> None:
        self.producer.begin_transaction()
        self.producer.produce(target, value, partition=0)
        self.producer.send_offsets_to_transaction(
            self.consumer.position(self.consumer.assignment()),
            self.consumer.consumer_group_metadata(),
            TIMEOUT_S,
        )


def test_a_member_of_an_older_generation_cannot_commit(bootstrap: str, topic: str) -> None:
    """KIP-447: fenced by the group, since each has a transactional id of its own."""
    source, target = f"{topic}-source", f"{topic}-target"
    create(bootstrap, source)
    create(bootstrap, target)
    plain = Producer({"bootstrap.servers": bootstrap})
    plain.produce(source, b"record", partition=0)
    assert plain.flush(TIMEOUT_S) == 0
    old = Copier(bootstrap, source, f"{topic}-old")
    assert old.wait_for_record() == b"record"
    stale = old.consumer.consumer_group_metadata()
    position = old.consumer.position(old.consumer.assignment())
    old.consumer.close()  # It leaves, and does not know that its transaction goes on.
    new = Copier(bootstrap, source, f"{topic}-new")
    assert new.wait_for_record() == b"record"
    old.producer.begin_transaction()
    old.producer.produce(target, b"by the old", partition=0)
    with pytest.raises(KafkaException) as raised:
        old.producer.send_offsets_to_transaction(position, stale, TIMEOUT_S)
    error = raised.value.args[0]
    assert error.code() in (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID)
    assert error.txn_requires_abort()
    old.producer.abort_transaction(TIMEOUT_S)
    new.send(target, b"by the new")
    new.producer.commit_transaction(TIMEOUT_S)
    new.consumer.close()
    found = read_by_confluent(bootstrap, target, PARTITION_COUNT, "read_committed")
    assert found[0] == [b"by the new"]
    assert committed(bootstrap, f"{source}-group", source) == [1, None, None]
