"""OffsetForLeaderEpoch: where a leader epoch ended in this log (KIP-101, KIP-320)."""

from __future__ import annotations

from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.replica_requests import check_replica_listener
from ottla.server.services import Services
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


async def handle(
    services: Services, request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    slices = Slices(services.clock)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    _find(services, request.replica_id, topic.topic, asked, context)
                    async for asked in slices.of(topic.partitions)
                ],
            )
            async for topic in slices.of(request.topics)
        ]
    )


def _find(
    services: Services,
    replica_id: int,
    topic: str,
    asked: OffsetForLeaderPartition,
    context: RequestContext,
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        check_replica_listener(services, replica_id, context)
        partition = services.replicas.partition(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        epoch, end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
        answer.leader_epoch = epoch
        answer.end_offset = end_offset
    except KafkaError as error:
        answer.error_code = error.code
    return answer
