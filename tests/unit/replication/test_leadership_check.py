"""Broker 2, the follower, is scripted: in a fetch session, or without one."""

from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId
from ottla.replication.leadership_check import check_leadership
from ottla.replication.partition import Partition
from ottla.testing.loop import VirtualClock
from tests.support.led_partition import fetched
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.unit.server.test_fetching_replica import ScriptedFollower, at, led

TIMEOUT_MS = 5000


def check(broker: SimulatedBroker, partition: Partition) -> asyncio.Future[None]:
    return asyncio.ensure_future(
        check_leadership(partition.leader, VirtualClock(broker.loop), TIMEOUT_MS)
    )


async def code_of(checking: asyncio.Future[None]) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        await checking
    return raised.value.code


def test_nobody_is_asked_where_nobody_else_is_in_sync() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, isr=(1,))
        began_s = broker.loop.now_s
        await check_leadership(partition.leader, VirtualClock(broker.loop), TIMEOUT_MS)
        assert broker.loop.now_s == began_s

    with_broker(test)


def test_a_fetch_that_waits_is_answered_and_the_next_one_tells() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        await follower.fetch(at(0))
        waiting = follower.fetch_later()
        await asyncio.sleep(0.1)
        assert not waiting.done()
        began_s = broker.loop.now_s
        checking = check(broker, partition)
        await waiting
        assert broker.loop.now_s - began_s < 0.05
        await asyncio.sleep(1)
        assert not checking.done()
        next_one = follower.fetch_later()
        await checking
        assert (await next_one).error_code == ErrorCode.NONE

    with_broker(test)


def test_a_fetch_that_was_on_its_way_tells_nothing() -> None:
    """It lay in the socket's buffer while this broker was paused; its sender leads by now."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        await follower.fetch(at(0))
        checking = check(broker, partition)
        await follower.fetch()
        assert await code_of(checking) is ErrorCode.REQUEST_TIMED_OUT

        checking = check(broker, partition)
        await follower.fetch()
        await asyncio.sleep(0.1)
        assert not checking.done()
        await follower.fetch()
        await checking

    with_broker(test)


def test_a_follower_that_has_become_the_leader_fetches_other_partitions_only() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        await follower.fetch(at(0))
        checking = check(broker, partition)
        await follower.fetch(forgets=[0])
        for _ in range(5):
            await follower.fetch()
        assert await code_of(checking) is ErrorCode.REQUEST_TIMED_OUT

    with_broker(test)


def test_a_follower_that_begins_another_session_is_counted_anew() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        await ScriptedFollower(broker, partition.topic_id).fetch(at(0))
        checking = check(broker, partition)
        again = ScriptedFollower(broker, partition.topic_id)
        await again.fetch(at(0))
        await asyncio.sleep(0.1)
        assert not checking.done()
        for _ in range(2):
            await again.fetch()
        await checking

    with_broker(test)


def test_fetches_without_a_session_are_counted_one_by_one() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        fetched(partition, 0)
        checking = check(broker, partition)
        await asyncio.sleep(0.1)
        fetched(partition, 0)
        await asyncio.sleep(0.1)
        assert not checking.done()
        fetched(partition, 0)
        await checking

    with_broker(test)


def test_who_leads_no_more_is_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        checking = check(broker, partition)
        await asyncio.sleep(0.1)
        await partition.end_role()
        assert await code_of(checking) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(test)


def test_a_follower_that_the_controller_has_taken_out_need_not_fetch() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        checking = check(broker, partition)
        await asyncio.sleep(0.1)
        partition.leader.isr_told([BrokerId(1)], 9)
        await checking

    with_broker(test)
