"""ListOffsets: earliest, latest, or by timestamp.

v2 brought isolation levels, v4 leader epochs, v7 the maximum timestamp (KIP-734), v8 and v9 the
places of tiered storage, v10 a time-out for looking there, v11 what waits for upload.
"""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.replication.partition import LATEST_TIMESTAMP
from ottla.server.context import RequestContext
from ottla.server.replica_requests import check_replica_listener
from ottla.server.services import Services
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

READ_COMMITTED = 1

# Special timestamps, and the version that first knows them.
_SPECIAL_SINCE = {-3: 7, -4: 8, -5: 9, -6: 11}


async def handle(
    services: Services, request: ListOffsetsRequest, context: RequestContext
) -> ListOffsetsResponse:
    is_committed_only = request.isolation_level == READ_COMMITTED
    slices = Slices(services.clock)
    seen: dict[tuple[str, int], int] = {}
    async for topic in slices.of(request.topics):
        async for asked in slices.of(topic.partitions):
            at = (topic.name, asked.partition_index)
            seen[at] = seen.get(at, 0) + 1
    topics: list[ListOffsetsTopicResponse] = []
    async for topic in slices.of(request.topics):
        answers: dict[int, ListOffsetsPartitionResponse] = {}
        async for asked in slices.of(topic.partitions):
            try:
                if seen[topic.name, asked.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                check_replica_listener(services, request.replica_id, context)
                if request.replica_id >= 0 and asked.timestamp == LATEST_TIMESTAMP:
                    answer = _log_end(services, topic.name, asked)
                else:
                    answer = await _find(
                        services, topic.name, asked, is_committed_only, context.api_version
                    )
            except KafkaError as error:
                code = error.code
                if code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < 5:
                    code = ErrorCode.LEADER_NOT_AVAILABLE  # Clients ask again all the same.
                answer = ListOffsetsPartitionResponse(
                    partition_index=asked.partition_index, error_code=code
                )
            answers[asked.partition_index] = answer
        partitions = list(answers.values())
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    await slices.empty(seen)
    return ListOffsetsResponse(topics=topics)


def _log_end(
    services: Services, topic: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    """A follower begins there where it has nothing that the leader has. Consumers begin at the high
    watermark."""
    partition = services.replicas.partition(topic, asked.partition_index)
    partition.check_leader_epoch(asked.current_leader_epoch)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        offset=partition.leader.end_offset,
        leader_epoch=partition.leader_epoch,
    )


async def _find(
    services: Services,
    topic: str,
    asked: ListOffsetsPartition,
    is_committed_only: bool,
    version: int,
) -> ListOffsetsPartitionResponse:
    if asked.timestamp < -2 and version < _SPECIAL_SINCE.get(asked.timestamp, 1 << 15):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition = services.replicas.partition(topic, asked.partition_index)
    partition.check_leader_epoch(asked.current_leader_epoch)
    found = await partition.offset_for_timestamp(
        asked.timestamp, is_committed_only=is_committed_only
    )
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        offset=found.offset,
        timestamp=found.timestamp,
        leader_epoch=found.leader_epoch,
    )
