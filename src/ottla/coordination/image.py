"""The picture of the cluster that a broker serves metadata from: what the znodes say, in
memory, found by one dict lookup."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.coordination import znodes
from ottla.coordination.store import Node, Store
from ottla.coordination.znodes import BrokerInfo, Endpoint, LeaderAndIsr, ReplicaAssignment
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId, TopicId

NO_LEADER = -1


class BrokerImage(NamedTuple):
    id: BrokerId
    epoch: int
    """The number of the change that registered it: greater with each registration."""
    endpoints: Mapping[str, Endpoint]
    """By listener name, in the order registered."""
    rack: str | None = None


class PartitionImage(NamedTuple):
    partition: int
    replicas: tuple[int, ...]
    leader: int = NO_LEADER
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    controller_epoch: int = -1
    version: int = -1
    """Of the state znode, for conditional writes; Kafka's partition epoch."""
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = 0


class TopicImage(NamedTuple):
    name: str
    id: TopicId
    partitions: tuple[PartitionImage, ...]
    """By partition number, which is also the index."""
    version: int = 0
    """Of the topic znode, for conditional writes."""


class TopicCreated(NamedTuple):
    topic: TopicImage
    config: Mapping[str, str]


class TopicDeleted(NamedTuple):
    topic: TopicImage


class TopicChanged(NamedTuple):
    """Partitions were added, or the leader, ISR or replicas of some are others now."""

    topic: TopicImage
    partitions: tuple[int, ...]
    """The new and the changed ones; those from `first_new_partition` on are new."""
    first_new_partition: int


class TopicConfigChanged(NamedTuple):
    topic: str
    config: Mapping[str, str]


class BrokerConfigChanged(NamedTuple):
    broker_id: int | None
    """None: what holds for every broker."""
    config: Mapping[str, str]


class GroupConfigChanged(NamedTuple):
    group_id: str
    config: Mapping[str, str]


class ClientMetricsConfigChanged(NamedTuple):
    subscription: str
    config: Mapping[str, str]


class BrokersChanged(NamedTuple):
    brokers: Mapping[BrokerId, BrokerImage]


class ControllerChanged(NamedTuple):
    controller_id: int


Change = (
    TopicCreated
    | TopicDeleted
    | TopicChanged
    | TopicConfigChanged
    | BrokerConfigChanged
    | GroupConfigChanged
    | ClientMetricsConfigChanged
    | BrokersChanged
    | ControllerChanged
)


