from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.support.other_broker import elect_other
from tests.support.simulated_broker import SimulatedBroker, with_broker


def grow(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> CreatePartitionsTopic:
    placed = None
    if assignments is not None:
        placed = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=placed)


async def create(
    broker: SimulatedBroker,
    *topics: CreatePartitionsTopic,
    version: int = 3,
    validate_only: bool = False,
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)
    return (await broker.call(request, CreatePartitionsResponse, version)).results


@pytest.mark.parametrize("version", [0, 2, 3])
def test_new_partitions_can_be_written_to_at_once_and_the_old_keep_theirs(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"a")
        (result,) = await create(broker, grow("t", 3), version=version)
        assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
        assert (await broker.produce("t", b"v", partition=2)).base_offset == 0
        assert (await broker.produce("t", b"v", partition=0)).base_offset == 1

    with_broker(test)


def test_validate_only_makes_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        (result,) = await create(broker, grow("t", 2), validate_only=True)
        assert result.error_code == ErrorCode.NONE
        answer = await broker.produce("t", b"v", partition=1)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (grow("t", 1), ErrorCode.INVALID_PARTITIONS),
        (grow("t", 2), ErrorCode.INVALID_PARTITIONS),
        (grow("missing", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (grow("t", 3, [[9]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (grow("t", 3, [[1], [1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_made_is_refused_and_the_rest_is_made(
    topic: CreatePartitionsTopic, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await broker.create_topic("good")
        refused, made = await create(broker, topic, grow("good", 2, [[1]]))
        assert refused.error_code == code
        assert refused.error_message
        assert made.error_code == ErrorCode.NONE
        assert (await broker.produce("good", b"v", partition=1)).base_offset == 0

    with_broker(test)


def test_a_name_that_comes_twice_is_refused_and_answered_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        (result,) = await create(broker, grow("t", 2), grow("t", 3))
        assert (result.name, result.error_code) == ("t", ErrorCode.INVALID_REQUEST)
        answer = await broker.produce("t", b"v", partition=1)
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(test)


def test_a_broker_that_is_not_the_controller_says_so() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        elect_other(broker)
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2)])
        (result,) = (await broker.call(request, CreatePartitionsResponse)).results
        assert (result.name, result.error_code) == ("t", ErrorCode.NOT_CONTROLLER)

    with_broker(test)
