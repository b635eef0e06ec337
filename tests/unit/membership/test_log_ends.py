from __future__ import annotations

import pytest

from ottla.controller.unclean_recovery import LogEnd
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.membership.log_ends import PARTITIONS_MAX, LogEnds
from ottla.testing.loop import VirtualClock
from ottla.wire.messages.get_replica_log_info import (
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
    PartitionLogInfo,
    TopicPartitionLogInfo,
    TopicPartitions,
)
from tests.support.other_broker import OTHER, add_other_broker, image_of
from tests.support.simulated_broker import SimulatedBroker, with_broker
from tests.support.simulated_cluster import SimulatedCluster, with_cluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOBODY = -1


def log_ends_of(cluster: SimulatedCluster, broker_id: int) -> LogEnds:
    broker = cluster.machines[broker_id].broker
    assert broker.image is not None
    assert broker._peers is not None
    return LogEnds(
        BrokerId(broker_id),
        broker.image,
        broker._peers,
        broker.replicas,
        broker.logs,
        VirtualClock(cluster.loop),
    )


def log_ends_beside_scripted(broker: SimulatedBroker) -> LogEnds:
    real = broker.machine.broker
    assert real._peers is not None
    return LogEnds(
        real.broker_id,
        image_of(broker),
        real._peers,
        real.replicas,
        real.logs,
        VirtualClock(broker.loop),
    )


@pytest.mark.parametrize("asked", [1, 2])
def test_a_log_that_nobody_leads_is_told_of_by_each_that_has_it(asked: int) -> None:
    """By the own broker without a socket."""

    async def test(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", [1, 2], [1])
        await cluster.produce(T0, b"a", b"b")
        await cluster.elect(T0, 2)
        await cluster.produce(T0, b"c")
        await cluster.elect(T0, NOBODY)

        ends = await log_ends_of(cluster, 1).ask(BrokerId(asked), [T0, T1])

        empty = {T1: LogEnd(0, 0)} if asked == 1 else {}  # Broker 2 has no replica of it.
        assert ends == {T0: LogEnd(1, 3), **empty}

    with_cluster(test)


def test_more_partitions_than_one_answer_has_are_asked_for_in_several() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        count = PARTITIONS_MAX + 1
        await cluster.create_topic("t", *([2] for _ in range(count)))
        asked = [TopicPartition("t", number) for number in range(count)]

        ends = await log_ends_of(cluster, 1).ask(BrokerId(2), asked)

        assert ends == dict.fromkeys(asked, LogEnd(0, 0))

    with_cluster(test)


def test_one_answer_says_that_it_has_not_all() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", [1])
        await cluster.create_topic("u", [1])
        asked = [
            TopicPartitions(
                topic_id=cluster.topic_ids[topic], partitions=[0] * (PARTITIONS_MAX // 2 + 1)
            )
            for topic in ("t", "u")
        ]

        response = await log_ends_of(cluster, 1).answer(
            GetReplicaLogInfoRequest(topic_partitions=asked)
        )

        assert response.truncated
        counts = [len(each.partition_log_info) for each in response.topic_partition_log_info_list]
        assert counts == [PARTITIONS_MAX // 2 + 1, PARTITIONS_MAX // 2 - 1]

    with_cluster(test)


def test_a_disk_that_has_failed_may_have_the_most() -> None:
    """The controller hears of it, and asks no more."""

    async def test(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", [2, 1])
        broker = cluster.machines[2].broker
        broker.logs.folders[0].fail(OSError(5, "gone"), "testing")
        with pytest.raises(KafkaError) as raised:
            await log_ends_of(cluster, 1).ask(BrokerId(2), [T0])
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.logs.logs.pop(T0) is not None
        with pytest.raises(KafkaError) as raised:
            await log_ends_of(cluster, 1).ask(BrokerId(2), [T0])
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    with_cluster(test)


def test_the_log_of_an_earlier_topic_of_that_name_does_not_count() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", [2])
        log = cluster.machines[2].broker.logs.get(T0)
        assert log is not None
        log.topic_id = TopicId(b"e" * 16)
        assert await log_ends_of(cluster, 1).ask(BrokerId(2), [T0]) == {}

    with_cluster(test)


@pytest.mark.parametrize("asked", [1, 2])
def test_who_has_not_heard_of_a_topic_cannot_say(asked: int) -> None:
    async def test(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", [1, 2])
        image = cluster.machines[asked].broker.image
        assert image is not None
        del image.topics["t"], image.topics_by_id[cluster.topic_ids["t"]]
        with pytest.raises(KafkaError) as raised:
            await log_ends_of(cluster, 1).ask(BrokerId(2), [T0])
        assert raised.value.code in (
            ErrorCode.UNKNOWN_TOPIC_ID,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )

    with_cluster(test)


def test_a_broker_that_is_gone_cannot_be_asked() -> None:
    async def test(cluster: SimulatedCluster) -> None:
        await cluster.create_topic("t", [1, 2])
        with pytest.raises(KafkaError) as raised:
            await log_ends_of(cluster, 1).ask(BrokerId(3), [T0])
        assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE

    with_cluster(test)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (GetReplicaLogInfoResponse(broker_epoch=2), ErrorCode.STALE_BROKER_EPOCH),
        (GetReplicaLogInfoResponse(broker_epoch=1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (
            GetReplicaLogInfoResponse(
                broker_epoch=1,
                topic_partition_log_info_list=[
                    TopicPartitionLogInfo(partition_log_info=[PartitionLogInfo(partition=0)])
                ],
            ),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ],
    ids=["of another registration", "nothing", "of another topic"],
)
def test_what_is_no_answer_is_not_taken_for_an_empty_log(
    answer: GetReplicaLogInfoResponse, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        cluster = add_other_broker(broker)
        cluster.answers[GetReplicaLogInfoRequest] = lambda _, request: answer
        with pytest.raises(KafkaError) as raised:
            await log_ends_beside_scripted(broker).ask(OTHER, [T0])
        assert raised.value.code is code

    with_broker(test)
