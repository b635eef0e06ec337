from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import (
    SESSION_MS,
    Member,
    commit,
    describe,
    find_coordinator,
    loading,
)


@pytest.mark.parametrize("version", JoinGroupRequest.VERSIONS)
def test_the_first_member_leads(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.connect(broker, "g", "t")
        joined = await member.join(version)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
        assert joined.leader == joined.member_id
        assert [one.member_id for one in joined.members] == [joined.member_id]
        assert joined.protocol_name == "range"

    with_broker(test)


def test_a_second_member_waits_for_the_first() -> None:
    async def test(broker: SimulatedBroker) -> None:
        first = await Member.stable(broker, "g", "t")
        second = await Member.connect(broker, "g", "t")
        waiting = asyncio.create_task(second.join())
        await asyncio.sleep(1)
        assert not waiting.done()
        assert await first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        again = await first.join()
        joined = await waiting
        assert (again.generation_id, joined.generation_id) == (2, 2)
        assert again.leader == joined.leader == first.member_id
        assert {one.member_id for one in again.members} == {first.member_id, second.member_id}
        assert joined.members == [], "only the leader assigns"

    with_broker(test)


def test_the_client_is_told_of_by_describe() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await Member.stable(broker, "g", "t")
        (member,) = (await describe(broker, "g")).members
        assert (member.client_id, member.client_host) == ("ottla", "/client")

    with_broker(test)


@pytest.mark.parametrize(("version", "protocol_name"), [(6, ""), (7, None), (9, None)])
def test_a_group_has_an_id(version: int, protocol_name: str | None) -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.connect(broker, "g", "t")
        member.group_id = ""
        refused = await member.join(version)
        assert refused.error_code == ErrorCode.INVALID_GROUP_ID
        assert (refused.generation_id, refused.protocol_name) == (-1, protocol_name)

    with_broker(test)


def test_a_group_of_offsets_only_is_an_empty_classic_one() -> None:
    """It asks for protocols before it looks for the member; where there is no group, there is no
    such member."""

    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await find_coordinator(broker, "g")
        await commit(broker, "g", {"t": {0: 1}})

        async def refusal(group_id: str, *protocols: str) -> tuple[ErrorCode, str]:
            request = JoinGroupRequest(
                group_id=group_id,
                member_id="who left",
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name=name) for name in protocols],
            )
            response = await broker.call(request, JoinGroupResponse)
            return ErrorCode(response.error_code), response.member_id

        assert await refusal("g") == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "who left")
        assert await refusal("g", "range") == (ErrorCode.UNKNOWN_MEMBER_ID, "who left")
        assert await refusal("no group") == (ErrorCode.UNKNOWN_MEMBER_ID, "who left")
        assert (await describe(broker, "g")).group_state == "Empty"

    with_broker(test)


def test_while_the_group_is_loaded_members_come_again_later() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        member = await Member.connect(broker, "g", "t")
        await commit(broker, "g", {"t": {0: 1}})
        with loading(broker, "g"):
            assert (await member.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(1)
        assert (await member.join()).error_code == ErrorCode.NONE

    with_broker(test)


@pytest.mark.parametrize(("count", "code"), [(100, "NONE"), (101, "INCONSISTENT_GROUP_PROTOCOL")])
def test_a_member_has_a_hundred_protocols_at_most(count: int, code: str) -> None:
    """Kafka takes as many as fit into a request: here each costs every rebalance of the group."""

    async def test(broker: SimulatedBroker) -> None:
        member = await Member.connect(broker, "g", "t")
        protocols = [
            JoinGroupRequestProtocol(name=f"p{number}", metadata=b"") for number in range(count)
        ]
        joined = await member.join(3, protocols=protocols)
        assert ErrorCode(joined.error_code).name == code

    with_broker(test)
