from __future__ import annotations

import asyncio

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import Member, commit, committed, find_coordinator

TOPIC = 2


async def metadata(broker: SimulatedBroker) -> MetadataResponseTopic:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="__consumer_offsets")], allow_auto_topic_creation=False
    )
    return (await broker.call(request, MetadataResponse)).topics[0]


def test_it_is_made_when_a_coordinator_is_first_asked_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        assert (await metadata(broker)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await find_coordinator(broker, "g")
        topic = await metadata(broker)
        assert (topic.is_internal, len(topic.partitions)) == (True, 50)
        assert {len(partition.replica_nodes) for partition in topic.partitions} == {1}
        assert await broker.own_config(TOPIC, "__consumer_offsets") == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }

    with_broker(test)


def test_it_is_made_as_the_settings_say() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await find_coordinator(broker, "g")
        assert len((await metadata(broker)).partitions) == 3
        config = await broker.own_config(TOPIC, "__consumer_offsets")
        assert config["segment.bytes"] == "1048576"

    with_broker(test, offsets_topic_num_partitions="3", offsets_topic_segment_bytes="1048576")


def test_two_who_ask_at_once_get_one_topic() -> None:
    async def test(broker: SimulatedBroker) -> None:
        connections = [await broker.connect() for _ in range(5)]
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        found = await asyncio.gather(
            *(each.call(request, FindCoordinatorResponse, 4) for each in connections)
        )
        codes = [answer.coordinators[0].error_code for answer in found]
        assert codes == [ErrorCode.NONE] * 5

    with_broker(test)


def test_without_it_there_is_no_coordinator_until_it_is_made_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        member = await Member.stable(broker, "g", "t")
        await commit(broker, "other", {"t": {0: 1}})
        request = DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1000)
        await broker.call(request, DeleteTopicsResponse, 5)
        assert await member.heartbeat() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await find_coordinator(broker, "g")
        assert await member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
        assert await committed(broker, "other") == {}

    with_broker(test)
