"""Records of the group coordinator to try formats with."""

from __future__ import annotations

from pathlib import Path

from ottla.coordinators.groups.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
    TopicPartitions,
)
from ottla.coordinators.record import CoordinatorRecord
from ottla.kernel.ids import TopicId
from ottla.wire.schema import Message
from tests.support.coordinator_records import as_of

FROZEN = Path(__file__).parent.parent / "unit/coordinators/groups/data/records.json"
"""What Apache Kafka wrote for each of the samples: {name: [key, value]} in hexadecimal digits."""

_TOPIC_ID = TopicId(bytes.fromhex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0"))
_OFFSET_KEY = OffsetCommitKey(group="billing", topic="clicks", partition=7)
_GROUP_KEY = GroupMetadataKey(group="billing")
_MEMBER_KEY = ConsumerGroupMemberMetadataKey(group_id="billing", member_id="m-1")
_CURRENT_KEY = ConsumerGroupCurrentMemberAssignmentKey(group_id="billing", member_id="m-1")


def samples() -> dict[str, CoordinatorRecord]:
    """By name: every type in every version, with values in every field and with none."""
    found = {f"{type(key).__name__} alone": CoordinatorRecord(key, None) for key in _keys()}
    for name, key, value in _values():
        for version in value.VERSIONS:
            found[f"{name} {version}"] = CoordinatorRecord(key, as_of(value, version), version)
    return found


def _keys() -> list[Message]:
    return [
        LegacyOffsetCommitKey(group="billing", topic="clicks", partition=7),
        _OFFSET_KEY,
        _GROUP_KEY,
        ConsumerGroupMetadataKey(group_id="Gruppe für Zürich"),
        ConsumerGroupPartitionMetadataKey(group_id="billing"),
        _MEMBER_KEY,
        ConsumerGroupTargetAssignmentMetadataKey(group_id="billing"),
        ConsumerGroupTargetAssignmentMemberKey(group_id="billing", member_id="m-1"),
        _CURRENT_KEY,
        ConsumerGroupRegularExpressionKey(group_id="billing", regular_expression="click.*"),
    ]


def _values() -> list[tuple[str, Message, Message]]:
    legacy, _, _, group, partitions, _, target, target_member, _, regex = _keys()
    return [
        (
            "legacy offset",
            legacy,
            LegacyOffsetCommitValue(offset=3, metadata="m", commit_timestamp=1_700_000_000_000),
        ),
        ("offset without anything", _OFFSET_KEY, OffsetCommitValue()),
        (
            "offset",
            _OFFSET_KEY,
            OffsetCommitValue(
                offset=2**62 + 1,
                leader_epoch=5,
                metadata="näher",
                commit_timestamp=1_700_000_000_000,
                expire_timestamp=1_700_000_086_400,
                topic_id=_TOPIC_ID,
            ),
        ),
        (
            "group without members",
            _GROUP_KEY,
            GroupMetadataValue(
                protocol_type="consumer", generation=4, protocol=None, leader=None, members=[]
            ),
        ),
        ("group", _GROUP_KEY, _group_metadata()),
        ("consumer group", group, ConsumerGroupMetadataValue(epoch=10)),
        (
            "hashed consumer group",
            group,
            ConsumerGroupMetadataValue(epoch=10, metadata_hash=-(2**63)),
        ),
        ("partitions", partitions, _partition_metadata()),
        ("member without anything", _MEMBER_KEY, _bare_member()),
        ("member", _MEMBER_KEY, _member()),
        ("target", target, ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=10)),
        (
            "timed target",
            target,
            ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=10, assignment_timestamp=1_700_000_000_000
            ),
        ),
        (
            "target of a member",
            target_member,
            ConsumerGroupTargetAssignmentMemberValue(
                topic_partitions=[
                    TopicPartition(topic_id=_TOPIC_ID, partitions=[0, 1, 2**31 - 1]),
                    TopicPartition(),
                ]
            ),
        ),
        ("current without anything", _CURRENT_KEY, ConsumerGroupCurrentMemberAssignmentValue()),
        ("current", _CURRENT_KEY, _current_assignment()),
        (
            "regular expression",
            regex,
            ConsumerGroupRegularExpressionValue(
                topics=["clicks", "click-errors"], version=77, timestamp=1_700_000_000_000
            ),
        ),
    ]


def _group_metadata() -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer",
        generation=2**31 - 1,
        protocol="range",
        leader="m-1",
        current_state_timestamp=1_700_000_000_000,
        members=[
            MemberMetadata(
                member_id="m-1",
                group_instance_id="instance-1",
                client_id="client",
                client_host="/127.0.0.1",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=bytes(range(200)),
                assignment=b"\x00\x01",
            ),
            MemberMetadata(member_id="m-2", client_id="", client_host="/::1"),
        ],
    )


def _partition_metadata() -> ConsumerGroupPartitionMetadataValue:
    return ConsumerGroupPartitionMetadataValue(
        topics=[
            TopicMetadata(
                topic_id=_TOPIC_ID,
                topic_name="clicks",
                num_partitions=2,
                partition_metadata=[
                    PartitionMetadata(partition=0, racks=["a", "b"]),
                    PartitionMetadata(partition=1),
                ],
            ),
            TopicMetadata(topic_name="empty"),
        ]
    )


def _bare_member() -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        subscribed_topic_regex=None,
        server_assignor=None,
        classic_member_metadata=None,
    )


def _member() -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id="instance-1",
        rack_id="rack-1",
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=["clicks", "views"],
        subscribed_topic_regex="click.*",
        rebalance_timeout_ms=300_000,
        server_assignor="uniform",
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=45_000,
            supported_protocols=[
                ClassicProtocol(name="range", metadata=bytes(range(200))),
                ClassicProtocol(name="sticky"),
            ],
        ),
    )


def _current_assignment() -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=10,
        previous_member_epoch=9,
        state=1,
        assigned_partitions=[
            TopicPartitions(topic_id=_TOPIC_ID, partitions=[0, 1], assignment_epochs=[8, 10]),
            TopicPartitions(topic_id=_TOPIC_ID, partitions=[2]),
        ],
        partitions_pending_revocation=[
            TopicPartitions(topic_id=_TOPIC_ID, partitions=[3], assignment_epochs=None)
        ],
    )
