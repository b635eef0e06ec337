"""The codes are what Apache Kafka 4.3 answered to the same requests."""

from __future__ import annotations

import asyncio

import pytest

from ottla.controller.topics import NewTopic
from ottla.coordination import znodes
from ottla.coordination.image import TopicChanged, TopicCreated, TopicDeleted
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId, topic_id_text
from tests.unit.controller.cluster import Cluster, run


def test_a_topic_is_created_stored_shown_and_told() -> None:
    async def scenario(cluster: Cluster) -> None:
        created = await cluster.controller.topics.create(
            NewTopic("t", 3, 1, config={"retention.ms": "5"})
        )
        topic = created.topic
        assert [(p.partition, p.leader, p.leader_epoch, p.isr) for p in topic.partitions] == [
            (n, 1, 0, (1,)) for n in range(3)
        ]
        assert cluster.image.topics["t"] is topic
        assert cluster.image.topics_by_id[topic.id] is topic
        assert cluster.image.topic_configs["t"] == {"retention.ms": "5"}
        assert cluster.changes == [TopicCreated(topic, {"retention.ms": "5"})]
        stored = znodes.decode_topic("t", (await cluster.store.get("/brokers/topics/t")).data)
        assert stored.topic_id == topic.id
        assert len(topic_id_text(topic.id)) == 22
        state = await cluster.store.get("/brokers/topics/t/partitions/2/state")
        assert state.data == (
            b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}'
        )

    run(scenario)


def test_minus_one_takes_the_defaults_of_the_broker() -> None:
    async def scenario(cluster: Cluster) -> None:
        created = await cluster.controller.topics.create(NewTopic("t"))
        assert [p.replicas for p in created.topic.partitions] == [(1,), (1,)]

    run(scenario)


def test_replicas_placed_by_hand_lie_there() -> None:
    async def scenario(cluster: Cluster) -> None:
        assignments = [(1, (2, 3)), (0, (3, 1))]
        created = await cluster.controller.topics.create(NewTopic("t", assignments=assignments))
        partitions = created.topic.partitions
        assert [p.replicas for p in partitions] == [(3, 1), (2, 3)]
        assert [p.leader for p in partitions] == [3, 2]
        assert [p.isr for p in partitions] == [(3, 1), (2, 3)]

    run(scenario, {1: None, 2: None, 3: None})


