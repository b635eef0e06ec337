from __future__ import annotations

import pytest

from ottla.kernel.errors import ErrorCode
from ottla.testing.loop import EPOCH_MS
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.support import partition_transactions as transactions
from tests.support.led_partition import append, fetched, lead_two_replicas, new_partition
from tests.support.replica_pair import make_pair
from tests.support.simulated_broker import OTHER_LISTENER, SimulatedBroker, with_broker

OLDEST, NEWEST = 1, 11
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


async def find(
    broker: SimulatedBroker,
    timestamp: int,
    version: int = NEWEST,
    *,
    topic: str = "t",
    partition: int = 0,
    current_leader_epoch: int = -1,
    isolation_level: int = 0,
    replica_id: int = -1,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(
        partition_index=partition,
        current_leader_epoch=current_leader_epoch,
        timestamp=timestamp,
    )
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
    )
    response = await broker.call(request, ListOffsetsResponse, version)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize(("version", "epoch"), [(OLDEST, -1), (4, 0), (NEWEST, 0)])
def test_earliest_and_latest(version: int, epoch: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        for timestamp in (LATEST, EARLIEST):
            assert (await find(broker, timestamp, version)).offset == 0
        await broker.produce("t", b"a", b"b", b"c")
        cut = DeleteRecordsPartition(partition_index=0, offset=1)
        await broker.call(
            DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[cut])]),
            DeleteRecordsResponse,
        )
        for timestamp, offset in ((EARLIEST, 1), (LATEST, 3)):
            found = await find(broker, timestamp, version)
            assert (found.error_code, found.offset, found.timestamp) == (0, offset, -1)
            assert found.leader_epoch == epoch

    with_broker(test)


def test_a_timestamp_finds_the_first_record_that_is_not_older() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        for timestamp in (1000, 3000, 2000):
            await broker.produce("t", b"v", timestamp=timestamp)
        for asked, offset, timestamp in (
            (0, 0, 1000),
            (1000, 0, 1000),
            (1001, 1, 3000),
            (3000, 1, 3000),
            (3001, -1, -1),
        ):
            for version in (OLDEST, NEWEST):
                found = await find(broker, asked, version)
                assert (found.offset, found.timestamp) == (offset, timestamp)

    with_broker(test)


def test_the_newest_timestamp() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        assert (await find(broker, MAX_TIMESTAMP)).offset == -1
        for timestamp in (1000, 3000, 2000):
            await broker.produce("t", b"v", timestamp=timestamp)
        found = await find(broker, MAX_TIMESTAMP, 7)
        assert (found.offset, found.timestamp) == (1, 3000)

    with_broker(test)


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"), [(MAX_TIMESTAMP, 7, 0), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)]
)
def test_special_places_are_unknown_before_their_version(
    timestamp: int, since: int, offset: int
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        await broker.produce("t", b"v")
        before = await find(broker, timestamp, since - 1)
        assert (before.error_code, before.offset) == (ErrorCode.UNSUPPORTED_VERSION, -1)
        found = await find(broker, timestamp, since)
        assert (found.error_code, found.offset) == (ErrorCode.NONE, offset)

    with_broker(test)


@pytest.mark.parametrize(
    ("topic", "partition", "timestamp", "epoch", "code"),
    [
        ("missing", 0, LATEST, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 1, LATEST, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 0, LATEST, 7, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("t", 0, -7, -1, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_errors_are_told_by_partition(
    topic: str, partition: int, timestamp: int, epoch: int, code: ErrorCode
) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        found = await find(
            broker, timestamp, topic=topic, partition=partition, current_leader_epoch=epoch
        )
        assert (found.error_code, found.offset, found.timestamp) == (code, -1, -1)

    with_broker(test)


def test_a_partition_that_is_asked_for_twice_is_refused_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t", 2)
        partitions = [
            ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in (0, 1, 0)
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)]
        )
        response = await broker.call(request, ListOffsetsResponse)
        codes = [(one.partition_index, one.error_code) for one in response.topics[0].partitions]
        assert codes == [(0, ErrorCode.INVALID_REQUEST), (1, ErrorCode.NONE)]

    with_broker(test)


def test_readers_of_committed_records_end_at_the_last_stable_offset() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        partition = broker.machine.broker.replicas.partition("t", 0)
        await broker.produce("t", b"old", timestamp=EPOCH_MS - 5)
        await transactions.write(partition, 7, b"open")

        async def offsets(isolation_level: int) -> list[int]:
            return [
                (await find(broker, timestamp, isolation_level=isolation_level)).offset
                for timestamp in (LATEST, EARLIEST, EPOCH_MS - 5, EPOCH_MS, MAX_TIMESTAMP)
            ]

        assert await offsets(0) == [2, 0, 0, 1, 1]
        assert await offsets(1) == [1, 0, 0, -1, -1]
        await transactions.end(partition, 7, is_commit=False)
        assert (await offsets(1))[:4] == [3, 0, 0, 1]

    with_broker(test)


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
def test_a_new_leader_does_not_tell_a_high_watermark_that_may_be_old(
    version: int, code: ErrorCode
) -> None:
    """KIP-207: what the leader before told lies between its own and the log's end."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        append(partition, b"a", b"b")
        partition = await lead_two_replicas(partition, broker, isr=(1, 2))
        for timestamp in (LATEST, 0, EPOCH_MS * 2):
            found = await find(broker, timestamp, version)
            assert (found.error_code, found.offset) == (code, -1)
        earliest = await find(broker, EARLIEST, version)
        assert (earliest.error_code, earliest.offset) == (ErrorCode.NONE, 0)
        fetched(partition, 1)
        assert (await find(broker, LATEST, version)).error_code == code
        fetched(partition, 2)
        assert (await find(broker, LATEST, version)).offset == 2
        assert (await find(broker, 0, version)).offset == 0
        append(partition, b"c")
        assert (await find(broker, LATEST, version)).offset == 2

    with_broker(test)


@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST, MAX_TIMESTAMP, EPOCH_MS])
def test_a_follower_tells_no_offsets_though_it_serves_fetches(timestamp: int) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await (await make_pair(broker)).follow(1)
        found = await find(broker, timestamp, topic="follows")
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(test)


def test_a_follower_is_told_the_end_of_the_log() -> None:
    """Which consumers do not see."""

    async def test(broker: SimulatedBroker) -> None:
        partition = await lead_two_replicas(await new_partition(broker), broker, isr=(1, 2))
        append(partition, b"a", b"b")
        found = await find(broker, LATEST, replica_id=2)
        assert (found.error_code, found.offset, found.leader_epoch) == (0, 2, 1)
        assert (await find(broker, EARLIEST, replica_id=2)).offset == 0
        assert (await find(broker, LATEST)).offset == 0
        fenced = await find(broker, LATEST, replica_id=2, current_leader_epoch=0)
        assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH

    with_broker(test)


def test_a_replica_asks_on_the_listener_of_brokers_only() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await broker.create_topic("t")
        for timestamp in (LATEST, EARLIEST):
            found = await find(broker, timestamp, replica_id=2)
            assert (found.error_code, found.offset) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1)
            assert (await find(broker, timestamp)).error_code == ErrorCode.NONE

    with_broker(test, **OTHER_LISTENER)
