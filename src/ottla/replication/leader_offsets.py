"""Where a partition begins and ends at its leader, for a follower that has lost its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from ottla.replication.replica_fetcher import LeaderConnection

# The newest of Kafka 3.9.
_LIST_OFFSETS_VERSION = 9
_OFFSET_FOR_LEADER_EPOCH_VERSION = 4

_EARLIEST_TIMESTAMP = -2


class LeaderOffsets(NamedTuple):
    log_start_offset: int
    log_end_offset: int


async def ask_leader_offsets(
    connection: LeaderConnection,
    own_id: BrokerId,
    topic_partition: TopicPartition,
    leader_epoch: int,
) -> LeaderOffsets:
    """Raises KafkaError where the leader is in another epoch, or is none; and ConnectionError.

    The log's end is asked for as the end of the leader's own epoch: that of ListOffsets is the high
    watermark where the leader takes this broker for a consumer, and what lies above that may be
    acknowledged already."""
    topic, partition = topic_partition
    epoch_response = await connection.call(
        OffsetForLeaderEpochRequest(
            replica_id=own_id,
            topics=[
                OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderPartition(
                            partition=partition,
                            current_leader_epoch=leader_epoch,
                            leader_epoch=leader_epoch,
                        )
                    ],
                )
            ],
        ),
        OffsetForLeaderEpochResponse,
        _OFFSET_FOR_LEADER_EPOCH_VERSION,
    )
    ((end,),) = (each.partitions for each in epoch_response.topics)
    _check(end.error_code, topic_partition)
    earliest = ListOffsetsPartition(
        partition_index=partition,
        current_leader_epoch=leader_epoch,
        timestamp=_EARLIEST_TIMESTAMP,
    )
    offsets_response = await connection.call(
        ListOffsetsRequest(
            replica_id=own_id, topics=[ListOffsetsTopic(name=topic, partitions=[earliest])]
        ),
        ListOffsetsResponse,
        _LIST_OFFSETS_VERSION,
    )
    ((start,),) = (each.partitions for each in offsets_response.topics)
    _check(start.error_code, topic_partition)
    return LeaderOffsets(start.offset, end.end_offset)


def _check(error_code: int, topic_partition: TopicPartition) -> None:
    if error_code:
        raise KafkaError(ErrorCode(error_code), f"the leader tells no offsets of {topic_partition}")
