"""The groups and offsets of one partition, as its time goes by. What single requests answer is in
tests/unit/server/handlers."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.coordinators.groups.records import (
    RECORD_TYPES,
    GroupMetadataKey,
    OffsetCommitKey,
)
from ottla.coordinators.record import decode_record
from ottla.kernel.errors import ErrorCode
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.records.batch import iter_headers
from ottla.records.record import iter_records
from ottla.storage.batch_scan import Cold
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import (
    SESSION_MS,
    Member,
    commit,
    committed,
    delete,
    describe,
    find_coordinator,
)

CHECK_S = 30
RETENTION_S = 300
EXPIRY = {
    "offsets_retention_minutes": str(RETENTION_S // 60),
    "offsets_retention_check_interval_ms": str(CHECK_S * 1000),
}


async def stay(member: Member, seconds: float) -> None:
    for _ in range(int(seconds * 2000 / SESSION_MS)):
        await asyncio.sleep(SESSION_MS / 2000)
        assert await member.heartbeat() is ErrorCode.NONE


async def commit_as(broker: SimulatedBroker, member: Member, topic: str, offset: int) -> None:
    codes = await commit(
        broker,
        member.group_id,
        {topic: {0: offset}},
        member_id=member.member_id,
        generation_id_or_member_epoch=member.generation_id,
    )
    assert codes == [ErrorCode.NONE]


def tombstones(broker: SimulatedBroker, group_id: str) -> list[str]:
    """What was taken back of this group, in the order of the log."""
    groups = broker.machine.broker.groups
    assert groups is not None
    number = groups.partition_of(group_id)
    log = broker.machine.broker.replicas.partition(CONSUMER_OFFSETS, number).log
    found = log.read(0, 1 << 20, max_offset=log.log_end_offset, at_least_one=True)
    assert found is not None
    assert not isinstance(found, Cold)
    content = memoryview(found.file.read_at(found.offset, found.length))
    names = []
    for position, header in iter_headers(content):
        for record in iter_records(content[position : position + header.size_bytes]):
            decoded = decode_record(RECORD_TYPES, record.key or b"", record.value)
            assert decoded is not None
            if decoded.value is not None:
                continue
            match decoded.key:
                case OffsetCommitKey(group=group, topic=topic) if group == group_id:
                    names.append(topic)
                case GroupMetadataKey(group=group) if group == group_id:
                    names.append("the group")
    return names


def test_offsets_without_members_expire_by_their_age() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}})
        await asyncio.sleep(RETENTION_S / 2)
        await commit(broker, "g", {"t": {1: 2}})
        await asyncio.sleep(RETENTION_S / 2 + CHECK_S)
        assert await committed(broker, "g") == {("t", 1): 2}
        assert tombstones(broker, "g") == ["t"]
        await asyncio.sleep(RETENTION_S / 2 + CHECK_S)
        assert await committed(broker, "g") == {}
        assert tombstones(broker, "g") == ["t", "t", "the group"]
        assert (await describe(broker, "g")).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    with_broker(test, **EXPIRY)


def test_offsets_of_a_group_expire_after_its_last_member_left() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        member = await Member.stable(broker, "g", "t")
        await commit_as(broker, member, "t", 7)
        await stay(member, RETENTION_S + 2 * CHECK_S)
        assert await committed(broker, "g") == {("t", 0): 7}, "it has a member"
        await member.leave()
        await asyncio.sleep(RETENTION_S - CHECK_S)
        assert await committed(broker, "g") == {("t", 0): 7}
        await asyncio.sleep(2 * CHECK_S)
        assert await committed(broker, "g") == {}
        assert (await describe(broker, "g")).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    with_broker(test, **EXPIRY)


def test_offsets_of_topics_that_members_no_longer_read_expire_by_their_age() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.create_topic("left")
        member = await Member.stable(broker, "g", "t")
        await commit_as(broker, member, "t", 7)
        await commit_as(broker, member, "left", 8)
        await stay(member, RETENTION_S + 2 * CHECK_S)
        assert await committed(broker, "g") == {("t", 0): 7}

    with_broker(test, **EXPIRY)


def test_a_restart_does_not_make_offsets_younger() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        member = await Member.stable(broker, "members", "t")
        await commit_as(broker, member, "t", 7)
        await member.leave()
        await commit(broker, "offsets", {"t": {0: 1}})
        await asyncio.sleep(RETENTION_S - CHECK_S)
        await broker.restart()
        await find_coordinator(broker, "g")
        assert await committed(broker, "members") == {("t", 0): 7}
        await asyncio.sleep(3 * CHECK_S)
        for group_id in ("members", "offsets"):
            assert await committed(broker, group_id) == {}

    with_broker(test, **EXPIRY)


def test_a_retention_of_the_clients_own() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}}, version=4, retention_time_ms=CHECK_S * 1000)
        await commit(broker, "g", {"t": {1: 2}}, version=4)
        await asyncio.sleep(2 * CHECK_S)
        assert await committed(broker, "g") == {("t", 1): 2}

    with_broker(test, **EXPIRY)


def test_a_group_that_never_committed_goes_when_it_is_empty() -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.stable(broker, "g", "t")
        await stay(member, 2 * CHECK_S)
        assert (await describe(broker, "g")).group_state == "Stable"
        await member.leave()
        await asyncio.sleep(2 * CHECK_S)
        assert (await describe(broker, "g")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert tombstones(broker, "g") == ["the group"]

    with_broker(test, **EXPIRY)


def test_deleting_writes_tombstones() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1, 1: 2}})
        assert await delete(broker, "g") == [ErrorCode.NONE]
        assert tombstones(broker, "g") == ["t", "t", "the group"]

    with_broker(test)


def test_a_member_that_joins_a_group_of_offsets_finds_them() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 7}})
        member = await Member.stable(broker, "g", "t")
        assert await committed(broker, "g") == {("t", 0): 7}
        await commit_as(broker, member, "t", 8)
        await member.leave()
        assert await committed(broker, "g") == {("t", 0): 8}

    with_broker(test)


def test_a_commit_is_a_sign_of_life() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        member = await Member.stable(broker, "g", "t")
        for offset in range(6):
            await asyncio.sleep(SESSION_MS / 2000)
            await commit_as(broker, member, "t", offset)
        assert await member.heartbeat() is ErrorCode.NONE

    with_broker(test)


def test_large_metadata_refuses_its_partition_only() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        await find_coordinator(broker, "g")
        codes = await commit(broker, "g", {"t": {0: 1}}, metadata="x" * 4097)
        assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        assert await committed(broker, "g") == {}
        assert await commit(broker, "g", {"t": {0: 1}}, metadata="x" * 4096) == [ErrorCode.NONE]

    with_broker(test)


def test_many_groups_expire_too() -> None:
    """They are looked at in slices."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 300)
        await find_coordinator(broker, "g")
        names = [f"g{number}" for number in range(10)]
        for group_id in names:
            await commit(broker, group_id, {"t": dict.fromkeys(range(300), 1)})
        await asyncio.sleep(RETENTION_S + 2 * CHECK_S)
        for group_id in names:
            assert await committed(broker, group_id) == {}

    with_broker(test, offsets_topic_num_partitions="1", **EXPIRY)


