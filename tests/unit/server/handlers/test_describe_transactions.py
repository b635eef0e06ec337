from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional


async def describe(broker: SimulatedBroker, *transactional_ids: str) -> list[TransactionState]:
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    return (await broker.call(request, DescribeTransactionsResponse)).transaction_states


def test_a_transaction_from_beginning_to_end() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 3)
        producer = Transactional(broker)
        await producer.init(timeout_ms=12_345)
        (found,) = await describe(broker, "mine")
        assert (found.transaction_state, found.transaction_timeout_ms) == ("Empty", 12_345)
        assert (found.producer_id, found.producer_epoch) == producer.producer
        assert (found.transaction_start_time_ms, found.topics) == (-1, [])
        await producer.send("t", b"v", partition=1)
        await producer.send("t", b"v", partition=2)
        (found,) = await describe(broker, "mine")
        assert found.transaction_state == "Ongoing"
        assert found.transaction_start_time_ms > 0
        assert [(one.topic, sorted(one.partitions)) for one in found.topics] == [("t", [1, 2])]
        await producer.commit()
        (found,) = await describe(broker, "mine")
        assert found.transaction_state == "CompleteCommit"

    with_broker(test)


def test_an_id_that_is_not_known() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await Transactional(broker).init()
        unknown, empty, known = await describe(broker, "other", "", "mine")
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_REQUEST
        assert known.error_code == ErrorCode.NONE

    with_broker(test)


def test_an_id_that_is_asked_for_many_times_is_described_once() -> None:
    """Else 8 MB of one short id are answered with gigabytes."""

    async def test(broker: SimulatedBroker) -> None:
        await Transactional(broker).init()
        found = await describe(broker, *["mine"] * 1000, "other", "mine")
        assert [one.transactional_id for one in found] == ["mine", "other"]

    with_broker(test)
