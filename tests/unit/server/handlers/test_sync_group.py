from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import Member, commit, loading


@pytest.mark.parametrize("version", SyncGroupRequest.VERSIONS)
def test_each_member_gets_its_part(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        members = [await Member.connect(broker, "g", "t") for _ in range(2)]
        await members[0].join()
        waiting = asyncio.create_task(members[1].join())
        while await members[0].heartbeat() is ErrorCode.NONE:
            await asyncio.sleep(0.1)
        await members[0].join()
        await waiting
        for member, synced in zip(
            members,
            await asyncio.gather(*(member.sync(version) for member in members)),
            strict=True,
        ):
            assert synced.error_code == ErrorCode.NONE
            assert synced.assignment == member.member_id.encode()

    with_broker(test)


def test_strangers_are_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        stranger = await Member.connect(broker, "g", "t")
        stranger.member_id = "m"
        assert (await stranger.sync()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        member = await Member.stable(broker, "g", "t")
        member.generation_id += 1
        assert (await member.sync()).error_code == ErrorCode.ILLEGAL_GENERATION
        stranger.group_id = ""
        assert (await stranger.sync()).error_code == ErrorCode.INVALID_GROUP_ID

    with_broker(test)


@pytest.mark.parametrize("group_id", ["g", ""])
def test_who_names_no_protocol_is_told_so_first(group_id: str) -> None:
    async def test(broker: SimulatedBroker) -> None:
        request = SyncGroupRequest(group_id=group_id, protocol_type="consumer", protocol_name=None)
        response = await broker.call(request, SyncGroupResponse)
        assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        older = await broker.call(request, SyncGroupResponse, 4)
        assert older.error_code != ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    with_broker(test)


def test_while_the_group_is_loaded_members_come_again_later() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        member = await Member.connect(broker, "g", "t")
        await commit(broker, "g", {"t": {0: 1}})
        with loading(broker, "g"):
            assert (await member.sync()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    with_broker(test)
