from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.controller.topic_planning import NewTopic
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.metadata.image import TopicChanged, TopicDeleted
from ottla.storage.log import Log
from ottla.testing.disk import Fault
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_cluster import SimulatedCluster, with_cluster
from tests.support.simulated_group import commit, committed, find_coordinator

TOPIC, BROKER = 2, 4


async def alter(broker: SimulatedBroker, kind: int, resource: str, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[config])
        ]
    )
    response = await broker.call(request, IncrementalAlterConfigsResponse)
    assert response.responses[0].error_code == ErrorCode.NONE


async def delete(broker: SimulatedBroker, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000)
    response = await broker.call(request, DeleteTopicsResponse, 5)
    assert response.responses[0].error_code == ErrorCode.NONE


def test_topics_are_led_once_they_are_there() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        assert (await broker.produce("t", b"v")).error_code == ErrorCode.NONE
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)], timeout_ms=1000
        )
        await broker.call(request, CreatePartitionsResponse)
        assert (await broker.produce("t", b"v", partition=2)).base_offset == 0
        await broker.restart()
        assert (await broker.produce("t", b"v", partition=2)).base_offset == 1

    with_broker(test)


def test_a_topic_that_is_made_again_at_once_is_empty() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for _ in range(3):
            await broker.create_topic("t")
            assert (await broker.produce("t", b"v")).base_offset == 0
            await delete(broker, "t")
        missing = await broker.produce("t", b"v")
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(test)


def test_a_topic_that_is_deleted_when_the_broker_dies_is_made_again_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        # As a kill left it that came before the id was written, while that was only queued.
        broker.machine.disk.remove("/data/t-0/partition.metadata")
        await broker.restart(broker.machine.kill)
        assert (await broker.produce("t", b"old")).base_offset == 0

        async def hang(*topic_partitions: TopicPartition) -> set[TopicPartition]:
            return await asyncio.Event().wait() and set()

        running = broker.machine.broker
        monkeypatch.setattr(running.replicas, "delete", hang)
        deletion = asyncio.ensure_future(running.controller.topics.delete("t"))
        await asyncio.sleep(1)
        with pytest.raises(KafkaError, match="is being deleted") as refused:
            await running.controller.topics.create(NewTopic("t", partition_count=1))
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        await broker.restart(broker.machine.kill)
        await asyncio.sleep(1)  # What was begun goes on.
        assert not deletion.done()
        await broker.create_topic("t")
        assert (await broker.produce("t", b"new")).base_offset == 0
        deletion.cancel()

    with_broker(test)


def test_settings_are_taken_while_it_runs() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await alter(broker, TOPIC, "t", "max.message.bytes", "100")
        refused = await broker.produce("t", b"v" * 200)
        assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
        await broker.create_topic("other")
        assert (await broker.produce("other", b"v" * 200)).error_code == ErrorCode.NONE
        await alter(broker, BROKER, "", "message.max.bytes", "150")
        await asyncio.sleep(0.1)
        refused = await broker.produce("other", b"v" * 200)
        assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE

    with_broker(test)


def test_offsets_of_a_topic_are_deleted_with_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.create_topic("other")
        await find_coordinator(broker, "g")
        for number in range(5):
            await commit(broker, f"g{number}", {"t": {0: 1}, "other": {0: number}})
        await delete(broker, "t")
        for number in range(5):
            assert await committed(broker, f"g{number}") == {("other", 0): number}

    with_broker(test)


def test_a_change_that_fails_keeps_no_other_from_its_turn(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(broker.machine.broker.logs, "create_log", None)
            await asyncio.wait_for(broker.create_topic("first"), 10)
        await broker.create_topic("second")
        assert (await broker.produce("second", b"v")).error_code == ErrorCode.NONE

    with_broker(test)
    assert "first" in caplog.text


def test_a_partition_that_cannot_be_made_takes_no_other_with_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        broker.machine.disk.fail(Fault("make_folders", "/one/t-", count=1))
        await broker.create_topic("t", 4)
        answers = [await broker.produce("t", b"v", partition=number) for number in range(4)]
        codes = [answer.error_code for answer in answers]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0, 0, 0]

    with_broker(test, log_dirs="/one,/two")


def test_a_topic_with_many_partitions_does_not_hold_up_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        logs = broker.machine.broker.logs
        create_log = logs.create_log
        made_at_once: list[int] = []

        def count(*args: Any, **kwargs: Any) -> Log:
            made_at_once.append(1 + (made_at_once[-1] if made_at_once else 0))
            broker.loop.call_soon(made_at_once.append, 0)
            return create_log(*args, **kwargs)

        monkeypatch.setattr(logs, "create_log", count)
        await broker.create_topic("t", 100)
        assert made_at_once.count(1) == 100
        assert max(made_at_once) == 1

    with_broker(test)


def test_settings_of_producers_hold_for_all_logs_at_once_and_after_a_restart() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for topic in ("a", "b"):
            await broker.create_topic(topic)
        await alter(broker, BROKER, "", "transaction.partition.verification.enable", "false")
        await alter(broker, BROKER, "", "producer.id.expiration.ms", "60000")
        for _ in range(2):
            for topic in ("a", "b"):
                config = broker.machine.broker.replicas.partition(
                    topic, 0
                ).log.producer_state.config
                assert (config.is_verification_enabled, config.expiration_ms) == (False, 60_000)
            await broker.restart(broker.machine.kill)

    with_broker(test)


def test_where_the_controller_sends_requests_the_picture_alone_makes_nobody_a_leader() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", (2,))
        member = cluster.machines[1].broker
        assert member.image is not None
        topic = member.image.topics["t"]
        mine = topic.partitions[0]._replace(leader=1, replicas=(1,), isr=(1,), leader_epoch=5)
        member.image.apply(TopicChanged(topic._replace(partitions=(mine,)), (0,), 1))
        await asyncio.sleep(1)
        assert member.replicas.hosted(TopicPartition("t", 0)) is None
        led = cluster.hosted(2, TopicPartition("t", 0))
        image = cluster.machines[2].broker.image
        assert image is not None
        image.apply(TopicDeleted(image.topics["t"]))
        await asyncio.sleep(1)
        assert led.is_led, "until StopReplica says so"

    with_cluster(test)
