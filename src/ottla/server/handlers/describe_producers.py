"""DescribeProducers: who writes to a partition, as its producer state knows it (KIP-664)."""

from __future__ import annotations

from ottla.controller.topic_names import check_topic_name
from ottla.kernel.errors import KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


async def handle(
    services: Services, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    slices = Slices(services.clock)
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    await _describe(services, topic.name, index, slices)
                    async for index in slices.of(await slices.distinct(topic.partition_indexes))
                ],
            )
            for topic in await slices.distinct(request.topics, lambda topic: topic.name)
        ]
    )


async def _describe(
    services: Services, topic: str, index: int, slices: Slices
) -> PartitionResponse:
    try:
        check_topic_name(topic)
        log = services.replicas.partition(topic, index).log
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.message
        )
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=(
                    -1
                    if producer.current_txn_first_offset is None
                    else producer.current_txn_first_offset
                ),
            )
            async for producer in slices.of(list(log.producer_state.producers.values()))
        ],
    )
