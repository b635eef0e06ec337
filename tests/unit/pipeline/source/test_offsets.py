from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.blocking_cluster import EARLIEST, LATEST, READ_UNCOMMITTED, BlockingCluster
from ottla.kernel.ids import NO_TOPIC_ID, TopicPartition
from ottla.pipeline.source.given_options import OptionError
from ottla.pipeline.source.offsets import (
    FEW,
    SMALL,
    TASKS,
    OffsetRange,
    Position,
    grouped,
    limited,
    resolve_ranges,
    split,
)
from ottla.pipeline.source.read_options import ReadOptions
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.socket_broker import TOPIC_ID, SocketBroker

ZERO, ONE = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
LOG_START, LOG_END = {0: 10, 1: 0}, {0: 50, 1: 20}


@pytest.fixture
def broker() -> Iterator[SocketBroker]:
    """Record n of a partition has timestamp n."""

    def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
        answers = []
        for asked in request.topics[0].partitions:
            index, timestamp = asked.partition_index, asked.timestamp
            found = max(timestamp, LOG_START[index]) if timestamp < LOG_END[index] else -1
            found = {EARLIEST: LOG_START[index], LATEST: LOG_END[index]}.get(timestamp, found)
            answers.append(ListOffsetsPartitionResponse(partition_index=index, offset=found))
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="clicks", partitions=answers)]
        )

    with SocketBroker() as broker:
        broker.answers[ListOffsetsRequest] = offsets
        yield broker


def ranges_of(broker: SocketBroker, **changes: str) -> list[tuple[int, int, int]]:
    needed = {"kafka.bootstrap.servers": "a:1"}
    if not {"subscribePattern", "assign"} & set(changes):
        needed["subscribe"] = "clicks"
    options = ReadOptions.parse({**needed, **changes})
    with BlockingCluster(broker.bootstrap, retry_timeout_s=20.0) as cluster:
        found = resolve_ranges(cluster, options)
    assert all((one.topic, one.topic_id) == ("clicks", TOPIC_ID) for one in found)
    return [(one.partition, one.start, one.end) for one in found]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [(0, 10, 50), (1, 0, 20)]),
        ({"assign": '{"clicks":[1]}'}, [(1, 0, 20)]),
        ({"subscribePattern": "cl.+"}, [(0, 10, 50), (1, 0, 20)]),
        ({"subscribePattern": "cl"}, []),
        ({"startingOffsets": '{"clicks":{"0":12,"1":-2}}'}, [(0, 12, 50), (1, 0, 20)]),
        ({"endingOffsets": '{"clicks":{"0":12,"1":-1}}'}, [(0, 10, 12), (1, 0, 20)]),
        # Before the log begins: the task finds out, and says what is lost.
        ({"startingOffsets": '{"clicks":{"0":3,"1":20}}'}, [(0, 3, 50)]),
        ({"startingTimestamp": "15"}, [(0, 15, 50), (1, 15, 20)]),
        ({"endingTimestamp": "15"}, [(0, 10, 15), (1, 0, 15)]),
        ({"endingTimestamp": "30"}, [(0, 10, 30), (1, 0, 20)]),
        (
            {"startingTimestamp": "30", "startingOffsetsByTimestampStrategy": "latest"},
            [(0, 30, 50)],
        ),
        (
            {"startingOffsetsByTimestamp": '{"clicks":{"0":40,"1":5}}'},
            [(0, 40, 50), (1, 5, 20)],
        ),
        (
            {"endingOffsets": '{"clicks":{"0":90,"1":-1}}', "failOnDataLoss": "false"},
            [(0, 10, 50), (1, 0, 20)],
        ),
    ],
)
def test_ranges(broker: SocketBroker, changes: dict[str, str], expected: Any) -> None:
    assert ranges_of(broker, **changes) == expected


