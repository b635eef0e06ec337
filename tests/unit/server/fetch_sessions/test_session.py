from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from ottla.kernel.clock import SystemClock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.replication.partition import Partition
from ottla.server.fetch_sessions.fetched_partition import TopicKey
from ottla.server.fetch_sessions.session import NO_SESSION, FetchSession
from ottla.testing.loop import VirtualClock
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker


def session_of(*partitions: int, session_id: int = 7) -> FetchSession:
    session = FetchSession(session_id, uses_topic_ids=False)
    asked = [FetchPartition(partition=number, fetch_offset=0) for number in partitions]
    session.update(FetchRequest(topics=[FetchTopic(topic="t", partitions=asked)]))
    return session


def indexes(session: FetchSession, *, is_incremental: bool = True) -> list[int]:
    return [fetched.index for fetched in session.candidates(is_incremental)]


def led(broker: SimulatedBroker) -> Partition:
    return broker.machine.broker.replicas.partition("t", 0)


def append(partition: Partition) -> None:
    partition.leader.append(memoryview(make_batch(b"a")), acks=1, produce_version=12)


def test_an_incremental_fetch_looks_at_the_longest_unserved_first() -> None:
    session = session_of(0, 1, 2)
    session.served(session.partitions["t", 0])
    session.read_to_end(session.partitions["t", 1])
    assert indexes(session) == [2, 0]
    assert indexes(session, is_incremental=False) == [0, 1, 2]


def test_a_partition_that_was_read_to_its_end_keeps_its_place() -> None:
    session = session_of(0, 1, 2)
    session.read_to_end(session.partitions["t", 1])
    asked = [FetchPartition(partition=number, fetch_offset=0) for number in (3, 1)]
    session.update(FetchRequest(topics=[FetchTopic(topic="t", partitions=asked)]))
    assert indexes(session) == [0, 1, 2, 3]


def test_a_partition_that_was_read_to_its_end_is_a_candidate_when_more_came() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 1)
        session = session_of(0)
        fetched = session.partitions["t", 0]
        partition = session.find(fetched, lambda topic, index: led(broker))
        session.read_to_end(fetched)
        assert indexes(session) == []
        append(partition)
        assert indexes(session) == [0]

    with_broker(test)


def test_a_fetch_without_a_session_watches_only_while_it_waits() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 1)
        partition = led(broker)

        def lookup(topic: TopicKey, index: int) -> Partition:
            if index == 1:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return partition

        session = session_of(1, 0, session_id=NO_SESSION)
        session.find(session.partitions["t", 0], lookup)
        assert not partition.watchers
        assert not await session.begin_waiting(lookup, Slices(SystemClock()))
        assert len(partition.watchers) == 1
        session.end_waiting()
        assert not partition.watchers

    with_broker(test)


@pytest.mark.parametrize("waits", [False, True])
def test_a_fetch_without_a_session_leaves_nothing_to_the_garbage_collector(waits: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 1)

        def lookup(topic: TopicKey, index: int) -> Partition:
            return led(broker)

        session = session_of(0, session_id=NO_SESSION)
        gone = weakref.ref(session)
        session.find(session.partitions["t", 0], lookup)
        if waits:
            await session.begin_waiting(lookup, Slices(SystemClock()))
            session.end_waiting()
        gc.disable()
        try:
            del session
            assert gone() is None
        finally:
            gc.enable()

    with_broker(test)


def test_a_session_that_was_closed_watches_nothing() -> None:
    """Its client may close it while a fetch looks at its partitions, a few at a time."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 1)
        session = session_of(0)
        (fetched,) = session.candidates(is_incremental=True)
        session.close()
        partition = session.find(fetched, lambda topic, index: led(broker))
        assert not partition.watchers

    with_broker(test)


def test_a_fetch_whose_time_is_over_leaves_another_of_its_session_waiting() -> None:
    """A client that gave up on its connection may come again before the first fetch has ended."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 1)
        session = session_of(0)
        partition = session.find(session.partitions["t", 0], lambda topic, index: led(broker))
        clock = VirtualClock(broker.loop)

        async def wait(max_wait_s: float) -> float:
            await session.wait_for_bytes(clock, max_wait_s, 1, is_committed_only=False)
            return clock.monotonic_s()

        began_s = clock.monotonic_s()
        first = asyncio.ensure_future(wait(1.0))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(wait(60.0))
        await first
        append(partition)
        assert await second - began_s < 60

    with_broker(test)
