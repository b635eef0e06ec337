from __future__ import annotations

import asyncio

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.testing.history.events import LeaderSeen
from ottla.testing.simulation.client import GROUP, Refused, check
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


def test_a_client_finds_leaders_and_coordinators_and_tells_the_history() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("c")
        assert await client.leader_of(T0) == quiet.cluster.leader_of(T0)
        assert quiet.events(LeaderSeen)
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")

        async def attempt() -> None:
            answer = await client.ask_coordinator(GROUP, "g", beat, HeartbeatResponse)
            check(answer.error_code)

        unknown = frozenset({ErrorCode.UNKNOWN_MEMBER_ID})
        with pytest.raises(Refused, match="UNKNOWN_MEMBER_ID"):
            await client.insist(attempt, gives_up_on=unknown)
        client.close()

    with_quiet_cluster(test)


def test_a_client_does_not_go_back_to_the_leader_before() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("c")
        await client.leader_of(T0)
        client.leader_epochs[T0] += 1
        client.forget_leader(T0)
        with pytest.raises(Refused, match="LEADER_NOT_AVAILABLE"):
            await client.leader_of(T0)
        client.close()

    with_quiet_cluster(test)


def test_who_does_not_answer_is_asked_on_another_connection() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("c")
        notes: list[str] = []
        client.note = notes.append
        leader = await client.leader_of(T0)
        quiet.cluster.pause(leader)

        async def attempt() -> int:
            client.forget_leader(T0)
            return await client.leader_of(T0)

        found = asyncio.create_task(client.insist(attempt, gives_up_on=frozenset()))
        await asyncio.sleep(10)
        quiet.cluster.resume(leader)
        assert await found
        client.close()

    with_quiet_cluster(test)
