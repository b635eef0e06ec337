from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ottla.controller.topic_planning import NewTopic
from ottla.controller.topics import Topics
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.storage.errors import BrokerStartRefused
from ottla.testing.disk import Fault
from ottla.testing.loop import VirtualClock
from ottla.testing.machine import ProcessDied
from ottla.testing.store import MemoryEnsemble, MemoryStore
from ottla.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.simulated_broker import SimulatedBroker, make_batch, with_broker
from tests.support.simulated_group import Member
from tests.support.simulated_transaction import Transactional, read


async def topics(broker: SimulatedBroker) -> dict[str, tuple[bytes, int]]:
    connection = await broker.connect()
    response = await connection.call(MetadataRequest(topics=None), MetadataResponse, 12)
    connection.close()
    return {topic.name or "": (topic.topic_id, len(topic.partitions)) for topic in response.topics}


def test_topics_and_records_are_there_after_a_stop_and_after_a_kill() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 2)
        await broker.produce("t", b"one")
        for end in (broker.machine.kill, broker.machine.lose_power):
            end()
            await broker.machine.start()
            assert await topics(broker) == {"t": (topic_id, 2)}
        await broker.machine.stop()
        await broker.machine.start()
        assert await topics(broker) == {"t": (topic_id, 2)}
        assert broker.machine.broker.replicas.partition("t", 0).high_watermark <= 1

    with_broker(test)


def test_a_topic_deleted_and_made_again_is_another_one() -> None:
    async def test(broker: SimulatedBroker) -> None:
        first = await broker.create_topic("t")
        await broker.produce("t", b"old")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
        response = await broker.call(request, DeleteTopicsResponse)
        assert response.responses[0].error_code == ErrorCode.NONE
        second = await broker.create_topic("t")
        assert first != second
        assert (await broker.produce("t", b"new")).base_offset == 0

    with_broker(test)


def test_logs_whose_store_was_lost_are_taken_over() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t", 3)
        await broker.produce("t", b"one", partition=2)
        await broker.machine.stop()
        broker.machine.ensemble = MemoryEnsemble()
        await broker.machine.start()
        assert await topics(broker) == {"t": (topic_id, 3)}
        assert broker.machine.broker.replicas.partition("t", 2).high_watermark == 1

    with_broker(test)


def test_a_crash_while_logs_are_taken_over_makes_no_strays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(broker: SimulatedBroker) -> None:
        for name in "abcd":
            await broker.create_topic(name)
        await broker.machine.stop()
        broker.machine.ensemble = MemoryEnsemble()
        create = Topics.create

        async def create_and_crash(topics: Topics, topic: NewTopic) -> None:
            await create(topics, topic)
            broker.machine.kill()

        for _ in range(3):
            with monkeypatch.context() as patched:
                patched.setattr(Topics, "create", create_and_crash)
                with pytest.raises(ProcessDied):
                    await broker.machine.start()
        await broker.machine.start()
        assert set(await topics(broker)) == set("abcd")
        assert not [n for n in broker.machine.disk.list_folder("/data") if n.endswith("stray")]

    with_broker(test)


