"""What the controller knows of the cluster: the znodes in memory, and what follows from them.

The first half (brokers, topics, states of partitions, settings) is what the store has; a new
controller reads it (`load_context`). The second half (which step of its life each partition and
replica is at) is the controller's own, and a new one works it out again.

An event plans from the context, writes, and then changes it (`change_plan.py`): nothing else does.
The exception is who is alive. That is a fact of the store before the event begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.config.topic import TopicConfig
from ottla.controller.partition_state_machine import PartitionState
from ottla.controller.replica_state_machine import ReplicaState
from ottla.coordination import znodes
from ottla.coordination.store import Node, Store
from ottla.coordination.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from ottla.kernel.slices import Slices

NO_LEADER = -1

K = TypeVar("K")

Config = Mapping[str, str]

ResolveTopicConfig = Callable[[Config], TopicConfig]
"""From a topic's own settings to all of them."""


class LiveBroker(NamedTuple):
    id: BrokerId
    epoch: int
    """The number of the change that registered it: greater with each registration."""
    info: BrokerInfo


class Topic(NamedTuple):
    name: str
    id: TopicId
    partitions: tuple[ReplicaAssignment, ...]
    """By partition number, which is also the index."""
    version: int = 0
    """Of the topic's znode."""


class CommittedState(NamedTuple):
    """Of a partition, as the store has it."""

    state: LeaderAndIsr
    partition_epoch: int
    """The version of the znode, which grows with each change."""


class Replica(NamedTuple):
    topic_partition: TopicPartition
    broker_id: BrokerId


