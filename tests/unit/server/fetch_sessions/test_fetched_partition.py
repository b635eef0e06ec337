from __future__ import annotations

from ottla.server.fetch_sessions.fetched_partition import FetchedPartition
from ottla.server.fetch_sessions.session import FetchSession
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker


def test_a_client_is_told_of_what_moved_since() -> None:
    fetched = FetchedPartition("t", 0)
    assert not fetched.is_told(5, 0)
    fetched.tell(5, 0)
    assert fetched.is_told(5, 0)
    assert not fetched.is_told(6, 0)
    assert not fetched.is_told(5, 1)


def test_it_hears_of_records_until_it_watches_no_more() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 1)
        partition = broker.machine.broker.replicas.partition("t", 0)
        session = FetchSession(7, uses_topic_ids=False)
        fetched = FetchedPartition("t", 0)

        def is_dirty_after_an_append() -> bool:
            session.dirty.clear()
            partition.leader.append(memoryview(make_batch(b"a")), acks=1, produce_version=12)
            return fetched in session.dirty

        fetched.watch(partition, session)
        assert is_dirty_after_an_append()
        fetched.unwatch()
        assert not is_dirty_after_an_append()
        assert fetched.partition is None

    with_broker(test)


def test_a_partition_that_is_gone_is_looked_up_anew() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 1)
        session = FetchSession(7, uses_topic_ids=False)
        fetched = FetchedPartition("t", 0)
        fetched.watch(broker.machine.broker.replicas.partition("t", 0), session)
        delete = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
        await broker.call(delete, DeleteTopicsResponse)
        assert fetched.partition is None
        assert fetched in session.dirty

    with_broker(test)
