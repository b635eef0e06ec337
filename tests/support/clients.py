"""Three clients that nobody here wrote, behind one small face, for tests that pair them."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import aiokafka
import confluent_kafka

with warnings.catch_warnings():
    # On import kafka-python 3.0 reads its schemas in a way that Python 3.11 warns of.
    warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
    import kafka

KAFKA_PYTHON = kafka
"""The module, for those who must not import it themselves."""

TIMEOUT_S = 60


class Message(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = -1
    """-1 lets the client take the time."""


class Client(Protocol):
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], compression: str
    ) -> None:
        """To partition 0, in this order, with acks=all; returns once they are acknowledged."""
        ...

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        """The first so many of partition 0, without a group."""
        ...


class ConfluentKafka:
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], compression: str
    ) -> None:
        errors: list[Any] = []
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": compression,
                "enable.idempotence": True,
                "linger.ms": 50,
            }
        )
        for message in messages:
            producer.produce(
                topic,
                message.value,
                message.key,
                partition=0,
                headers=list(message.headers),
                timestamp=max(message.timestamp_ms, 0),
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        assert producer.flush(TIMEOUT_S) == 0, "not all was acknowledged in time"
        assert not errors, errors[:5]

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        messages: list[Message] = []
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(messages) < count and time.monotonic() < deadline_s:
            for found in consumer.consume(count - len(messages), 0.5):
                assert found.error() is None, found.error()
                messages.append(_from_confluent(found))
        consumer.close()
        return messages


def _from_confluent(message: confluent_kafka.Message) -> Message:
    return Message(
        message.key(),
        message.value(),
        tuple(message.headers() or ()),  # type: ignore[arg-type]
        message.timestamp()[1],
    )


class Aiokafka:
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], compression: str
    ) -> None:
        async def produce() -> None:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if compression == "none" else compression,
                enable_idempotence=True,
                linger_ms=50,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        message.value,
                        message.key,
                        partition=0,
                        headers=list(message.headers),
                        timestamp_ms=None if message.timestamp_ms < 0 else message.timestamp_ms,
                    )
                    for message in messages
                ]
                await asyncio.wait_for(asyncio.gather(*sent), TIMEOUT_S)
            finally:
                await producer.stop()

        asyncio.run(produce())

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        async def consume() -> list[Message]:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, check_crcs=True)
            await consumer.start()
            try:
                partition = aiokafka.TopicPartition(topic, 0)
                consumer.assign([partition])
                consumer.seek(partition, 0)
                found = [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in range(count)]
            finally:
                await consumer.stop()
            return [_from_record(record) for record in found]

        return asyncio.run(consume())


class KafkaPython:
    def produce(
        self, bootstrap: str, topic: str, messages: Sequence[Message], compression: str
    ) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if compression == "none" else compression,
            acks="all",
            linger_ms=50,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    message.value,
                    message.key,
                    headers=list(message.headers),
                    partition=0,
                    timestamp_ms=None if message.timestamp_ms < 0 else message.timestamp_ms,
                )
                for message in messages
            ]
            producer.flush(TIMEOUT_S)
            for future in sent:
                future.get(TIMEOUT_S)
        finally:
            producer.close()

    def consume(self, bootstrap: str, topic: str, count: int) -> list[Message]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap, check_crcs=True, enable_auto_commit=False
        )
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        messages: list[Message] = []
        deadline_s = time.monotonic() + TIMEOUT_S
        try:
            while len(messages) < count and time.monotonic() < deadline_s:
                for records in consumer.poll(500, max_records=count - len(messages)).values():
                    messages += [_from_record(record) for record in records]
        finally:
            consumer.close()
        return messages


def _from_record(record: Any) -> Message:
    """aiokafka's and kafka-python's are alike."""
    return Message(record.key, record.value, tuple(record.headers), record.timestamp)


CLIENTS: dict[str, Client] = {
    "confluent-kafka": ConfluentKafka(),
    "aiokafka": Aiokafka(),
    "kafka-python": KafkaPython(),
}