class ControllerContext:
    """Owned by a controller, for one controller epoch. A crash takes it; the next controller loads
    its own."""

    def __init__(self, controller_epoch: int, resolve: ResolveTopicConfig) -> None:
        self.controller_epoch = controller_epoch
        self.resolve = resolve
        self.live_brokers: dict[BrokerId, LiveBroker] = {}
        self.accepted_epochs: dict[BrokerId, int] = {}
        """By broker, the registration that a controller has acted on last."""
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[TopicId, Topic] = {}
        self.committed: dict[TopicPartition, CommittedState] = {}
        self.topics_to_delete: set[str] = set()
        self.topic_configs: dict[str, Config] = {}
        self.broker_configs: dict[int | None, Config] = {}
        """Dynamic settings of single brokers; under None what holds for every broker."""
        self.group_configs: dict[str, Config] = {}
        self.client_metrics_configs: dict[str, Config] = {}
        self.half_made: set[str] = set()
        """Nodes of partitions without a state: the creation of a large topic was cut short."""

        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.shutting_down: set[BrokerId] = set()
        """Alive, and asked to be spared of leaderships."""
        self.offline_dirs: dict[BrokerId, set[TopicPartition]] = {}
        """Replicas of live brokers on disks that have failed."""

    # Brokers

    def is_online(self, broker_id: int, topic_partition: TopicPartition) -> bool:
        """Whether the broker is alive and can use its replica of the partition."""
        return broker_id in self.live_brokers and topic_partition not in self.offline_dirs.get(
            BrokerId(broker_id), ()
        )

    def epoch_of(self, broker_id: int) -> int | None:
        broker = self.live_brokers.get(BrokerId(broker_id))
        return None if broker is None else broker.epoch

    # Topics

    def put_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        if topic.id != NO_TOPIC_ID:
            self.topics_by_id[topic.id] = topic

    def forget_topic(self, name: str) -> None:
        topic = self.topics.pop(name)
        self.topics_by_id.pop(topic.id, None)
        self.topics_to_delete.discard(name)
        self.topic_configs.pop(name, None)
        for topic_partition, assignment in partitions_of(topic):
            self.committed.pop(topic_partition, None)
            self.partition_states.pop(topic_partition, None)
            for replica in replicas_of(topic_partition, assignment):
                self.replica_states.pop(replica, None)

    def topic_config(self, topic: str) -> TopicConfig:
        return self.resolve(self.topic_configs.get(topic, {}))

    def assignment(self, topic_partition: TopicPartition) -> ReplicaAssignment | None:
        """None where there is no such partition."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            return None
        return topic.partitions[topic_partition.partition]

    def has_topic(self, name: str) -> bool:
        """As clients see it: one that is being deleted is gone."""
        return name in self.topics and name not in self.topics_to_delete

    def partitions(self) -> Iterator[tuple[TopicPartition, ReplicaAssignment]]:
        for topic in self.topics.values():
            yield from partitions_of(topic)

    def replicas_on(self, brokers: Collection[BrokerId]) -> Iterator[Replica]:
        for topic_partition, assignment in self.partitions():
            for broker_id in assignment.replicas:
                if broker_id in brokers:
                    yield Replica(topic_partition, BrokerId(broker_id))

    def is_reassigned(self, topic_partition: TopicPartition) -> bool:
        assignment = self.assignment(topic_partition)
        return assignment is not None and bool(
            assignment.adding_replicas or assignment.removing_replicas
        )


def partitions_of(topic: Topic) -> Iterator[tuple[TopicPartition, ReplicaAssignment]]:
    for number, assignment in enumerate(topic.partitions):
        yield TopicPartition(topic.name, number), assignment


def replicas_of(
    topic_partition: TopicPartition, assignment: ReplicaAssignment
) -> Iterator[Replica]:
    for broker_id in assignment.replicas:
        yield Replica(topic_partition, BrokerId(broker_id))


# -- loading ----------------------------------------------------------------------------


async def load_context(
    store: Store, controller_epoch: int, resolve: ResolveTopicConfig, slices: Slices
) -> ControllerContext:
    """Reads what the store has, many nodes at a time."""
    context = ControllerContext(controller_epoch, resolve)
    context.live_brokers = await read_brokers(store)
    for name, node in (await _read_below(store, znodes.ACCEPTED_BROKERS)).items():
        context.accepted_epochs[BrokerId(int(name))] = int(node.data)
    topics = await _read_below(store, znodes.TOPICS)
    async for name, node in slices.of(topics.items()):
        context.put_topic(_topic(name, node))
    context.topics_to_delete.update(await store.children(znodes.DELETE_TOPICS))
    await _load_states(store, context, slices)
    context.topic_configs = await _read_configs(store, znodes.TOPIC_CONFIGS, str)
    context.broker_configs = await _read_configs(
        store,
        znodes.BROKER_CONFIGS,
        lambda name: None if name == znodes.DEFAULT_ENTITY else int(name),
    )
    context.group_configs = await _read_configs(store, znodes.GROUP_CONFIGS, znodes.unquoted)
    context.client_metrics_configs = await _read_configs(
        store, znodes.CLIENT_METRICS_CONFIGS, znodes.unquoted
    )
    return context


async def read_brokers(store: Store) -> dict[BrokerId, LiveBroker]:
    found = await _read_below(store, znodes.BROKER_IDS)
    brokers = (
        LiveBroker(BrokerId(int(name)), node.czxid, znodes.decode_broker(int(name), node.data))
        for name, node in found.items()
    )
    return {broker.id: broker for broker in sorted(brokers)}


async def _read_below(store: Store, path: str) -> dict[str, Node]:
    """By the names of the children."""
    names = await store.children(path)
    found = await store.get_many([f"{path}/{name}" for name in names])
    return {each.rpartition("/")[2]: node for each, node in found.items()}


async def _read_configs(store: Store, path: str, key_of: Callable[[str], K]) -> dict[K, Config]:
    return {
        key_of(name): znodes.decode_config(f"{path}/{name}", node.data)
        for name, node in (await _read_below(store, path)).items()
    }


def _topic(name: str, node: Node) -> Topic:
    assignment = znodes.decode_topic(name, node.data)
    numbers = sorted(assignment.partitions)
    if numbers != list(range(len(numbers))):
        raise znodes.BadZnode(
            f"{znodes.topic_path(name)} lists partitions {numbers}, not 0 to {len(numbers) - 1}"
        )
    partitions = tuple(assignment.partitions[number] for number in numbers)
    return Topic(name, assignment.topic_id or NO_TOPIC_ID, partitions, node.version)


async def _load_states(store: Store, context: ControllerContext, slices: Slices) -> None:
    paths = {
        znodes.partition_state_path(*topic_partition): topic_partition
        async for topic_partition, _ in slices.of(context.partitions())
    }
    nodes = await store.get_many(list(paths))
    async for path, node in slices.of(nodes.items()):
        state = znodes.decode_partition_state(path, node.data)
        context.committed[paths[path]] = CommittedState(state, node.version)
    context.half_made.update(await store.get_many(_paths_without_state(context, paths.values())))


def _paths_without_state(
    context: ControllerContext, partitions: Iterable[TopicPartition]
) -> Sequence[str]:
    stateless = [each for each in partitions if each not in context.committed]
    folders = dict.fromkeys(znodes.partitions_path(each.topic) for each in stateless)
    return [*folders, *(znodes.partition_path(*each) for each in stateless)]
