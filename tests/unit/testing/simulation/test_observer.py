from __future__ import annotations

import asyncio

from ottla.replication.partition import Partition
from ottla.testing.simulation.idempotent_producer import IdempotentProducer
from ottla.testing.simulation.observer import Observer
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


def partition_of(quiet: QuietCluster, broker_id: int) -> Partition:
    partition = quiet.cluster.machines[broker_id].broker.replicas.hosted(T0)
    assert partition is not None
    return partition


def leader_of(quiet: QuietCluster) -> int:
    leader = quiet.cluster.leader_of(T0)
    assert leader is not None
    return leader


async def kill_leader(quiet: QuietCluster) -> None:
    killed = leader_of(quiet)
    quiet.cluster.wanted[killed] = False
    quiet.cluster.kill(killed)
    async with asyncio.timeout(30):
        while leader_of(quiet) == killed:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        quiet.cluster.wanted[killed] = True
        while quiet.cluster.unhealed():
            await asyncio.sleep(0.1)


def test_a_healthy_cluster_has_no_problems_and_goes_through_several_states() -> None:
    async def test(quiet: QuietCluster) -> None:
        observer = Observer(quiet.cluster)
        observing = asyncio.create_task(observer.run())
        client = quiet.client("p")
        producer = IdempotentProducer(client, [T0], quiet.now_ms, lambda _: None)
        writing = asyncio.create_task(producer.run())
        await asyncio.sleep(1)
        await kill_leader(quiet)
        client.is_stopping = True
        await writing
        client.close()
        observing.cancel()
        assert observer.problems == []
        assert "leads, committed, stable, ISR above least, settled" in observer.combinations
        assert "leads, committed, stable, ISR at least, settled" in observer.combinations
        assert "follows, behind, stable" in observer.combinations

    with_quiet_cluster(test)


def test_a_leader_without_what_was_committed_is_a_problem() -> None:
    async def test(quiet: QuietCluster) -> None:
        observer = Observer(quiet.cluster)
        partition_of(quiet, leader_of(quiet)).high_watermark = 5
        observer.look()
        assert "beyond its end" in observer.problems[0]
        await kill_leader(quiet)
        observer.look()
        assert "was committed up to 5 in epoch 0" in observer.problems[1]

    with_quiet_cluster(test)


def test_two_leaders_in_an_epoch_are_a_problem() -> None:
    async def test(quiet: QuietCluster) -> None:
        observer = Observer(quiet.cluster)
        observer.look()
        leader = leader_of(quiet)
        other = next(each for each in quiet.cluster.machines if each != leader)
        partition_of(quiet, other).lead(partition_of(quiet, leader).leader)
        observer.look()
        (problem,) = observer.problems
        assert "in epoch 0" in problem

    with_quiet_cluster(test)
