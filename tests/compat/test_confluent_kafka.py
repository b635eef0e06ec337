"""confluent-kafka (librdkafka), as its users use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.conftest import MakeBroker
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import NOW_MS

TIMEOUT_S = 60
BEGINNING, END = -2, -1
GONE_FOR_A_MOMENT = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
)


def producer_of(bootstrap: str, **settings: Any) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "log_level": 0, **named(settings)})


def named(settings: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def send(producer: Producer, topic: str, *values: bytes, **options: Any) -> list[Message]:
    """What the delivery reports said. Raises what the first failure was."""
    reports: list[Message] = []
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            errors.append(error)
        else:
            reports.append(message)

    for value in values:
        producer.produce(topic, value, on_delivery=on_delivery, **options)
    assert producer.flush(TIMEOUT_S) == 0, "not all was answered in time"
    if errors:
        raise KafkaException(errors[0])
    return reports


@pytest.fixture
def make_consumer(shared_broker: OttlaProcess) -> Iterator[Callable[..., Consumer]]:
    consumers: list[Consumer] = []

    def make(bootstrap: str = shared_broker.bootstrap, **settings: Any) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "log_level": 0,
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                **named(settings),
            }
        )
        consumers.append(consumer)
        return consumer

    yield make
    for consumer in consumers:
        consumer.close()


def take(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(messages) < count and time.monotonic() < deadline_s:
        for message in consumer.consume(count - len(messages), 0.2):
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


def values(messages: list[Message]) -> list[Any]:
    return [message.value() for message in messages]


@pytest.fixture
def admin(shared_broker: OttlaProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": shared_broker.bootstrap})


def create(admin: AdminClient, topic: str, partitions: int = 1, **configs: str) -> None:
    new = NewTopic(topic, partitions, 1, config=named(configs))
    admin.create_topics([new])[topic].result(TIMEOUT_S)


@pytest.mark.parametrize(
    ("acks", "idempotent"), [("0", False), ("1", False), ("all", False), ("all", True)]
)
def test_produce_and_consume(
    shared_broker: OttlaProcess,
    topic: str,
    make_consumer: Callable[..., Consumer],
    acks: str,
    idempotent: bool,
) -> None:
    producer = producer_of(shared_broker.bootstrap, acks=acks, enable_idempotence=idempotent)
    sent = [b"%d" % n for n in range(2000)]
    reports = send(producer, topic, *sent, partition=0)
    if acks != "0":
        assert [report.offset() for report in reports] == list(range(2000))
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0, BEGINNING)])
    assert values(take(consumer, 2000)) == sent


def test_large_messages(
    shared_broker: OttlaProcess, topic: str, make_consumer: Callable[..., Consumer]
) -> None:
    """Up to `message.max.bytes`, which counts the batch, and not one byte above."""
    producer = producer_of(shared_broker.bootstrap, message_max_bytes=10_000_000)
    # The header of a batch has 61 bytes; what stands before and behind this value in its record
    # (lengths, attributes, deltas, no key, no headers) has 11.
    largest = b"x" * (1_048_588 - 61 - 11)
    send(producer, topic, largest)
    with pytest.raises(KafkaException) as refused:
        send(producer, topic, largest + b"x")
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    send(producer, topic, b"goes on")
    # Also with limits below what is there: at least one message always comes.
    consumer = make_consumer(fetch_message_max_bytes=1000)
    consumer.assign([TopicPartition(topic, 0, BEGINNING)])
    assert values(take(consumer, 2)) == [largest, b"goes on"]


def test_many_megabytes(
    shared_broker: OttlaProcess, topic: str, make_consumer: Callable[..., Consumer]
) -> None:
    producer = producer_of(shared_broker.bootstrap, linger_ms=20)
    sent = [bytes([n % 256]) * 100_000 for n in range(500)]
    send(producer, topic, *sent)
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, 0, BEGINNING)])
    assert values(take(consumer, 500)) == sent


def test_keys_choose_partitions(
    shared_broker: OttlaProcess,
    admin: AdminClient,
    topic: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    create(admin, topic, 50)
    producer = producer_of(shared_broker.bootstrap)
    for n in range(1000):
        producer.produce(topic, b"%d" % n, b"key-%d" % (n % 100))
    assert producer.flush(TIMEOUT_S) == 0
    consumer = make_consumer()
    consumer.assign([TopicPartition(topic, partition, BEGINNING) for partition in range(50)])
    by_key: dict[Any, list[tuple[int, int]]] = {}
    for message in take(consumer, 1000):
        by_key.setdefault(message.key(), []).append(
            (message.partition() or 0, int(message.value() or b""))
        )
    assert len(by_key) == 100
    for found in by_key.values():
        assert len({partition for partition, _ in found}) == 1, "a key stays in its partition"
        assert [n for _, n in found] == sorted(n for _, n in found), "in the order of sending"


def test_offsets(
    shared_broker: OttlaProcess,
    admin: AdminClient,
    topic: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    create(admin, topic)
    producer = producer_of(shared_broker.bootstrap)
    for n in (0, 10, 20, 5):
        send(producer, topic, b"%d" % n, timestamp=NOW_MS + n)
    partition = TopicPartition(topic, 0)
    consumer = make_consumer()
    assert consumer.get_watermark_offsets(partition, TIMEOUT_S) == (0, 4)

    def at(timestamp: int) -> int:
        asked = TopicPartition(topic, 0, timestamp)
        (found,) = consumer.offsets_for_times([asked], TIMEOUT_S)
        return found.offset

    assert [at(NOW_MS + n) for n in (-1, 0, 1, 10, 11, 20, 21)] == [0, 0, 1, 1, 2, 2, END]

    def listed(spec: OffsetSpec) -> tuple[int, int]:
        found = admin.list_offsets({partition: spec})[partition].result(TIMEOUT_S)
        return found.offset, found.timestamp

    assert listed(OffsetSpec.earliest()) == (0, -1)
    assert listed(OffsetSpec.latest()) == (4, -1)
    assert listed(OffsetSpec.max_timestamp()) == (2, NOW_MS + 20)
    assert listed(OffsetSpec.for_timestamp(NOW_MS + 3)) == (1, NOW_MS + 10)


def test_seek_and_reset(
    shared_broker: OttlaProcess,
    admin: AdminClient,
    topic: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    create(admin, topic)
    send(producer_of(shared_broker.bootstrap), topic, *(b"%d" % n for n in range(10)))
    consumer = make_consumer(auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0, 7)])
    assert values(take(consumer, 3)) == [b"7", b"8", b"9"]
    consumer.seek(TopicPartition(topic, 0, 2))
    assert values(take(consumer, 1)) == [b"2"]
    consumer.seek(TopicPartition(topic, 0, 999))  # out of range: back to the beginning
    assert values(take(consumer, 2)) == [b"0", b"1"]
    strict = make_consumer(auto_offset_reset="error")
    strict.assign([TopicPartition(topic, 0, 999)])
    deadline_s = time.monotonic() + TIMEOUT_S
    while (message := strict.poll(0.2)) is None and time.monotonic() < deadline_s:
        pass
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_the_latest_and_what_comes(
    shared_broker: OttlaProcess,
    admin: AdminClient,
    topic: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    create(admin, topic)
    producer = producer_of(shared_broker.bootstrap)
    send(producer, topic, b"before")
    consumer = make_consumer(enable_partition_eof=True)
    consumer.assign([TopicPartition(topic, 0, END)])
    deadline_s = time.monotonic() + TIMEOUT_S
    while (message := consumer.poll(0.2)) is None and time.monotonic() < deadline_s:
        pass
    assert message is not None
    assert (error := message.error()) is not None
    assert error.code() == KafkaError._PARTITION_EOF
    send(producer, topic, b"after")
    assert values(take(consumer, 1)) == [b"after"]


def test_topics(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 3, retention_ms="123456", cleanup_policy="delete")
    with pytest.raises(KafkaException) as refused:
        create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    (described,) = admin.describe_topics(TopicCollection([topic])).values()
    found = described.result(TIMEOUT_S)
    assert (found.name, len(found.partitions), found.is_internal) == (topic, 3, False)
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(TIMEOUT_S)
    metadata = admin.list_topics(topic, TIMEOUT_S)
    assert sorted(metadata.topics[topic].partitions) == list(range(5))
    (deleted,) = admin.delete_topics([topic]).values()
    deleted.result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_configs(admin: AdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="123456")
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def setting(name: str) -> tuple[str, bool]:
        entry = admin.describe_configs([resource])[resource].result(TIMEOUT_S)[name]
        return entry.value, entry.is_default

    assert setting("retention.ms") == ("123456", False)
    assert setting("segment.bytes") == ("1073741824", True)
    changes = [
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("segment.bytes", "1048576", incremental_operation=AlterConfigOpType.SET),
    ]
    change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
    admin.incremental_alter_configs([change])[change].result(TIMEOUT_S)
    assert setting("retention.ms") == ("604800000", True)
    assert setting("segment.bytes") == ("1048576", False)


def test_records_are_deleted(
    shared_broker: OttlaProcess,
    admin: AdminClient,
    topic: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    create(admin, topic)
    send(producer_of(shared_broker.bootstrap), topic, *(b"%d" % n for n in range(10)))
    (result,) = admin.delete_records([TopicPartition(topic, 0, 6)]).values()
    assert result.result(TIMEOUT_S).low_watermark == 6
    consumer = make_consumer(auto_offset_reset="earliest")
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (6, 10)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert values(take(consumer, 4)) == [b"6", b"7", b"8", b"9"]


def test_the_cluster_is_described(shared_broker: OttlaProcess, admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    (node,) = cluster.nodes
    assert f"{node.host}:{node.port}" == shared_broker.bootstrap
    assert cluster.controller.id == node.id
    assert cluster.cluster_id


def test_topics_begin_by_being_written_to(
    make_broker: MakeBroker, topic: str, make_consumer: Callable[..., Consumer]
) -> None:
    broker = make_broker(settings={"num.partitions": "4"})
    send(producer_of(broker.bootstrap), topic, b"first")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert len(admin.list_topics(topic, TIMEOUT_S).topics[topic].partitions) == 4


def test_topics_do_not_begin_where_that_is_off(make_broker: MakeBroker, topic: str) -> None:
    broker = make_broker(settings={"auto.create.topics.enable": "false"})
    producer = producer_of(broker.bootstrap, topic_metadata_propagation_max_ms=500)
    with pytest.raises(KafkaException) as refused:
        send(producer, topic, b"first")
    assert refused.value.args[0].code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
    )


def test_a_topic_made_anew_under_its_clients(
    shared_broker: OttlaProcess,
    admin: AdminClient,
    topic: str,
    make_consumer: Callable[..., Consumer],
) -> None:
    """The producer and the consumer of before go on with the new one by themselves."""
    create(admin, topic)
    producer = producer_of(
        shared_broker.bootstrap, topic_metadata_refresh_interval_ms=500, enable_idempotence=False
    )
    # More than the new one will have, else its consumer would wait for what comes behind.
    send(producer, topic, *[b"old"] * 5)
    consumer = make_consumer(auto_offset_reset="earliest", topic_metadata_refresh_interval_ms=500)
    consumer.assign([TopicPartition(topic, 0, BEGINNING)])
    assert values(take(consumer, 5)) == [b"old"] * 5
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    create(admin, topic)
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        try:
            send(producer, topic, b"new")
            break
        except KafkaException as error:
            if error.args[0].code() not in GONE_FOR_A_MOMENT:
                raise
    found: list[Any] = []
    while b"new" not in found and time.monotonic() < deadline_s:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
    assert found[-1:] == [b"new"]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_clients_outlive_a_restart(
    make_broker: MakeBroker, topic: str, make_consumer: Callable[..., Consumer], ending: str
) -> None:
    broker = make_broker()
    producer = producer_of(broker.bootstrap, enable_idempotence=True, reconnect_backoff_max_ms=200)
    consumer = make_consumer(broker.bootstrap, reconnect_backoff_max_ms=200)
    sent: list[bytes] = []
    send(producer, topic, b"begin")
    consumer.assign([TopicPartition(topic, 0, BEGINNING)])
    found = values(take(consumer, 1))
    for round_number in range(3):
        some = [b"%d-%d" % (round_number, n) for n in range(100)]
        sent += some
        send(producer, topic, *some)
        getattr(broker, ending)()
        broker.start()
        found += values(take(consumer, 100))
    assert found == [b"begin", *sent]
