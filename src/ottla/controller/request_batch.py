"""Who is told what when an event is over: at most one LeaderAndIsr, one UpdateMetadata and one
StopReplica for each broker, however many partitions the event changed.

What they say is put in only when they leave, from the context as it is then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.config.listener import SECURITY_PROTOCOLS
from ottla.controller.controller_context import ControllerContext, LiveBroker
from ottla.coordination.znodes import Endpoint
from ottla.kernel.ids import BrokerId, TopicPartition
from ottla.kernel.slices import Slices
from ottla.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ALL = 2
SOME = 1
"""What of its partitions, or of the metadata, a broker is told."""

LEADER_DURING_DELETE = -2
EPOCH_DURING_DELETE = -2


class Sender(NamedTuple):
    """What every request says of the controller that sends it."""

    controller_id: BrokerId
    controller_epoch: int
    listener_name: str
    """Of the listener that brokers talk to each other by."""


Request = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class RequestBatch:
    """Owned by the plan of one event."""

    def __init__(self) -> None:
        self._lead_or_follow: dict[BrokerId, dict[TopicPartition, bool]] = {}
        """By broker: the partitions, and whether they are new."""
        self._stop: dict[BrokerId, dict[TopicPartition, bool]] = {}
        """By broker: the partitions, and whether to delete them."""
        self._metadata: dict[TopicPartition, None] = {}
        self._is_metadata_due = False
        self._told_all: set[BrokerId] = set()

    def lead_or_follow(
        self, brokers: Iterable[BrokerId], topic_partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """These hear of the partition's state in a LeaderAndIsr; all brokers in their metadata."""
        for broker_id in brokers:
            partitions = self._lead_or_follow.setdefault(broker_id, {})
            partitions[topic_partition] = is_new or partitions.get(topic_partition, False)
            self._stop.get(broker_id, {}).pop(topic_partition, None)  # The last word counts.
        self.update_metadata([topic_partition])

    def stop(
        self, brokers: Iterable[BrokerId], topic_partition: TopicPartition, *, delete: bool
    ) -> None:
        for broker_id in brokers:
            partitions = self._stop.setdefault(broker_id, {})
            partitions[topic_partition] = delete or partitions.get(topic_partition, False)
            self._lead_or_follow.get(broker_id, {}).pop(topic_partition, None)

    def update_metadata(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """All brokers hear of these partitions, and who is alive."""
        self._is_metadata_due = True
        self._metadata.update(dict.fromkeys(partitions))

    def tell_all(self, brokers: Iterable[BrokerId]) -> None:
        """These hear of everything: they have just started, or the controller has."""
        self._told_all.update(brokers)

    async def build(
        self, context: ControllerContext, sender: Sender, slices: Slices
    ) -> dict[BrokerId, list[Request]]:
        """By broker that is alive, in the order in which they are to be sent."""
        requests: dict[BrokerId, list[Request]] = {each: [] for each in context.live_brokers}
        builder = _Builder(context, sender, slices)
        # What several brokers are told is built once.
        some = await builder.metadata(self._metadata) if self._is_metadata_due else None
        everyone = [each for each, _ in context.partitions()] if self._told_all else []
        everything = await builder.metadata(everyone) if self._told_all else None
        for broker in context.live_brokers.values():
            found = requests[broker.id]
            is_told_all = broker.id in self._told_all
            if is_told_all:
                own = {
                    each: self._is_new(broker.id, each)
                    for each, assignment in context.partitions()
                    if broker.id in assignment.replicas
                }
                found.append(await builder.leader_and_isr(broker, own, ALL))
            elif self._lead_or_follow.get(broker.id):
                own = self._lead_or_follow[broker.id]
                found.append(await builder.leader_and_isr(broker, own, SOME))
            states = everything if is_told_all else some
            if states is not None:
                found.append(builder.update_metadata(broker, states, ALL if is_told_all else SOME))
            if self._stop.get(broker.id):
                found.append(await builder.stop_replica(broker, self._stop[broker.id]))
        return requests

    def _is_new(self, broker_id: BrokerId, topic_partition: TopicPartition) -> bool:
        return self._lead_or_follow.get(broker_id, {}).get(topic_partition, False)


class _Builder:
    def __init__(self, context: ControllerContext, sender: Sender, slices: Slices) -> None:
        self._context = context
        self._sender = sender
        self._slices = slices

    async def leader_and_isr(
        self, broker: LiveBroker, partitions: Mapping[TopicPartition, bool], kind: int
    ) -> LeaderAndIsrRequest:
        context = self._context
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: dict[int, None] = {}
        async for topic_partition, is_new in self._slices.of(partitions.items()):
            committed = context.committed.get(topic_partition)
            assignment = context.assignment(topic_partition)
            if committed is None or assignment is None:
                continue
            if topic_partition.topic in context.topics_to_delete:
                continue
            state = committed.state
            name = topic_partition.topic
            topic = topics.get(name)
            if topic is None:
                topic_id = context.topics[name].id
                topic = topics[name] = LeaderAndIsrTopicState(topic_name=name, topic_id=topic_id)
            leaders[state.leader] = None
            topic.partition_states.append(
                LeaderAndIsrPartitionState(
                    topic_name=name,
                    partition_index=topic_partition.partition,
                    controller_epoch=state.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    partition_epoch=committed.partition_epoch,
                    replicas=list(assignment.replicas),
                    adding_replicas=list(assignment.adding_replicas),
                    removing_replicas=list(assignment.removing_replicas),
                    is_new=is_new,
                    leader_recovery_state=state.leader_recovery_state,
                )
            )
        return LeaderAndIsrRequest(
            controller_id=self._sender.controller_id,
            controller_epoch=self._sender.controller_epoch,
            broker_epoch=broker.epoch,
            type=kind,
            topic_states=list(topics.values()),
            live_leaders=self._live_leaders(leaders),
        )

    def _live_leaders(self, leaders: Iterable[int]) -> list[LeaderAndIsrLiveLeader]:
        found = []
        for broker_id in leaders:
            broker = self._context.live_brokers.get(BrokerId(broker_id))
            endpoint = None if broker is None else self._endpoint(broker)
            if endpoint is not None:
                found.append(
                    LeaderAndIsrLiveLeader(
                        broker_id=broker_id, host_name=endpoint.host, port=endpoint.port
                    )
                )
        return found

    def _endpoint(self, broker: LiveBroker) -> Endpoint | None:
        name = self._sender.listener_name
        return next((each for each in broker.info.endpoints if each.listener_name == name), None)

    async def metadata(
        self, partitions: Collection[TopicPartition]
    ) -> list[UpdateMetadataTopicState]:
        context = self._context
        topics: dict[str, UpdateMetadataTopicState] = {}
        async for topic_partition in self._slices.of(partitions):
            committed = context.committed.get(topic_partition)
            assignment = context.assignment(topic_partition)
            if committed is None or assignment is None:
                continue
            name = topic_partition.topic
            topic = topics.get(name)
            if topic is None:
                topic_id = context.topics[name].id
                topic = topics[name] = UpdateMetadataTopicState(topic_name=name, topic_id=topic_id)
            state = committed.state
            is_going = name in context.topics_to_delete
            topic.partition_states.append(
                UpdateMetadataPartitionState(
                    topic_name=name,
                    partition_index=topic_partition.partition,
                    controller_epoch=state.controller_epoch,
                    leader=LEADER_DURING_DELETE if is_going else state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    zk_version=committed.partition_epoch,
                    replicas=list(assignment.replicas),
                    offline_replicas=[
                        each
                        for each in assignment.replicas
                        if not context.is_online(each, topic_partition)
                    ],
                    eligible_leader_replicas=list(state.eligible_leader_replicas),
                    last_known_elr=list(state.last_known_elr),
                )
            )
        return list(topics.values())

    def update_metadata(
        self, broker: LiveBroker, states: list[UpdateMetadataTopicState], kind: int
    ) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=self._sender.controller_id,
            type=kind,
            controller_epoch=self._sender.controller_epoch,
            broker_epoch=broker.epoch,
            topic_states=states,
            live_brokers=[_metadata_of(each) for each in self._context.live_brokers.values()],
        )

    async def stop_replica(
        self, broker: LiveBroker, partitions: Mapping[TopicPartition, bool]
    ) -> StopReplicaRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        async for topic_partition, delete in self._slices.of(partitions.items()):
            name = topic_partition.topic
            topic = topics.setdefault(name, StopReplicaTopicState(topic_name=name))
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=topic_partition.partition,
                    leader_epoch=self._epoch_to_stop(topic_partition),
                    delete_partition=delete,
                )
            )
        return StopReplicaRequest(
            controller_id=self._sender.controller_id,
            controller_epoch=self._sender.controller_epoch,
            broker_epoch=broker.epoch,
            topic_states=list(topics.values()),
        )

    def _epoch_to_stop(self, topic_partition: TopicPartition) -> int:
        committed = self._context.committed.get(topic_partition)
        if committed is None or topic_partition.topic in self._context.topics_to_delete:
            return EPOCH_DURING_DELETE
        return committed.state.leader_epoch


def _metadata_of(broker: LiveBroker) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener_name,
                security_protocol=SECURITY_PROTOCOLS.index(endpoint.security_protocol),
            )
            for endpoint in broker.info.endpoints
        ],
        rack=broker.info.rack,
        epoch=broker.epoch,
    )


def partitions_to_delete(request: StopReplicaRequest) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic_name, partition.partition_index)
        for topic in request.topic_states
        for partition in topic.partition_states
        if partition.delete_partition
    ]
