from __future__ import annotations

import pytest

from ottla.config.topic import TopicConfig
from ottla.controller import alter_partition
from ottla.controller.controller_context import ControllerContext
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicId
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    PartitionDataResult,
    TopicData,
)
from tests.unit.controller.brokers import SimulatedCluster
from tests.unit.controller.brokers import run as run_cluster
from tests.unit.controller.contexts import EPOCH, P0, TOPIC_ID, make_context, make_plan, run


def asked(isr: dict[int, int], **fields: int) -> PartitionData:
    """An ISR with broker epochs; the rest as the leader knows it unless it is given."""
    return PartitionData(
        partition_index=fields.get("partition_index", 0),
        leader_epoch=fields.get("leader_epoch", 5),
        partition_epoch=fields.get("partition_epoch", 9),
        leader_recovery_state=fields.get("leader_recovery_state", 0),
        new_isr_with_epochs=[
            BrokerState(broker_id=broker_id, broker_epoch=epoch) for broker_id, epoch in isr.items()
        ],
    )


def request(
    partition: PartitionData, broker_id: int = 1, topic_id: bytes = TOPIC_ID
) -> AlterPartitionRequest:
    topic = TopicData(topic_name="t", topic_id=TopicId(topic_id), partitions=[partition])
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=100 + broker_id, topics=[topic])


def alter(
    context: ControllerContext, request: AlterPartitionRequest, version: int = 3
) -> PartitionDataResult:
    plan = make_plan(context)
    answer = run(alter_partition.plan_changes(plan, request, version))
    plan.apply()
    (topic,) = alter_partition.response(context, answer).topics
    assert topic.topic_id == request.topics[0].topic_id
    (result,) = topic.partitions
    return result


def test_the_isr_shrinks_and_the_leader_epoch_stays() -> None:
    context = make_context()
    result = alter(context, request(asked({1: 101, 2: 102})))
    assert result.error_code == ErrorCode.NONE
    assert (result.leader_id, result.leader_epoch, result.isr) == (1, 5, [1, 2])
    assert result.partition_epoch == 10
    assert context.committed[P0] == (LeaderAndIsr(1, 5, (1, 2), EPOCH), 10)


def test_who_fell_out_below_min_insync_replicas_is_eligible_until_it_is_large_enough() -> None:
    context = make_context(isr=(1, 2), config={"min.insync.replicas": "2"})
    alter(context, request(asked({1: 101})))
    assert context.committed[P0].state.eligible_leader_replicas == (2,)
    alter(context, request(asked({1: 101, 3: 103}, partition_epoch=10)))
    assert context.committed[P0].state.eligible_leader_replicas == ()


def test_nobody_is_eligible_where_a_leader_may_commit_with_fewer_than_the_controller_thinks() -> (
    None
):
    """`min.insync.replicas` is lowered in the files of brokers, one after another."""
    context = make_context(isr=(1, 2))
    context.resolve = lambda config: TopicConfig(min_insync_replicas=2)
    for broker_id, own in ((1, 1), (2, 2), (3, 2)):
        broker = context.live_brokers[BrokerId(broker_id)]
        info = broker.info._replace(min_insync_replicas=own)
        context.live_brokers[broker.id] = broker._replace(info=info)
    alter(context, request(asked({1: 101})))
    assert context.committed[P0].state.eligible_leader_replicas == ()


def test_older_versions_name_the_topic_and_no_broker_epochs() -> None:
    context = make_context()
    partition = PartitionData(leader_epoch=5, partition_epoch=9, new_isr=[1])
    assert alter(context, request(partition, topic_id=bytes(16)), version=1).isr == [1]


def test_the_same_again_has_succeeded() -> None:
    context = make_context()
    first = alter(context, request(asked({1: 101})))
    again = alter(context, request(asked({1: 101})))
    assert (again.error_code, again.partition_epoch) == (ErrorCode.NONE, first.partition_epoch)
    other = alter(context, request(asked({1: 101, 2: 102})))
    assert other.error_code == ErrorCode.INVALID_UPDATE_VERSION