BAD_TOPICS = {
    "there already": (NewTopic("old"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "there already, with a bad setting": (
        NewTopic("old", config={"nope": "1"}),
        ErrorCode.TOPIC_ALREADY_EXISTS,
    ),
    "there already, with a dot": (NewTopic("x.y"), ErrorCode.TOPIC_ALREADY_EXISTS),
    "no name": (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dot": (NewTopic("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "dots": (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "long": (NewTopic("a" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "slash": (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "space and a bad setting": (
        NewTopic("a b", config={"nope": "1"}),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ),
    "not ASCII": (NewTopic("ä"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "line end": (NewTopic("a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "collision": (NewTopic("x_y"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "Kafka's metadata": (NewTopic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
    "no partitions": (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
    "fewer than no partitions": (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
    "no partitions, too many replicas": (NewTopic("t", 0, 2), ErrorCode.INVALID_PARTITIONS),
    "no replicas": (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "fewer than no replicas": (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "nothing of both": (NewTopic("t", 0, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    "too many replicas": (NewTopic("t", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
    "too many partitions": (NewTopic("t", 10_001, 1), ErrorCode.POLICY_VIOLATION),
    "too many of both": (NewTopic("t", 10**9, 2), ErrorCode.POLICY_VIOLATION),
    "by hand with a count": (
        NewTopic("t", 1, -1, assignments=[(0, (1,))]),
        ErrorCode.INVALID_REQUEST,
    ),
    "by hand with a factor": (
        NewTopic("t", -1, 1, assignments=[(0, (1,))]),
        ErrorCode.INVALID_REQUEST,
    ),
    "by hand with a gap": (
        NewTopic("t", assignments=[(0, (1,)), (2, (1,))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand below zero": (
        NewTopic("t", assignments=[(-1, (1,))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand twice": (
        NewTopic("t", assignments=[(0, (1,)), (0, (1,))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand, twice on a broker": (
        NewTopic("t", assignments=[(0, (1, 1))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand on nobody": (
        NewTopic("t", assignments=[(0, (9,))]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "by hand without brokers": (
        NewTopic("t", assignments=[(0, ())]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "unknown setting": (NewTopic("t", config={"nope": "1"}), ErrorCode.INVALID_CONFIG),
    "bad setting": (NewTopic("t", config={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
    "setting without value": (
        NewTopic("t", config={"retention.ms": None}),
        ErrorCode.INVALID_CONFIG,
    ),
    "bad setting and no partitions": (
        NewTopic("t", 0, 1, config={"nope": "1"}),
        ErrorCode.INVALID_CONFIG,
    ),
}


@pytest.mark.parametrize("case", BAD_TOPICS)
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_bad_topic_is_refused_with_kafkas_code(case: str, validate_only: bool) -> None:
    topic, code = BAD_TOPICS[case]

    async def scenario(cluster: Cluster) -> None:
        await cluster.controller.topics.create(NewTopic("old"))
        await cluster.controller.topics.create(NewTopic("x.y"))
        before = await cluster.store.tree("/")
        with pytest.raises(KafkaError) as caught:
            await cluster.controller.topics.create(topic, validate_only=validate_only)
        assert caught.value.code is code
        assert caught.value.message
        assert await cluster.store.tree("/") == before
        assert len(cluster.changes) == 2

    run(scenario)


def test_replicas_of_different_number_are_refused() -> None:
    async def scenario(cluster: Cluster) -> None:
        topic = NewTopic("t", assignments=[(0, (1,)), (1, (1, 2))])
        with pytest.raises(KafkaError) as caught:
            await cluster.controller.topics.create(topic)
        assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    run(scenario, {1: None, 2: None})


def test_the_longest_name_is_fine() -> None:
    async def scenario(cluster: Cluster) -> None:
        await cluster.controller.topics.create(NewTopic("a" * 249))

    run(scenario)


def test_validate_only_answers_and_does_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.store.tree("/")
        planned = await cluster.controller.topics.create(NewTopic("t", 3), validate_only=True)
        assert len(planned.topic.partitions) == 3
        assert await cluster.store.tree("/") == before
        assert cluster.changes == []

    run(scenario)


def test_of_two_that_create_at_once_one_is_told_it_exists() -> None:
    async def scenario(cluster: Cluster) -> None:
        topics = cluster.controller.topics
        results = await asyncio.gather(
            *(topics.create(NewTopic("t")) for _ in range(3)), return_exceptions=True
        )
        codes = [each.code for each in results if isinstance(each, KafkaError)]
        assert codes == [ErrorCode.TOPIC_ALREADY_EXISTS] * 2

    run(scenario)


def test_a_topic_is_deleted_by_name_or_by_id_and_leaves_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        topics = cluster.controller.topics
        before = await cluster.store.tree("/")
        one = (await topics.create(NewTopic("one", 3))).topic
        two = (await topics.create(NewTopic("two", config={"retention.ms": "1"}))).topic
        assert await topics.delete("one") == one
        assert await topics.delete(two.id) == two
        assert await cluster.store.tree("/") == before
        assert cluster.changes[2:] == [TopicDeleted(one), TopicDeleted(two)]
        assert not cluster.image.topics
        assert not cluster.image.topics_by_id
        again = (await topics.create(NewTopic("one", 3))).topic
        assert again.id != one.id

    run(scenario)


def test_deleting_what_is_not_there() -> None:
    async def scenario(cluster: Cluster) -> None:
        with pytest.raises(KafkaError) as by_name:
            await cluster.controller.topics.delete("nope")
        assert by_name.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(KafkaError) as by_id:
            await cluster.controller.topics.delete(TopicId(bytes(range(16))))
        assert by_id.value.code is ErrorCode.UNKNOWN_TOPIC_ID

    run(scenario)


def test_partitions_are_added_and_the_old_ones_stay() -> None:
    async def scenario(cluster: Cluster) -> None:
        topics = cluster.controller.topics
        old = (await topics.create(NewTopic("t", 2, 2))).topic
        planned = await topics.create_partitions("t", 4, validate_only=True)
        assert len(planned.partitions) == 4
        assert cluster.image.topics["t"] is old
        grown = await topics.create_partitions("t", 4)
        assert grown.partitions[:2] == old.partitions
        assert grown.id == old.id
        assert cluster.changes[1:] == [TopicChanged(grown, (2, 3), 2)]
        by_hand = await topics.create_partitions("t", 5, [(3, 2)])
        assert by_hand.partitions[4].replicas == (3, 2)
        assert by_hand.partitions[4].leader == 3

    run(scenario, {1: None, 2: None, 3: None})


BAD_GROWTH = {
    "unknown": (("nope", 3, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "no name": (("", 3, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "same": (("t", 2, None), ErrorCode.INVALID_PARTITIONS),
    "fewer": (("t", 1, None), ErrorCode.INVALID_PARTITIONS),
    "below zero": (("t", -1, None), ErrorCode.INVALID_PARTITIONS),
    "too few placed": (("t", 4, [(1,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "too many placed": (("t", 3, [(1,), (1,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "none placed": (("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "on no broker": (("t", 3, [()]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "twice on a broker": (("t", 3, [(1, 1)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    "on nobody": (("t", 3, [(9,)]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    # Kafka answers UNKNOWN_SERVER_ERROR here; that tells nobody what to do.
    "too many": (("t", 10**9, None), ErrorCode.POLICY_VIOLATION),
}


@pytest.mark.parametrize("case", BAD_GROWTH)
def test_bad_growth_is_refused_with_kafkas_code(case: str) -> None:
    (name, count, assignments), code = BAD_GROWTH[case]

    async def scenario(cluster: Cluster) -> None:
        await cluster.controller.topics.create(NewTopic("t", 2))
        with pytest.raises(KafkaError) as caught:
            await cluster.controller.topics.create_partitions(name, count, assignments)
        assert caught.value.code is code
        assert len(cluster.changes) == 1

    run(scenario)


def test_a_controller_that_was_replaced_cannot_write() -> None:
    async def scenario(cluster: Cluster) -> None:
        before = await cluster.store.tree("/brokers/topics")
        await cluster.store.set(znodes.CONTROLLER_EPOCH, b"2")
        with pytest.raises(KafkaError) as caught:
            await cluster.controller.topics.create(NewTopic("t"))
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
        assert await cluster.store.tree("/brokers/topics") == before

    run(scenario)


def test_after_an_answer_was_lost_the_picture_shows_what_was_stored() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.ensemble.lose_next_answer(cluster.store)
        with pytest.raises(KafkaError) as caught:
            await cluster.controller.topics.create(NewTopic("t", 3))
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(KafkaError) as again:
            await cluster.controller.topics.create(NewTopic("t", 3))
        assert again.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert [type(change) for change in cluster.changes] == [TopicCreated]

    run(scenario)


def test_a_change_made_behind_its_back_is_noticed_and_then_known() -> None:
    async def scenario(cluster: Cluster) -> None:
        topics = cluster.controller.topics
        topic = (await topics.create(NewTopic("t", 1))).topic
        await cluster.store.set(
            "/brokers/topics/t", (await cluster.store.get("/brokers/topics/t")).data
        )
        with pytest.raises(KafkaError) as caught:
            await topics.create_partitions("t", 2)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        grown = await topics.create_partitions("t", 2)
        assert grown.version == 2
        assert grown.partitions[:1] == topic.partitions
        changed = topic._replace(version=1)
        assert cluster.changes[1:] == [TopicChanged(changed, (), 1), TopicChanged(grown, (1,), 1)]

    run(scenario)
