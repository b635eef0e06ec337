from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.metadata.image import BrokersChanged
from ottla.replication.partition import Partition
from ottla.server.leader_hints import LeaderHints
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.produce import ProduceResponse
from tests.support.led_partition import new_partition
from tests.support.simulated_broker import (
    SimulatedBroker,
    make_batch,
    produce_request,
    with_broker,
)


async def followed(broker: SimulatedBroker) -> Partition:
    """By this broker, while broker 2 leads it in epoch 3 and is reached at port 7."""
    partition = await new_partition(broker)
    image = broker.machine.broker.image
    assert image is not None
    own = image.brokers[BrokerId(1)]
    endpoints = {name: each._replace(port=7) for name, each in own.endpoints.items()}
    other = own._replace(id=BrokerId(2), endpoints=endpoints, rack="r2")
    image.apply(BrokersChanged({**image.brokers, BrokerId(2): other}))
    return await broker.machine.broker.replicas.become_follower(
        partition.topic_partition,
        partition.topic_id,
        partition.log.config,
        leader_id=BrokerId(2),
        leader_epoch=3,
        is_new=False,
    )


@pytest.mark.parametrize("version", [9, 10, 12])
def test_a_producer_hears_who_leads(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await followed(broker)
        request = produce_request("t", make_batch(b"v"))
        response = await broker.call(request, ProduceResponse, version)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        leader = answer.current_leader
        is_told = version >= 10
        assert (leader.leader_id, leader.leader_epoch) == ((2, 3) if is_told else (-1, -1))
        nodes = [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
        assert nodes == ([(2, "localhost", 7, "r2")] if is_told else [])

    with_broker(test)


@pytest.mark.parametrize("version", [11, 12, 16, 17])
def test_a_consumer_of_an_earlier_leader_hears_who_leads(version: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await followed(broker)
        asked = FetchPartition(partition=0, current_leader_epoch=2, partition_max_bytes=1000)
        if version < 13:
            topic = FetchTopic(topic="t", partitions=[asked])
        else:
            topic = FetchTopic(topic_id=partition.topic_id, partitions=[asked])
        request = FetchRequest(topics=[topic])
        response = await broker.call(request, FetchResponse, version)
        data = response.responses[0].partitions[0]
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        leader = data.current_leader
        expected = (2, 3) if version >= 12 else (-1, -1)
        assert (leader.leader_id, leader.leader_epoch) == expected
        nodes = [(one.node_id, one.port) for one in response.node_endpoints]
        assert nodes == ([(2, 7)] if version >= 16 else [])

    with_broker(test)


def test_a_client_with_an_old_epoch_hears_that_of_its_leader() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        partition.leader_epoch = 4
        asked = FetchPartition(partition=0, current_leader_epoch=2, partition_max_bytes=1000)
        topic = FetchTopic(topic_id=partition.topic_id, partitions=[asked])
        response = await broker.call(FetchRequest(topics=[topic]), FetchResponse, 17)
        data = response.responses[0].partitions[0]
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 4)
        assert [one.node_id for one in response.node_endpoints] == [1]

    with_broker(test)


def test_of_other_partitions_the_picture_of_the_cluster_tells() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await followed(broker)
        services = broker.machine.broker
        image = services.image
        assert image is not None
        await services.replicas.delete(*services.replicas.topic_partitions())
        hints = LeaderHints(image, services.replicas, "PLAINTEXT")
        assert hints.leader_of("t", 0) == (1, 0)
        assert hints.leader_of("t", 1) is None
        assert hints.leader_of("missing", 0) is None
        assert [node.node_id for node in hints.nodes] == [1]
        assert LeaderHints(image, services.replicas, "OTHER").nodes == []

    with_broker(test)
