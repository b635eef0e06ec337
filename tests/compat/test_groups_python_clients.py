"""kafka-python and aiokafka as members of groups: what tests of all clients do not ask of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import aiokafka
import pytest
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor as AiokafkaAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

from tests.compat.test_groups_clients import PARTITION_COUNT, committed, create, produce
from tests.support.clients import KAFKA_PYTHON
from tests.support.group_members import (
    AiokafkaMember,
    GroupMember,
    KafkaPythonMember,
    wait_until,
    wait_until_shared,
)
from tests.support.ottla_process import OttlaProcess

TIMEOUT_S = 60

kafka_python_assignors = KAFKA_PYTHON.coordinator.assignors.abstract

Make = Callable[..., GroupMember]

with_both = pytest.mark.parametrize(
    "make", [KafkaPythonMember, AiokafkaMember], ids=["kafka-python", "aiokafka"]
)


@pytest.fixture
def bootstrap(shared_broker: OttlaProcess, topic: str) -> str:
    create(shared_broker.bootstrap, topic)
    return shared_broker.bootstrap


@contextmanager
def closing() -> Iterator[list[GroupMember]]:
    """Those that are in the list at the end are stopped."""
    members: list[GroupMember] = []
    try:
        yield members
    finally:
        for member in members:
            member.stop()


# -- assignors ------------------------------------------------------------------------------


def kafka_python_assignor(weight: int) -> type[Any]:
    """Members say what they weigh; the heaviest takes all."""

    class HeaviestTakesAll(kafka_python_assignors.AbstractPartitionAssignor):  # type: ignore[name-defined, misc]
        name = "heaviest-takes-all"

        def metadata(self, topics: Iterable[str]) -> Any:
            return kafka_python_assignors.ConsumerProtocolSubscription(
                0, list(topics), b"%d" % weight
            )

        def assign(self, cluster: Any, members: list[Any]) -> dict[str, Any]:
            heaviest = max(members, key=lambda member: int(bytes(member.metadata.user_data)))
            topics = [
                (topic, sorted(cluster.partitions_for_topic(topic) or ()))
                for topic in heaviest.metadata.topics
            ]
            return {
                member.member_id: kafka_python_assignors.ConsumerProtocolAssignment(
                    0, topics if member is heaviest else [], b""
                )
                for member in members
            }

        def on_assignment(self, assignment: Any, generation: int) -> None:
            pass

    return HeaviestTakesAll


def aiokafka_assignor(weight: int) -> type[Any]:
    class HeaviestTakesAll(AiokafkaAssignor):  # type: ignore[misc]
        name = "heaviest-takes-all"

        @classmethod
        def metadata(cls, topics: Iterable[str]) -> Any:
            return ConsumerProtocolMemberMetadata(0, list(topics), b"%d" % weight)

        @classmethod
        def assign(cls, cluster: Any, members: Mapping[str, Any]) -> dict[str, Any]:
            heaviest = max(members, key=lambda member_id: int(members[member_id].user_data))
            topics = [
                (topic, sorted(cluster.partitions_for_topic(topic) or ()))
                for topic in members[heaviest].subscription
            ]
            return {
                member_id: ConsumerProtocolMemberAssignment(
                    0, topics if member_id == heaviest else [], b""
                )
                for member_id in members
            }

        @classmethod
        def on_assignment(cls, assignment: Any) -> None:
            pass

    return HeaviestTakesAll


@pytest.mark.parametrize(
    ("make", "assignor"),
    [(KafkaPythonMember, kafka_python_assignor), (AiokafkaMember, aiokafka_assignor)],
    ids=["kafka-python", "aiokafka"],
)
def test_an_assignor_of_its_own(
    bootstrap: str, topic: str, make: Make, assignor: Callable[[int], type[Any]]
) -> None:
    """The broker hands on what members say of themselves, and knows nothing of it."""

    def join(weight: int) -> GroupMember:
        member = make(bootstrap, topic, topic, partition_assignment_strategy=[assignor(weight)])
        members.append(member)
        return member

    def has_all(member: GroupMember) -> bool:
        return member.assigned == set(range(PARTITION_COUNT)) and not any(
            other.assigned for other in members if other is not member
        )

    with closing() as members:
        light = join(5)
        wait_until(lambda: has_all(light), "the first takes all")
        heavy = join(70)
        wait_until(lambda: has_all(heavy), "the heavier one takes all")
        middle = join(60)
        wait_until(lambda: ("assigned", []) in middle.events, "the third has joined")
        # The members of a generation hear of it one after another.
        wait_until(lambda: has_all(heavy), "the heaviest keeps all")
        members.remove(heavy)
        heavy.stop()
        wait_until(lambda: has_all(middle), "the heavier of two takes all")


# -- static members -------------------------------------------------------------------------


@with_both
def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, topic: str, make: Make
) -> None:
    with closing() as members:
        one = make(bootstrap, topic, topic, group_instance_id="one")
        members.append(one)
        two = make(bootstrap, topic, topic, group_instance_id="two")
        wait_until_shared(PARTITION_COUNT, one, two)
        events, before = list(one.events), set(two.assigned)
        two.stop()
        again = make(bootstrap, topic, topic, group_instance_id="two")
        members.append(again)
        wait_until_shared(PARTITION_COUNT, one, again)
        assert again.assigned == before
        assert one.events == events, "the other one has not noticed"


def test_two_with_one_instance_id(bootstrap: str, topic: str) -> None:
    """The later one is taken for the restarted first, which is fenced. (aiokafka does not say in
    heartbeats who it is, so it hears only that it is unknown, and joins again: also with Kafka.)"""
    first = KAFKA_PYTHON.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        group_instance_id="one",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    first.topics()  # See KafkaPythonMember: it must know the partitions before it joins.
    with closing() as members:
        wait_until(lambda: not first.poll(100) and len(first.assignment()) == 6, "it has all")
        second = KafkaPythonMember(bootstrap, topic, topic, group_instance_id="one")
        members.append(second)
        wait_until_shared(PARTITION_COUNT, second)
        with pytest.raises(KAFKA_PYTHON.errors.FencedInstanceIdError):
            first.commit()
        first.close()


# -- what else users do ---------------------------------------------------------------------


@with_both
def test_callbacks_come_in_order(bootstrap: str, topic: str, make: Make) -> None:
    everything = list(range(PARTITION_COUNT))
    with closing() as members:
        one = make(bootstrap, topic, topic)
        members.append(one)
        wait_until_shared(PARTITION_COUNT, one)
        two = make(bootstrap, topic, topic)
        wait_until_shared(PARTITION_COUNT, one, two)
        half = sorted(one.assigned)
        two.stop()
        wait_until_shared(PARTITION_COUNT, one)
        told = [event for event in one.events if event[1]]
    assert told[:5] == [
        ("assigned", everything),
        ("revoked", everything),
        ("assigned", half),
        ("revoked", half),
        ("assigned", everything),
    ]


@pytest.mark.parametrize("how", ["sync", "async", "auto"])
def test_kafka_python_commits(bootstrap: str, topic: str, how: str) -> None:
    produce(bootstrap, topic, range(60))
    done: list[Any] = []
    consumer = KAFKA_PYTHON.KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=how == "auto",
        auto_commit_interval_ms=100,
        max_poll_records=7,
    )
    partitions = [KAFKA_PYTHON.TopicPartition(topic, number) for number in range(PARTITION_COUNT)]
    consumer.assign(partitions)
    read = 0
    while read < 60:
        count = sum(map(len, consumer.poll(TIMEOUT_S * 1000).values()))
        assert 0 < count <= 7
        read += count
    if how == "sync":
        consumer.commit()
    elif how == "async":
        consumer.commit_async(callback=lambda offsets, response: done.append(response))

    def is_committed() -> bool:
        consumer.poll(10)
        is_told = how != "async" or bool(done)
        return is_told and committed(bootstrap, topic, topic) == [10] * PARTITION_COUNT

    wait_until(is_committed, "the offsets are there")
    consumer.close()
    assert not any(isinstance(one, Exception) for one in done)


@pytest.mark.parametrize("how", ["sync", "auto"])
def test_aiokafka_commits(bootstrap: str, topic: str, how: str) -> None:
    produce(bootstrap, topic, range(60))

    async def test() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=how == "auto",
            auto_commit_interval_ms=100,
            max_poll_records=7,
        )
        await consumer.start()
        consumer.assign([aiokafka.TopicPartition(topic, n) for n in range(PARTITION_COUNT)])
        read = 0
        while read < 60:
            count = sum(map(len, (await consumer.getmany(timeout_ms=TIMEOUT_S * 1000)).values()))
            assert 0 < count <= 7
            read += count
        if how == "sync":
            await consumer.commit()
        while await asyncio.to_thread(committed, bootstrap, topic, topic) != [10] * PARTITION_COUNT:
            await asyncio.sleep(0.02)
        await consumer.stop()

    asyncio.run(asyncio.wait_for(test(), TIMEOUT_S))
