"""CreateTopics. v5 answers with the topic's settings (KIP-525), v7 with its id."""

from __future__ import annotations

from collections import Counter

from ottla.config.describe import describe_topic
from ottla.controller.topic_planning import USE_DEFAULT, NewTopic, check_partition_count
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.slices import Slices
from ottla.server.context import RequestContext
from ottla.server.services import Services
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(
    services: Services, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    slices = Slices(services.clock)
    counts: Counter[str] = Counter()
    partition_count = 0
    async for topic in slices.of(request.topics):
        counts[topic.name] += 1
        partition_count += _partition_count(services, topic)
    results: list[CreatableTopicResult] = []
    async for topic in slices.of(request.topics):
        try:
            services.forwarding.check_controller()
            check_partition_count(partition_count)
            if counts[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(await _create(services, topic, request.validate_only))
        except KafkaError as error:
            results.append(
                CreatableTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.message
                )
            )
    await services.changes_applied()
    # A name that came twice is answered once.
    return CreateTopicsResponse(topics=await slices.distinct(results, lambda result: result.name))


def _partition_count(services: Services, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == USE_DEFAULT:
        return services.config.num_partitions
    return max(0, topic.num_partitions)  # Fewer are refused on their own.


async def _create(
    services: Services, topic: CreatableTopic, validate_only: bool
) -> CreatableTopicResult:
    created = await services.topics.create(
        NewTopic(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            assignments=[(one.partition_index, one.broker_ids) for one in topic.assignments],
            config={config.name: config.value for config in topic.configs},
        ),
        validate_only=validate_only,
    )
    return CreatableTopicResult(
        name=topic.name,
        error_message=None,
        topic_id=created.topic.id,
        num_partitions=len(created.topic.partitions),
        replication_factor=len(created.topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=created.config.get(entry.name, entry.value),  # As it was written.
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_topic(created.config, services.config)
        ],
    )
