"""The picture of the cluster as the znodes have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.coordination import znodes
from ottla.coordination.store import Node, Store
from ottla.coordination.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from ottla.kernel.ids import NO_TOPIC_ID, BrokerId
from ottla.metadata.image import (
    BrokerConfigChanged,
    BrokerImage,
    ClientMetricsConfigChanged,
    ClusterImage,
    ConfigChange,
    GroupConfigChanged,
    PartitionImage,
    TopicConfigChanged,
    TopicImage,
)


async def load_image(store: Store) -> ClusterImage:
    """Reads the whole picture, in one read for any number of topics."""
    tree = await store.tree("/")
    image = ClusterImage()
    brokers = {}
    for path, node in tree.items():
        folder, _, name = path.rpartition("/")
        if folder == znodes.TOPICS:
            image.put(_topic_image(tree, name, node))
        elif (change := config_change(path, node.data)) is not None:
            image.apply(change)
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


async def load_configs(store: Store) -> ClusterImage:
    """All settings, and nothing else."""
    image = ClusterImage()
    for path, node in (await store.tree(znodes.CONFIG)).items():
        change = config_change(path, node.data)
        if change is not None:
            image.apply(change)
    return image


def config_change(path: str, data: bytes) -> ConfigChange | None:
    """What a node below `/config` says, now or when it is gone (no data). None if that is of no
    concern here."""
    folder, _, name = path.rpartition("/")
    changed = _CONFIG_CHANGES.get(folder)
    return None if changed is None else changed(path, name, znodes.decode_config(path, data))


def _broker_config_changed(path: str, name: str, config: Mapping[str, str]) -> BrokerConfigChanged:
    if name == znodes.DEFAULT_ENTITY:
        return BrokerConfigChanged(None, config)
    try:
        return BrokerConfigChanged(int(name), config)
    except ValueError as error:
        raise znodes.BadZnode(f"{path} is of no broker") from error


_CONFIG_CHANGES: Mapping[str, Callable[[str, str, Mapping[str, str]], ConfigChange]] = {
    znodes.TOPIC_CONFIGS: lambda path, name, config: TopicConfigChanged(name, config),
    znodes.BROKER_CONFIGS: _broker_config_changed,
    znodes.GROUP_CONFIGS: lambda path, name, config: GroupConfigChanged(
        znodes.unquoted(name), config
    ),
    znodes.CLIENT_METRICS_CONFIGS: lambda path, name, config: ClientMetricsConfigChanged(
        znodes.unquoted(name), config
    ),
}
"""By folder."""


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
        eligible_leader_replicas=state.eligible_leader_replicas,
        last_known_elr=state.last_known_elr,
    )
