from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_group import Member, describe, loading


@pytest.mark.parametrize("version", LeaveGroupRequest.VERSIONS)
def test_who_leaves_is_gone(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.stable(broker, "g", "t")
        left = await member.leave(version)
        assert left.error_code == ErrorCode.NONE
        assert [one.error_code for one in left.members] == [0] * (version >= 3)
        assert (await describe(broker, "g")).group_state == "Empty"
        again = await member.leave(version)
        code = again.members[0].error_code if version >= 3 else again.error_code
        assert code == ErrorCode.UNKNOWN_MEMBER_ID

    with_broker(test)


def test_what_cannot_be_done_is_an_error_of_the_whole() -> None:
    async def test(broker: SimulatedBroker) -> None:
        member = await Member.stable(broker, "g", "t")
        with loading(broker, "g"):
            assert (await member.leave()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            member.group_id = ""
            assert (await member.leave()).error_code == ErrorCode.INVALID_GROUP_ID

    with_broker(test)
