from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.kernel.ids import BrokerId
from ottla.replication.in_sync_replicas import Proposal
from ottla.replication.isr_expiration import IsrExpiration
from ottla.replication.leader import Leader
from ottla.replication.partition import Partition
from ottla.testing.loop import VirtualClock
from tests.support.led_partition import append, fetched, lead_two_replicas, new_partition
from tests.support.simulated_broker import SimulatedBroker, with_broker

LAG_TIME_S = 30

Test = Callable[[SimulatedBroker, Partition, list[frozenset[BrokerId]]], Coroutine[Any, Any, None]]


def with_expiration(run: Test, isr: tuple[int, ...] = (1, 2)) -> None:
    """Of what is asked for, the controller does everything at once."""

    async def test(broker: SimulatedBroker) -> None:
        asked: list[frozenset[BrokerId]] = []

        def alter(leader: Leader, proposal: Proposal) -> None:
            asked.append(proposal.isr)
            leader.isr_answered(proposal, proposal.isr, proposal.partition_epoch + 1)

        replicas = broker.machine.broker.replicas
        replicas.alter_isr = alter
        partition = await lead_two_replicas(await new_partition(broker), broker, isr)
        task = asyncio.create_task(IsrExpiration(replicas.leaders, VirtualClock(broker.loop)).run())
        await run(broker, partition, asked)
        task.cancel()

    with_broker(test)


def test_a_follower_that_does_not_fetch_leaves_in_time() -> None:
    async def test(
        broker: SimulatedBroker, partition: Partition, asked: list[frozenset[BrokerId]]
    ) -> None:
        fetched(partition, 0)
        append(partition, b"a")
        await asyncio.sleep(LAG_TIME_S - 1)
        assert asked == []
        await asyncio.sleep(3)
        assert asked == [{1}]
        assert partition.high_watermark == 1

    with_expiration(test)


def test_a_follower_that_has_everything_stays_however_long_ago_it_asked() -> None:
    async def test(
        broker: SimulatedBroker, partition: Partition, asked: list[frozenset[BrokerId]]
    ) -> None:
        fetched(partition, 0)
        await asyncio.sleep(10 * LAG_TIME_S)
        assert asked == []

    with_expiration(test)


def test_a_broker_that_stood_still_throws_nobody_out() -> None:
    """Its followers wait for an answer to what they sent before."""

    async def test(
        broker: SimulatedBroker, partition: Partition, asked: list[frozenset[BrokerId]]
    ) -> None:
        fetched(partition, 0)
        append(partition, b"a")
        await asyncio.sleep(5)
        broker.loop.pass_time(10 * LAG_TIME_S)
        await asyncio.sleep(LAG_TIME_S - 5)
        assert asked == []
        fetched(partition, 1)
        await asyncio.sleep(LAG_TIME_S)
        assert asked == []
        append(partition, b"b")
        await asyncio.sleep(LAG_TIME_S + 3)
        assert asked == [{1}], "one that is really gone leaves all the same"

    with_expiration(test)


def test_a_follower_that_could_not_join_with_its_fetch_joins_later() -> None:
    async def test(
        broker: SimulatedBroker, partition: Partition, asked: list[frozenset[BrokerId]]
    ) -> None:
        in_sync = partition.leader.in_sync
        in_sync._broker_epochs = lambda broker_id: None  # Not heard of yet.
        fetched(partition, 0)
        await asyncio.sleep(3)
        assert asked == []
        in_sync._broker_epochs = lambda broker_id: 5
        await asyncio.sleep(2)
        assert asked == [{1, 2}]

    with_expiration(test, isr=(1,))


def test_a_follower_that_fetches_no_more_does_not_join() -> None:
    async def test(
        broker: SimulatedBroker, partition: Partition, asked: list[frozenset[BrokerId]]
    ) -> None:
        in_sync = partition.leader.in_sync
        in_sync._broker_epochs = lambda broker_id: None
        fetched(partition, 0)
        await asyncio.sleep(LAG_TIME_S + 1)
        in_sync._broker_epochs = lambda broker_id: 5
        await asyncio.sleep(5)
        assert asked == []

    with_expiration(test, isr=(1,))


def test_a_bug_in_one_leader_keeps_none_from_being_judged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(
        broker: SimulatedBroker, partition: Partition, asked: list[frozenset[BrokerId]]
    ) -> None:
        judged: list[float] = []

        class Stumbling:
            topic_partition = "x-0"

            def judge_isr(self, *, since_s: float) -> None:
                raise ValueError("a bug of ours")

        class Judged:
            def judge_isr(self, *, since_s: float) -> None:
                judged.append(since_s)

        leaders: Any = [Stumbling(), Judged()]
        task = asyncio.create_task(IsrExpiration(lambda: leaders, VirtualClock(broker.loop)).run())
        await asyncio.sleep(2.5)
        task.cancel()
        assert len(judged) == 2
        assert "a bug of ours" in caplog.text

    with_expiration(test)
