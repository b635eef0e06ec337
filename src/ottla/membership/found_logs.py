"""What becomes of logs that a broker finds at its start, and of which the cluster knows nothing."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.coordination import znodes
from ottla.coordination.store import Store
from ottla.kernel.ids import BrokerId, TopicId, TopicPartition
from ottla.membership.registration import end_adoption
from ottla.metadata.image import ClusterImage
from ottla.storage.errors import BrokerStartRefused
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager

if TYPE_CHECKING:
    from ottla.controller.topic_planning import NewTopic

log = logging.getLogger(__name__)


async def set_strays_aside(logs: LogManager, image: ClusterImage, broker_id: BrokerId) -> None:
    """Logs of no replica of this broker: a crash between the deletion of a topic and that of its
    logs leaves them behind, a replica was moved away while the broker was down, or somebody copied
    them here. Nobody can say which, so they are kept."""
    strays = {}
    for topic_partition, found in logs.logs.items():
        why = _why_stray(topic_partition, found, image, broker_id)
        if why is not None:
            strays[topic_partition] = why
            log.warning("%s %s: setting it aside", found.path, why)
    await logs.set_aside(*strays)


def _why_stray(
    topic_partition: TopicPartition, found: Log, image: ClusterImage, broker_id: BrokerId
) -> str | None:
    topic = image.topics.get(topic_partition.topic)
    if (
        topic is None
        or topic_partition.partition >= len(topic.partitions)
        or found.topic_id not in (None, topic.id)
    ):
        return "belongs to no topic"
    if broker_id not in topic.partitions[topic_partition.partition].replicas:
        return f"is of no replica of broker {broker_id}"
    return None


async def adopt_logs(
    store: Store,
    logs: LogManager,
    image: ClusterImage,
    broker_id: BrokerId,
    create: Callable[[NewTopic], Awaitable[object]],
) -> None:
    """Logs, and no store that knows of their topics: a log dir that Apache Kafka wrote, or one
    whose store was lost. The folders tell names, partitions and ids; settings are lost. Beside
    other brokers nobody can tell who of them has what, so this broker does not start."""
    for folder in logs.folders:
        if folder.failure is not None:
            raise BrokerStartRefused(f"what there is to take over is not known: {folder.failure}")
    for damaged in logs.damaged.values():
        raise BrokerStartRefused(f"{damaged.path} cannot be taken over: it is damaged, see above")
    counts: dict[str, int] = {}
    ids: dict[str, TopicId | None] = {}
    # Leaders go on where those before them were: an epoch of 0 would drop what the log knows of
    # epochs, and partitions would refuse the markers of a transaction coordinator as old ones.
    epochs: dict[str, dict[int, int]] = {}
    for (topic, number), found in logs.logs.items():
        epochs.setdefault(topic, {})[number] = found.leader_epochs.latest_epoch + 1
        counts[topic] = max(counts.get(topic, 0), number + 1)
        ids[topic] = ids.get(topic) or found.topic_id
    # What is known, a crash came after.
    unknown = [topic for topic in counts if topic not in image.topics]
    from ottla.controller.topic_planning import NewTopic  # Most starts take nothing over.

    if unknown:
        await _check_alone(store, broker_id, unknown)
    for topic in unknown:
        count = counts[topic]
        log.warning("taking over topic %s with %d partitions from its logs", topic, count)
        await create(
            NewTopic(
                topic,
                assignments=[(number, (broker_id,)) for number in range(count)],
                id=ids[topic],
                leader_epochs=epochs[topic],
            )
        )
    await end_adoption(store)


async def _check_alone(store: Store, broker_id: BrokerId, unknown: list[str]) -> None:
    others = set(await store.children(znodes.BROKER_IDS)) - {str(broker_id)}
    if others:
        raise BrokerStartRefused(
            f"the cluster is new and knows nothing of the {len(unknown)} topics whose logs are here"
            f" ({unknown[0]}, ...), and other brokers of it run ({', '.join(sorted(others))}): to"
            " take logs over, start this broker first and alone; else move them away"
        )
