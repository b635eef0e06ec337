"""Metadata: which brokers there are, and who leads which partition.

v1 tells "all topics" (null) from "none" (empty), v2 brought the cluster's id, v4 whether topics
may be made by asking, v5 offline replicas, v7 leader epochs, v8 authorized operations, v10 topic
ids, v12 asking by id, v13 an error for the whole.
"""

from __future__ import annotations

from ottla.controller.topic_names import check_topic_name
from ottla.controller.topics import PARTITION_COUNT_MAX, NewTopic
from ottla.coordination.image import NO_LEADER, PartitionImage, TopicImage
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.kernel.internal_topics import is_internal
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.internal_topics import ensure_internal_topic
from ottla.server.services import Services
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ASKS_FOR_ALL_BY_EMPTY_UNTIL = 0
BY_ID_SINCE = 12
OPERATIONS_SINCE = 8
CLUSTER_OPERATIONS_UNTIL = 10

# With no authorizer everyone may do everything; the bits are Kafka's AclOperation codes.
TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


async def handle(
    services: Services, request: MetadataRequest, context: RequestContext
) -> MetadataResponse:
    image = services.image
    version = context.api_version
    slices = Slices(services.clock)
    asked = request.topics
    if asked is not None:
        asked = await slices.distinct(asked, lambda topic: (topic.name, topic.topic_id))
    if asked and version < BY_ID_SINCE and await slices.count(asked, _is_by_id):
        return await _refused(asked, slices)
    if asked is None or (not asked and version <= ASKS_FOR_ALL_BY_EMPTY_UNTIL):
        topics = [await _topic(services, topic, slices) for topic in list(image.topics.values())]
    else:
        if await slices.count(asked, _is_by_id):  # Names beside ids are not looked at.
            asked = [one async for one in slices.of(asked) if _is_by_id(one)]
        may_create = request.allow_auto_topic_creation and await _may_create(
            services, asked, slices
        )
        topics = [
            await _asked_topic(services, one, may_create, slices) async for one in slices.of(asked)
        ]
    if request.include_topic_authorized_operations:
        async for topic in slices.of(topics):
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:  # As Kafka: whatever has a name.
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack
            )
            for broker in image.brokers.values()
            if (endpoint := broker.endpoints.get(context.listener_name)) is not None
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


async def _may_create(
    services: Services, asked: list[MetadataRequestTopic], slices: Slices
) -> bool:
    """None where all together were more than a request may create: a client that goes through a
    million names is not after so many topics."""
    config = services.config
    topics = services.image.topics
    missing_count = await slices.count(asked, lambda one: one.name not in topics)
    return (
        config.auto_create_topics_enable
        and missing_count * config.num_partitions <= PARTITION_COUNT_MAX
    )


def _is_by_id(asked: MetadataRequestTopic) -> bool:
    return asked.name is None or asked.topic_id != NO_TOPIC_ID


async def _refused(asked: list[MetadataRequestTopic], slices: Slices) -> MetadataResponse:
    """v10 and v11 have room for ids in a request, but no meaning for them, nor for null in the
    answer."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=one.name or "", topic_id=one.topic_id
            )
            async for one in slices.of(asked)
        ]
    )


async def _asked_topic(
    services: Services, asked: MetadataRequestTopic, may_create: bool, slices: Slices
) -> MetadataResponseTopic:
    image = services.image
    if _is_by_id(asked):
        topic = image.topics_by_id.get(TopicId(asked.topic_id))
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        return await _topic(services, topic, slices)
    assert asked.name is not None, "what is not asked for by id has a name"
    topic = image.topics.get(asked.name)
    if topic is not None:
        return await _topic(services, topic, slices)
    try:
        if not may_create:
            check_topic_name(asked.name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if is_internal(asked.name):
            internal = await ensure_internal_topic(services, asked.name)
            return await _topic(services, internal, slices)
        created = await services.topics.create(NewTopic(asked.name))
        await services.topic_applied(asked.name)
        return await _topic(services, created.topic, slices)
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.TOPIC_ALREADY_EXISTS and asked.name in image.topics:
            await services.topic_applied(asked.name)
            return await _topic(services, image.topics[asked.name], slices)
        return MetadataResponseTopic(
            error_code=code, name=asked.name, is_internal=is_internal(asked.name)
        )


async def _topic(services: Services, topic: TopicImage, slices: Slices) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[
            partition_metadata(offline_replicas(services, topic.name, partition), partition)
            async for partition in slices.of(topic.partitions)
        ],
    )


def offline_replicas(services: Services, topic: str, partition: PartitionImage) -> list[int]:
    """A replica on a failed disk is offline like one on a broker that is gone."""
    offline = services.image.offline_replicas(partition)
    if services.replicas.is_offline(topic, partition.partition):
        offline.append(services.broker_id)
    return offline


def partition_metadata(offline: list[int], partition: PartitionImage) -> MetadataResponsePartition:
    has_leader = partition.leader != NO_LEADER and partition.leader not in offline
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.partition,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline,
    )