class ClusterImage:
    """Owned by the broker, rebuilt at each start. Entries are immutable and replaced whole, so
    that whoever holds one may keep it. Changed only by `apply`."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: Mapping[BrokerId, BrokerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[TopicId, TopicImage] = {}
        self.topic_configs: dict[str, Mapping[str, str]] = {}
        self.broker_configs: dict[int | None, Mapping[str, str]] = {}
        """Dynamic settings of single brokers; under None what holds for every broker."""
        self.group_configs: dict[str, Mapping[str, str]] = {}
        """Of groups that have settings of their own."""
        self.client_metrics_configs: dict[str, Mapping[str, str]] = {}
        """Of subscriptions to metrics of clients (KIP-714)."""
        self._listeners: list[Callable[[Change], None]] = []

    def on_change(self, listener: Callable[[Change], None]) -> None:
        """Calls back on the loop, in the order of the changes, after the picture shows them.
        A listener must not raise: the change has happened."""
        self._listeners.append(listener)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        image = self.topics.get(topic)
        if image is None or not 0 <= partition < len(image.partitions):
            return None
        return image.partitions[partition]

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        return [replica for replica in partition.replicas if replica not in self.brokers]

    def apply(self, change: Change) -> None:
        match change:
            case TopicCreated(topic, config):
                self._put(topic)
                self.topic_configs[topic.name] = config
            case TopicDeleted(topic):
                del self.topics[topic.name]
                self.topics_by_id.pop(topic.id, None)
                self.topic_configs.pop(topic.name, None)
            case TopicChanged(topic=topic):
                self._put(topic)
            case TopicConfigChanged(name, config):
                self.topic_configs[name] = config
            case BrokerConfigChanged(broker_id, config):
                self.broker_configs[broker_id] = config
            case GroupConfigChanged(group_id, config):
                _keep(self.group_configs, group_id, config)
            case ClientMetricsConfigChanged(subscription, config):
                _keep(self.client_metrics_configs, subscription, config)
            case BrokersChanged(brokers):
                self.brokers = brokers
            case ControllerChanged(controller_id):
                self.controller_id = controller_id
        for listener in self._listeners:
            listener(change)

    def become(self, other: ClusterImage) -> None:
        """Applies, one by one, what differs from a picture that was loaded anew."""
        for name, topic in list(self.topics.items()):
            if name not in other.topics or other.topics[name].id != topic.id:
                self.apply(TopicDeleted(topic))
        for name, topic in other.topics.items():
            config = other.topic_configs.get(name, {})
            old = self.topics.get(name)
            if old is None:
                self.apply(TopicCreated(topic, config))
                continue
            if old != topic:
                self.apply(_difference(old, topic))
            if self.topic_configs.get(name, {}) != config:
                self.apply(TopicConfigChanged(name, config))
        for broker_id in sorted(
            self.broker_configs.keys() | other.broker_configs.keys(),
            key=lambda broker_id: -1 if broker_id is None else broker_id,
        ):
            config = other.broker_configs.get(broker_id, {})
            if self.broker_configs.get(broker_id, {}) != config:
                self.apply(BrokerConfigChanged(broker_id, config))
        for group_id, config in _changed(self.group_configs, other.group_configs):
            self.apply(GroupConfigChanged(group_id, config))
        for name, config in _changed(self.client_metrics_configs, other.client_metrics_configs):
            self.apply(ClientMetricsConfigChanged(name, config))
        if self.brokers != other.brokers:
            self.apply(BrokersChanged(other.brokers))
        if self.controller_id != other.controller_id:
            self.apply(ControllerChanged(other.controller_id))

    def _put(self, topic: TopicImage) -> None:
        self.topics[topic.name] = topic
        if topic.id != NO_TOPIC_ID:
            self.topics_by_id[topic.id] = topic


Configs = dict[str, Mapping[str, str]]


def _keep(configs: Configs, name: str, config: Mapping[str, str]) -> None:
    """Nothing of what has no settings of its own."""
    if config:
        configs[name] = config
    else:
        configs.pop(name, None)


def _changed(old: Configs, new: Configs) -> list[tuple[str, Mapping[str, str]]]:
    names = sorted(old.keys() | new.keys())
    return [(name, new.get(name, {})) for name in names if old.get(name, {}) != new.get(name, {})]


def _difference(old: TopicImage, new: TopicImage) -> TopicChanged:
    changed = tuple(
        partition.partition
        for partition in new.partitions
        if partition.partition >= len(old.partitions)
        or old.partitions[partition.partition] != partition
    )
    return TopicChanged(new, changed, len(old.partitions))


async def load_image(store: Store) -> ClusterImage:
    """Reads the whole picture, in one read for any number of topics."""
    tree = await store.tree("/")
    image = ClusterImage()
    brokers = {}
    for path, node in tree.items():
        folder, _, name = path.rpartition("/")
        if folder == znodes.TOPICS:
            image._put(_topic_image(tree, name, node))
        elif folder == znodes.TOPIC_CONFIGS:
            image.topic_configs[name] = znodes.decode_config(path, node.data)
        elif folder == znodes.BROKER_CONFIGS:
            config_of = None if name == znodes.DEFAULT_ENTITY else int(name)
            image.broker_configs[config_of] = znodes.decode_config(path, node.data)
        elif folder == znodes.GROUP_CONFIGS:
            group_id = znodes.unquoted(name)
            image.group_configs[group_id] = znodes.decode_config(path, node.data)
        elif folder == znodes.CLIENT_METRICS_CONFIGS:
            config = znodes.decode_config(path, node.data)
            image.client_metrics_configs[znodes.unquoted(name)] = config
        elif folder == znodes.BROKER_IDS:
            broker_id = BrokerId(int(name))
            info = znodes.decode_broker(broker_id, node.data)
            brokers[broker_id] = broker_image(broker_id, info, node.czxid)
    image.brokers = dict(sorted(brokers.items()))
    if znodes.CLUSTER_ID in tree:
        image.cluster_id = znodes.decode_cluster_id(tree[znodes.CLUSTER_ID].data)
    if znodes.CONTROLLER in tree:
        image.controller_id = znodes.decode_controller(tree[znodes.CONTROLLER].data)
    return image


def broker_image(broker_id: BrokerId, info: BrokerInfo, epoch: int) -> BrokerImage:
    endpoints = {endpoint.listener_name: endpoint for endpoint in info.endpoints}
    return BrokerImage(broker_id, epoch, endpoints, info.rack)


def _topic_image(tree: Mapping[str, Node], name: str, node: Node) -> TopicImage:
    assignment = znodes.decode_topic(name, node.data)
    numbers = sorted(assignment.partitions)
    if numbers != list(range(len(numbers))):
        raise znodes.BadZnode(
            f"{znodes.topic_path(name)} lists partitions {numbers}, not 0 to {len(numbers) - 1}"
        )
    partitions = []
    for number in numbers:
        path = znodes.partition_state_path(name, number)
        state_node = tree.get(path)
        state = znodes.decode_partition_state(path, state_node.data) if state_node else None
        version = state_node.version if state_node else -1
        partitions.append(partition_image(number, assignment.partitions[number], state, version))
    topic_id = assignment.topic_id or NO_TOPIC_ID
    return TopicImage(name, topic_id, tuple(partitions), node.version)


def partition_image(
    partition: int, assignment: ReplicaAssignment, state: LeaderAndIsr | None, version: int
) -> PartitionImage:
    """Without a state the controller has yet to bring the partition online."""
    if state is None:
        return PartitionImage(
            partition,
            assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
        )
    return PartitionImage(
        partition,
        assignment.replicas,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.controller_epoch,
        version,
        assignment.adding_replicas,
        assignment.removing_replicas,
        state.leader_recovery_state,
    )