def test_transactions_go_on_in_logs_that_were_taken_over() -> None:
    """Their partitions have heard of a coordinator of epoch 7, as logs of Apache Kafka have. One of
    epoch 0 was refused, and the transaction never ended."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        producer = Transactional(broker)
        await producer.init()
        replicas = broker.machine.broker.replicas
        for at in replicas.topic_partitions():
            replicas.partition(*at).leader.leader_epoch = 7
        await producer.send("t", b"before")
        await producer.commit()
        await broker.machine.stop()
        broker.machine.ensemble = MemoryEnsemble()
        await broker.start()
        assert broker.machine.broker.replicas.partition("t", 0).leader_epoch == 8
        await producer.init()
        assert await producer.send("t", b"after") is ErrorCode.NONE
        await producer.commit()
        await asyncio.sleep(5)
        assert await read(broker, "t") == [b"before", b"after"]

    with_broker(test)


def test_producers_get_no_id_that_logs_taken_over_know() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        batch = make_batch(
            b"old",
            timestamp=VirtualClock(broker.loop).now_ms(),
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
        )
        await broker.produce_batch("t", batch)
        await broker.machine.stop()
        broker.machine.ensemble = MemoryEnsemble()
        await broker.start()
        request = InitProducerIdRequest(transactional_id=None)
        for expected in (8, 9):
            given = await broker.call(request, InitProducerIdResponse)
            assert given.producer_id == expected

    with_broker(test)


def test_a_first_log_dir_that_is_not_mounted_is_not_taken_for_a_new_one() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await broker.machine.stop()
        disk = broker.machine.disk
        disk.rename("/one", "/elsewhere")
        with pytest.raises(BrokerStartRefused, match="/one is new, but /two is not"):
            await broker.machine.start_another()
        disk.kill()
        disk.remove_folder("/one")
        disk.rename("/elsewhere", "/one")
        await broker.start()
        assert set(await topics(broker)) == {"t"}

    with_broker(test, log_dirs="/one,/two")


def test_beside_zookeeper_no_log_dir_has_the_store() -> None:
    """So a new disk may come first."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await broker.machine.stop()
        broker.machine.disk.remove_folder("/one")
        await broker.start()
        assert set(await topics(broker)) == {"t"}

    with_broker(test, log_dirs="/one,/two", zookeeper_connect="localhost:2181")


def test_nothing_is_taken_over_while_a_log_dir_is_offline() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await broker.machine.stop()
        broker.machine.ensemble = MemoryEnsemble()
        fault = broker.machine.disk.fail(Fault("list_folder", "/two"))
        with pytest.raises(BrokerStartRefused, match="/two"):
            await broker.machine.start()
        broker.machine.kill()
        fault.count = 0
        await broker.start()
        assert {name: count for name, (_, count) in (await topics(broker)).items()} == {"t": 2}

    with_broker(test, log_dirs="/one,/two")


def test_logs_that_belong_to_no_topic_are_set_aside_and_kept() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.create_topic("gone")
        await broker.machine.stop()
        broker.machine.disk.make_folders("/data/copied-0")
        await broker.machine.start()
        names = broker.machine.disk.list_folder("/data")
        assert "copied-0" not in names
        assert any(name.startswith("copied-0.") and name.endswith("-stray") for name in names)
        assert set(await topics(broker)) == {"t", "gone"}

    with_broker(test)


def test_a_second_broker_on_the_same_folder_is_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        with pytest.raises(BrokerStartRefused, match="in use by another broker"):
            await broker.machine.start_another()
        assert await topics(broker) == {}

    with_broker(test)


def test_a_broker_whose_session_expires_serves_on_and_registers_anew() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        image = broker.machine.broker.image
        assert image is not None
        before = image.brokers[BrokerId(1)].epoch
        broker.machine.expire_session()
        assert (await broker.produce("t", b"v")).error_code == ErrorCode.NONE
        await asyncio.sleep(1)
        assert (await broker.produce("t", b"v")).base_offset == 1
        assert image.brokers[BrokerId(1)].epoch > before
        assert {"/brokers/ids/1", "/controller"} <= broker.ensemble.tree("/").keys()
        await broker.create_topic("new")
        assert not broker.machine.broker.failed.done()

    with_broker(test)


def test_a_broker_that_loses_its_session_again_and_again_loses_no_change() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for number in range(20):
            await broker.create_topic(f"t{number}")
            broker.machine.expire_session()
            await asyncio.sleep(number / 1000)
            broker.machine.expire_session()
            await asyncio.sleep(2)
        await broker.restart()
        assert len(await topics(broker)) == 20

    with_broker(test)


def expire(store: MemoryStore, ensemble: MemoryEnsemble) -> None:
    ensemble.expire(store)


def disconnect(store: MemoryStore, ensemble: MemoryEnsemble) -> None:
    ensemble.disconnect(store)
    asyncio.get_running_loop().call_later(3, ensemble.reconnect, store)


