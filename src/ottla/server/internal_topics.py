"""Makes the topics that the coordinators keep their state in, when one is first asked for."""

from __future__ import annotations

from ottla.config.broker import BrokerConfig
from ottla.controller.topic_planning import NewTopic
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.metadata.image import TopicImage
from ottla.server.services import Services


def new_internal_topic(services: Services, name: str) -> NewTopic:
    config = services.config
    if name == CONSUMER_OFFSETS:
        count = _replica_count(services, "offsets.topic", config.offsets_topic_replication_factor)
        return _consumer_offsets(config, count)
    assert name == TRANSACTION_STATE, f"{name} is no internal topic of this broker"
    count = _replica_count(
        services, "transaction.state.log", config.transaction_state_log_replication_factor
    )
    return _transaction_state(config, count)


def _replica_count(services: Services, prefix: str, configured: int) -> int:
    """A broker by itself makes do with itself. In a cluster, and where somebody has said how many,
    the topic waits for as many brokers: made with fewer it would stay so for ever."""
    config = services.config
    if config.zookeeper_connect is not None or f"{prefix}.replication.factor" in config.given:
        return configured
    return min(configured, len(services.image.brokers))


def _consumer_offsets(config: BrokerConfig, replica_count: int) -> NewTopic:
    return NewTopic(
        CONSUMER_OFFSETS,
        config.offsets_topic_num_partitions,
        replica_count,
        config={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


def _transaction_state(config: BrokerConfig, replica_count: int) -> NewTopic:
    return NewTopic(
        TRANSACTION_STATE,
        config.transaction_state_log_num_partitions,
        replica_count,
        config={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


async def create_topic(services: Services, topic: NewTopic) -> TopicImage:
    """One that nobody has asked for by CreateTopics, on whichever broker the controller is. When
    this returns, this broker leads its part of it."""
    try:
        if services.forwarding.is_controller:
            await services.topics.create(topic)
        else:
            await services.forwarding.create_topic(topic)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    await services.topic_made(topic.name)
    return _shown(services, topic.name)


def _shown(services: Services, name: str) -> TopicImage:
    topic = services.image.topics.get(name)
    if topic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} has just been made or deleted."
        )
    return topic


async def ensure_internal_topic(services: Services, name: str) -> TopicImage:
    """Of many who ask at once the first makes it, and all wait."""
    if name not in services.image.topics:
        return await create_topic(services, new_internal_topic(services, name))
    await services.topic_applied(name)  # Coordinators hear of it a little later than the picture.
    return _shown(services, name)


async def coordinator_topic(services: Services, name: str) -> TopicImage:
    """For whoever wants a coordinator: without its topic there is none, and clients ask again
    after COORDINATOR_NOT_AVAILABLE, whereas other codes may end them."""
    try:
        return await ensure_internal_topic(services, name)
    except KafkaError as error:
        services.missing_topics.note(name, str(error))
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} could not be created: {error.message}"
        ) from error
