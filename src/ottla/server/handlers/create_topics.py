"""CreateTopics. v5 answers with the topic's settings (KIP-525), v7 with its id."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.broker import BrokerConfig
from ottla.config.describe import describe_topic
from ottla.controller.topic_planning import USE_DEFAULT, NewTopic, check_partition_count
from ottla.controller.topics import CreatedTopic
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

DUPLICATE = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


async def handle(
    services: Services, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    slices = Slices(services.clock)
    # A name that came twice is refused, and answered once.
    named: dict[str, CreatableTopic] = {}
    repeated: set[str] = set()
    partition_count = 0
    async for topic in slices.of(request.topics):
        if named.setdefault(topic.name, topic) is not topic:
            repeated.add(topic.name)
        partition_count += _partition_count(services, topic)
    results: dict[str, CreatedTopic | KafkaError] = {}
    try:
        services.forwarding.check_controller()
        check_partition_count(partition_count)
        new = [
            _new_topic(each)
            async for each in slices.of(named.values())
            if each.name not in repeated
        ]
        created = await services.topics.create_all(new, validate_only=request.validate_only)
        results.update(zip((each.name for each in new), created, strict=True))
    except KafkaError as error:
        results.update(dict.fromkeys(named, error))
    await services.changes_applied()
    answer = _Answer(services.config)
    return CreateTopicsResponse(
        topics=[answer.of(name, results.get(name, DUPLICATE)) async for name in slices.of(named)]
    )


def _partition_count(services: Services, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == USE_DEFAULT:
        return services.config.num_partitions
    return max(0, topic.num_partitions)  # Fewer are refused on their own.


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        assignments=[(one.partition_index, one.broker_ids) for one in topic.assignments],
        config={config.name: config.value for config in topic.configs},
    )


class _Answer:
    """To one request. Topics with equal settings, most of a large one, have them described once."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._described: dict[tuple[tuple[str, str], ...], list[CreatableTopicConfigs]] = {}

    def of(self, name: str, result: CreatedTopic | KafkaError) -> CreatableTopicResult:
        if isinstance(result, KafkaError):
            return CreatableTopicResult(
                name=name, error_code=result.code, error_message=result.message
            )
        return CreatableTopicResult(
            name=name,
            error_message=None,
            topic_id=result.topic.id,
            num_partitions=len(result.topic.partitions),
            replication_factor=len(result.topic.partitions[0].replicas),
            configs=self._configs(result.config),
        )

    def _configs(self, config: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        key = tuple(config.items())
        if key not in self._described:
            self._described[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=config.get(entry.name, entry.value),  # As it was written.
                    read_only=entry.read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in describe_topic(config, self._config)
            ]
        return self._described[key]
