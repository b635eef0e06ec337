"""DescribeTopicPartitions: partitions page by page (KIP-966), topics in the order of names.

As Kafka: a partition has no error, whatever its leader is.
"""

from __future__ import annotations

from ottla.controller.topic_names import check_topic_name
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.internal_topics import is_internal
from ottla.kernel.slices import Slices
from ottla.metadata.image import NO_LEADER, TopicImage
from ottla.server.context import RequestContext
from ottla.server.handlers.metadata import TOPIC_OPERATIONS, offline_replicas
from ottla.server.services import Services
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


async def handle(
    services: Services, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    slices = Slices(services.clock)
    image = services.image
    names = {topic.name async for topic in slices.of(request.topics)} or set(image.topics)
    cursor = request.cursor
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            return await _refused(request, slices)
        names = {name async for name in slices.of(names) if name >= cursor.topic_name}
    # However many the client asks for.
    count_max = services.config.max_request_partition_size_limit
    left = max(1, min(request.response_partition_limit, count_max))
    response = DescribeTopicPartitionsResponse()
    async for name in slices.of(await slices.sorted(names)):
        first = 0
        if cursor is not None and name == cursor.topic_name:
            first = cursor.partition_index
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        topic = image.topics.get(name)
        if topic is None:
            response.topics.append(_unknown(name))
            continue
        last = min(len(topic.partitions), first + left)
        response.topics.append(await _described(services, topic, first, last, context, slices))
        left -= max(0, last - first)
        if last < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=last)
            break
    return response


async def _refused(
    request: DescribeTopicPartitionsRequest, slices: Slices
) -> DescribeTopicPartitionsResponse:
    """The cursor points to a place that the request does not have."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name
            )
            async for topic in slices.of(request.topics)
        ]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as error:
        code = error.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )


async def _described(
    services: Services,
    topic: TopicImage,
    first: int,
    last: int,
    context: RequestContext,
    slices: Slices,
) -> DescribeTopicPartitionsResponseTopic:
    described = DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
    async for partition in slices.of(topic.partitions[first:last]):
        offline = offline_replicas(services, topic.name, partition, context.listener_name)
        described.partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=partition.partition,
                leader_id=NO_LEADER if partition.leader in offline else partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.eligible_leader_replicas),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=offline,
            )
        )
    return described
