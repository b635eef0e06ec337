"""Metadata: which brokers there are, and who leads which partition.

v1 tells "all topics" (null) from "none" (empty), and lists replicas on brokers that are gone; v2
brought the cluster's id, v4 whether topics may be made by asking, v5 which replicas are offline, v6
an error for leaders without the client's listener, v7 leader epochs, v8 authorized operations, v10
topic ids, v12 asking by id, v13 an error for the whole.
"""

from __future__ import annotations

from ottla.controller.topic_names import check_topic_name
from ottla.controller.topic_planning import PARTITION_COUNT_MAX, NewTopic
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId
from ottla.kernel.internal_topics import is_internal
from ottla.kernel.slices import Slices
from ottla.metadata.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from ottla.server.context import RequestContext
from ottla.server.internal_topics import create_topic, ensure_internal_topic
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
REACHABLE_REPLICAS_ONLY_UNTIL = 0
LISTENER_NOT_FOUND_SINCE = 6
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
    if not image.brokers:
        # This broker starts, and no controller has told it who is there. Over an answer without
        # brokers librdkafka forgets those that it knew, for good.
        await services.state_changes.told()
    version = context.api_version
    slices = Slices(services.clock)
    asked = request.topics
    if asked is not None:
        asked = await slices.distinct(asked, lambda topic: (topic.name, topic.topic_id))
    if asked and version < BY_ID_SINCE and await slices.count(asked, _is_by_id):
        return await _refused(asked, slices)
    if asked is None or (not asked and version <= ASKS_FOR_ALL_BY_EMPTY_UNTIL):
        topics = [
            await _topic(services, topic, context, slices) for topic in list(image.topics.values())
        ]
    else:
        if await slices.count(asked, _is_by_id):  # Names beside ids are not looked at.
            asked = [one async for one in slices.of(asked) if _is_by_id(one)]
        may_create = request.allow_auto_topic_creation and await _may_create(
            services, asked, slices
        )
        topics = [
            await _asked_topic(services, one, may_create, context, slices)
            async for one in slices.of(asked)
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
            for broker, endpoint in image.endpoints(context.listener_name)
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
    services: Services,
    asked: MetadataRequestTopic,
    may_create: bool,
    context: RequestContext,
    slices: Slices,
) -> MetadataResponseTopic:
    image = services.image
    if _is_by_id(asked):
        topic = image.topics_by_id.get(TopicId(asked.topic_id))
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        return await _topic(services, topic, context, slices)
    assert asked.name is not None, "what is not asked for by id has a name"
    topic = image.topics.get(asked.name)
    if topic is not None:
        return await _topic(services, topic, context, slices)
    try:
        if not may_create:
            check_topic_name(asked.name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if is_internal(asked.name):
            internal = await ensure_internal_topic(services, asked.name)
            return await _topic(services, internal, context, slices)
        created = await create_topic(services, NewTopic(asked.name))
        return await _topic(services, created, context, slices)
    except KafkaError as error:
        return MetadataResponseTopic(
            error_code=error.code, name=asked.name, is_internal=is_internal(asked.name)
        )


async def _topic(
    services: Services, topic: TopicImage, context: RequestContext, slices: Slices
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=is_internal(topic.name),
        partitions=[
            partition_metadata(services, topic.name, partition, context)
            async for partition in slices.of(topic.partitions)
        ],
    )


def partition_metadata(
    services: Services, topic: str, partition: PartitionImage, context: RequestContext
) -> MetadataResponsePartition:
    offline = offline_replicas(services, topic, partition, context.listener_name)
    metadata = MetadataResponsePartition(
        error_code=_leader_error(services.image, partition, offline, context),
        partition_index=partition.partition,
        leader_id=NO_LEADER if partition.leader in offline else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline,
    )
    if context.api_version <= REACHABLE_REPLICAS_ONLY_UNTIL:
        _leave_out_unreachable(services.image, metadata, context.listener_name)
    return metadata


def _leave_out_unreachable(
    image: ClusterImage, metadata: MetadataResponsePartition, listener_name: str
) -> None:
    replicas = metadata.replica_nodes
    metadata.replica_nodes = [each for each in replicas if image.endpoint(each, listener_name)]
    metadata.isr_nodes = [each for each in metadata.isr_nodes if each in metadata.replica_nodes]
    if metadata.error_code == ErrorCode.NONE and metadata.replica_nodes != replicas:
        metadata.error_code = ErrorCode.REPLICA_NOT_AVAILABLE


def offline_replicas(
    services: Services, topic: str, partition: PartitionImage, listener_name: str
) -> list[int]:
    """A replica on a disk that failed here is offline before the controller says so."""
    offline = services.image.offline_replicas(partition, listener_name)
    if (
        services.replicas.is_offline(topic, partition.partition)
        and services.broker_id not in offline
    ):
        offline.append(services.broker_id)
    return offline


def _leader_error(
    image: ClusterImage, partition: PartitionImage, offline: list[int], context: RequestContext
) -> ErrorCode:
    leader = partition.leader
    if leader != NO_LEADER and leader not in offline:
        return ErrorCode.NONE
    if (
        context.api_version >= LISTENER_NOT_FOUND_SINCE
        and leader in image.brokers
        and image.endpoint(leader, context.listener_name) is None
    ):
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE
