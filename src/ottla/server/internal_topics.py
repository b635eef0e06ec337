"""Makes the topics that the coordinators keep their state in, when one is first asked for."""

from __future__ import annotations

from ottla.config.broker import BrokerConfig
from ottla.controller.topics import NewTopic
from ottla.coordination.image import TopicImage
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.server.services import Services


def new_internal_topic(services: Services, name: str) -> NewTopic:
    """With as many replicas as are configured, or as there are brokers if these are fewer."""
    broker_count = len(services.image.brokers)
    if name == CONSUMER_OFFSETS:
        return _consumer_offsets(services.config, broker_count)
    assert name == TRANSACTION_STATE, f"{name} is no internal topic of this broker"
    return _transaction_state(services.config, broker_count)


def _consumer_offsets(config: BrokerConfig, broker_count: int) -> NewTopic:
    return NewTopic(
        CONSUMER_OFFSETS,
        config.offsets_topic_num_partitions,
        min(config.offsets_topic_replication_factor, broker_count),
        config={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


def _transaction_state(config: BrokerConfig, broker_count: int) -> NewTopic:
    return NewTopic(
        TRANSACTION_STATE,
        config.transaction_state_log_num_partitions,
        min(config.transaction_state_log_replication_factor, broker_count),
        config={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


async def ensure_internal_topic(services: Services, name: str) -> TopicImage:
    """Returns it when this broker leads its part of it: the picture of the cluster has a topic
    before its logs are there. Of many who ask at once the first makes it, and all wait."""
    if name not in services.image.topics:
        try:
            await services.topics.create(new_internal_topic(services, name))
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
    await services.topic_applied(name)
    topic = services.image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} has just been deleted.")
    return topic


async def coordinator_topic(services: Services, name: str) -> TopicImage:
    """For whoever wants a coordinator: without its topic there is none, and clients ask again
    after COORDINATOR_NOT_AVAILABLE, whereas other codes may end them."""
    try:
        return await ensure_internal_topic(services, name)
    except KafkaError as error:
        raise KafkaError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{name} could not be created: {error.message}"
        ) from error
