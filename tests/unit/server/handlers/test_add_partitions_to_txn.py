from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional


@pytest.mark.parametrize("version", range(4))
def test_partitions_that_were_added_can_be_written(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 3)
        producer = Transactional(broker, is_version_2=False)
        await producer.init()
        assert await producer.send("t", b"too early") is ErrorCode.TRANSACTION_ABORTABLE
        assert await producer.add("t", 0, 2, version=version) == [ErrorCode.NONE] * 2
        assert await producer.send("t", b"v", partition=2) is ErrorCode.NONE
        assert await producer.send("t", b"v", partition=1) is ErrorCode.TRANSACTION_ABORTABLE

    with_broker(test)


def test_all_or_none_are_added() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker, is_version_2=False)
        await producer.init()
        assert await producer.add("t", 0, 1) == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await producer.send("t", b"v") is ErrorCode.TRANSACTION_ABORTABLE

    with_broker(test)


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_add_and_verify_for_many_at_once(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        first, second = Transactional(broker, "first"), Transactional(broker, "second")
        await first.init()
        await second.init()

        async def ask(*asked: tuple[Transactional, list[int], bool]) -> list[list[int]]:
            request = AddPartitionsToTxnRequest(
                transactions=[
                    AddPartitionsToTxnTransaction(
                        transactional_id=one.transactional_id,
                        producer_id=one.producer.producer_id,
                        producer_epoch=one.producer.producer_epoch,
                        verify_only=is_verified,
                        topics=[AddPartitionsToTxnTopic(name="t", partitions=partitions)],
                    )
                    for one, partitions, is_verified in asked
                ]
            )
            answer = await broker.call(request, AddPartitionsToTxnResponse, version)
            assert answer.error_code == ErrorCode.NONE
            return [
                [one.partition_error_code for one in result.topic_results[0].results_by_partition]
                for result in answer.results_by_transaction
            ]

        assert await ask((first, [0], False), (second, [1], False)) == [[0], [0]]
        assert await ask((first, [0, 1], True), (second, [1], True)) == [
            [0, ErrorCode.TRANSACTION_ABORTABLE],
            [0],
        ]

    with_broker(test)
