from __future__ import annotations

import random

import pytest

from ottla.coordinators.groups.consumer.member import ConsumerMember, MemberState
from ottla.coordinators.groups.consumer.records import (
    current_record,
    group_epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from ottla.coordinators.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    OffsetCommitKey,
    TopicPartitions,
)
from ottla.coordinators.record import CoordinatorRecord
from ottla.coordinators.result import Result
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId
from ottla.wire.schema import Message
from tests.support.consumer_groups import GROUP, ConsumerCoordinator

T = TopicId((1).to_bytes(16, "big"))


def member(member_id: str, *partitions: int, epoch: int = 1) -> ConsumerMember:
    return ConsumerMember(
        member_id=member_id,
        subscribed_topic_names=frozenset({"t"}),
        rebalance_timeout_ms=1000,
        member_epoch=epoch,
        previous_member_epoch=0,
        assigned={T: dict.fromkeys(partitions, epoch)} if partitions else {},
        pending_revocation={},
    )


def test_the_order_of_records_does_not_matter() -> None:
    whole = member("a", 0, 1)
    records = [
        member_record(GROUP, whole),
        group_epoch_record(GROUP, 1, 7),
        target_record(GROUP, "a", {T: frozenset({0, 1})}),
        target_epoch_record(GROUP, 1, 99),
        current_record(GROUP, whole),
    ]
    for seed in range(20):
        random.Random(seed).shuffle(records)
        coordinator = ConsumerCoordinator()
        coordinator.write(Result(None, records))
        group = coordinator.group
        assert group.members == {"a": whole}
        assert (group.group_epoch, group.metadata_hash) == (1, 7)
        assert (group.assignment_epoch, group.assignment_timestamp_ms) == (1, 99)
        assert group.target == {"a": {T: frozenset({0, 1})}}
        assert group.state_name == "Stable"


def test_a_new_owner_may_be_seen_before_the_old_one_gave_up() -> None:
    """A's record of that was compacted away behind its next one."""
    coordinator = ConsumerCoordinator()
    for record in (
        current_record(GROUP, member("a", 0, 1)),
        current_record(GROUP, member("b", 1, epoch=2)),
        current_record(GROUP, member("a", 0, epoch=3)),
    ):
        coordinator.write(Result(None, [record]))
    assert coordinator.group.owner_of(T, 0) == "a"
    assert coordinator.group.owner_of(T, 1) == "b"


@pytest.mark.parametrize(
    "key",
    [
        ConsumerGroupMetadataKey(group_id=GROUP),
        ConsumerGroupPartitionMetadataKey(group_id=GROUP),
        ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id="a"),
        ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP),
        ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id="a"),
        ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"),
        ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="x"),
    ],
    ids=lambda key: type(key).__name__,
)
def test_tombstones_of_what_is_not_there_are_nothing(key: Message) -> None:
    coordinator = ConsumerCoordinator()
    assert coordinator.protocol.replay(CoordinatorRecord(key, None))
    assert coordinator.context.groups == {}


def test_records_of_others_are_left_to_them() -> None:
    coordinator = ConsumerCoordinator()
    assert not coordinator.protocol.replay(CoordinatorRecord(OffsetCommitKey(group=GROUP), None))


def test_an_assignment_of_an_older_broker_has_the_epoch_of_its_member() -> None:
    coordinator = ConsumerCoordinator()
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=5,
        previous_member_epoch=4,
        assigned_partitions=[TopicPartitions(topic_id=T, partitions=[0, 1])],
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a")
    coordinator.write(Result(None, [CoordinatorRecord(key, value)]))
    assert coordinator.group.members["a"].assigned == {T: {0: 5, 1: 5}}


def test_the_record_of_partitions_that_kafka_4_0_wrote_is_taken_back() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    value = ConsumerGroupPartitionMetadataValue()
    coordinator.write(Result(None, [CoordinatorRecord(key, value)]))
    coordinator.reload()
    coordinator.heartbeat("a", 2)
    assert coordinator.records[-1] == CoordinatorRecord(key, None)
    written = len(coordinator.log)
    coordinator.heartbeat("a", 2)
    assert len(coordinator.log) == written


def test_a_member_in_a_state_of_a_newer_broker_begins_anew() -> None:
    coordinator = ConsumerCoordinator()
    coordinator.join("a", "t")
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=9,
        assigned_partitions=[TopicPartitions(topic_id=T, partitions=[0, 1, 2, 3])],
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a")
    coordinator.write(Result(None, [CoordinatorRecord(key, value)]))
    assert coordinator.group.members["a"].state == MemberState(9) == MemberState.UNKNOWN
    with pytest.raises(KafkaError) as raised:
        coordinator.heartbeat("a", 2)
    assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    coordinator.join("a", "t")
    assert coordinator.group.state_name == "Stable"
