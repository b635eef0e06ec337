"""What the controller tells by UpdateMetadata, as changes of the picture.

A request has all live brokers, and the partitions whose state is news: what it does not name stays
as it was, unless the request says that it tells everything.

- A topic that is being deleted has the leader -2 in all its partitions.
- A name with another topic id is another topic: the old one is gone, though nobody said so.
- Partitions that were not named yet, below one that was, have no leader and no replicas known.
"""

from __future__ import annotations

from ottla.config.listener import SECURITY_PROTOCOLS
from ottla.coordination.znodes import Endpoint
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId
from ottla.kernel.slices import Slices
from ottla.metadata.image import (
    BrokerImage,
    BrokersChanged,
    Change,
    ClusterImage,
    ControllerChanged,
    PartitionImage,
    TopicCreated,
    TopicDeleted,
    TopicImage,
    difference,
)
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

LEADER_DURING_DELETE = -2
TYPE_FULL = 2
PARTITION_MAX = 1 << 20
"""Each partition below the highest has a place in memory."""


async def update_image(image: ClusterImage, request: UpdateMetadataRequest, slices: Slices) -> None:
    """Of a version that groups partitions by topic (5 and later), from a controller whose epoch was
    checked; one request after another. Others look at the picture meanwhile: each topic is as it
    was, or as it is now. A new topic has the settings that the picture knows for its name: whoever
    calls this has read them before."""
    brokers = {BrokerId(each.id): _broker(each) for each in request.live_brokers}
    brokers = dict(sorted(brokers.items()))
    if image.brokers != brokers:
        image.apply(BrokersChanged(brokers))
    if image.controller_id != request.controller_id:
        image.apply(ControllerChanged(request.controller_id))
    is_full = request.type == TYPE_FULL
    if is_full:
        told = {state.topic_name async for state in slices.of(request.topic_states)}
        async for topic in slices.of(list(image.topics.values())):
            if topic.name not in told:
                image.apply(TopicDeleted(topic))
    async for state in slices.of(request.topic_states):
        for change in await _topic_changes(image, state, slices, is_full=is_full):
            image.apply(change)


def _broker(told: UpdateMetadataBroker) -> BrokerImage:
    endpoints = {}
    for each in told.endpoints:
        if not 0 <= each.security_protocol < len(SECURITY_PROTOCOLS):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"security protocol {each.security_protocol} is unknown"
            )
        protocol = SECURITY_PROTOCOLS[each.security_protocol]  # Each at its number in requests.
        endpoints[each.listener] = Endpoint(each.listener, protocol, each.host, each.port)
    return BrokerImage(BrokerId(told.id), told.epoch, endpoints, told.rack)


async def _topic_changes(
    image: ClusterImage, state: UpdateMetadataTopicState, slices: Slices, *, is_full: bool
) -> list[Change]:
    told: dict[int, PartitionImage] = {}
    is_going = False
    async for partition in slices.of(state.partition_states):
        is_going = is_going or partition.leader == LEADER_DURING_DELETE
        told[partition.partition_index] = _partition(partition)
    known = image.topics.get(state.topic_name)
    if is_going or not told:
        return [TopicDeleted(known)] if is_going and known is not None else []
    changes: list[Change] = []
    config = image.topic_configs.get(state.topic_name, {})
    if known is not None and NO_TOPIC_ID != known.id != state.topic_id != NO_TOPIC_ID:
        changes.append(TopicDeleted(known))
        known = None
    before = known.partitions if known is not None else ()
    partitions = list(before) if not is_full else []
    partitions.extend(map(_unknown_partition, range(len(partitions), max(told) + 1)))
    async for number, image_of_partition in slices.of(told.items()):
        if number < len(before) and before[number].version > image_of_partition.version:
            # A controller that gave up a connection has told a later state over another one.
            image_of_partition = before[number]
        partitions[number] = image_of_partition
    if known is None:
        topic = TopicImage(state.topic_name, state.topic_id, tuple(partitions))
        return [*changes, TopicCreated(topic, config)]
    topic_id = known.id if state.topic_id == NO_TOPIC_ID else state.topic_id
    topic = known._replace(id=topic_id, partitions=tuple(partitions))
    return [difference(known, topic)] if topic != known else []


def _partition(told: UpdateMetadataPartitionState) -> PartitionImage:
    if not 0 <= told.partition_index < PARTITION_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"no partition is {told.partition_index}")
    return PartitionImage(
        told.partition_index,
        tuple(told.replicas),
        told.leader,
        told.leader_epoch,
        tuple(told.isr),
        told.controller_epoch,
        told.zk_version,
        offline_replicas=tuple(told.offline_replicas),
        eligible_leader_replicas=tuple(told.eligible_leader_replicas),
        last_known_elr=tuple(told.last_known_elr),
    )


def _unknown_partition(number: int) -> PartitionImage:
    return PartitionImage(number, replicas=())
