from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import Member, commit, committed, find_coordinator

NONE, MISSING = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def delete(
    broker: SimulatedBroker, group_id: str, partitions: dict[str, list[int]]
) -> OffsetDeleteResponse:
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in indexes],
            )
            for topic, indexes in partitions.items()
        ],
    )
    return await broker.call(request, OffsetDeleteResponse)


def codes(response: OffsetDeleteResponse) -> dict[tuple[str, int], int]:
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }


def test_what_is_asked_for_is_forgotten() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 3)
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1, 1: 2}})
        response = await delete(broker, "g", {"missing": [0], "t": [0, 2, 5]})
        assert response.error_code == NONE
        assert [topic.name for topic in response.topics] == ["missing", "t"], "each one once"
        expected = {("missing", 0): MISSING, ("t", 0): NONE, ("t", 2): NONE, ("t", 5): MISSING}
        assert codes(response) == expected
        assert await committed(broker, "g") == {("t", 1): 2}
        await broker.restart()
        await find_coordinator(broker, "g")
        assert await committed(broker, "g") == {("t", 1): 2}, "for good"

    with_broker(test)


def test_not_of_topics_that_members_read() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.create_topic("other")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}, "other": {0: 2}})
        await Member.stable(broker, "g", "t")
        response = await delete(broker, "g", {"t": [0], "other": [0]})
        assert codes(response) == {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("other", 0): 0}
        assert await committed(broker, "g") == {("t", 0): 1}

    with_broker(test)


def test_not_while_members_read_nobody_knows_what() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}})
        member = await Member.connect(broker, "g", "t")
        await member.join(protocol_type="connect")
        response = await delete(broker, "g", {"t": [0]})
        assert (response.error_code, response.topics) == (ErrorCode.NON_EMPTY_GROUP, [])

    with_broker(test)


def test_a_group_that_is_not_there() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await find_coordinator(broker, "g")
        response = await delete(broker, "g", {"missing": [0]})
        assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
        assert (await delete(broker, "", {})).error_code == ErrorCode.INVALID_GROUP_ID

    with_broker(test)
