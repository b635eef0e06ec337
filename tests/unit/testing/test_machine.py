from __future__ import annotations

import asyncio

import pytest

from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.simulated_broker import SimulatedBroker, with_broker


def end_offset(broker: SimulatedBroker) -> int:
    return broker.machine.broker.replicas.partition("t", 0).log.log_end_offset


def test_what_was_written_is_there_after_a_stop_and_after_a_kill() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"a", b"b")
        await broker.restart()
        assert (await broker.produce("t", b"c")).base_offset == 2
        await broker.restart(broker.machine.kill)
        assert (await broker.produce("t", b"d")).base_offset == 3

    with_broker(test)


def test_only_what_was_synced_is_sure_to_outlive_the_power() -> None:
    async def lost(broker: SimulatedBroker, **config: str) -> int:
        await broker.create_topic("t", 1, **config)
        lost_count = 0
        for _ in range(10):
            first = end_offset(broker)
            for _ in range(5):
                await broker.produce("t", b"v")
            await asyncio.sleep(1)
            await broker.restart(broker.machine.lose_power)
            lost_count += first + 5 - end_offset(broker)
        return lost_count

    async def unsynced(broker: SimulatedBroker) -> None:
        assert await lost(broker) > 0

    async def synced(broker: SimulatedBroker) -> None:
        assert await lost(broker, flush_messages="1") == 0

    with_broker(unsynced)
    with_broker(synced)


def test_a_killed_broker_says_nothing_more() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        tasks_before = len(asyncio.all_tasks())
        connection = await broker.connect()
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[asked])]
        )
        fetch = asyncio.create_task(connection.call(request, FetchResponse, 12))
        await asyncio.sleep(1)
        broker.machine.kill()
        with pytest.raises(ConnectionError):
            await fetch
        with pytest.raises(ConnectionRefusedError):
            await broker.connect()
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) < tasks_before
        assert not broker.ensemble.exists("/brokers/ids/1")
        assert not broker.ensemble.exists("/controller")
        await broker.machine.start()
        assert broker.ensemble.exists("/brokers/ids/1")

    with_broker(test)


def test_one_broker_at_a_time() -> None:
    async def test(broker: SimulatedBroker) -> None:
        with pytest.raises(AssertionError, match="the broker runs"):
            await broker.machine.start()
        broker.machine.kill()
        for use in (
            lambda: broker.machine.broker,
            lambda: broker.machine.store,
            broker.machine.kill,
            broker.machine.lose_power,
        ):
            with pytest.raises(AssertionError, match="does not run"):
                use()
        await broker.machine.start()

    with_broker(test)
