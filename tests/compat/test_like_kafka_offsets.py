"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeProducers: Ottla and Apache Kafka
answer alike."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.raw_client import as_dict
from tests.support.side_by_side import NOW_MS, Both, Subject, a_batch, assert_alike

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
T0 = NOW_MS - 1_000_000


def fill(subject: Subject, topic: str) -> None:
    """Offsets 0 to 5; timestamps T0, T0+100 (twice), T0+50 (out of order), T0+200."""
    subject.create(topic)
    for timestamp, count in ((0, 1), (100, 2), (50, 1), (200, 1), (200, 1)):
        subject.produce(topic, a_batch(*[b"v"] * count, timestamp=T0 + timestamp))


def list_offsets(
    subject: Subject,
    topic: str,
    version: int,
    *timestamps: int,
    partition: int = 0,
    leader_epoch: int = -1,
    isolation_level: int = 0,
) -> Any:
    answers = []
    for timestamp in timestamps:
        asked = ListOffsetsPartition(
            partition_index=partition, timestamp=timestamp, current_leader_epoch=leader_epoch
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level if version >= 2 else 0,
            topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
        )
        answers.append(as_dict(subject.ask(request, version)))
    return answers


@pytest.mark.parametrize("version", ListOffsetsRequest.VERSIONS)
def test_list_offsets(both: Both, topic: str, version: int) -> None:
    times = [T0 + at for at in (-1, 0, 1, 50, 51, 100, 101, 200, 201)]

    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        return [
            *list_offsets(subject, topic, version, LATEST, EARLIEST, *range(-8, -2), 0, *times),
            *list_offsets(subject, topic, version, LATEST, EARLIEST, isolation_level=1),
            *list_offsets(subject, topic, version, LATEST, leader_epoch=0),
            *list_offsets(subject, topic, version, LATEST, leader_epoch=5),
            *list_offsets(subject, topic, version, LATEST, partition=5),
            *list_offsets(subject, topic + "-missing", version, LATEST),
        ]

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", [1, 7, 11])
def test_list_offsets_of_an_empty_log(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        return list_offsets(subject, topic, version, LATEST, EARLIEST, MAX_TIMESTAMP, 0)

    assert_alike(both, scenario)


def test_a_partition_that_is_asked_for_twice(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        asked = [ListOffsetsPartition(partition_index=0, timestamp=at) for at in (LATEST, EARLIEST)]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)]
        )
        return as_dict(subject.ask(request, 7))

    assert_alike(both, scenario)


def delete(subject: Subject, topic: str, offset: int, partition: int = 0, version: int = 2) -> Any:
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=10_000
    )
    return as_dict(subject.ask(request, version))


@pytest.mark.parametrize("version", DeleteRecordsRequest.VERSIONS)
def test_delete_records(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        seen = []
        for offset in (2, 1, 0, 99, -2, 3, -1):
            seen.append(delete(subject, topic, offset, version=version))
            seen += list_offsets(subject, topic, 7, EARLIEST, LATEST, T0)
            if offset != -1:
                # Of a log whose every record was deleted, Kafka still tells the one with the
                # largest timestamp; Ottla says that there is none.
                seen += list_offsets(subject, topic, 7, MAX_TIMESTAMP)
            seen.append(as_dict(subject.fetch(topic, 0)))
        seen.append(delete(subject, topic, 0, partition=3, version=version))
        seen.append(delete(subject, topic + "-missing", 0, version=version))
        return seen

    assert_alike(both, scenario)


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_delete_records_of_compacted_topics(both: Both, topic: str, policy: str) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic, cleanup_policy=policy)
        subject.produce(topic, a_batch(b"v"))
        return delete(subject, topic, 1)

    assert_alike(both, scenario)


@pytest.mark.parametrize("version", OffsetForLeaderEpochRequest.VERSIONS)
def test_offset_for_leader_epoch(both: Both, topic: str, version: int) -> None:
    def scenario(subject: Subject) -> Any:
        fill(subject, topic)
        seen = []
        for partition, current, epoch in (
            (0, -1, 0),
            (0, 0, 0),
            (0, -1, 5),
            (0, -1, -1),
            (0, 5, 0),
            (7, -1, 0),
        ):
            asked = OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=current, leader_epoch=epoch
            )
            request = OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[
                    OffsetForLeaderTopic(topic=topic, partitions=[asked]),
                ],
            )
            seen.append(as_dict(subject.ask(request, version)))
        return seen

    assert_alike(both, scenario)


def test_describe_producers(both: Both, topic: str) -> None:
    def scenario(subject: Subject) -> Any:
        subject.create(topic)
        for sequence in range(3):
            batch = a_batch(b"v", producer_id=77, producer_epoch=2, base_sequence=sequence)
            subject.produce(topic, batch)
        subject.produce(topic, a_batch(b"v"))
        return [
            as_dict(
                subject.ask(
                    DescribeProducersRequest(
                        topics=[TopicRequest(name=name, partition_indexes=[partition])]
                    )
                )
            )
            for name, partition in ((topic, 0), (topic, 4), (topic + "-missing", 0), ("a b", 0))
        ]

    assert_alike(both, scenario)
