"""kafka-python, as its users use it, without a group."""

from __future__ import annotations

import gc
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import MakeBroker
from tests.support.clients import KAFKA_PYTHON as kafka
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import NOW_MS

TIMEOUT_S = 60
TIMEOUT_MS = TIMEOUT_S * 1000


@pytest.fixture
def make_consumer(shared_broker: OttlaProcess) -> Iterator[Any]:
    consumers: list[Any] = []

    def make(bootstrap: str = shared_broker.bootstrap, **settings: Any) -> Any:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, **settings
        )
        consumers.append(consumer)
        return consumer

    yield make
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def make_producer(shared_broker: OttlaProcess) -> Iterator[Any]:
    producers: list[Any] = []

    def make(bootstrap: str = shared_broker.bootstrap, **settings: Any) -> Any:
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, **settings)
        producers.append(producer)
        return producer

    yield make
    for producer in producers:
        producer.close(timeout=TIMEOUT_S)


@pytest.fixture
def admin(shared_broker: OttlaProcess) -> Iterator[Any]:
    client = kafka.KafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)
    yield client
    client.close()


def send(producer: Any, topic: str, *values: bytes, **options: Any) -> list[Any]:
    futures = [producer.send(topic, value, **options) for value in values]
    return [future.get(TIMEOUT_S) for future in futures]


def take(consumer: Any, count: int) -> list[bytes]:
    found: list[bytes] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline_s:
        for records in consumer.poll(200, max_records=count - len(found)).values():
            found += [record.value for record in records]
    return found


@pytest.mark.parametrize(
    ("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)]
)
def test_produce_and_consume(
    make_producer: Any, make_consumer: Any, topic: str, acks: int | str, idempotent: bool
) -> None:
    producer = make_producer(acks=acks, enable_idempotence=idempotent)
    sent = [b"%d" % n for n in range(500)]
    reports = send(producer, topic, *sent, partition=0)
    if acks != 0:
        assert [report.offset for report in reports] == list(range(500))
    consumer = make_consumer()
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert take(consumer, 500) == sent


def test_large_messages(make_producer: Any, make_consumer: Any, topic: str) -> None:
    largest = b"x" * (1_048_588 - 61 - 11)
    # An idempotent one of this client cannot go on after an error.
    producer = make_producer(max_request_size=10_000_000, enable_idempotence=False)
    send(producer, topic, largest)
    with pytest.raises(kafka.errors.MessageSizeTooLargeError):
        send(producer, topic, largest + b"x")
    send(producer, topic, b"goes on")
    consumer = make_consumer(max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    assert take(consumer, 2) == [largest, b"goes on"]


def test_offsets(make_producer: Any, make_consumer: Any, topic: str) -> None:
    producer = make_producer()
    for n in (0, 10, 20):
        send(producer, topic, b"%d" % n, timestamp_ms=NOW_MS + n)
    partition = kafka.TopicPartition(topic, 0)
    consumer = make_consumer()
    consumer.assign([partition])
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 3}
    found = consumer.offsets_for_times({partition: NOW_MS + 1})[partition]
    assert (found.offset, found.timestamp) == (1, NOW_MS + 10)
    assert consumer.offsets_for_times({partition: NOW_MS + 21}) == {partition: None}
    consumer.seek(partition, 1)
    assert take(consumer, 2) == [b"10", b"20"]


def test_offset_out_of_range(make_producer: Any, make_consumer: Any, topic: str) -> None:
    send(make_producer(), topic, b"first")
    partition = kafka.TopicPartition(topic, 0)
    consumer = make_consumer(auto_offset_reset="earliest")
    consumer.assign([partition])
    consumer.seek(partition, 99)
    assert take(consumer, 1) == [b"first"]
    strict = make_consumer(auto_offset_reset="none")
    strict.assign([partition])
    strict.seek(partition, 99)
    with pytest.raises(kafka.errors.OffsetOutOfRangeError):
        take(strict, 1)


def test_admin(admin: Any, make_producer: Any, topic: str) -> None:
    admin.create_topics([kafka.admin.NewTopic(topic, 2, 1, topic_configs={"retention.ms": "5"})])
    assert topic in admin.list_topics()
    admin.create_partitions({topic: kafka.admin.NewPartitions(4)})
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 4
    assert admin.describe_cluster()["cluster_id"]
    send(make_producer(), topic, *(b"%d" % n for n in range(5)), partition=0)
    partition = kafka.TopicPartition(topic, 0)
    admin.delete_records({partition: 3})
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()


@pytest.fixture
def leaked_sockets() -> Iterator[None]:
    """kafka-python forgets to close the socket of a connection that was refused. They are closed
    here, since the warnings of that would fail whatever test runs when they are collected."""
    before = open_sockets()
    yield
    for leaked in open_sockets() - before:
        leaked.close()


def open_sockets() -> set[socket.socket]:
    return {one for one in gc.get_objects() if type(one) is socket.socket and one.fileno() >= 0}


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_clients_outlive_a_restart(
    leaked_sockets: None,
    make_broker: MakeBroker,
    make_producer: Any,
    make_consumer: Any,
    topic: str,
    ending: str,
) -> None:
    broker = make_broker()
    producer = make_producer(broker.bootstrap, enable_idempotence=True)
    consumer = make_consumer(broker.bootstrap)
    send(producer, topic, b"begin")
    partition = kafka.TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    assert take(consumer, 1) == [b"begin"]
    for round_number in range(2):
        sent = [b"%d-%d" % (round_number, n) for n in range(100)]
        send(producer, topic, *sent)
        getattr(broker, ending)()
        broker.start()
        assert take(consumer, 100) == sent
