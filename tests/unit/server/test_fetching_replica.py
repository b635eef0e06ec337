"""What a broker that follows hears of the one that leads. Broker 2 is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import BrokerId, TopicId
from ottla.records.batch import iter_headers
from ottla.replication.partition import Partition
from ottla.server.fetching_replica import FetchingReplica
from ottla.server.handlers.fetch import REPLICA_NEWS_S
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tests.support.led_partition import (
    append,
    append_later,
    fetched,
    lead_replicas,
    lead_two_replicas,
    new_partition,
)
from tests.support.simulated_broker import (
    OTHER_LISTENER,
    SimulatedBroker,
    make_batch,
    with_broker,
)

FOLLOWER_EPOCH = 5
WAIT_MS = 500
LONG_AGO_S = 1000.0


class ScriptedFollower:
    """Broker 2, in one fetch session; it asks for what the test says."""

    def __init__(self, broker: SimulatedBroker, topic_id: TopicId) -> None:
        self._broker = broker
        self._topic_id = topic_id
        self._session_id = 0
        self._epoch = 0

    async def fetch(
        self,
        *asked: FetchPartition,
        forgets: Sequence[int] = (),
        broker_id: int = 2,
        broker_epoch: int = FOLLOWER_EPOCH,
    ) -> FetchResponse:
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=broker_id, replica_epoch=broker_epoch),
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=list(asked))] if asked else [],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=self._topic_id, partitions=[each]) for each in forgets
            ],
        )
        connection = await self._broker.connect()
        response = await connection.call(request, FetchResponse, 17)
        connection.close()
        self._session_id = response.session_id
        self._epoch += 1
        return response

    def fetch_later(self, *asked: FetchPartition) -> asyncio.Task[FetchResponse]:
        return asyncio.create_task(self.fetch(*asked))


async def led(broker: SimulatedBroker, isr: tuple[int, ...] = (1, 2), **config: str) -> Partition:
    return await lead_two_replicas(await new_partition(broker, **config), broker, isr=isr)


def at(offset: int, *, last_epoch: int = -1, leader_epoch: int = 1) -> FetchPartition:
    return FetchPartition(
        partition=0,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )


def only(response: FetchResponse) -> PartitionData:
    ((data,),) = [topic.partitions for topic in response.responses]
    return data


def base_offsets(data: PartitionData) -> list[int]:
    assert isinstance(data.records, memoryview)
    return [header.base_offset for _, header in iter_headers(data.records)]


@pytest.mark.parametrize(
    ("request_", "replica"),
    [
        (FetchRequest(), None),
        (FetchRequest(replica_id=-2), None),
        (FetchRequest(replica_id=2), (2, -1)),
        (FetchRequest(replica_state=ReplicaState(replica_id=2, replica_epoch=7)), (2, 7)),
    ],
)
def test_a_request_names_the_replica(
    request_: FetchRequest, replica: tuple[int, int] | None
) -> None:
    assert FetchingReplica.of(request_) == replica


def test_a_follower_reads_beyond_the_high_watermark_and_moves_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        waiting = append_later(partition, b"a")
        data = only(await follower.fetch(at(0)))
        assert (base_offsets(data), data.high_watermark) == ([0], 0)
        assert not waiting.done()
        data = only(await follower.fetch(at(1)))
        assert (await waiting).first_offset == 0
        assert (data.records, data.high_watermark, partition.high_watermark) == (b"", 1, 1)

    with_broker(test)


def test_a_follower_that_waits_is_woken_by_records_that_are_not_committed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        await follower.fetch(at(0))
        fetch = follower.fetch_later()
        await asyncio.sleep(0.1)
        assert not fetch.done()
        began_s = broker.loop.now_s
        append(partition, b"a")
        assert base_offsets(only(await fetch)) == [0]
        assert broker.loop.now_s - began_s < REPLICA_NEWS_S
        assert partition.high_watermark == 0

    with_broker(test)


def test_a_consumer_is_woken_when_records_are_committed() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            topics=[FetchTopic(topic_id=partition.topic_id, partitions=[asked])],
        )
        consumer = await broker.connect()
        fetch = asyncio.create_task(consumer.call(request, FetchResponse, 17))
        append(partition, b"a")
        await asyncio.sleep(1)
        assert not fetch.done()
        await ScriptedFollower(broker, partition.topic_id).fetch(at(1))
        assert base_offsets(only(await fetch)) == [0]

    with_broker(test)


def test_a_follower_hears_soon_that_the_high_watermark_has_moved() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_replicas(await new_partition(broker), broker, (1, 2, 3), (1, 2, 3))
        follower = ScriptedFollower(broker, partition.topic_id)
        append(partition, b"a")
        await follower.fetch(at(0))
        fetch = follower.fetch_later(at(1))
        await asyncio.sleep(0.1)
        assert not fetch.done(), "broker 3 has nothing yet"
        began_s = broker.loop.now_s
        fetched(partition, 1, by=3)
        assert only(await fetch).high_watermark == 1
        assert REPLICA_NEWS_S <= broker.loop.now_s - began_s < WAIT_MS / 2000

    with_broker(test)


def test_a_follower_hears_soon_that_the_log_begins_later() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        append(partition, b"a")
        await follower.fetch(at(1))
        fetch = follower.fetch_later()
        await asyncio.sleep(0.1)
        began_s = broker.loop.now_s
        partition.delete_records(1)
        assert only(await fetch).log_start_offset == 1
        assert broker.loop.now_s - began_s < WAIT_MS / 1000

    with_broker(test)


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_follower_reads_what_is_synced_where_that_is_asked_for(is_slow: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker, flush_messages="1")
        if is_slow:
            partition.log.folder.wrote(1.0)
        waiting = append_later(partition, b"a")
        follower = ScriptedFollower(broker, partition.topic_id)
        assert base_offsets(only(await follower.fetch(at(0)))) == [0]
        assert partition.log.recovery_point == 1
        await follower.fetch(at(1))
        assert (await waiting).first_offset == 0

    with_broker(test)


def test_a_log_that_parts_from_the_leaders_is_told_at_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        append(partition, b"a")  # In epoch 0, and all that the leader has of it.
        partition = await lead_two_replicas(partition, broker, isr=(1, 2))
        began_s = broker.loop.now_s
        data = only(await ScriptedFollower(broker, partition.topic_id).fetch(at(3, last_epoch=0)))
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 1)
        assert (data.error_code, data.records) == (ErrorCode.NONE, b"")
        assert broker.loop.now_s - began_s < WAIT_MS / 1000
        assert partition.leader.in_sync.followers[BrokerId(2)].log_end_offset == -1

    with_broker(test)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (at(0, leader_epoch=0), ErrorCode.FENCED_LEADER_EPOCH),
        (at(0, leader_epoch=2), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (at(9), ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_what_is_refused_does_not_count(asked: FetchPartition, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        append(partition, b"a")
        data = only(await ScriptedFollower(broker, partition.topic_id).fetch(asked))
        assert data.error_code == code
        assert partition.leader.in_sync.followers[BrokerId(2)].log_end_offset == -1
        assert partition.high_watermark == 0

    with_broker(test)


@pytest.mark.parametrize(("registered", "is_taken"), [(5, True), (None, False), (6, False)])
def test_only_the_broker_that_is_registered_counts(registered: int | None, is_taken: bool) -> None:
    """KIP-903: one that was started anew may have lost what its earlier fetches told of."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        partition.leader.in_sync._broker_epochs = lambda broker_id: registered
        append(partition, b"a")
        data = only(await ScriptedFollower(broker, partition.topic_id).fetch(at(1)))
        code = ErrorCode.NONE if is_taken else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert data.error_code == code
        assert partition.high_watermark == (1 if is_taken else 0)

    with_broker(test)


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [(0, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
def test_a_broker_without_a_replica_is_turned_away(leader_epoch: int, code: ErrorCode) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await new_partition(broker)
        await broker.produce("t", b"a")
        follower = ScriptedFollower(broker, partition.topic_id)
        data = only(await follower.fetch(at(0, leader_epoch=leader_epoch)))
        assert data.error_code == code

    with_broker(test)


def test_a_partition_that_has_nothing_new_counts_though_no_fetch_names_it() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        await follower.fetch(at(0))
        for _ in range(3):
            await asyncio.sleep(LONG_AGO_S)
            await follower.fetch()
        append(partition, b"a")
        replica = partition.leader.in_sync.followers[BrokerId(2)]
        assert broker.loop.now_s - replica.last_caught_up_s < 1
        assert partition.leader.in_sync.lagging(1, broker.loop.now_s) == frozenset()
        lagging = partition.leader.in_sync.lagging(1, broker.loop.now_s + LONG_AGO_S)
        assert lagging == {BrokerId(2)}

    with_broker(test)


def test_a_partition_that_the_follower_forgot_does_not_count() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        unknown = FetchPartition(partition=1, partition_max_bytes=1)
        await follower.fetch(at(0), unknown)
        await follower.fetch(forgets=[0])
        await asyncio.sleep(LONG_AGO_S)
        await follower.fetch()
        append(partition, b"a")
        assert partition.leader.in_sync.lagging(1, broker.loop.now_s) == {BrokerId(2)}

    with_broker(test)


def test_a_follower_looks_for_its_partition_anew_when_another_epoch_begins() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        follower = ScriptedFollower(broker, partition.topic_id)
        await follower.fetch(at(0))
        fetch = follower.fetch_later()
        await asyncio.sleep(0.1)
        await broker.machine.broker.replicas.become_follower(
            partition.topic_partition,
            partition.topic_id,
            partition.log.config,
            leader_id=BrokerId(2),
            leader_epoch=2,
            is_new=False,
        )
        assert only(await fetch).error_code == ErrorCode.FENCED_LEADER_EPOCH

    with_broker(test)


def test_a_replica_is_heard_on_the_listener_of_brokers_only() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        append(partition, b"a")
        response = await ScriptedFollower(broker, partition.topic_id).fetch(at(1))
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert partition.high_watermark == 0

    with_broker(test, **OTHER_LISTENER)


@pytest.mark.parametrize(
    ("broker_id", "broker_epoch", "code"),
    [
        (2, FOLLOWER_EPOCH - 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, FOLLOWER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
    ids=["another registration", "none", "no replica"],
)
def test_who_is_not_the_registered_replica_is_refused(
    broker_id: int, broker_epoch: int, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        append(partition, b"a")
        follower = ScriptedFollower(broker, partition.topic_id)
        data = only(await follower.fetch(at(1), broker_id=broker_id, broker_epoch=broker_epoch))
        assert data.error_code == code
        assert partition.high_watermark == 0

    with_broker(test)


def test_a_fetch_of_a_version_without_broker_epochs_is_refused() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await led(broker)
        append(partition, b"a")
        topic = FetchTopic(topic_id=partition.topic_id, partitions=[at(1)])
        request = FetchRequest(replica_id=2, topics=[topic])
        data = only(await broker.call(request, FetchResponse, 14))
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.high_watermark == 0

    with_broker(test)


# Throttles (KIP-73)

BATCH_BYTES = len(make_batch(b"a"))


async def throttled(
    broker: SimulatedBroker, isr: tuple[int, ...] = (1,), replicas: str = "0:1,0:2"
) -> Partition:
    """Of which one batch a second may be served; broker 2 has to fetch three."""
    partition = await led(broker, isr=isr, leader_replication_throttled_replicas=replicas)
    for _ in range(3):
        append(partition, b"a", acks=1)
    return partition


def throttle_to(broker: SimulatedBroker, bytes_per_second: int) -> None:
    broker.machine.broker.replicas.leader_quota.bytes_per_second = bytes_per_second


def one_batch_at(offset: int) -> FetchPartition:
    asked = at(offset)
    asked.partition_max_bytes = 1
    return asked


def test_a_replica_that_is_not_in_sync_gets_no_more_than_its_throttle_allows() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await throttled(broker)
        throttle_to(broker, BATCH_BYTES - 1)
        follower = ScriptedFollower(broker, partition.topic_id)
        assert base_offsets(only(await follower.fetch(one_batch_at(0)))) == [0]
        began_s = broker.loop.now_s
        response = await follower.fetch(one_batch_at(1))
        assert response.responses == [], "it waits as long as for records that do not come"
        assert broker.loop.now_s - began_s == pytest.approx(WAIT_MS / 1000, abs=0.1)
        # It has told what it has, though it got nothing.
        assert partition.leader.in_sync.followers[BrokerId(2)].log_end_offset == 1
        assert (await follower.fetch()).responses == []
        await asyncio.sleep(1)
        assert base_offsets(only(await follower.fetch())) == [1]

    with_broker(test)


def test_an_offset_that_is_not_there_is_told_to_a_throttled_replica() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await throttled(broker)
        throttle_to(broker, 0)
        broker.machine.broker.replicas.leader_quota.record(1)
        follower = ScriptedFollower(broker, partition.topic_id)
        assert only(await follower.fetch(at(9))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    with_broker(test)


@pytest.mark.parametrize(
    ("isr", "replicas", "is_served"),
    [
        ((1,), "0:1", False),
        ((1,), "*", False),
        ((1, 2), "*", True),  # In sync.
        ((1,), "0:2", True),  # As a follower of others.
        ((1,), "1:1", True),  # Another partition.
        ((1,), "", True),
    ],
)
def test_who_is_throttled(isr: tuple[int, ...], replicas: str, is_served: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await throttled(broker, isr, replicas)
        throttle_to(broker, 1)
        broker.machine.broker.replicas.leader_quota.record(1000)
        follower = ScriptedFollower(broker, partition.topic_id)
        assert bool(only(await follower.fetch(at(0))).records) is is_served

    with_broker(test)


def test_what_a_replica_in_sync_gets_counts_too() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await throttled(broker, isr=(1, 2))
        quota = broker.machine.broker.replicas.leader_quota
        throttle_to(broker, 1)
        await ScriptedFollower(broker, partition.topic_id).fetch(at(0))
        assert quota.is_exceeded
        throttle_to(broker, 3 * BATCH_BYTES)
        assert not quota.is_exceeded

    with_broker(test)


def test_consumers_are_not_throttled() -> None:
    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_replicas(
            await new_partition(broker, leader_replication_throttled_replicas="*"),
            broker,
            (1,),
            (1,),
        )
        append(partition, b"a")
        throttle_to(broker, 1)
        broker.machine.broker.replicas.leader_quota.record(1000)
        asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic_id=partition.topic_id, partitions=[asked])
        response = await broker.call(FetchRequest(topics=[topic]), FetchResponse, 17)
        assert base_offsets(only(response)) == [0]

    with_broker(test)