@pytest.mark.parametrize("takes_over", [False, True])
@pytest.mark.parametrize("fault", [expire, disconnect])
def test_a_start_goes_on_when_its_session_or_its_connection_is_lost(
    fault: Callable[[MemoryStore, MemoryEnsemble], None],
    takes_over: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At each of its calls of the store; also of a start that takes over logs of no known topic."""
    reach = MemoryStore._reach
    calls_left = 0

    async def reach_faulty(store: MemoryStore, *paths: str) -> None:
        nonlocal calls_left
        calls_left -= 1
        if calls_left == 0:
            fault(store, store._ensemble)
        await reach(store, *paths)

    async def test(broker: SimulatedBroker) -> None:
        nonlocal calls_left
        await broker.create_topic("t")
        await broker.produce("t", b"v")
        call = calls_left = 0
        while calls_left <= 0:
            await broker.machine.stop()
            if takes_over:
                broker.machine.ensemble = broker.ensemble = MemoryEnsemble()
            call = calls_left = call + 1
            await asyncio.wait_for(broker.start(), 60)
            assert (await broker.produce("t", b"v")).base_offset == call
            await asyncio.sleep(10)
            assert {"/brokers/ids/1", "/controller"} <= broker.ensemble.tree("/").keys()
            assert list(await topics(broker)) == ["t"]
        assert call > 15

    monkeypatch.setattr(MemoryStore, "_reach", reach_faulty)
    with_broker(test)


def test_a_log_dir_that_fails_at_start_takes_only_its_own_partitions() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        for number in range(2):
            await broker.produce("t", b"v", partition=number)
        await broker.machine.stop()
        fault = broker.machine.disk.fail(Fault("list_folder", "/one"))
        await broker.start()
        answers = [await broker.produce("t", b"v", partition=number) for number in range(2)]
        assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert await broker.create_topic("new")
        assert (await broker.produce("new", b"v")).error_code == ErrorCode.NONE
        await broker.machine.stop()
        fault.count = 0
        await broker.start()
        answers = [await broker.produce("t", b"v", partition=number) for number in range(2)]
        assert [answer.base_offset for answer in answers] == [1, 2]

    with_broker(test, log_dirs="/one,/two")


def test_a_log_whose_topic_cannot_be_read_is_offline_until_somebody_says_whose_it_is() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        for number in range(2):
            await broker.produce("t", b"v", partition=number)
        await broker.machine.stop()
        path = "/data/t-0/partition.metadata"
        broker.machine.disk.flip_bit(path, 0, 3)
        await broker.start()
        answers = [await broker.produce("t", b"v", partition=number) for number in range(2)]
        assert answers[0].error_code in (
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )
        assert answers[1].base_offset == 1
        await broker.machine.stop()
        store, broker.machine.ensemble = broker.machine.ensemble, MemoryEnsemble()
        with pytest.raises(BrokerStartRefused, match="t-0 cannot be taken over"):
            await broker.start()
        broker.machine.kill()
        broker.machine.ensemble = store
        broker.machine.disk.remove(path)
        await broker.start()
        assert (await broker.produce("t", b"v")).base_offset == 1

    with_broker(test)


def test_a_coordinator_goes_with_the_disk_of_its_log() -> None:
    """Another broker coordinates from then on. What this one has in memory would keep its clients,
    and a transaction that it had prepared would be open for ever."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        member = await Member.stable(broker, "g", "t")
        groups = broker.machine.broker.groups
        lost = f"{CONSUMER_OFFSETS}-{groups.partition_of('g')}"
        folder = next(
            each for each in ("/one", "/two") if broker.machine.disk.exists(f"{each}/{lost}")
        )
        assert await member.heartbeat() == ErrorCode.NONE
        broker.machine.disk.fail(Fault("write_at", folder))
        for number in range(2):
            await broker.produce("t", b"v", partition=number)
        assert await member.heartbeat() == ErrorCode.NOT_COORDINATOR
        assert not groups.leads(groups.partition_of("g"))

    with_broker(test, log_dirs="/one,/two")


def test_a_broker_without_any_log_dir_left_gives_up() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        running = broker.machine.broker
        for folder in ("/one", "/two"):
            assert not running.failed.done()
            broker.machine.disk.fail(Fault("write_at", folder))
            for number in range(2):
                await broker.produce("t", b"v", partition=number)
        assert running.failed.result() == "every log dir is offline"

    with_broker(test, log_dirs="/one,/two")
