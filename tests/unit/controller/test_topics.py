from __future__ import annotations

import asyncio

import pytest

from ottla.controller.topic_planning import NewTopic
from ottla.controller.topics import CreatedTopic
from ottla.coordination import znodes
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId, TopicPartition
from tests.unit.controller.brokers import SimulatedCluster, run

SETTINGS = {"num.partitions": "2", "default.replication.factor": "3"}


def test_a_topic_is_stored_and_its_brokers_are_told() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        topics = cluster.active.controller.topics
        created = await topics.create(NewTopic("t", config={"retention.ms": "5"}))
        assert (len(created.topic.partitions), created.config) == (2, {"retention.ms": "5"})
        # The controller's own broker has heard of it by now.
        assert set(cluster.active.metadata) == {TopicPartition("t", 0), TopicPartition("t", 1)}
        await cluster.settle()
        for broker in cluster.brokers.values():
            assert all(state.is_new for state in broker.replicas.values())
            assert len(broker.replicas) == 2
        assert (await cluster.state("t", 1)).isr == created.topic.partitions[1].replicas
        stored = znodes.decode_topic("t", (await cluster.observer.get("/brokers/topics/t")).data)
        assert stored.topic_id == created.topic.id

    run(scenario, settings=SETTINGS)


def test_validate_only_answers_and_does_nothing() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        before = await cluster.observer.tree("/")
        topics = cluster.active.controller.topics
        [planned] = await topics.create_all([NewTopic("t", 3, 1)], validate_only=True)
        assert isinstance(planned, CreatedTopic)
        assert len(planned.topic.partitions) == 3
        assert await cluster.observer.tree("/") == before
        await cluster.create("t", (1,))
        grown = await topics.create_partitions("t", 4, validate_only=True)
        assert len(grown.partitions) == 4
        assert TopicPartition("t", 1) not in cluster.active.metadata

    run(scenario)


def test_a_request_that_is_refused_does_not_make_the_controller_resign() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        topics = cluster.active.controller.topics
        await cluster.create("t", (1,))
        for attempt, code in (
            (topics.create(NewTopic("t")), ErrorCode.TOPIC_ALREADY_EXISTS),
            (topics.create(NewTopic("u", 1, 4)), ErrorCode.INVALID_REPLICATION_FACTOR),
            (topics.create_partitions("t", 1), ErrorCode.INVALID_PARTITIONS),
            (topics.create_partitions("u", 1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (topics.delete("u"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (topics.delete(TopicId(bytes(range(16)))), ErrorCode.UNKNOWN_TOPIC_ID),
        ):
            with pytest.raises(KafkaError) as caught:
                await attempt
            assert caught.value.code is code
        assert cluster.active.controller.controller_epoch == 1

    run(scenario)


def test_of_many_topics_brokers_hear_by_one_request_and_some_may_be_refused() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        topics = cluster.active.controller.topics
        await cluster.create("old", (1,))
        await cluster.settle()
        epoch = cluster.active.controller.controller_epoch
        counts = {each: len(broker.requests) for each, broker in cluster.brokers.items()}
        new = [NewTopic(f"t-{number}", 2, 3) for number in range(5)]
        bad = [NewTopic("old", 1, 1), NewTopic("t-1", 1, 1), NewTopic("u", 1, 9)]
        results = await topics.create_all([*new, *bad, NewTopic("v_w", 1, 1)])
        await cluster.settle()
        codes = [each.code for each in results if isinstance(each, KafkaError)]
        assert codes == [
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ]
        for broker_id, broker in cluster.brokers.items():
            assert {f"t-{number}" for number in range(5)} < {t for t, _ in broker.metadata}
            assert len(broker.requests) - counts[broker_id] <= 2
        assert cluster.active.controller.controller_epoch == epoch
        with pytest.raises(KafkaError, match="collides"):
            await topics.create(NewTopic("v.w", 1, 1))

    run(scenario)


def test_of_several_that_create_at_once_one_succeeds() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        topics = cluster.active.controller.topics
        results = await asyncio.gather(
            *(topics.create(NewTopic("t", 1, 1)) for _ in range(3)), return_exceptions=True
        )
        codes = [each.code for each in results if isinstance(each, KafkaError)]
        assert codes == [ErrorCode.TOPIC_ALREADY_EXISTS] * 2

    run(scenario)


def test_replicas_of_a_broker_that_is_down_are_not_in_the_first_isr() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        await cluster.brokers[2].crash()
        await cluster.settle()
        await cluster.active.controller.topics.create_partitions("t", 2, [(1, 3)])
        await cluster.settle()
        assert await cluster.state("t", 1) == LeaderAndIsr(1, 0, (1, 3), 1)

    run(scenario)


def test_partitions_are_added_and_the_old_ones_stay() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (1, 2))
        before = await cluster.state("t", 0)
        grown = await cluster.active.controller.topics.create_partitions("t", 3)
        assert [len(each.replicas) for each in grown.partitions] == [2, 2, 2]
        await cluster.settle()
        assert await cluster.state("t", 0) == before
        assert len(cluster.brokers[3].metadata) == 3

    run(scenario)


def test_a_topic_of_more_than_one_batch_is_written_in_several() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.active.controller.topics.create(NewTopic("t", 3000, 3))
        await cluster.settle()
        assert len(cluster.brokers[2].metadata) == 3000
        await cluster.active.controller.topics.delete("t")

    run(scenario)


def test_a_topic_goes_with_all_its_nodes_and_its_name_is_free_at_once() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        before = await cluster.observer.tree("/")
        topics = cluster.active.controller.topics
        old = (await topics.create(NewTopic("t", 2, 3))).topic
        assert await topics.delete(old.id) == old
        assert await cluster.observer.tree("/") == before
        new = (await topics.create(NewTopic("t", 2, 3))).topic
        assert new.id != old.id

    run(scenario)