@pytest.mark.parametrize(
    ("changes", "option", "words"),
    [
        ({"startingOffsets": '{"clicks":{"0":1}}'}, "startingOffsets", "clicks-1 is read and not"),
        (
            {"endingOffsets": '{"clicks":{"0":1,"1":1,"2":1}}'},
            "endingOffsets",
            "clicks-2 is named and not read",
        ),
        (
            {"endingOffsets": '{"clicks":{"0":90,"1":-1}}'},
            "endingOffsets",
            "clicks-0 ends at 50, which is before 90",
        ),
        (
            {"startingTimestamp": "30"},
            "startingTimestamp",
            "clicks-1 has no record at or after 30; give an earlier time",
        ),
        ({"assign": '{"clicks":[0,2]}'}, "assign", "there is no partition clicks-2 at 127.0.0.1"),
        ({"assign": '{"views":[0]}'}, "assign", "there is no topic views at 127.0.0.1"),
        ({"subscribe": "clicks,views"}, "subscribe", "there is no topic views at 127.0.0.1"),
    ],
)
def test_what_cannot_be_read_is_said_before_anything_is(
    broker: SocketBroker, changes: dict[str, str], option: str, words: str
) -> None:
    with pytest.raises(OptionError) as caught:
        ranges_of(broker, **changes)
    assert caught.value.option == option
    assert words in str(caught.value)


def test_a_pattern_does_not_mean_kafkas_own_topics(broker: SocketBroker) -> None:
    own = MetadataResponseTopic(
        name="__consumer_offsets",
        topic_id=TOPIC_ID,
        partitions=[MetadataResponsePartition(partition_index=0, leader_id=1)],
    )
    topics = [*broker.metadata().topics, own]
    broker.answers[MetadataRequest] = lambda request: broker.metadata(topics=topics)
    assert ranges_of(broker, subscribePattern=".*") == [(0, 10, 50), (1, 0, 20)]


def test_the_isolation_level_decides_where_a_partition_ends(broker: SocketBroker) -> None:
    ranges_of(broker, **{"kafka.isolation.level": "read_uncommitted"})
    asked = {request.isolation_level for request in broker.requests(ListOffsetsRequest)}
    assert asked == {READ_UNCOMMITTED}


def test_a_position_is_written_as_sparks_connector_does_with_the_ids_beside_it() -> None:
    offsets = {ONE: 7, ZERO: 5, TopicPartition("views", 10): 0}
    position = Position(offsets, {"views": NO_TOPIC_ID, "clicks": TOPIC_ID})
    written = position.to_json()
    assert json.dumps(written) == (
        '{"clicks": {"0": 5, "1": 7}, "views": {"10": 0}, "@topicIds": '
        '{"clicks": "AAECAwQFBgcICQoLDA0ODw", "views": "AAAAAAAAAAAAAAAAAAAAAA"}}'
    )
    assert Position.from_json(json.loads(json.dumps(written))) == position


def test_a_position_is_in_a_topic_by_its_id() -> None:
    position = Position({ZERO: 5}, {"clicks": TOPIC_ID})
    assert position.is_in(ZERO, TOPIC_ID)
    assert not position.is_in(ONE, TOPIC_ID)
    assert not position.is_in(ZERO, NO_TOPIC_ID)


