"""Another broker of the cluster of a simulated one: scripted, on the same network."""

from __future__ import annotations

from ottla.coordination.znodes import Endpoint
from ottla.kernel.ids import BrokerId
from ottla.metadata.image import (
    BrokerImage,
    BrokersChanged,
    ClusterImage,
    ControllerChanged,
    PartitionImage,
    TopicChanged,
)
from tests.support.scripted_cluster import FIRST_PORT, ScriptedCluster
from tests.support.simulated_broker import SimulatedBroker

OTHER = BrokerId(2)


def image_of(broker: SimulatedBroker) -> ClusterImage:
    image = broker.machine.broker.image
    assert image is not None
    return image


def add_other_broker(broker: SimulatedBroker) -> ScriptedCluster:
    """Broker 2 comes, and answers what a test tells it to. The others of that cluster are not in
    this one."""
    cluster = ScriptedCluster(broker.loop, network=broker.network)
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", FIRST_PORT + OTHER)
    image = image_of(broker)
    other = BrokerImage(OTHER, 1, {endpoint.listener_name: endpoint})
    image.apply(BrokersChanged({**image.brokers, OTHER: other}))
    return cluster


def lead_by(broker: SimulatedBroker, leader: int, topic: str, *partitions: int) -> None:
    """The picture of the cluster says so from now on."""
    image = image_of(broker)
    changed = image.topics[topic]
    states = list(changed.partitions)
    for number in partitions:
        before = states[number]
        states[number] = PartitionImage(
            number, (leader,), leader, before.leader_epoch + 1, (leader,), 1, before.version + 1
        )
    image.apply(TopicChanged(changed._replace(partitions=tuple(states)), partitions, len(states)))


def elect_other(broker: SimulatedBroker) -> ScriptedCluster:
    """Broker 2 comes, and is the controller."""
    cluster = add_other_broker(broker)
    image_of(broker).apply(ControllerChanged(OTHER))
    return cluster
