from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from tests.support.led_partition import fetched, lead_two_replicas
from tests.support.raw_group import fetch_request
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import commit, committed, find_coordinator, loading

ABSENT_ID = TopicId(b"\x07" * 16)


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {1: 5}}, metadata="why", leader_epoch=3)
        request = fetch_request(version, "g", {"t": [0, 1, 9], "missing": [0]})
        response = await broker.call(request, OffsetFetchResponse, version)
        assert response.error_code == ErrorCode.NONE
        known, missing = response.topics
        assert [one.committed_offset for one in known.partitions] == [-1, 5, -1]
        assert [one.metadata for one in known.partitions] == ["", "why", ""]
        epoch = 3 if version >= 5 else -1
        assert [one.committed_leader_epoch for one in known.partitions] == [-1, epoch, -1]
        assert [one.error_code for one in known.partitions] == [0, 0, 0], "no offset is no error"
        assert (missing.name, missing.partitions[0].committed_offset) == ("missing", -1)
        if version >= 2:
            request = fetch_request(version, "g", None)
            everything = (await broker.call(request, OffsetFetchResponse, version)).topics
            assert [one.name for one in everything] == ["t"]
            assert [one.committed_offset for one in everything[0].partitions] == [5]

    with_broker(test)


@pytest.mark.parametrize("version", [8, 9, 10])
def test_several_groups(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "a", {"t": {0: 1}})
        await commit(broker, "b", {"t": {0: 2}})
        asked = [OffsetFetchRequestGroup(group_id=one, topics=None) for one in "abc"]
        request = OffsetFetchRequest(groups=asked, require_stable=True)
        found = (await broker.call(request, OffsetFetchResponse, version)).groups
        assert [one.group_id for one in found] == ["a", "b", "c"]
        assert [one.error_code for one in found] == [0, 0, 0]
        (a,), (b,), c = [one.topics for one in found]
        assert [a.partitions[0].committed_offset, b.partitions[0].committed_offset] == [1, 2]
        assert c == [], "nothing was committed"
        assert (a.topic_id == topic_id) == (version >= 10)

    with_broker(test)


def test_topics_by_id() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_ids = {"t": await broker.create_topic("t"), "missing": ABSENT_ID}
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}})
        request = fetch_request(10, "g", {"t": [0], "missing": [0, 1]}, topic_ids=topic_ids)
        (group,) = (await broker.call(request, OffsetFetchResponse, 10)).groups
        known, missing = group.topics
        assert (known.topic_id, known.partitions[0].committed_offset) == (topic_ids["t"], 1)
        assert missing.topic_id == ABSENT_ID
        codes = [one.error_code for one in missing.partitions]
        assert codes == [ErrorCode.UNKNOWN_TOPIC_ID] * 2

    with_broker(test)


@pytest.mark.parametrize("version", range(1, 11))
def test_what_cannot_be_read_is_an_error(version: int) -> None:
    """Before v2 it had its place with each partition."""

    async def test(broker: SimulatedBroker) -> None:
        topic_ids = {"t": await broker.create_topic("t")}
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}})
        with loading(broker, "g"):
            request = fetch_request(version, "g", {"t": [0, 1]}, topic_ids=topic_ids)
            response = await broker.call(request, OffsetFetchResponse, version)
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if version >= 8:
                assert response.groups[0].error_code == code
                assert response.groups[0].topics == []
            elif version >= 2:
                assert (response.error_code, response.topics) == (code, [])
            else:
                assert [one.error_code for one in response.topics[0].partitions] == [code] * 2
                assert [one.committed_offset for one in response.topics[0].partitions] == [-1] * 2

    with_broker(test)


def test_offsets_go_with_their_topic() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.create_topic("other")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}, "other": {0: 2}})
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
        await broker.call(request, DeleteTopicsResponse, 5)
        assert await committed(broker, "g") == {("other", 0): 2}
        await broker.create_topic("t")
        assert await committed(broker, "g", {"t": [0], "other": [0]}) == {("other", 0): 2}
        await broker.restart()
        await find_coordinator(broker, "g")
        assert await committed(broker, "g", {"t": [0], "other": [0]}) == {("other", 0): 2}

    with_broker(test)


def test_what_is_asked_for_many_times_is_answered_once() -> None:
    """Else one short id, half a million times, is answered with gigabytes."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 5}})
        everything = OffsetFetchRequestGroup(group_id="g", topics=None)
        request = OffsetFetchRequest(groups=[everything] * 1000)
        (group,) = (await broker.call(request, OffsetFetchResponse, 9)).groups
        assert [topic.name for topic in group.topics] == ["t"]

        request = fetch_request(9, "g", {"t": [0, 1] * 100})
        assert request.groups[0].topics is not None
        request.groups[0].topics *= 100
        (group,) = (await broker.call(request, OffsetFetchResponse, 9)).groups
        (topic,) = group.topics
        assert [one.committed_offset for one in topic.partitions] == [5, -1]

    with_broker(test)


def test_stable_offsets_are_told_by_one_who_leads_still() -> None:
    """A coordinator that was paused would tell offsets that its successor has replaced."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 7}})
        groups = broker.machine.broker.groups
        assert groups is not None
        number = groups.partition_of("g")
        led = broker.machine.broker.replicas.partition(CONSUMER_OFFSETS, number)
        await lead_two_replicas(led, broker, isr=(1, 2))
        groups.become_leader(led.leader)
        fetched(led, led.log.log_end_offset)
        await asyncio.sleep(1)

        async def fetch(*names: str, require_stable: bool) -> list[int]:
            asked = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
            request = OffsetFetchRequest(groups=asked, require_stable=require_stable)
            connection = await broker.connect()
            found = (await connection.call(request, OffsetFetchResponse, 9)).groups
            connection.close()
            return [one.error_code or one.topics[0].partitions[0].committed_offset for one in found]

        assert await fetch("g", require_stable=False) == [7]
        fetching = asyncio.ensure_future(fetch("g", require_stable=True))
        await asyncio.sleep(1)
        assert not fetching.done()
        for _ in range(2):
            fetched(led, led.log.log_end_offset)
        assert await fetching == [7]
        assert await fetch("g", require_stable=True) == [ErrorCode.NOT_COORDINATOR]

        # Several groups do not wait for each other.
        began_s = broker.loop.now_s
        others = [name for name in map(str, range(5000)) if groups.partition_of(name) == number]
        codes = await fetch("g", *others[:30], require_stable=True)
        assert codes == [ErrorCode.NOT_COORDINATOR] * 31
        assert broker.loop.now_s - began_s < 10

    with_broker(test)
