"""A cluster of several brokers in the picture of a simulated one: nobody runs but that broker."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordination.znodes import Endpoint
from ottla.kernel.ids import BrokerId, TopicId
from ottla.metadata.image import (
    BrokerImage,
    BrokersChanged,
    ControllerChanged,
    PartitionImage,
    TopicCreated,
    TopicImage,
)
from tests.support.simulated_broker import SimulatedBroker


def join_cluster(broker: SimulatedBroker, leaders: Mapping[int, int], topic: str = "t") -> None:
    """Brokers 2 (on a listener of its own) and 4, which run, and 3, which does not. Replicas of
    each partition are on all of them, and on broker 1; the disk of broker 4 has failed."""
    image = broker.machine.broker.image
    assert image is not None, "the broker runs"
    image.apply(
        BrokersChanged(
            {
                **image.brokers,
                BrokerId(2): _broker(2, "OTHER"),
                BrokerId(4): _broker(4, "PLAINTEXT"),
            }
        )
    )
    image.apply(ControllerChanged(2))
    partitions = tuple(
        PartitionImage(
            number,
            replicas=(3, 2, 1, 4),
            leader=leader,
            leader_epoch=5,
            isr=(2, 1),
            offline_replicas=(3, 4),
            eligible_leader_replicas=(4,),
            last_known_elr=(3,),
        )
        for number, leader in leaders.items()
    )
    image.apply(TopicCreated(TopicImage(topic, TopicId(b"t" * 16), partitions), {}))


def _broker(id: int, listener: str) -> BrokerImage:
    endpoint = Endpoint(listener, "PLAINTEXT", f"host{id}", 9092)
    return BrokerImage(BrokerId(id), 1, {listener: endpoint})
