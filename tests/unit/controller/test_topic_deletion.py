from __future__ import annotations

import pytest

from ottla.controller.topic_planning import NewTopic
from ottla.coordination import znodes
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.wire.messages.stop_replica import StopReplicaRequest
from tests.unit.controller.brokers import SimulatedCluster, run

T0 = TopicPartition("t", 0)
MARK = znodes.delete_topic_path("t")


async def is_marked(cluster: SimulatedCluster) -> bool:
    return await cluster.observer.exists(MARK)


def test_a_replica_on_a_broker_that_is_down_keeps_the_name_until_it_is_gone() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 3))
        await cluster.brokers[3].crash()
        await cluster.settle()
        topics = cluster.active.controller.topics
        await topics.delete("t")
        await cluster.settle()
        assert await is_marked(cluster)
        assert T0 not in cluster.brokers[2].metadata
        assert T0 not in cluster.brokers[1].replicas
        with pytest.raises(KafkaError, match="being deleted, and brokers 3 have yet") as caught:
            await topics.create(NewTopic("t", 1, 1))
        assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        with pytest.raises(KafkaError) as again:
            await topics.delete("t")
        assert again.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        assert T0 in cluster.brokers[3].replicas
        await cluster.brokers[3].restart()
        await cluster.settle()
        assert T0 not in cluster.brokers[3].replicas
        assert not await is_marked(cluster)
        await topics.create(NewTopic("t", 1, 3))

    run(scenario)


def test_a_new_controller_goes_on_with_it() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        cluster.brokers[3].hangs_at.add(StopReplicaRequest)
        await cluster.active.controller.topics.delete("t", timeout_s=1)
        assert await is_marked(cluster)
        await cluster.brokers[1].crash()
        cluster.brokers[3].hangs_at.clear()
        await cluster.settle()
        assert not await is_marked(cluster)
        assert T0 not in cluster.brokers[3].replicas

    run(scenario)


def test_a_broker_that_restarts_meanwhile_is_asked_again() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        cluster.brokers[3].hangs_at.add(StopReplicaRequest)
        await cluster.active.controller.topics.delete("t", timeout_s=1)
        await cluster.brokers[3].crash()
        await cluster.settle()
        cluster.brokers[3].hangs_at.clear()
        await cluster.brokers[3].restart()
        await cluster.settle()
        assert not await is_marked(cluster)
        assert T0 not in cluster.brokers[3].replicas

    run(scenario)


def test_a_replica_that_cannot_be_deleted_is_tried_again_when_its_broker_has_restarted() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        cluster.brokers[3].failed_partitions.add(T0)
        await cluster.active.controller.topics.delete("t", timeout_s=1)
        await cluster.settle()
        assert await is_marked(cluster)
        cluster.brokers[3].failed_partitions.clear()
        await cluster.brokers[3].crash()
        await cluster.settle()
        await cluster.brokers[3].restart()
        await cluster.settle()
        assert not await is_marked(cluster)

    run(scenario)


def test_nobody_leads_or_follows_what_is_being_deleted() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        await cluster.brokers[3].crash()
        await cluster.settle()
        await cluster.active.controller.topics.delete("t")
        cluster.brokers[2].replicas.clear()
        await cluster.brokers[2].crash()
        await cluster.brokers[2].restart()
        await cluster.settle()
        assert cluster.brokers[2].replicas == {}
        await cluster.brokers[3].restart()

    run(scenario)


def test_a_mark_without_a_topic_goes() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.observer.create(MARK)
        await cluster.brokers[1].stop()
        await cluster.settle()
        assert not await is_marked(cluster)

    run(scenario)
