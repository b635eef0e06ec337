from __future__ import annotations

import asyncio

import pytest

from ottla.config.definition import ConfigSource
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.other_broker import elect_other
from tests.support.simulated_broker import SimulatedBroker, with_broker

OLDEST, NEWEST = 2, 7


def new(
    name: str,
    partition_count: int = 1,
    replication_factor: int = 1,
    *,
    assignments: list[list[int]] | None = None,
    config: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=broker_ids)
            for index, broker_ids in enumerate(assignments or [])
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()
        ],
    )


async def create(
    broker: SimulatedBroker,
    *topics: CreatableTopic,
    version: int = NEWEST,
    validate_only: bool = False,
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return (await broker.call(request, CreateTopicsResponse, version)).topics


async def partition_counts(broker: SimulatedBroker) -> dict[str | None, int]:
    response = await broker.call(MetadataRequest(topics=None), MetadataResponse)
    return {topic.name: len(topic.partitions) for topic in response.topics}


@pytest.mark.parametrize("version", [OLDEST, 5, NEWEST])
def test_a_new_topic_can_be_written_to_at_once(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic = new("t", 3, config={"retention.ms": "1000", "preallocate": "FALSE"})
        (result,) = await create(broker, topic, version=version)
        assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
        assert (await broker.produce("t", b"v", partition=2)).base_offset == 0
        assert (result.topic_id != NO_TOPIC_ID) == (version >= 7)
        if version < 5:
            return
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert result.configs is not None
        sources = {config.name: (config.value, config.config_source) for config in result.configs}
        assert sources["retention.ms"] == ("1000", ConfigSource.TOPIC_CONFIG)
        assert sources["preallocate"] == ("FALSE", ConfigSource.TOPIC_CONFIG)
        assert sources["cleanup.policy"] == ("delete", ConfigSource.DEFAULT_CONFIG)

    with_broker(test)


def test_the_broker_chooses_where_the_client_does_not() -> None:
    async def test(broker: SimulatedBroker) -> None:
        (result,) = await create(broker, new("t", -1, -1))
        assert (result.num_partitions, result.replication_factor) == (4, 1)

    with_broker(test, num_partitions="4")


def test_replicas_may_be_placed_by_hand() -> None:
    async def test(broker: SimulatedBroker) -> None:
        (result,) = await create(broker, new("t", -1, -1, assignments=[[1], [1]]))
        assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)
        (result,) = await create(broker, new("u", -1, -1, assignments=[[2]]))
        assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    with_broker(test)


def test_validate_only_makes_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        (result,) = await create(broker, new("t", 5), validate_only=True)
        assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 5)
        assert await partition_counts(broker) == {}

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (new("there"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (new("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (new("t", 0), ErrorCode.INVALID_PARTITIONS),
        (new("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (new("t", config={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (new("t", config={"retention": "1"}), ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_made_is_refused_and_the_rest_is_made(
    topic: CreatableTopic, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("there")
        refused, made = await create(broker, topic, new("good"))
        assert refused.error_code == code
        assert refused.error_message
        assert made.error_code == ErrorCode.NONE
        assert await partition_counts(broker) == {"there": 1, "good": 1}

    with_broker(test)


def test_a_name_that_comes_twice_is_refused_and_answered_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        results = await create(broker, new("t"), new("u"), new("t", 2))
        assert [(result.name, result.error_code) for result in results] == [
            ("t", ErrorCode.INVALID_REQUEST),
            ("u", ErrorCode.NONE),
        ]
        assert await partition_counts(broker) == {"u": 1}

    with_broker(test)


def test_a_store_that_does_not_answer_is_told() -> None:
    async def test(broker: SimulatedBroker) -> None:
        broker.ensemble.disconnect(broker.machine.store)
        for code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER):
            (result,) = await create(broker, new("t"))
            assert result.error_code == code
        broker.ensemble.reconnect(broker.machine.store)
        while result.error_code == ErrorCode.NOT_CONTROLLER:
            await asyncio.sleep(1)
            (result,) = await create(broker, new("t"))
        assert result.error_code == ErrorCode.NONE

    with_broker(test)


def test_the_limit_of_partitions_is_that_of_the_request() -> None:
    """As in Kafka: else a request of a few bytes a topic makes a billion logs."""

    async def test(broker: SimulatedBroker) -> None:
        found = await create(broker, new("a", 5_000), new("b", 5_001), validate_only=True)
        assert {one.name: one.error_code for one in found} == {
            "a": ErrorCode.POLICY_VIOLATION,
            "b": ErrorCode.POLICY_VIOLATION,
        }
        by_default = [new(f"t{number}", -1) for number in range(5_000)]
        found = await create(broker, *by_default, new("by-hand", -1, -1, assignments=[[7]]))
        assert {one.error_code for one in found} == {ErrorCode.POLICY_VIOLATION}
        found = await create(broker, new("a", 5_000), new("b", 5_000), validate_only=True)
        assert {one.error_code for one in found} == {ErrorCode.NONE}
        assert await partition_counts(broker) == {}

    with_broker(test, num_partitions="2", broker_id="7")


def test_a_broker_that_is_not_the_controller_says_so() -> None:
    async def test(broker: SimulatedBroker) -> None:
        elect_other(broker)
        results = await create(broker, new("a"), new("b"))
        assert [(result.name, result.error_code) for result in results] == [
            ("a", ErrorCode.NOT_CONTROLLER),
            ("b", ErrorCode.NOT_CONTROLLER),
        ]
        assert results[0].error_message == "This is broker 1. The controller is broker 2."
        assert await partition_counts(broker) == {}

    with_broker(test)
