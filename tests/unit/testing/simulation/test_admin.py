from __future__ import annotations

import asyncio

from ottla.kernel.ids import TopicPartition
from ottla.testing.simulation.admin import Admin
from tests.support.quiet_cluster import T0, QuietCluster, with_quiet_cluster


def test_a_partition_moves_to_where_it_is_told_to() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("admin2")
        for replicas in ([1, 2, 3], [4, 3, 2]):
            await Admin(client).move_partition(T0, replicas)
            async with asyncio.timeout(30):
                while (T0, tuple(replicas)) not in [
                    each[:2] for each in quiet.cluster.partitions()
                ]:
                    await asyncio.sleep(0.1)
        await Admin(client).move_partition(T0, [1, 2, 99])  # It is refused.
        await Admin(client).move_partition(TopicPartition("t", 7), [1, 2, 3])
        client.close()

    with_quiet_cluster(test, broker_count=4)


def test_topics_are_made_grown_and_deleted_once_however_often_it_is_asked() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("admin2")
        admin = Admin(client)
        for _ in range(2):
            await admin.create_topic("u", 1, 3, {})
            await admin.grow_topic("u", 2)
        assert await client.partition_count("u") == 2
        assert await admin.delete_topic("u")
        assert not await admin.delete_topic("u")
        assert "u" not in quiet.cluster.ensemble.children("/brokers/topics")
        client.close()

    with_quiet_cluster(test)


def test_a_topic_is_changed_and_its_preferred_replicas_lead_again() -> None:
    async def test(quiet: QuietCluster) -> None:
        client = quiet.client("admin2")
        admin = Admin(client)
        await admin.alter_topic("t", "flush.messages", "1")
        assert b"flush.messages" in quiet.cluster.ensemble.get("/config/topics/t").data
        (preferred,) = (
            replicas[0] for each, replicas, _ in quiet.cluster.partitions() if each == T0
        )
        quiet.cluster.kill(preferred)
        async with asyncio.timeout(30):
            while quiet.cluster.leader_of(T0) == preferred or quiet.cluster.unhealed():
                await asyncio.sleep(0.1)
        await admin.elect_preferred_leaders()
        assert quiet.cluster.leader_of(T0) == preferred
        client.close()

    with_quiet_cluster(test)
