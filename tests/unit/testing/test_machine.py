from __future__ import annotations

import asyncio
import random

import pytest

from ottla.kernel.ids import TopicPartition
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual
from ottla.testing.machine import SimulatedMachine
from ottla.testing.network import SimulatedNetwork
from ottla.testing.store import MemoryEnsemble
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_cluster import SimulatedCluster, with_cluster


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


def test_a_killed_broker_leaves_the_connections_that_it_opened() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", (1, 2))
        await cluster.produce(TopicPartition("t", 0), b"v")
        server = cluster.machines[1].broker._server
        assert server is not None
        followers = [each for each in server._connections if "broker2" in each.peer]
        assert followers
        cluster.kill(2)
        await asyncio.sleep(1)
        assert not {*followers} & server._connections.keys()

    with_cluster(test)


def test_a_paused_broker_stands_still_and_goes_on_where_it_was() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"a")
        broker.machine.pause()
        later = asyncio.create_task(broker.produce("t", b"b"))
        another = await broker.connect()  # The system takes it: it need not ask the process.
        await asyncio.sleep(30)
        assert not later.done()
        assert end_offset(broker) == 1
        assert broker.ensemble.children("/brokers/ids") == ["1"], "its session is not over"
        broker.machine.resume()
        assert (await later).base_offset == 1
        another.close()

    with_broker(test)


def test_a_paused_broker_can_be_killed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        broker.machine.pause()
        lost = asyncio.create_task(broker.produce("t", b"a"))
        await asyncio.sleep(1)
        await broker.restart(broker.machine.kill)
        with pytest.raises(ConnectionError):
            await lost
        assert (await broker.produce("t", b"b")).base_offset == 0

    with_broker(test)


def test_what_a_killed_broker_had_sent_arrives() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        answer = asyncio.create_task(broker.produce("t", b"a"))
        while not end_offset(broker):
            await asyncio.sleep(0.0001)
        broker.machine.kill()
        assert (await answer).base_offset == 0
        await broker.start()

    with_broker(test)


def test_a_clock_may_be_ahead_of_the_others() -> None:
    async def main(loop: VirtualLoop) -> None:
        rng = random.Random(0)
        network = SimulatedNetwork(loop, rng)
        machine = SimulatedMachine(
            {"listeners": "PLAINTEXT://localhost:9092"},
            loop,
            rng,
            network,
            MemoryEnsemble(),
            skew_ms=5000,
        )
        await machine.start()
        assert machine.broker._clock.now_ms() == VirtualClock(loop).now_ms() + 5000
        assert machine.disk.now_ms() == VirtualClock(loop).now_ms() + 5000
        await machine.stop()

    run_virtual(main)


def machine_with_sessions(loop: VirtualLoop, ensemble: MemoryEnsemble) -> SimulatedMachine:
    rng = random.Random(0)
    return SimulatedMachine(
        {"listeners": "PLAINTEXT://localhost:9092"},
        loop,
        rng,
        SimulatedNetwork(loop, rng),
        ensemble,
        session_timeout_s=6,
    )


def test_a_remote_session_outlives_a_killed_broker_and_not_a_paused_one() -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = MemoryEnsemble()
        machine = machine_with_sessions(loop, ensemble)
        await machine.start()
        machine.kill()
        assert ensemble.exists("/brokers/ids/1")
        await asyncio.sleep(7)
        assert not ensemble.exists("/brokers/ids/1")
        await machine.start()
        epoch = machine.broker.broker_epoch
        machine.pause()
        await asyncio.sleep(7)
        assert not ensemble.exists("/brokers/ids/1")
        machine.resume()
        await asyncio.sleep(7)
        assert machine.broker.broker_epoch > epoch
        machine.expire_session()
        assert not ensemble.exists("/brokers/ids/1")
        await asyncio.sleep(7)
        assert machine.remote_store.session_id
        assert ensemble.exists("/brokers/ids/1")
        await machine.stop()

    run_virtual(main)


def test_nothing_goes_on_in_a_process_that_has_ended() -> None:
    async def test(broker: SimulatedBroker) -> None:
        tasks_before = len(asyncio.all_tasks())
        broker.machine.broker.failed.get_loop().call_later(1, rung.append, "outside")
        with broker.machine._running.entered():  # type: ignore[union-attr]
            broker.loop.call_later(1, rung.append, "left over")
        await broker.machine.stop_and_exit()
        await asyncio.sleep(2)
        assert rung == ["outside"]
        assert len(asyncio.all_tasks()) <= tasks_before
        await broker.start()

    rung: list[str] = []
    with_broker(test)