REFUSED = {
    "unknown topic": (
        request(asked({1: 101}), topic_id=b"x" * 16),
        ErrorCode.UNKNOWN_TOPIC_ID,
    ),
    "no topic": (request(asked({1: 101}), topic_id=bytes(16)), ErrorCode.UNKNOWN_TOPIC_ID),
    "unknown partition": (
        request(asked({1: 101}, partition_index=7)),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "old leader epoch": (
        request(asked({1: 101}, leader_epoch=4)),
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    "leader epoch ahead": (request(asked({1: 101}, leader_epoch=6)), ErrorCode.NOT_CONTROLLER),
    "partition epoch ahead": (
        request(asked({1: 101}, partition_epoch=10)),
        ErrorCode.NOT_CONTROLLER,
    ),
    "old partition epoch": (
        request(asked({1: 101}, partition_epoch=8)),
        ErrorCode.INVALID_UPDATE_VERSION,
    ),
    "not the leader": (request(asked({2: 102}), broker_id=2), ErrorCode.INVALID_REQUEST),
    "without the leader": (request(asked({2: 102})), ErrorCode.INVALID_REQUEST),
    "without anybody": (request(asked({})), ErrorCode.INVALID_REQUEST),
    "with a stranger": (request(asked({1: 101, 4: 104})), ErrorCode.INVALID_REQUEST),
    "recovering again": (
        request(asked({1: 101}, leader_recovery_state=1)),
        ErrorCode.INVALID_REQUEST,
    ),
    "under another registration": (
        request(asked({1: 101, 2: 99})),
        ErrorCode.INELIGIBLE_REPLICA,
    ),
    "one that is down": (request(asked({1: 101, 3: 103})), ErrorCode.INELIGIBLE_REPLICA),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_kafkas_code(case: str) -> None:
    asked_for, code = REFUSED[case]
    context = make_context(live=(1, 2, 4), isr=(1, 2))
    before = context.committed[P0]
    assert alter(context, asked_for).error_code == code
    assert context.committed[P0] == before


def test_who_is_about_to_stop_does_not_come_back_in() -> None:
    context = make_context(isr=(1,))
    context.shutting_down.add(BrokerId(2))
    asked_for = request(asked({1: 101, 2: 102}))
    assert alter(context, asked_for).error_code == ErrorCode.INELIGIBLE_REPLICA
    code = alter(context, asked_for, version=1).error_code
    assert code == ErrorCode.OPERATION_NOT_ATTEMPTED


@pytest.mark.parametrize(("broker_id", "epoch"), [(1, 99), (1, -1), (4, -1)])
def test_who_does_not_have_the_registration_is_refused_as_a_whole(
    broker_id: int, epoch: int
) -> None:
    stale = AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch)
    with pytest.raises(KafkaError) as caught:
        run(alter_partition.plan_changes(make_plan(make_context()), stale, 3))
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_the_metadata_of_all_brokers_follows() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.create("t", (2, 3))
        (topic,) = cluster.active.controller._active.context.topics.values()  # type: ignore[union-attr]
        leader = cluster.brokers[2]
        partition = asked({2: leader.epoch}, leader_epoch=0, partition_epoch=0)
        change = AlterPartitionRequest(
            broker_id=2,
            broker_epoch=leader.epoch,
            topics=[TopicData(topic_id=topic.id, partitions=[partition])],
        )
        answer = await cluster.active.controller.alter_partition(change, 3)
        assert answer.topics[0].partitions[0].isr == [2]
        await cluster.settle()
        assert [broker.metadata[P0].isr for broker in cluster.brokers.values()] == [[2]] * 3
        assert (await cluster.state("t")).leader_epoch == 0

    run_cluster(scenario)
