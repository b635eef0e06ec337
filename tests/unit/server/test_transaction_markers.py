from __future__ import annotations

import asyncio

import pytest

from ottla.coordinators.transactions.markers import TransactionMarkers
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerId, TopicPartition
from ottla.server.transaction_markers import TransactionMarkerWriter
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional, read


def writer_of(broker: SimulatedBroker) -> TransactionMarkerWriter:
    writer = broker.machine.broker.markers
    assert writer is not None
    return writer


def abort(producer: Transactional, *at: TopicPartition, epoch: int = 0) -> TransactionMarkers:
    return TransactionMarkers(
        transactional_id=producer.transactional_id,
        producer_id=ProducerId(producer.producer.producer_id),
        producer_epoch=producer.producer.producer_epoch,
        coordinator_epoch=epoch,
        is_commit=False,
        transaction_version=0,
        partitions=frozenset(at),
    )


async def open_transaction(broker: SimulatedBroker) -> Transactional:
    await broker.create_topic("t", 2)
    producer = Transactional(broker)
    await producer.init()
    for partition in (0, 1):
        await producer.send("t", b"x", partition=partition)
        await broker.produce("t", b"behind", partition=partition)
    return producer


def test_every_partition_gets_its_marker_and_those_that_are_gone_none() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        at = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("gone", 0)]
        await writer_of(broker).write(abort(producer, *at))
        for partition in (0, 1):
            assert await read(broker, "t", partition=partition) == [b"behind"]

    with_broker(test)


def test_a_partition_that_is_not_led_now_is_tried_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        led = broker.machine.broker.replicas.partition("t", 0)
        isr, led.isr = led.isr, ()
        at = [TopicPartition("t", 0), TopicPartition("t", 1)]
        writing = asyncio.ensure_future(writer_of(broker).write(abort(producer, *at)))
        await asyncio.sleep(5)
        assert not writing.done()
        assert await read(broker, "t", partition=1) == [b"behind"], "the others need not wait"
        led.isr = isr
        await writing
        assert await read(broker, "t") == [b"behind"]

    with_broker(test)


def test_a_coordinator_that_was_replaced_is_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = await open_transaction(broker)
        at = TopicPartition("t", 0)
        await writer_of(broker).write(abort(producer, at, epoch=9))
        with pytest.raises(KafkaError) as raised:
            await writer_of(broker).write(abort(producer, at, epoch=8))
        assert raised.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED

    with_broker(test)
