"""Broker 1 leads partition 0 of `t`, brokers 2 to 4 follow it. Racks are letters."""

from __future__ import annotations

import asyncio

import pytest

from ottla.config.broker_settings.replication import LEADER_SELECTOR, RACK_AWARE_SELECTOR
from ottla.coordination.znodes import Endpoint
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId
from ottla.metadata.image import BrokerImage, BrokersChanged, ClusterImage
from ottla.replication.partition import Partition
from ottla.replication.replica_selector import STAY, RackAwareReplicaSelector, selector_of
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tests.support.led_partition import append, fetched, lead_replicas, new_partition
from tests.support.other_broker import image_of
from tests.support.simulated_broker import SimulatedBroker, with_broker

IDS = (1, 2, 3, 4)


def set_racks(image: ClusterImage, racks: str, *, reached: tuple[int, ...] = IDS) -> None:
    """One letter a broker; a dot for none."""
    brokers = {}
    for number, rack in zip(IDS, racks, strict=True):
        listener = "PLAINTEXT" if number in reached else "INTERNAL"
        endpoint = Endpoint(listener, "PLAINTEXT", "localhost", 9000 + number)
        brokers[BrokerId(number)] = BrokerImage(
            BrokerId(number), 5, {listener: endpoint}, None if rack == "." else rack
        )
    image.apply(BrokersChanged(brokers))


async def led(
    broker: SimulatedBroker, racks: str, isr: tuple[int, ...] = IDS, ends: tuple[int, ...] = ()
) -> Partition:
    """Two records are written, and fetched by all followers."""
    partition = await lead_replicas(await new_partition(broker), broker, IDS, isr)
    set_racks(image_of(broker), racks)
    append(partition, b"a")
    append(partition, b"b")
    for number, end in zip((2, 3, 4), ends or (2, 2, 2), strict=True):
        fetched(partition, end, by=number)
    return partition


def selector(broker: SimulatedBroker, rack: str) -> RackAwareReplicaSelector:
    return RackAwareReplicaSelector(image_of(broker), "PLAINTEXT", rack)


@pytest.mark.parametrize(
    ("racks", "rack", "chosen"),
    [
        ("abcd", "c", 3),
        ("abcd", "a", STAY),
        ("aaaa", "a", STAY),  # The leader is as near.
        ("abcd", "x", STAY),
        ("....", "a", STAY),
        ("abbb", "b", 4),  # All are equally far: the highest id, as in Kafka.
    ],
)
def test_a_follower_in_the_clients_rack_is_chosen(racks: str, rack: str, chosen: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, racks)
        assert selector(broker, rack).select(partition.leader, 0) == chosen

    with_broker(test)


def test_the_one_that_has_most_is_chosen_then_the_one_that_was_last_up_to_date() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abbb", ends=(2, 1, 1))
        assert selector(broker, "b").select(partition.leader, 0) == 2
        await asyncio.sleep(1)
        for number in (3, 2, 4):
            fetched(partition, 2, by=number)
            await asyncio.sleep(0 if number == 4 else 1)
        fetched(partition, 2, by=3)
        assert selector(broker, "b").select(partition.leader, 0) == 4
        await asyncio.sleep(1)
        fetched(partition, 2, by=2)
        assert selector(broker, "b").select(partition.leader, 0) == 2

    with_broker(test)


def test_a_follower_that_lags_is_not_chosen() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abcd", isr=(1, 2, 4))
        assert selector(broker, "c").select(partition.leader, 0) == STAY

    with_broker(test)


def test_a_follower_must_have_the_offset() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abcd", ends=(2, 1, 2))
        assert selector(broker, "c").select(partition.leader, 1) == 3
        assert selector(broker, "c").select(partition.leader, 2) == STAY
        fetched(partition, 2, by=3, log_start_offset=1)
        assert selector(broker, "c").select(partition.leader, 0) == STAY
        assert selector(broker, "c").select(partition.leader, 1) == 3

    with_broker(test)


def test_a_follower_must_be_reached_by_the_clients_listener() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abcd")
        set_racks(image_of(broker), "abcd", reached=(1, 2, 4))
        assert selector(broker, "c").select(partition.leader, 0) == STAY
        assert selector(broker, "b").select(partition.leader, 0) == 2

    with_broker(test)


@pytest.mark.parametrize("class_name", [None, "", LEADER_SELECTOR])
def test_consumers_stay_with_the_leader_otherwise(class_name: str | None) -> None:
    assert selector_of(class_name, ClusterImage(), "PLAINTEXT", "a") is None
    assert selector_of(RACK_AWARE_SELECTOR, ClusterImage(), "PLAINTEXT", "a") is not None


# What consumers hear


def request(
    partition: Partition, offset: int = 0, *, rack: str, session: tuple[int, int] = (0, -1)
) -> FetchRequest:
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic, topic_id = partition.topic_partition.topic, partition.topic_id
    return FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        rack_id=rack,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[asked])],
    )


def only(response: FetchResponse) -> PartitionData:
    ((data,),) = [topic.partitions for topic in response.responses]
    return data


def test_a_consumer_is_sent_to_the_follower_at_once_and_without_records() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abcd")
        for version in (11, 17):
            for offset in (0, 2):
                asked = request(partition, offset, rack="c")
                data = only(await broker.call(asked, FetchResponse, version))
                assert (data.preferred_read_replica, data.error_code) == (3, ErrorCode.NONE)
                assert data.records == b""
                assert (data.high_watermark, data.last_stable_offset) == (2, 2)
                assert (data.log_start_offset, data.aborted_transactions) == (0, None)
        near = only(await broker.call(request(partition, rack="a"), FetchResponse))
        assert (near.preferred_read_replica, bool(near.records)) == (STAY, True)
        assert broker.loop.now_s < 60

    with_broker(test, replica_selector_class=RACK_AWARE_SELECTOR)


def test_each_fetch_of_a_session_hears_it_again() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abcd")
        first = await broker.call(request(partition, 2, rack="c", session=(0, 0)), FetchResponse)
        assert only(first).preferred_read_replica == 3
        for epoch in (1, 2):
            again = request(partition, 2, rack="c", session=(first.session_id, epoch))
            again.topics.clear()
            assert only(await broker.call(again, FetchResponse)).preferred_read_replica == 3

    with_broker(test, replica_selector_class=RACK_AWARE_SELECTOR)


def test_an_older_consumer_knows_no_racks() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abcd")
        data = only(await broker.call(request(partition, rack="c"), FetchResponse, 10))
        assert bool(data.records)

    with_broker(test, replica_selector_class=RACK_AWARE_SELECTOR)


def test_a_consumer_in_another_leader_epoch_hears_of_that_first() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abcd")
        asked = request(partition, rack="c")
        asked.topics[0].partitions[0].current_leader_epoch = 0
        data = only(await broker.call(asked, FetchResponse))
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH

    with_broker(test, replica_selector_class=RACK_AWARE_SELECTOR)


def test_racks_say_nothing_without_a_selector() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, "abcd")
        data = only(await broker.call(request(partition, rack="c"), FetchResponse))
        assert (data.preferred_read_replica, bool(data.records)) == (STAY, True)

    with_broker(test)
