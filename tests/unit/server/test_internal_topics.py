from __future__ import annotations

import asyncio
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config.broker import BrokerConfig
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.kernel.java import abs_hash
from ottla.metadata.image import BrokerImage, ClusterImage
from ottla.server.internal_topics import new_internal_topic
from ottla.testing.disk import Fault
from ottla.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from tests.support.other_broker import elect_other
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import Member, commit, committed, find_coordinator

TOPIC = 2
GROUP, TRANSACTION = 0, 1


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


@pytest.mark.parametrize(
    ("settings", "key_type", "topic"),
    [
        ({"offsets_topic_replication_factor": "2"}, GROUP, "__consumer_offsets"),
        ({"transaction_state_log_replication_factor": "3"}, TRANSACTION, "__transaction_state"),
    ],
)
def test_it_waits_for_as_many_replicas_as_somebody_has_asked_for(
    settings: dict[str, str], key_type: int, topic: str
) -> None:
    """Made with fewer, it would stay so for ever."""

    async def test(broker: SimulatedBroker) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
        (found,) = (await broker.call(request, FindCoordinatorResponse)).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert topic in (found.error_message or "")
        assert (await metadata(broker)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(test, **settings)


def test_beside_zookeeper_it_waits_for_three() -> None:
    config = BrokerConfig({"zookeeper.connect": "localhost:2181"})
    image = ClusterImage()
    image.brokers = {BrokerId(1): BrokerImage(BrokerId(1), 1, {})}
    services: Any = SimpleNamespace(config=config, image=image)
    for name in ("__consumer_offsets", "__transaction_state"):
        assert new_internal_topic(services, name).replication_factor == 3


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


async def hold_up_changes(
    broker: SimulatedBroker,
) -> tuple[asyncio.Event, asyncio.Future[DeleteTopicsResponse]]:
    """From now on the picture of the cluster has a new topic, and its logs are not made until the
    event is set: there is another topic to delete before."""
    replicas = broker.machine.broker.replicas
    delete_logs = replicas.delete
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def delete_later(*what: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await delete_logs(*what)

    replicas.delete = delete_later  # type: ignore[method-assign]
    await broker.create_topic("old")
    request = DeleteTopicsRequest(topic_names=["old"], timeout_ms=1000)
    call = asyncio.ensure_future((await broker.connect()).call(request, DeleteTopicsResponse, 5))
    await begun.wait()
    return go_on, call


def key_of(shard: int) -> str:
    return next(f"k{n}" for n in count() if abs_hash(f"k{n}") % 50 == shard)


@pytest.mark.parametrize("shard", [0, 1, 25, 48, 49])
def test_whoever_asks_while_it_is_being_made_waits_for_it(shard: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        go_on, deleted = await hold_up_changes(broker)
        first = asyncio.ensure_future(Member.stable(broker, key_of(7), "t"))
        await asyncio.sleep(1)
        second = asyncio.ensure_future(Member.stable(broker, key_of(shard), "t"))
        await asyncio.sleep(1)
        assert not first.done()
        assert not second.done()
        go_on.set()
        assert await (await first).heartbeat() is ErrorCode.NONE
        assert await (await second).heartbeat() is ErrorCode.NONE
        await deleted

    with_broker(test)


def test_a_transactional_id_waits_for_its_coordinator_too() -> None:
    async def test(broker: SimulatedBroker) -> None:
        async def init_producer_id(key: str) -> list[int]:
            connection = await broker.connect()
            find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[key])
            found = await connection.call(find, FindCoordinatorResponse, 4)
            begin = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=60_000)
            begun = await connection.call(begin, InitProducerIdResponse, 4)
            return [found.coordinators[0].error_code, begun.error_code]

        go_on, deleted = await hold_up_changes(broker)
        asked = []
        for shard in (7, 49):
            asked.append(asyncio.ensure_future(init_producer_id(key_of(shard))))
            await asyncio.sleep(1)
        go_on.set()
        assert await asyncio.gather(*asked) == [[ErrorCode.NONE, ErrorCode.NONE]] * 2
        await deleted

    with_broker(test)


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_a_shard_that_cannot_be_made_is_said_to_be_not_available(key_type: int) -> None:
    """Not on this broker, where it would be refused again and again."""

    async def test(broker: SimulatedBroker) -> None:
        broker.machine.disk.fail(Fault("make_folders", "/one/__", count=1))
        keys = [key_of(shard) for shard in range(50)]
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys)
        response = await broker.call(request, FindCoordinatorResponse)
        codes = [one.error_code for one in response.coordinators]
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, *[ErrorCode.NONE] * 49]

    with_broker(test, log_dirs="/one,/two")


def test_a_store_that_does_not_answer_is_said_to_whoever_asked() -> None:
    async def test(broker: SimulatedBroker) -> None:
        broker.ensemble.disconnect(broker.machine.store)
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        (found,) = (await broker.call(request, FindCoordinatorResponse)).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "The coordination store did not answer" in (found.error_message or "")
        broker.ensemble.reconnect(broker.machine.store)
        await asyncio.sleep(2)  # It had resigned as controller, and is elected again.
        await find_coordinator(broker, "g")

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


def test_another_controller_makes_topics_that_are_asked_for() -> None:
    async def test(broker: SimulatedBroker) -> None:
        cluster = elect_other(broker)
        codes = [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION]

        def answer(node_id: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
            result = CreatableTopicResult(name=request.topics[0].name, error_code=codes.pop(0))
            return CreateTopicsResponse(topics=[result])

        cluster.answers[CreateTopicsRequest] = answer
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        # This broker has not heard of it yet.
        for expected in (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ):
            response = await broker.call(request, MetadataResponse)
            assert response.topics[0].error_code == expected
        codes.append(ErrorCode.NONE)
        find = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=["g"])
        found = await broker.call(find, FindCoordinatorResponse)
        assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        asked = [
            request.topics[0]
            for _, request, _ in cluster.asked
            if isinstance(request, CreateTopicsRequest)
        ]
        assert [(topic.name, topic.num_partitions) for topic in asked] == [
            *[("t", -1)] * 3,
            ("__consumer_offsets", 50),
        ]

    with_broker(test)
