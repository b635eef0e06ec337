"""WriteTxnMarkers: ends a transaction in partitions that this broker leads. The coordinators of
other brokers send it, and administrators who abort a hanging transaction (KIP-664). v1 is flexible,
v2 names the version of the transaction (KIP-1228)."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import TopicPartition
from ottla.kernel.slices import Slices
from ottla.replication.leader import Marker
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# What a transaction coordinator does not expect of a partition: the group coordinator is not
# ready, and it should ask again.
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


async def handle(
    services: Services, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse:
    """All get their places, then all are waited for together."""
    slices = Slices(services.clock)
    begun = [
        services.markers.begin(TopicPartition(topic.name, number), marker)
        async for asked in slices.of(request.markers)
        for marker in (_marker(asked),)
        async for topic in slices.of(asked.topics)
        async for number in slices.of(topic.partition_indexes)
    ]
    # Whoever asks gives up its connection after the whole time, with all that is on it.
    timeout_s = services.config.request_timeout_ms / 1000 / 2
    codes = iter(await services.markers.settle(begun, timeout_s=timeout_s))
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=asked.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
                                partition_index=number, error_code=_told(next(codes))
                            )
                            async for number in slices.of(topic.partition_indexes)
                        ],
                    )
                    async for topic in slices.of(asked.topics)
                ],
            )
            async for asked in slices.of(request.markers)
        ]
    )


def _marker(asked: WritableTxnMarker) -> Marker:
    return Marker(
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        is_commit=asked.transaction_result,
        coordinator_epoch=asked.coordinator_epoch,
        transaction_version=asked.transaction_version,
    )


def _told(code: ErrorCode) -> ErrorCode:
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code
