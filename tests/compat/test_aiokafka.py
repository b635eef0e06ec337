"""aiokafka, as its users use it, without a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError

from tests.conftest import MakeBroker
from tests.support.ottla_process import OttlaProcess
from tests.support.side_by_side import NOW_MS

TIMEOUT_S = 60


@asynccontextmanager
async def started(client: Any) -> AsyncIterator[Any]:
    await client.start()
    try:
        yield client
    finally:
        await (client.close if isinstance(client, AIOKafkaAdminClient) else client.stop)()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), TIMEOUT_S))


@asynccontextmanager
async def consuming(
    bootstrap: str, topic: str, offset: int = 0, partitions: int = 1, **settings: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    """Partitions assigned by hand, each from this offset on."""
    async with started(AIOKafkaConsumer(bootstrap_servers=bootstrap, **settings)) as consumer:
        assigned = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(assigned)
        for partition in assigned:
            consumer.seek(partition, offset)
        yield consumer


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    return [(await consumer.getone()).value for _ in range(count)]


@pytest.mark.parametrize(
    ("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)]
)
def test_produce_and_consume(
    shared_broker: OttlaProcess, topic: str, acks: int | str, idempotent: bool
) -> None:
    sent = [b"%d" % n for n in range(500)]

    async def test() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=shared_broker.bootstrap, acks=acks, enable_idempotence=idempotent
        )
        async with started(producer):
            futures = [await producer.send(topic, value, partition=0) for value in sent]
            reports = await asyncio.gather(*futures)
        if acks != 0:
            assert [report.offset for report in reports] == list(range(500))
        async with consuming(shared_broker.bootstrap, topic) as consumer:
            assert await take(consumer, 500) == sent

    run(test)


def test_large_messages(shared_broker: OttlaProcess, topic: str) -> None:
    largest = b"x" * (1_048_588 - 61 - 11)

    async def test() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=shared_broker.bootstrap, max_request_size=10_000_000
        )
        async with started(producer):
            await producer.send_and_wait(topic, largest)
            with pytest.raises(MessageSizeTooLargeError):
                await producer.send_and_wait(topic, largest + b"x")
            await producer.send_and_wait(topic, b"goes on")
        limits = {"max_partition_fetch_bytes": 1000, "fetch_max_bytes": 1000}
        async with consuming(shared_broker.bootstrap, topic, **limits) as consumer:
            assert await take(consumer, 2) == [largest, b"goes on"]

    run(test)


def test_offsets(shared_broker: OttlaProcess, topic: str) -> None:
    async def test() -> None:
        async with started(AIOKafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
            for n in (0, 10, 20):
                await producer.send_and_wait(topic, b"%d" % n, timestamp_ms=NOW_MS + n)
        partition = TopicPartition(topic, 0)
        async with consuming(shared_broker.bootstrap, topic) as consumer:
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 3}
            found = await consumer.offsets_for_times({partition: NOW_MS + 1})
            assert (found[partition].offset, found[partition].timestamp) == (1, NOW_MS + 10)
            assert await consumer.offsets_for_times({partition: NOW_MS + 21}) == {partition: None}
            await consumer.seek_to_end(partition)
            assert await consumer.position(partition) == 3
            consumer.seek(partition, 1)
            assert await take(consumer, 2) == [b"10", b"20"]

    run(test)


def test_offset_out_of_range(shared_broker: OttlaProcess, topic: str) -> None:
    async def test() -> None:
        async with started(AIOKafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
            await producer.send_and_wait(topic, b"first")
        bootstrap = shared_broker.bootstrap
        async with consuming(bootstrap, topic, 99, auto_offset_reset="earliest") as consumer:
            assert await take(consumer, 1) == [b"first"]
        async with consuming(bootstrap, topic, 99, auto_offset_reset="none") as consumer:
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getone()

    run(test)


def test_many_partitions(shared_broker: OttlaProcess, topic: str) -> None:
    async def test() -> None:
        async with started(AIOKafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)) as admin:
            await admin.create_topics([NewTopic(topic, 30, 1)])
        async with started(AIOKafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
            futures = [await producer.send(topic, b"%d" % n, partition=n % 30) for n in range(300)]
            await asyncio.gather(*futures)
        async with consuming(shared_broker.bootstrap, topic, partitions=30) as consumer:
            found = [await consumer.getone() for _ in range(300)]
        for number in range(30):
            in_order = [int(one.value) for one in found if one.partition == number]
            assert in_order == list(range(number, 300, 30))

    run(test)


def test_admin(shared_broker: OttlaProcess, topic: str) -> None:
    async def test() -> None:
        async with started(AIOKafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)) as admin:
            await admin.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "5"})])
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 2
            await admin.create_partitions({topic: NewPartitions(4)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 4
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            (response,) = await admin.describe_configs([resource])
            configs = {entry[0]: entry[1] for entry in response.resources[0][4]}
            assert configs["retention.ms"] == "5"
            changed = ConfigResource(
                ConfigResourceType.TOPIC, topic, configs={"segment.ms": "100000"}
            )
            await admin.alter_configs([changed])
            (response,) = await admin.describe_configs([resource])
            configs = {entry[0]: entry[1] for entry in response.resources[0][4]}
            assert (configs["segment.ms"], configs["retention.ms"]) == ("100000", "604800000")
            cluster = await admin.describe_cluster()
            assert [broker["port"] for broker in cluster["brokers"]] == [shared_broker.port]
            async with started(
                AIOKafkaProducer(bootstrap_servers=shared_broker.bootstrap)
            ) as producer:
                for n in range(5):
                    await producer.send_and_wait(topic, b"%d" % n, partition=0)
            partition = TopicPartition(topic, 0)
            deleted = await admin.delete_records({partition: RecordsToDelete(before_offset=3)})
            assert deleted == {partition: 3}
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()

    run(test)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_clients_outlive_a_restart(make_broker: MakeBroker, topic: str, ending: str) -> None:
    broker = make_broker()
    producer_settings: dict[str, Any] = {"enable_idempotence": True, "request_timeout_ms": 60_000}

    async def test() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, **producer_settings)
        async with started(producer):
            await producer.send_and_wait(topic, b"begin")
            async with consuming(broker.bootstrap, topic) as consumer:
                assert await take(consumer, 1) == [b"begin"]
                for round_number in range(2):
                    sent = [b"%d-%d" % (round_number, n) for n in range(100)]
                    for value in sent:
                        await producer.send_and_wait(topic, value)
                    await asyncio.to_thread(getattr(broker, ending))
                    await asyncio.to_thread(broker.start)
                    assert await take(consumer, 100) == sent

    run(test)
