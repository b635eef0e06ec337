"""The records of `__consumer_offsets`, in Kafka's own format.

The API key of a message is the type of the record, which stands before its key; before its value
stands the version of that. Fields are Kafka's, times are in milliseconds though their names do not
say so.

Values are written in the version that `CoordinatorRecord` names, and read in all. New fields
come as tagged ones in the newest version, so that an older broker can still load what a newer one
wrote (KIP-915).
"""

from __future__ import annotations

from ottla.coordinators.record import RecordType
from ottla.kernel.ids import TopicId
from ottla.wire.schema import (
    Message,
    Struct,
    array,
    bytestring,
    int8,
    int32,
    int64,
    nested,
    string,
    uuid,
)

# --- committed offsets -------------------------------------------------------------------------


class LegacyOffsetCommitKey(Message, api_key=0, versions="0"):
    """Read only: what the first brokers wrote that kept offsets in a topic."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class LegacyOffsetCommitValue(Message, api_key=0, versions="0"):
    offset: int = int64()
    metadata: str = string()
    commit_timestamp: int = int64()


class OffsetCommitKey(Message, api_key=1, versions="0"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, api_key=1, versions="0-4", flexible="4+"):
    """Version 1 has a time of expiry of its own, and is written for a commit that asks for one;
    3 has the leader epoch; 4 is flexible, and may carry the id of the topic."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: TopicId = uuid("4+", tag=0)


# --- classic groups ----------------------------------------------------------------------------


class GroupMetadataKey(Message, api_key=2, versions="0"):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string()
    client_host: str = string()
    # Version 0 has none: the session time-out stands for it.
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = bytestring()
    assignment: bytes = bytestring()


class GroupMetadataValue(Message, api_key=2, versions="0-4", flexible="4+"):
    """Version 2 has the time at which the group became empty, 3 the instance ids of static
    members; 4 is flexible."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)


# --- groups of the newer protocol (KIP-848) ----------------------------------------------------


class ConsumerGroupMetadataKey(Message, api_key=3, versions="0"):
    group_id: str = string()


class ConsumerGroupMetadataValue(Message, api_key=3, versions="0", flexible="0+"):
    epoch: int = int32()
    # Of the topics that the group reads: it changes when their partitions or racks do (KIP-1101).
    metadata_hash: int = int64(tag=0)


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions="0"):
    group_id: str = string()


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array(string())


class TopicMetadata(Struct):
    topic_id: TopicId = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions="0", flexible="0+"):
    """Read only: Kafka 4.0 wrote it, since then `metadata_hash` stands for it (KIP-1101)."""

    topics: list[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions="0"):
    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    name: str = string()
    metadata: bytes = bytestring()


class ClassicMemberMetadata(Struct, frozen=True):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, api_key=5, versions="0", flexible="0+"):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string())
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    # Null unless this member speaks the classic protocol. Kafka's schema asks for null by default,
    # but what its classes take for that is the empty struct: null has to be said and is written.
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions="0"):
    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions="0", flexible="0+"):
    assignment_epoch: int = int32()
    # When the assignment was computed (KIP-1263).
    assignment_timestamp: int = int64(tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TopicPartition(Struct):
    topic_id: TopicId = uuid()
    partitions: list[int] = array(int32())


class ConsumerGroupTargetAssignmentMemberValue(Message, api_key=7, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = array(TopicPartition)


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions="0"):
    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    topic_id: TopicId = uuid()
    partitions: list[int] = array(int32())
    # As long as `partitions`: the epoch in which the member got each, by which commits from
    # before that are refused. Empty where an older broker wrote: then it is the member's epoch.
    assignment_epochs: list[int] | None = array(int32(), nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions="0", flexible="0+"):
    member_epoch: int = int32()
    # A member that did not hear of its last epoch comes with this one again.
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions="0"):
    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions="0", flexible="0+"):
    topics: list[str] = array(string())
    # Of the metadata by which the expression was resolved.
    version: int = int64()
    timestamp: int = int64()


RECORD_TYPES: dict[int, RecordType] = {
    key.API_KEY: RecordType(key, value)
    for key, value in (
        (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
        (OffsetCommitKey, OffsetCommitValue),
        (GroupMetadataKey, GroupMetadataValue),
        (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    )
}
"""What can be read, by type. Of other types (share and streams groups) the loader keeps nothing."""