async def beat(broker: SimulatedBroker, member_id: str, member_epoch: int) -> int:
    """A member of the consumer protocol; returns its epoch."""
    is_joining = member_epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=member_epoch,
        rebalance_timeout_ms=60_000 if is_joining else -1,
        subscribed_topic_names=["t"] if is_joining else None,
        topic_partitions=[] if is_joining else None,
    )
    response = await broker.call(request, ConsumerGroupHeartbeatResponse)
    assert response.error_code == ErrorCode.NONE, response.error_message
    return response.member_epoch


def test_a_deleted_consumer_group_is_gone_with_its_offsets() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        epoch = await beat(broker, "m", 0)
        fields: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": epoch}
        assert await commit(broker, "g", {"t": {0: 7}}, **fields) == [ErrorCode.NONE]
        assert await delete(broker, "g") == [ErrorCode.NON_EMPTY_GROUP]
        await beat(broker, "m", -1)
        assert await committed(broker, "g") == {("t", 0): 7}
        assert await delete(broker, "g") == [ErrorCode.NONE]
        assert await committed(broker, "g") == {}
        assert (await broker.call(ListGroupsRequest(), ListGroupsResponse)).groups == []
        assert await delete(broker, "g") == [ErrorCode.GROUP_ID_NOT_FOUND]

    with_broker(test)


def test_an_empty_consumer_group_expires_with_its_offsets() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        epoch = await beat(broker, "m", 0)
        fields: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": epoch}
        await commit(broker, "g", {"t": {0: 7}}, **fields)
        await beat(broker, "m", -1)
        await asyncio.sleep(RETENTION_S + 2 * CHECK_S)
        assert await committed(broker, "g") == {}
        assert (await broker.call(ListGroupsRequest(), ListGroupsResponse)).groups == []

    with_broker(test, **EXPIRY)
