from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.kernel.java import abs_hash
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional


@pytest.mark.parametrize("version", AddOffsetsToTxnRequest.VERSIONS)
def test_the_partition_of_the_group_is_in_the_transaction(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        producer = Transactional(broker, is_version_2=False)
        await producer.init()
        assert await producer.add_offsets("readers", version=version) is ErrorCode.NONE
        described = await broker.call(
            DescribeTransactionsRequest(transactional_ids=[producer.transactional_id]),
            DescribeTransactionsResponse,
        )
        (topic,) = described.transaction_states[0].topics
        assert (topic.topic, topic.partitions) == (CONSUMER_OFFSETS, [abs_hash("readers") % 50])

    with_broker(test)


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)],
)
def test_a_zombie_adds_nothing(version: int, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        zombie = Transactional(broker, is_version_2=False)
        await zombie.init()
        await Transactional(broker, is_version_2=False).init()
        assert await zombie.add_offsets("readers", version=version) is code

    with_broker(test)
