"""Bugs that brokers like this one have had with transactions, each by its name.

Here are those of a partition. Those of the coordinator and of groups are beside them.
"""

from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.replication.partition import Partition
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.support import partition_transactions as transactions
from tests.support.committed_reader import read_committed
from tests.support.simulated_broker import SimulatedBroker, with_broker


async def new_partition(broker: SimulatedBroker, name: str = "t", **config: str) -> Partition:
    await broker.create_topic(name, 1, **config)
    return broker.machine.broker.replicas.partition(name, 0)


async def committed_values(broker: SimulatedBroker) -> list[bytes]:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        isolation_level=1,
        session_epoch=-1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="t", partitions=[asked])],
    )
    response = await broker.call(request, FetchResponse, 12)
    return read_committed(response.responses[0].partitions[0])


def test_a_sequence_reused_after_an_abort_is_not_taken_for_a_duplicate() -> None:
    """With a new epoch the producer begins with sequence 0 again. Its batch is as long as the
    aborted one, so by sequences alone it would be the same: acknowledged, and thrown away."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        first = await transactions.write(partition, 7, b"aborted", supports_epoch_bump=True)
        await transactions.end(partition, 7, is_commit=False, epoch=1, version=2)
        for how in (None, broker.machine.kill):
            await broker.restart(how)
            partition = broker.machine.broker.replicas.partition("t", 0)
        second = await transactions.write(
            partition, 7, b"written", epoch=1, supports_epoch_bump=True
        )
        assert not second.is_duplicate
        assert second.first_offset > first.first_offset
        await transactions.end(partition, 7, is_commit=True, epoch=2, version=2)
        assert await committed_values(broker) == [b"written"]
        # That of the aborted transaction is refused, not acknowledged.
        with pytest.raises(KafkaError) as caught:
            await transactions.append(partition, 7, b"aborted")
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH

    with_broker(test)


def test_duplicates_after_an_out_of_order_error_and_an_epoch_bump() -> None:
    """Of five batches on their way one is lost, and the next is out of order. The producer bumps
    its epoch and sends all that were not acknowledged again, from sequence 0 on (KIP-360). What
    it sent before may still arrive: it must not be appended a second time."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await transactions.write(partition, 7, b"a")
        with pytest.raises(KafkaError) as caught:
            await transactions.append(partition, 7, b"c", sequence=2)
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        await transactions.end(partition, 7, is_commit=False, epoch=1)
        await transactions.write(partition, 7, b"a", epoch=1)
        await transactions.append(partition, 7, b"b", epoch=1, sequence=1)
        # The lost one, found again; and the refused one, sent by a retry of the old epoch.
        for value, sequence in ((b"b", 1), (b"c", 2)):
            with pytest.raises(KafkaError) as caught:
                await transactions.write(partition, 7, value, sequence=sequence)
            assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        await transactions.append(partition, 7, b"c", epoch=1, sequence=2)
        again = await transactions.append(partition, 7, b"b", epoch=1, sequence=1)
        assert again.is_duplicate
        await transactions.end(partition, 7, is_commit=True, epoch=1)
        assert await committed_values(broker) == [b"a", b"b", b"c"]

    with_broker(test)


def test_the_last_stable_offset_is_not_stuck_by_a_hanging_transaction() -> None:
    """A late batch of an ended transaction begins one that nobody knows to end (KIP-890): it is
    refused. Where one hangs nevertheless, an administrator's marker frees it."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await transactions.write(partition, 7, b"a")
        guard = transactions.verify(partition, 8)
        await transactions.end(partition, 7, is_commit=True)
        await transactions.end(partition, 8, is_commit=False)
        for producer_id, sequence, void in ((7, 1, None), (8, 0, guard)):
            with pytest.raises(KafkaError) as caught:
                await transactions.append(
                    partition, producer_id, b"late", sequence=sequence, guard=void
                )
            assert caught.value.code is ErrorCode.INVALID_TXN_STATE
        assert partition.last_stable_offset == partition.high_watermark == 3

        await transactions.write(partition, 9, b"hangs")
        await broker.produce("t", b"behind it")
        assert partition.last_stable_offset == 3
        topic = WritableTxnMarkerTopic(name="t", partition_indexes=[0])
        marker = WritableTxnMarker(
            producer_id=9, producer_epoch=0, transaction_result=False, topics=[topic]
        )
        response = await broker.call(
            WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
        )
        assert response.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
        assert partition.last_stable_offset == partition.high_watermark == 6
        assert await committed_values(broker) == [b"a", b"behind it"]

    with_broker(test)


def test_producer_state_is_not_evicted_during_a_transaction() -> None:
    """Were it forgotten, the transaction could be neither ended nor gone on with, and a repeat of
    what is in it would be appended again."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker, retention_ms="-1")
        await transactions.write(partition, 7, b"a")
        await transactions.write(partition, 8, b"x")
        await transactions.end(partition, 8, is_commit=True)
        for how in (None, broker.machine.kill):
            await asyncio.sleep(200)
            assert list(partition.log.producer_state.producers) == [7]
            await broker.restart(how)
            partition = broker.machine.broker.replicas.partition("t", 0)
        assert partition.last_stable_offset == 0
        assert (await transactions.append(partition, 7, b"a")).is_duplicate
        await transactions.append(partition, 7, b"b", sequence=1)
        await transactions.end(partition, 7, is_commit=True)
        assert await committed_values(broker) == [b"a", b"x", b"b"]

    with_broker(
        test,
        producer_id_expiration_ms="60000",
        producer_id_expiration_check_interval_ms="10000",
    )


def test_a_late_marker_does_not_end_the_next_transaction() -> None:
    """The answer to a marker is lost, and the coordinator sends it again; meanwhile the producer
    has begun its next transaction. With one epoch for both nothing tells the markers apart: since
    version 2 each transaction has its own (KIP-890), and so have its markers (KIP-1228)."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await transactions.write(partition, 7, b"first", supports_epoch_bump=True)
        await transactions.end(partition, 7, is_commit=True, epoch=1, version=2)
        # Once more while nothing is open: it does no harm.
        await transactions.end(partition, 7, is_commit=True, epoch=1, version=2)
        await transactions.write(partition, 7, b"second", epoch=1, supports_epoch_bump=True)
        for epoch in (0, 1):
            with pytest.raises(KafkaError) as caught:
                await transactions.end(partition, 7, is_commit=True, epoch=epoch, version=2)
            assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert partition.leader.has_open_transaction(7, 1)
        assert await committed_values(broker) == [b"first"]
        await transactions.end(partition, 7, is_commit=False, epoch=2, version=2)
        assert await committed_values(broker) == [b"first"]

    with_broker(test)


def test_a_marker_of_a_deposed_coordinator_ends_nothing() -> None:
    """Two brokers may take themselves for the coordinator; the one with the lower epoch is
    mistaken, also in versions before 2, where producers keep their epoch."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await transactions.end(partition, 7, is_commit=True, coordinator_epoch=3)
        await transactions.write(partition, 7, b"open")
        for how in (None, broker.machine.kill):
            with pytest.raises(KafkaError) as caught:
                await transactions.end(partition, 7, is_commit=True, coordinator_epoch=2)
            assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
            await broker.restart(how)
            partition = broker.machine.broker.replicas.partition("t", 0)
        assert partition.last_stable_offset == 1

    with_broker(test)
