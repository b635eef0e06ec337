"""The picture of the cluster that a broker serves metadata from, in memory, found by one dict
lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import starmap
from typing import NamedTuple

from ottla.coordination.znodes import Endpoint
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId, TopicId

NO_LEADER = -1


class BrokerImage(NamedTuple):
    id: BrokerId
    epoch: int
    """The number of the change that registered it: greater with each registration. -1 when the
    controller, one of Apache Kafka, does not tell."""
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
    offline_replicas: tuple[int, ...] = ()
    """As the controller told them: on brokers that are gone, or on disks that failed."""
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    """Both as in `znodes.LeaderAndIsr`."""


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


ConfigChange = (
    TopicConfigChanged | BrokerConfigChanged | GroupConfigChanged | ClientMetricsConfigChanged
)

Change = (
    TopicCreated | TopicDeleted | TopicChanged | ConfigChange | BrokersChanged | ControllerChanged
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

    def endpoint(self, broker_id: int, listener_name: str) -> Endpoint | None:
        """None when the broker does not run, or has no such listener."""
        broker = self.brokers.get(BrokerId(broker_id))
        return None if broker is None else broker.endpoints.get(listener_name)

    def endpoints(self, listener_name: str) -> list[tuple[BrokerImage, Endpoint]]:
        """Of all brokers that can be reached by this listener, in the order of their ids."""
        return [
            (broker, broker.endpoints[listener_name])
            for broker in self.brokers.values()
            if listener_name in broker.endpoints
        ]

    def offline_replicas(self, partition: PartitionImage, listener_name: str) -> list[int]:
        """Those that cannot be reached by this listener, and those on disks that failed."""
        return [
            replica
            for replica in partition.replicas
            if replica in partition.offline_replicas
            or self.endpoint(replica, listener_name) is None
        ]

    def apply(self, change: Change) -> None:
        match change:
            case TopicCreated(topic, config):
                self.put(topic)
                self.topic_configs[topic.name] = config
            case TopicDeleted(topic):
                del self.topics[topic.name]
                self.topics_by_id.pop(topic.id, None)
                self.topic_configs.pop(topic.name, None)
            case TopicChanged(topic=topic):
                self.put(topic)
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

    def apply_config(self, change: ConfigChange) -> None:
        """Where it is none, nobody hears of it."""
        if self._config(change) != change.config:
            self.apply(change)

    def _config(self, change: ConfigChange) -> Mapping[str, str]:
        match change:
            case TopicConfigChanged(topic):
                return self.topic_configs.get(topic, {})
            case BrokerConfigChanged(broker_id):
                return self.broker_configs.get(broker_id, {})
            case GroupConfigChanged(group_id):
                return self.group_configs.get(group_id, {})
            case ClientMetricsConfigChanged(subscription):
                return self.client_metrics_configs.get(subscription, {})

    def configs(self) -> Iterator[ConfigChange]:
        """All settings, as changes from none."""
        yield from starmap(TopicConfigChanged, self.topic_configs.items())
        yield from starmap(BrokerConfigChanged, self.broker_configs.items())
        yield from starmap(GroupConfigChanged, self.group_configs.items())
        yield from starmap(ClientMetricsConfigChanged, self.client_metrics_configs.items())

    def become_configs(self, other: ClusterImage) -> None:
        """As `become`, for settings only."""
        theirs = list(other.configs())
        entities = {(type(each), each[0]) for each in theirs}
        for change in list(self.configs()):
            if (type(change), change[0]) not in entities:
                self.apply_config(change._replace(config={}))
        for change in theirs:
            self.apply_config(change)

    def become(self, other: ClusterImage) -> None:
        """Applies, one by one, what differs from a picture that was loaded anew."""
        for name, topic in list(self.topics.items()):
            if name not in other.topics or other.topics[name].id != topic.id:
                self.apply(TopicDeleted(topic))
        for name, topic in other.topics.items():
            old = self.topics.get(name)
            if old is None:
                self.apply(TopicCreated(topic, other.topic_configs.get(name, {})))
            elif old != topic:
                self.apply(difference(old, topic))
        self.become_configs(other)
        if self.brokers != other.brokers:
            self.apply(BrokersChanged(other.brokers))
        if self.controller_id != other.controller_id:
            self.apply(ControllerChanged(other.controller_id))

    def put(self, topic: TopicImage) -> None:
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


def difference(old: TopicImage, new: TopicImage) -> TopicChanged:
    changed = tuple(
        partition.partition
        for partition in new.partitions
        if partition.partition >= len(old.partitions)
        or old.partitions[partition.partition] != partition
    )
    return TopicChanged(new, changed, len(old.partitions))
