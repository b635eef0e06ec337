"""Transactional producers, and readers of either isolation level, of several makes behind one
face."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import aiokafka
import aiokafka.errors
import confluent_kafka

from tests.support.clients import KAFKA_PYTHON

TIMEOUT_S = 60
Isolation = Literal["read_committed", "read_uncommitted"]
Found = dict[int, list[bytes]]
"""Values by partition, in the order of offsets."""


class Fenced(Exception):
    """Another producer has the transactional id, or the broker has aborted the transaction."""


class TransactionalProducer(Protocol):
    """Made ready: its constructor returns once the coordinator has given it an epoch."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        """Returns once they are acknowledged."""
        ...

    def send_offsets(self, group: str, topic: str, offsets: Sequence[int]) -> None:
        """Of partition 0, 1, ... As one that is no member of the group."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """What is open stays so."""
        ...


MakeProducer = Callable[..., TransactionalProducer]


class ConfluentProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 1,
                "log_level": 0,
            }
        )
        self._bootstrap = bootstrap
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        errors: list[Any] = []
        with _told_by_confluent():
            for value in values:
                self._producer.produce(
                    topic,
                    value,
                    partition=partition,
                    on_delivery=lambda error, _: errors.append(error) if error else None,
                )
            assert self._producer.flush(TIMEOUT_S) == 0, "not all was acknowledged in time"
            if errors:
                raise confluent_kafka.KafkaException(errors[0])

    def send_offsets(self, group: str, topic: str, offsets: Sequence[int]) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": group}
        )
        wanted = [confluent_kafka.TopicPartition(topic, *one) for one in enumerate(offsets)]
        self._producer.send_offsets_to_transaction(
            wanted, consumer.consumer_group_metadata(), TIMEOUT_S
        )
        consumer.close()

    def commit(self) -> None:
        with _told_by_confluent():
            self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.purge()


@contextmanager
def _told_by_confluent() -> Iterator[None]:
    try:
        yield
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() in (
            confluent_kafka.KafkaError._FENCED,
            confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH,
            confluent_kafka.KafkaError.PRODUCER_FENCED,
        ):
            raise Fenced(str(error)) from error
        raise


class AiokafkaProducer:
    """Its loop runs only while one of these methods does."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._runner = asyncio.Runner()
        self._runner.run(self._start(bootstrap, transactional_id, timeout_ms))

    async def _start(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        await asyncio.wait_for(self._producer.start(), TIMEOUT_S)

    def _run(self, action: Any) -> None:
        async def within_time() -> None:
            await asyncio.wait_for(action, TIMEOUT_S)

        try:
            self._runner.run(within_time())
        except (
            aiokafka.errors.ProducerFenced,
            aiokafka.errors.InvalidProducerEpoch,
        ) as error:
            raise Fenced(str(error)) from error

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        async def send() -> None:
            sent = [
                await self._producer.send(topic, value, partition=partition) for value in values
            ]
            await asyncio.gather(*sent)

        self._run(send())

    def send_offsets(self, group: str, topic: str, offsets: Sequence[int]) -> None:
        wanted = {
            aiokafka.TopicPartition(topic, number): offset for number, offset in enumerate(offsets)
        }
        self._run(self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._runner.close()


class KafkaPythonProducer:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = KAFKA_PYTHON.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=TIMEOUT_S * 1000,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        def send() -> None:
            sent = [self._producer.send(topic, value, partition=partition) for value in values]
            self._producer.flush(TIMEOUT_S)
            for future in sent:
                future.get(TIMEOUT_S)

        _unless_fenced(send)

    def send_offsets(self, group: str, topic: str, offsets: Sequence[int]) -> None:
        wanted = {
            KAFKA_PYTHON.TopicPartition(topic, number): KAFKA_PYTHON.OffsetAndMetadata(
                offset, "", -1
            )
            for number, offset in enumerate(offsets)
        }
        self._producer.send_offsets_to_transaction(wanted, group)

    def commit(self) -> None:
        _unless_fenced(self._producer.commit_transaction)

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


def _unless_fenced(action: Callable[[], object]) -> None:
    errors = KAFKA_PYTHON.errors
    try:
        action()
    except (errors.ProducerFencedError, errors.InvalidProducerEpochError) as error:
        raise Fenced(str(error)) from error


PRODUCERS: dict[str, MakeProducer] = {
    "confluent-kafka": ConfluentProducer,
    "aiokafka": AiokafkaProducer,
    "kafka-python": KafkaPythonProducer,
}

Read = Callable[[str, str, int, Isolation], Found]
"""Bootstrap, topic, count of partitions: all that is there, up to the end that the broker says
such a reader has."""


def read_by_confluent(
    bootstrap: str, topic: str, partition_count: int, isolation: Isolation
) -> Found:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # It is told of the end when a fetch finds no more.
            "isolation.level": isolation,
            "check.crcs": True,
        }
    )
    numbers = range(partition_count)
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in numbers])
    found: Found = {number: [] for number in numbers}
    unfinished = set(numbers)
    deadline_s = time.monotonic() + TIMEOUT_S
    while unfinished:
        assert time.monotonic() < deadline_s, f"the end of {unfinished} was not reached"
        for message in consumer.consume(1000, 0.1):
            if (error := message.error()) is None:
                found[message.partition() or 0].append(message.value() or b"")
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                unfinished.discard(message.partition() or 0)
    consumer.close()
    return found


def read_by_aiokafka(
    bootstrap: str, topic: str, partition_count: int, isolation: Isolation
) -> Found:
    async def read() -> Found:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level=isolation, check_crcs=True
        )
        partitions = [aiokafka.TopicPartition(topic, number) for number in range(partition_count)]
        found: Found = {number: [] for number in range(partition_count)}
        await consumer.start()
        try:
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            ends = await consumer.end_offsets(partitions)
            deadline_s = time.monotonic() + TIMEOUT_S
            while any([await consumer.position(one) < ends[one] for one in partitions]):
                assert time.monotonic() < deadline_s, "the end was not reached"
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    for record in records:
                        found[record.partition].append(record.value or b"")
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


def read_by_kafka_python(
    bootstrap: str, topic: str, partition_count: int, isolation: Isolation
) -> Found:
    consumer = KAFKA_PYTHON.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=isolation,
        enable_auto_commit=False,
        check_crcs=True,
    )
    partitions = [KAFKA_PYTHON.TopicPartition(topic, number) for number in range(partition_count)]
    found: Found = {number: [] for number in range(partition_count)}
    try:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        deadline_s = time.monotonic() + TIMEOUT_S
        while any(consumer.position(one) < ends[one] for one in partitions):
            assert time.monotonic() < deadline_s, "the end was not reached"
            for records in consumer.poll(100).values():
                for record in records:
                    found[record.partition].append(record.value)
    finally:
        consumer.close()
    return found


READERS: dict[str, Read] = {
    "confluent-kafka": read_by_confluent,
    "aiokafka": read_by_aiokafka,
    "kafka-python": read_by_kafka_python,
}
