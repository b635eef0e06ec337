from __future__ import annotations

import asyncio

from ottla.testing.simulation.cluster import host_of
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


async def healed(quiet: QuietCluster) -> None:
    await asyncio.sleep(1)
    async with asyncio.timeout(30):
        while quiet.cluster.unhealed():
            await asyncio.sleep(0.1)


def test_a_killed_broker_starts_again_and_is_in_sync_again() -> None:
    async def test(quiet: QuietCluster) -> None:
        cluster = quiet.cluster
        leader = cluster.leader_of(T0)
        assert leader is not None
        assert cluster.running() == [1, 2, 3]
        cluster.kill(leader)
        assert f"broker {leader} does not run" in cluster.unhealed()
        await healed(quiet)
        assert cluster.running() == [1, 2, 3]
        cluster.lose_power(leader)
        await healed(quiet)
        assert any(
            (entry.host, entry.text) == (f"broker{leader}", "is killed")
            for entry in quiet.trace.entries
        )

    with_quiet_cluster(test)


def test_who_is_not_wanted_stays_down_and_others_lead() -> None:
    async def test(quiet: QuietCluster) -> None:
        cluster = quiet.cluster
        leader = cluster.leader_of(T0)
        assert leader is not None
        cluster.wanted[leader] = False
        await cluster.stop(leader)
        await asyncio.sleep(5)
        assert leader not in cluster.running()
        assert cluster.leader_of(T0) not in (None, leader)
        assert cluster.controller_id() != leader
        cluster.wanted[leader] = True
        await healed(quiet)

    with_quiet_cluster(test)


def test_a_paused_broker_loses_its_leaderships_and_comes_back() -> None:
    async def test(quiet: QuietCluster) -> None:
        cluster = quiet.cluster
        leader = cluster.leader_of(T0)
        assert leader is not None
        cluster.pause(leader)
        assert leader not in cluster.running()
        await asyncio.sleep(5)
        assert cluster.leader_of(T0) not in (None, leader)
        assert f"broker {leader} is not registered" in cluster.unhealed()
        cluster.resume(leader)
        await healed(quiet)
        assert host_of(leader) == f"broker{leader}"

    with_quiet_cluster(test)
