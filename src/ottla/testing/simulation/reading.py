"""What readers ask of a cluster: records, and the offsets of their group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition
from ottla.records.batch import iter_headers
from ottla.records.control import parse_end_txn_marker
from ottla.records.record import iter_records
from ottla.testing.simulation.client import GROUP, Refused, SimulatedClient, check
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST, EARLIEST = -1, -2
FETCH_VERSION = 12
"""The last that names topics."""
_OUT_OF_RANGE_TRIES = 5


async def fetch_committed(
    client: SimulatedClient,
    partition: TopicPartition,
    offset: int,
    *,
    max_bytes: int = 1 << 20,
    replica: int | None = None,
) -> tuple[list[tuple[int, str]], int]:
    """Offsets and values that a reader of what is committed is given, and where it goes on: by the
    leader, or by a replica. Raises OSError and Refused."""
    leader = await client.leader_of(partition)
    asked = FetchPartition(
        partition=partition.partition,
        current_leader_epoch=client.leader_epochs[partition],
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    request = FetchRequest(
        max_wait_ms=50,
        min_bytes=1,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic=partition.topic, topic_id=NO_TOPIC_ID, partitions=[asked])],
    )
    asked_id = leader if replica is None else replica
    response = await client.ask(asked_id, request, FetchResponse, FETCH_VERSION)
    check(response.error_code)
    (data,) = response.responses[0].partitions
    check(data.error_code)
    return _committed(data, offset)


def _committed(data: PartitionData, offset: int) -> tuple[list[tuple[int, str]], int]:
    """An aborted transaction begins at its first offset and ends with the producer's next abort
    marker."""
    assert isinstance(data.records, bytes | memoryview), "records came over a network"
    content = memoryview(data.records)
    to_come = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset)
    aborted_producers: set[int] = set()
    records: list[tuple[int, str]] = []
    next_offset = offset
    for position, header in iter_headers(content, allow_partial=True):
        batch = content[position : position + header.size_bytes]
        while to_come and to_come[0].first_offset <= header.last_offset:
            aborted_producers.add(to_come.pop(0).producer_id)
        if header.is_control:
            marker = parse_end_txn_marker(batch)
            if marker is not None and not marker.is_commit:
                aborted_producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted_producers):
            records += _from(batch, offset)
        next_offset = header.next_offset
    return records, next_offset


def _from(batch: memoryview, offset: int) -> Iterator[tuple[int, str]]:
    for record in iter_records(batch):
        if record.offset >= offset:
            yield record.offset, (record.value or b"").decode()


async def fetch_offsets(
    client: SimulatedClient,
    group: str,
    partitions: Iterable[TopicPartition],
    *,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> dict[TopicPartition, int]:
    """Those that are certain: an open transaction is waited for. -1 of a partition without."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    asked = OffsetFetchRequestGroup(
        group_id=group,
        member_id=member_id,
        member_epoch=member_epoch,
        topics=[
            OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in topics.items()
        ],
    )
    response = await client.ask_coordinator(
        GROUP,
        group,
        OffsetFetchRequest(groups=[asked], require_stable=True),
        OffsetFetchResponse,
        9,
    )
    (answer,) = response.groups
    check(answer.error_code)
    offsets = {}
    for of_topic in answer.topics:
        for each in of_topic.partitions:
            check(each.error_code)
            key = TopicPartition(of_topic.name, each.partition_index)
            offsets[key] = each.committed_offset
    return offsets


async def list_end_offset(
    client: SimulatedClient, partition: TopicPartition, isolation_level: int = READ_UNCOMMITTED
) -> int:
    """The high watermark, or the last stable offset for one who reads what is committed."""
    return await _list_offset(client, partition, LATEST, isolation_level)


async def list_start_offset(client: SimulatedClient, partition: TopicPartition) -> int:
    return await _list_offset(client, partition, EARLIEST, READ_UNCOMMITTED)


async def _list_offset(
    client: SimulatedClient, partition: TopicPartition, timestamp: int, isolation_level: int
) -> int:
    leader = await client.leader_of(partition)
    asked = ListOffsetsPartition(
        partition_index=partition.partition,
        current_leader_epoch=client.leader_epochs[partition],
        timestamp=timestamp,
    )
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])],
    )
    response = await client.ask(leader, request, ListOffsetsResponse, 7)
    (answer,) = response.topics[0].partitions
    check(answer.error_code)
    return answer.offset


async def start_above(client: SimulatedClient, partition: TopicPartition, offset: int) -> int:
    """Where a reader goes on who was told that its offset is out of range: where the log starts
    now. Raises AssertionError when nothing was deleted from there on; a leader that has not yet
    heard of a deletion may have been elected meanwhile."""
    for _ in range(_OUT_OF_RANGE_TRIES):
        start = await client.insist(
            lambda: list_start_offset(client, partition), gives_up_on=frozenset()
        )
        if start > offset:
            return start
        try:
            await client.insist(
                lambda: fetch_committed(client, partition, offset),
                gives_up_on=frozenset({ErrorCode.OFFSET_OUT_OF_RANGE}),
            )
        except Refused:
            await client.pause()
        else:
            return offset
    raise AssertionError(f"{client.name} was at {offset} of {partition}, which is out of range")
