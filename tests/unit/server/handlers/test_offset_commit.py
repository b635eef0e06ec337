from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicId
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tests.support.held_writes import HeldWrites
from tests.support.raw_group import commit_request
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import (
    Member,
    commit,
    committed,
    describe,
    find_coordinator,
    loading,
)

NONE, MISSING = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ABSENT_ID = TopicId(b"\x07" * 16)


@pytest.mark.parametrize("version", OffsetCommitRequest.VERSIONS)
def test_a_commit_without_a_member_is_kept(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_ids = {"t": await broker.create_topic("t", 3), "missing": ABSENT_ID}
        await find_coordinator(broker, "g")
        offsets = {"t": {0: 5, 9: 1, 2: 7}, "missing": {0: 1}}
        codes = await commit(broker, "g", offsets, version=version, topic_ids=topic_ids)
        missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else MISSING
        assert codes == [NONE, MISSING, NONE, missing], "in the order of the request"
        assert await committed(broker, "g") == {("t", 0): 5, ("t", 2): 7}
        await commit(broker, "g", {"t": {0: 6}}, version=version, topic_ids=topic_ids)
        assert await committed(broker, "g") == {("t", 0): 6, ("t", 2): 7}
        assert (await describe(broker, "g")).group_state == "Empty"

    with_broker(test)


def test_topics_are_named_as_the_client_did() -> None:
    async def test(broker: SimulatedBroker) -> None:
        topic_id = await broker.create_topic("t")
        await find_coordinator(broker, "g")
        request = commit_request("g", {"t": {0: 5, 1: 6}}, topic_ids={"t": topic_id})
        (by_id,) = (await broker.call(request, OffsetCommitResponse, 10)).topics
        assert by_id.topic_id == topic_id
        request = commit_request("g", {"t": {0: 5, 1: 6}})
        (by_name,) = (await broker.call(request, OffsetCommitResponse, 9)).topics
        assert by_name.name == "t"

    with_broker(test)


def test_a_commit_waits_for_its_disk_no_longer_than_the_setting_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        broker.machine.broker.logs.folders[0].wrote(1.0)  # From now on it is a slow one.
        held = HeldWrites(monkeypatch)
        began_s = broker.loop.time()
        assert await commit(broker, "g", {"t": {0: 5}}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert broker.loop.time() - began_s == pytest.approx(0.7, abs=0.1)
        held.release()
        assert await committed(broker, "g") == {("t", 0): 5}

    with_broker(test, offsets_commit_timeout_ms="700")


def test_only_members_of_the_generation_commit() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        member = await Member.stable(broker, "g", "t")

        async def by(member_id: str, generation_id: int) -> ErrorCode:
            (code,) = await commit(
                broker,
                "g",
                {"t": {0: 5}},
                member_id=member_id,
                generation_id_or_member_epoch=generation_id,
            )
            return code

        assert await by(member.member_id, 1) is NONE
        assert await by(member.member_id, 0) is ErrorCode.ILLEGAL_GENERATION
        assert await by("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await by("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
        await member.leave()
        assert await by(member.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await by("", -1) is NONE, "the group is empty"

    with_broker(test)


@pytest.mark.parametrize(
    ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_a_member_of_no_group_is_told_so(version: int, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        fields = {"member_id": "m", "generation_id_or_member_epoch": 3}
        assert await commit(broker, "g", {"t": {0: 5}}, version=version, **fields) == [code]
        await commit(broker, "g", {"t": {0: 5}})
        known = await commit(broker, "g", {"t": {0: 5}}, version=version, **fields)
        assert known == [ErrorCode.UNKNOWN_MEMBER_ID], "there is a group, without members"

    with_broker(test)


def test_without_a_coordinator_nothing_is_kept() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        offsets = {"t": {0: 5}, "missing": {0: 5}}
        refused = await commit(broker, "g", offsets)
        assert refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE, MISSING]
        await find_coordinator(broker, "g")
        await commit(broker, "g", offsets)
        with loading(broker, "g"):
            refused = await commit(broker, "g", {"t": {0: 6}})
            assert refused == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        await asyncio.sleep(1)
        assert await committed(broker, "g") == {("t", 0): 5}

    with_broker(test)


@pytest.mark.parametrize("is_killed", [False, True])
def test_commits_outlive_the_broker(is_killed: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        groups = [f"g{number}" for number in range(20)]
        await find_coordinator(broker, "g")
        for offset in range(5):
            for number, group in enumerate(groups):
                await commit(broker, group, {"t": {0: offset, 1: number}}, metadata="why")
        await broker.restart(broker.machine.kill if is_killed else None)
        await asyncio.sleep(1)
        for number, group in enumerate(groups):
            assert await committed(broker, group) == {("t", 0): 4, ("t", 1): number}

    with_broker(test)


@pytest.mark.parametrize("group_id", ["", "g", "ä" * 100, "x" * 30_000])
def test_group_ids_of_all_lengths(group_id: str) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, group_id)
        assert await commit(broker, group_id, {"t": {0: 5}}) == [NONE]
        assert await committed(broker, group_id) == {("t", 0): 5}

    with_broker(test)
