"""Makes the topics that the coordinators keep their state in, when one is first asked for."""

from __future__ import annotations

from ottla.controller.topics import NewTopic
from ottla.coordination.image import TopicImage
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.internal_topics import CONSUMER_OFFSETS
from ottla.server.services import Services


def new_internal_topic(services: Services, name: str) -> NewTopic:
    """With as many replicas as are configured, or as there are brokers if these are fewer."""
    assert name == CONSUMER_OFFSETS, f"{name} is no internal topic of this broker"
    config = services.config
    return NewTopic(
        name,
        config.offsets_topic_num_partitions,
        min(config.offsets_topic_replication_factor, len(services.image.brokers)),
        config={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


async def ensure_internal_topic(services: Services, name: str) -> TopicImage:
    topic = services.image.topics.get(name)
    if topic is not None:
        return topic
    try:
        await services.topics.create(new_internal_topic(services, name))
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    await services.changes_applied()
    return services.image.topics[name]
