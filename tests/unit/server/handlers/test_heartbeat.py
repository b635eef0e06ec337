from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.heartbeat import HeartbeatRequest
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import SESSION_MS, Member, describe, loading


@pytest.mark.parametrize("version", HeartbeatRequest.VERSIONS)
def test_who_beats_stays(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.stable(broker, "g", "t")
        for _ in range(10):
            await asyncio.sleep(SESSION_MS / 2000)
            assert await member.heartbeat(version) is ErrorCode.NONE
        await asyncio.sleep(SESSION_MS / 1000 + 1)
        assert await member.heartbeat(version) is ErrorCode.UNKNOWN_MEMBER_ID
        assert (await describe(broker, "g")).group_state == "Empty"

    with_broker(test)


def test_strangers_are_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.stable(broker, "g", "t")
        member.generation_id = 7
        assert await member.heartbeat() is ErrorCode.ILLEGAL_GENERATION
        member.group_id = ""
        assert await member.heartbeat() is ErrorCode.INVALID_GROUP_ID
        member.group_id = "other"
        assert await member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID

    with_broker(test)


def test_while_the_group_is_loaded_its_members_are_taken_for_alive() -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.stable(broker, "g", "t")
        with loading(broker, "g"):
            assert await member.heartbeat() is ErrorCode.NONE
        await asyncio.sleep(1)
        assert await member.heartbeat() is ErrorCode.NONE

    with_broker(test)


@pytest.mark.parametrize("is_killed", [False, True])
def test_members_go_on_after_a_restart(is_killed: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.stable(broker, "g", "t")
        await broker.restart(broker.machine.kill if is_killed else None)
        again = await Member.connect(broker, "g", "t")
        again.member_id, again.generation_id = member.member_id, member.generation_id
        await asyncio.sleep(1)
        assert await again.heartbeat() is ErrorCode.NONE
        assert (await describe(broker, "g")).group_state == "Stable"

    with_broker(test)