def a_range(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange("clicks", TOPIC_ID, partition, start, end)


def split_as(
    ranges: list[tuple[int, int, int]], min_partitions: int | None, max_records: int | None = None
) -> list[tuple[int, int, int]]:
    found = split([a_range(*one) for one in ranges], min_partitions, max_records)
    return [(one.partition, one.start, one.end) for one in found]


@pytest.mark.parametrize(
    ("ranges", "min_partitions", "expected"),
    [
        ([(0, 0, 5), (1, 3, 3)], None, [(0, 0, 5)]),
        ([(0, 0, 5), (1, 0, 5)], 2, [(0, 0, 5), (1, 0, 5)]),
        ([(0, 1, 5)], 4, [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]),
        ([(0, 1, 5)], 3, [(0, 1, 2), (0, 2, 3), (0, 3, 5)]),
        ([(0, 1, 3)], 4, [(0, 1, 2), (0, 2, 3)]),
        # A skewed one is cut, and what the small one does not use is its too.
        (
            [(0, 0, 1), (1, 0, 100), (2, 0, 1)],
            4,
            [(0, 0, 1), (1, 0, 50), (1, 50, 100), (2, 0, 1)],
        ),
        # A half is rounded up.
        (
            [(0, 0, 5), (1, 0, 5)],
            3,
            [(0, 0, 2), (0, 2, 5), (1, 0, 2), (1, 2, 5)],
        ),
    ],
)
def test_splitting(
    ranges: list[tuple[int, int, int]],
    min_partitions: int | None,
    expected: list[tuple[int, int, int]],
) -> None:
    assert split_as(ranges, min_partitions) == expected


@pytest.mark.parametrize("min_partitions", [5, 17, 100])
def test_the_pieces_are_the_whole(min_partitions: int) -> None:
    wholes = [(0, 7, 1000), (1, 0, 3), (2, 5, 77)]
    pieces = split_as(wholes, min_partitions)
    for partition, start, end in wholes:
        offsets = [offset for at, *bounds in pieces if at == partition for offset in range(*bounds)]
        assert offsets == [*range(start, end)]
    assert len(pieces) == pytest.approx(min_partitions, rel=0.1)


def test_no_piece_is_larger_than_allowed() -> None:
    assert split_as([(0, 0, 5), (1, 3, 5)], None, 2) == [(0, 0, 1), (0, 1, 3), (0, 3, 5), (1, 3, 5)]
    assert len(split_as([(0, 0, 100)], 20, 50)) == 20


def test_a_limit_is_shared_in_proportion_to_the_backlog() -> None:
    starts, ends = {ZERO: 10, ONE: 0}, {ZERO: 100, ONE: 10}
    assert limited(starts, ends, 50) == {ZERO: 55, ONE: 5}
    assert limited(starts, ends, 100) == ends


def test_a_small_backlog_gets_its_turn() -> None:
    starts, ends = {ZERO: 0, ONE: 5}, {ZERO: 1000, ONE: 6}
    assert limited(starts, ends, 10) == {ZERO: 9, ONE: 6}


def test_an_idle_partition_stays_where_it_is() -> None:
    starts, ends = {ZERO: 0, ONE: 5}, {ZERO: 1000, ONE: 5}
    assert limited(starts, ends, 10) == {ZERO: 10, ONE: 5}


def test_few_ranges_have_a_task_each() -> None:
    ranges = [a_range(number, 0, FEW) for number in range(TASKS)]
    assert grouped(ranges) == [(one,) for one in ranges]


def test_next_to_nothing_is_one_tasks() -> None:
    ranges = [a_range(number, 0, 10) for number in range(10)]
    assert grouped(ranges) == [tuple(ranges)]
    more = [*ranges, a_range(10, 0, 1)]
    assert grouped(more) == [tuple(more[::2]), tuple(more[1::2])]
    large = a_range(11, 0, SMALL + 1)
    assert grouped([*ranges, large]) == [(large,), tuple(ranges)]


def test_of_many_ranges_the_small_ones_share_tasks() -> None:
    large = [a_range(number, 0, SMALL + 1) for number in range(10)]
    small = [a_range(number, 0, SMALL) for number in range(10, 110)]
    tasks = grouped([*small, *large])
    assert tasks[:10] == [(one,) for one in large]
    assert sorted(one.partition for task in tasks[10:] for one in task) == [*range(10, 110)]
    assert {len(task) for task in tasks[10:]} == {16, 17}
    assert len(tasks) == TASKS


def test_large_ranges_have_a_task_each_however_many() -> None:
    large = [a_range(number, 0, SMALL + 1) for number in range(100)]
    assert grouped(large) == [(one,) for one in large]
