from __future__ import annotations

import asyncio

import pytest

from ottla.coordinators.transactions.markers import TransactionMarkers
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerId, TopicPartition
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.replication.leader import Marker
from ottla.server.transaction_markers import TransactionMarkerWriter
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponse
from tests.support.raw_transaction import txn_commit_request
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import committed, find_coordinator
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
        in_sync = led.leader.in_sync
        isr, in_sync.committed = in_sync.committed, frozenset()
        at = [TopicPartition("t", 0), TopicPartition("t", 1)]
        writing = asyncio.ensure_future(writer_of(broker).write(abort(producer, *at)))
        await asyncio.sleep(5)
        assert not writing.done()
        assert await read(broker, "t", partition=1) == [b"behind"], "the others need not wait"
        in_sync.committed = isr
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


def test_offsets_are_visible_though_whoever_wanted_the_marker_has_gone() -> None:
    """The marker is written all the same, and the group coordinator was not told: the offsets
    waited for it until the next start."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        await find_coordinator(broker, "g")
        request = txn_commit_request(
            "g",
            {"t": {0: 7}},
            transactional_id=producer.transactional_id,
            **producer.producer._asdict(),
        )
        await broker.call(request, TxnOffsetCommitResponse)
        groups = broker.machine.broker.groups
        assert groups is not None
        number = groups.partition_of("g")
        led = broker.machine.broker.replicas.partition(CONSUMER_OFFSETS, number)
        end = led.log.log_end_offset
        led.log.folder.wrote(1.0)
        marker = Marker(*producer.producer, True, 0, 0)
        writing = asyncio.ensure_future(
            writer_of(broker).append(TopicPartition(CONSUMER_OFFSETS, number), marker)
        )
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.sleep(5)
        assert led.log.log_end_offset == end + 1
        assert await committed(broker, "g", {"t": [0]}) == {("t", 0): 7}

    with_broker(test)
