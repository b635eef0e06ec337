from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_transaction import Transactional


async def listed(broker: SimulatedBroker, **filters: Any) -> list[tuple[str, str]]:
    response = await broker.call(ListTransactionsRequest(**filters), ListTransactionsResponse)
    assert response.error_code == ErrorCode.NONE
    return sorted(
        (one.transactional_id, one.transaction_state) for one in response.transaction_states
    )


def test_ids_are_listed_and_filtered() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        idle, busy = Transactional(broker, "idle"), Transactional(broker, "busy")
        await idle.init()
        await busy.init()
        await busy.send("t", b"v")
        assert await listed(broker) == [("busy", "Ongoing"), ("idle", "Empty")]
        assert await listed(broker, state_filters=["Ongoing"]) == [("busy", "Ongoing")]
        of_idle = [idle.producer.producer_id]
        assert await listed(broker, producer_id_filters=of_idle) == [("idle", "Empty")]
        assert await listed(broker, transactional_id_pattern="b.*") == [("busy", "Ongoing")]
        long_ago = {"state_filters": ["Ongoing"], "duration_filter": 3_600_000}
        assert await listed(broker, **long_ago) == []

    with_broker(test)


def test_a_state_that_does_not_exist_is_named() -> None:
    async def test(broker: SimulatedBroker) -> None:
        response = await broker.call(
            ListTransactionsRequest(state_filters=["Ongoing", "Sleeping"]),
            ListTransactionsResponse,
        )
        assert response.unknown_state_filters == ["Sleeping"]

    with_broker(test)


def test_a_pattern_that_is_none() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await Transactional(broker).init()
        response = await broker.call(
            ListTransactionsRequest(transactional_id_pattern="("), ListTransactionsResponse
        )
        assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    with_broker(test)


class _Counted(list[int]):
    pass_count = 0

    def __iter__(self) -> Iterator[int]:
        self.pass_count += 1
        return super().__iter__()


def test_a_million_filters_are_looked_through_once() -> None:
    """And not for each of fifty shards, which took 3 seconds."""

    async def test(broker: SimulatedBroker) -> None:
        await Transactional(broker).init()
        transactions = broker.machine.broker.transactions
        assert transactions is not None
        assert len(await transactions.read_all(lambda _: None)) > 1
        filters = _Counted([-5])
        request = ListTransactionsRequest(producer_id_filters=filters)
        assert (await transactions.list(request)).transaction_states == []
        assert filters.pass_count <= 1

    with_broker(test)
