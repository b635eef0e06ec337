from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from ottla.client.blocking import GaveUp
from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.pipeline.rows.columns import COLUMNS, schema
from ottla.pipeline.rows.fetcher import DataLoss
from ottla.pipeline.source.given_options import OptionError
from ottla.pipeline.source.offsets import Position
from ottla.pipeline.source.source import BatchReader, OttlaDataSource, StreamReader
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.support.socket_broker import TOPIC_ID, SocketBroker

LOG_END = 40

StreamOf = Callable[..., StreamReader]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.pipeline.source.source._ABSENT_S", 0.2)
    monkeypatch.setattr("ottla.pipeline.source.source._ABSENT_PAUSE_S", 0.01)


@pytest.fixture
def broker() -> Iterator[SocketBroker]:
    """Partition 1 of `clicks` has records, partition 0 is empty."""

    def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
        answers = [
            ListOffsetsPartitionResponse(
                partition_index=asked.partition_index,
                offset=LOG_END if asked.timestamp == -1 and asked.partition_index else 0,
            )
            for asked in request.topics[0].partitions
        ]
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="clicks", partitions=answers)]
        )

    def fetch(request: FetchRequest) -> FetchResponse:
        first = request.topics[0].partitions[0].fetch_offset
        records = [Record(one, one, None, b"%d" % one) for one in range(first, LOG_END)]
        return fetched(records=bytes(build_batch(records)), high_watermark=LOG_END)

    with SocketBroker() as broker:
        broker.answers[ListOffsetsRequest] = offsets
        broker.answers[FetchRequest] = fetch
        yield broker


def fetched(**fields: Any) -> FetchResponse:
    partition = PartitionData(partition_index=1, **fields)
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])]
    )


def reader_of(broker: SocketBroker, **options: str) -> BatchReader:
    needed = {
        "kafka.bootstrap.servers": f"127.0.0.1:{broker.port}",
        "subscribe": "clicks",
        "columns": "offset,value",
    }
    given = {name: value for name, value in {**needed, **options}.items() if value}
    source = OttlaDataSource(given)
    return source.reader(source.schema())


def read_all(reader: BatchReader) -> list[tuple[int, bytes]]:
    """As Spark does it: what goes to a task is pickled."""
    rows: list[tuple[int, bytes]] = []
    for partition in reader.partitions():
        task_reader, task_partition = pickle.loads(pickle.dumps((reader, partition)))
        for batch in task_reader.read(task_partition):
            columns = batch.to_pydict()
            rows += zip(columns["offset"], columns["value"], strict=True)
    return rows


def test_the_schema_is_the_one_that_batches_have() -> None:
    source = OttlaDataSource({"columns": ",".join(COLUMNS)})
    assert to_arrow_schema(source.schema(), timezone="UTC") == schema(COLUMNS)
    assert [field.name for field in OttlaDataSource({}).schema()] == [*COLUMNS[:-1]]


def test_a_schema_of_the_users_own_is_refused() -> None:
    options = {"kafka.bootstrap.servers": "a:1", "subscribe": "clicks"}
    with pytest.raises(OptionError, match="set columns instead"):
        OttlaDataSource(options).reader(StructType([StructField("offset", LongType())]))


def test_a_partition_with_records_is_one_task(broker: SocketBroker) -> None:
    reader = reader_of(broker)
    (partition,) = reader.partitions()
    (found,) = partition.value
    assert (found.topic, found.partition, found.start, found.end) == ("clicks", 1, 0, LOG_END)
    assert read_all(reader) == [(one, b"%d" % one) for one in range(LOG_END)]


def test_pieces_are_read_as_the_whole_is(broker: SocketBroker) -> None:
    reader = reader_of(broker, minPartitions="4")
    assert len(reader.partitions()) == 4
    assert read_all(reader) == [(one, b"%d" % one) for one in range(LOG_END)]


def test_where_nothing_is_to_be_read_one_task_reads_nothing(broker: SocketBroker) -> None:
    reader = reader_of(broker, subscribe="", assign='{"clicks":[0]}')
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_batches_have_the_columns_that_were_named(broker: SocketBroker) -> None:
    reader = reader_of(broker, columns="value,partition")
    (batch,) = reader.read(reader.partitions()[0])
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema == schema(["value", "partition"])


def test_a_loss_names_the_option_to_go_on(broker: SocketBroker) -> None:
    broker.answers[FetchRequest] = lambda request: fetched(
        error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE)
    )
    with pytest.raises(DataLoss, match="set option failOnDataLoss to false"):
        read_all(reader_of(broker))
    assert read_all(reader_of(broker, failOnDataLoss="false")) == []


def test_a_topic_made_anew_is_a_loss(broker: SocketBroker) -> None:
    reader = reader_of(broker)
    lenient = reader_of(broker, failOnDataLoss="false")
    (partition,) = reader.partitions()
    topics = broker.metadata().topics
    topics[0].topic_id = TopicId(bytes(range(1, 17)))
    broker.answers[MetadataRequest] = lambda request: broker.metadata(topics=topics)
    with pytest.raises(DataLoss, match=r"made anew.*set option failOnDataLoss to false"):
        list(reader.read(partition))
    assert list(lenient.read(partition)) == []


def test_a_broker_that_stays_away_is_an_error_that_names_the_option(broker: SocketBroker) -> None:
    reader = reader_of(broker, **{"kafka.default.api.timeout.ms": "100"})
    (partition,) = reader.partitions()
    broker.answers[FetchRequest] = lambda request: None
    with pytest.raises(GaveUp, match=r"reading clicks-1 .*kafka\.default\.api\.timeout\.ms"):
        list(reader.read(partition))


@pytest.fixture
def stream_of(broker: SocketBroker) -> Iterator[StreamOf]:
    """Makes readers, and stops them as Spark does."""
    readers: list[StreamReader] = []

    def make(**options: str) -> StreamReader:
        readers.append(new_stream(broker, options))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


def new_stream(broker: SocketBroker, options: dict[str, str]) -> StreamReader:
    needed = {
        "kafka.bootstrap.servers": f"127.0.0.1:{broker.port}",
        "subscribe": "clicks",
        "columns": "offset,value",
        "startingOffsets": "earliest",
    }
    source = OttlaDataSource({**needed, **options})
    return source.streamReader(source.schema())


def position(zero: int, one: int, topic_id: TopicId = TOPIC_ID) -> dict[str, Any]:
    offsets = {TopicPartition("clicks", 0): zero, TopicPartition("clicks", 1): one}
    return Position(offsets, {"clicks": topic_id}).to_json()


def bounds(partitions: list[InputPartition]) -> list[tuple[int, int, int]]:
    """Of tasks that read one range each."""
    ranges = [one for each in partitions for one in each.value]
    assert len(ranges) == len(partitions)
    return [(one.partition, one.start, one.end) for one in ranges]


def test_a_stream_goes_from_position_to_position(stream_of: StreamOf) -> None:
    reader = stream_of()
    start = reader.initialOffset()
    assert start == position(0, 0)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert reader.reportLatestOffset() == position(0, LOG_END)
    assert end == {**position(0, LOG_END), "@begun": {"clicks": {"0": 0, "1": 0}}}
    (partition,) = reader.partitions(start, end)
    (batch,) = pickle.loads(pickle.dumps(reader)).read(partition)
    assert batch.column("offset").to_pylist() == [*range(LOG_END)]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert reader.partitions(end, end) == []


def test_a_first_batch_that_runs_again_begins_where_it_had_begun(stream_of: StreamOf) -> None:
    """Spark asks again where to begin, and it is the latest offset that has moved."""
    reader = stream_of(startingOffsets='{"clicks":{"0":0,"1":7}}')
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    again = stream_of(startingOffsets="latest")
    assert again.initialOffset() == position(0, LOG_END)
    assert bounds(again.partitions(again.initialOffset(), end)) == [(1, 7, LOG_END)]
    assert again.latestOffset(end, ReadAllAvailable()) == end


def test_a_stream_without_a_start_begins_with_what_comes(broker: SocketBroker) -> None:
    options = {"kafka.bootstrap.servers": f"127.0.0.1:{broker.port}", "subscribe": "clicks"}
    source = OttlaDataSource(options)
    reader = source.streamReader(source.schema())
    assert reader.initialOffset() == position(0, LOG_END)
    reader.stop()


def test_a_batch_is_limited_unless_all_is_asked_for(stream_of: StreamOf) -> None:
    reader = stream_of(maxOffsetsPerTrigger="15", minPartitions="3")
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(position(0, 0), limit)
    assert end == position(0, 15)
    assert bounds(reader.partitions(position(0, 0), end)) == [(1, 0, 5), (1, 5, 10), (1, 10, 15)]
    assert reader.latestOffset(position(0, 0), ReadAllAvailable()) == position(0, LOG_END)


def test_what_comes_later_is_not_available_now(broker: SocketBroker, stream_of: StreamOf) -> None:
    reader = stream_of(maxOffsetsPerTrigger="30")
    reader.prepareForTriggerAvailableNow()
    broker.answers[ListOffsetsRequest] = lambda request: pytest.fail("it was asked again")
    first = reader.latestOffset(position(0, 0), reader.getDefaultReadLimit())
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    assert (first, second) == (position(0, 30), position(0, LOG_END))
    assert reader.latestOffset(second, reader.getDefaultReadLimit()) == second


def test_what_comes_between_the_end_and_the_start_is_no_loss(
    broker: SocketBroker, stream_of: StreamOf
) -> None:
    """Spark asks for the end of what is available first, then for the latest offsets to begin."""
    reader = stream_of(startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    whole = broker.answers[ListOffsetsRequest]

    def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
        answered = whole(request)
        assert isinstance(answered, ListOffsetsResponse)
        for answer in answered.topics[0].partitions:
            answer.offset += answer.partition_index
        return answered

    broker.answers[ListOffsetsRequest] = offsets
    start = reader.initialOffset()
    assert start == position(0, LOG_END + 1)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {**start, "@begun": {"clicks": {"0": 0, "1": LOG_END + 1}}}
    assert reader.partitions(start, end) == []


def test_a_partition_that_was_added_is_read_from_its_beginning(stream_of: StreamOf) -> None:
    start = Position({TopicPartition("clicks", 0): 0}, {"clicks": TOPIC_ID}).to_json()
    reader = stream_of()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert bounds(reader.partitions(start, end)) == [(1, 0, LOG_END)]


def test_a_partition_that_was_added_and_has_lost_its_beginning(
    broker: SocketBroker, stream_of: StreamOf
) -> None:
    """Of a batch that is planned, and of one that runs again and is given another beginning."""
    start = Position({TopicPartition("clicks", 0): 0}, {"clicks": TOPIC_ID}).to_json()
    end = stream_of().latestOffset(start, ReadAllAvailable())
    whole = broker.answers[ListOffsetsRequest]

    def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
        answered = whole(request)
        assert isinstance(answered, ListOffsetsResponse)
        for answer in answered.topics[0].partitions:
            answer.offset = max(answer.offset, 7 * answer.partition_index)
        return answered

    broker.answers[ListOffsetsRequest] = offsets
    reader = stream_of()
    for ask in (
        lambda: reader.latestOffset(start, ReadAllAvailable()),
        lambda: reader.partitions(start, end),
    ):
        with pytest.raises(DataLoss, match=r"clicks-1 was added, .* offset 7.*failOnDataLoss"):
            ask()
    lenient = stream_of(failOnDataLoss="false")
    assert bounds(lenient.partitions(start, end)) == [(1, 7, LOG_END)]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (position(0, LOG_END + 1), "clicks-1 was read up to offset 41 and ends at 40 now"),
        (position(0, 3, NO_TOPIC_ID), "topic clicks was deleted and made anew"),
        ({**position(0, 3), "views": {"7": 5}}, "views-7 was read up to offset 5 and is not there"),
    ],
)
def test_a_stream_says_what_it_lost(stream_of: StreamOf, start: dict[str, Any], words: str) -> None:
    with pytest.raises(DataLoss, match=f"{words}.*set option failOnDataLoss to false"):
        stream_of().latestOffset(start, ReadAllAvailable())
    lenient = stream_of(failOnDataLoss="false")
    assert lenient.latestOffset(start, ReadAllAvailable()) == position(0, LOG_END)


def test_a_topic_made_anew_is_read_from_its_beginning_where_loss_is_allowed(
    stream_of: StreamOf,
) -> None:
    reader = stream_of(failOnDataLoss="false")
    start = position(0, 30, NO_TOPIC_ID)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert bounds(reader.partitions(start, end)) == [(1, 0, LOG_END)]


def without_topics(broker: SocketBroker) -> None:
    broker.answers[MetadataRequest] = lambda request: broker.metadata(topics=[])


@pytest.mark.parametrize("is_strict", ["true", "false"])
@pytest.mark.parametrize("is_once", [True, False])
def test_a_topic_that_a_broker_does_not_know_yet_is_not_gone(
    broker: SocketBroker, stream_of: StreamOf, is_strict: str, is_once: bool
) -> None:
    """It has just started. Taken for gone, the topic would be read from its beginning again."""
    there = broker.answers[MetadataRequest]
    asked: list[MetadataRequest] = []

    def metadata(request: MetadataRequest) -> Any:
        asked.append(request)
        return broker.metadata(topics=[]) if len(asked) <= 2 else there(request)

    broker.answers[MetadataRequest] = metadata
    reader = stream_of(failOnDataLoss=is_strict)
    if is_once:
        reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(position(0, 3), ReadAllAvailable())
    assert end == position(0, LOG_END)
    assert bounds(reader.partitions(position(0, 3), end)) == [(1, 3, LOG_END)]


def test_a_topic_that_is_gone_is_a_loss_and_one_that_never_was_an_error(
    broker: SocketBroker, stream_of: StreamOf
) -> None:
    without_topics(broker)
    with pytest.raises(DataLoss, match="clicks-0 was read up to offset 0 and is not there any"):
        stream_of().latestOffset(position(0, 3), ReadAllAvailable())
    nowhere = Position({}, {}).to_json()
    with pytest.raises(OptionError, match="subscribe: there is no topic clicks"):
        stream_of().latestOffset(nowhere, ReadAllAvailable())
    lenient = stream_of(failOnDataLoss="false")
    assert lenient.latestOffset(position(0, 3), ReadAllAvailable()) == nowhere
    with pytest.raises(OptionError, match="subscribe: there is no topic clicks"):
        lenient.initialOffset()


def test_a_topic_that_comes_back_is_read_from_its_beginning(
    broker: SocketBroker, stream_of: StreamOf
) -> None:
    reader = stream_of(failOnDataLoss="false")
    there = broker.answers[MetadataRequest]
    without_topics(broker)
    start = reader.latestOffset(position(0, 3, NO_TOPIC_ID), ReadAllAvailable())
    broker.answers[MetadataRequest] = there
    end = reader.latestOffset(start, ReadAllAvailable())
    assert bounds(reader.partitions(start, end)) == [(1, 0, LOG_END)]


def test_a_topic_that_goes_while_it_is_asked_about_is_a_loss(
    broker: SocketBroker, stream_of: StreamOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.blocking_cluster._ABSENT_S_MAX", 0.1)

    def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
        without_topics(broker)
        error = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        answer = ListOffsetsPartitionResponse(partition_index=0, error_code=error)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name="clicks", partitions=[answer])]
        )

    broker.answers[ListOffsetsRequest] = offsets
    with pytest.raises(DataLoss, match="clicks-0 was read up to offset 0 and is not there any"):
        stream_of().latestOffset(position(0, 3), ReadAllAvailable())


def test_a_query_keeps_its_connection(broker: SocketBroker, stream_of: StreamOf) -> None:
    reader = stream_of()
    start = reader.initialOffset()
    reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert len(broker.connections) == 1
    assert len(broker.requests(MetadataRequest)) == 2


def test_too_little_is_waited_for(stream_of: StreamOf) -> None:
    reader = stream_of(minOffsetsPerTrigger="10")
    first = reader.latestOffset(position(0, 39), ReadAllAvailable())
    assert first == position(0, LOG_END), "the first batch does not wait"
    assert reader.latestOffset(position(0, 31), ReadAllAvailable()) == position(0, 31)
    assert reader.latestOffset(position(0, 30), ReadAllAvailable()) == position(0, LOG_END)
    impatient = stream_of(minOffsetsPerTrigger="10", maxTriggerDelay="0s")
    for _ in range(2):
        assert impatient.latestOffset(position(0, 39), ReadAllAvailable()) == first


def test_too_little_is_what_there_is_when_no_more_is_to_come(stream_of: StreamOf) -> None:
    reader = stream_of(minOffsetsPerTrigger="10")
    reader.prepareForTriggerAvailableNow()
    for _ in range(2):
        assert reader.latestOffset(position(0, 39), ReadAllAvailable()) == position(0, LOG_END)


def answer_commits(broker: SocketBroker, error: ErrorCode) -> None:
    def coordinator(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        found = Coordinator(key="readers", node_id=1, host="127.0.0.1", port=broker.port)
        return FindCoordinatorResponse(coordinators=[found])

    def commit(request: OffsetCommitRequest) -> OffsetCommitResponse:
        partitions = [
            OffsetCommitResponsePartition(partition_index=0, error_code=int(error)),
        ]
        return OffsetCommitResponse(
            topics=[OffsetCommitResponseTopic(name="clicks", partitions=partitions)]
        )

    broker.answers[FindCoordinatorRequest] = coordinator
    broker.answers[OffsetCommitRequest] = commit


def committed(broker: SocketBroker) -> list[list[tuple[int, int]]]:
    return [
        [(one.partition_index, one.committed_offset) for one in request.topics[0].partitions]
        for request in broker.requests(OffsetCommitRequest)
    ]


def test_a_group_is_told_what_is_new(broker: SocketBroker, stream_of: StreamOf) -> None:
    answer_commits(broker, ErrorCode.NONE)
    reader = stream_of(**{"kafka.group.id": "readers"})
    for start in (position(0, 5), position(0, 5), position(0, 7)):
        reader.latestOffset(start, ReadAllAvailable())
    assert committed(broker) == [[(0, 0), (1, 5)], [(1, 7)]]
    stream_of().latestOffset(position(0, 9), ReadAllAvailable())
    assert len(committed(broker)) == 2


def test_a_group_that_cannot_be_told_stops_nothing(
    broker: SocketBroker, stream_of: StreamOf, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream_of(**{"kafka.group.id": "readers"})
    answer_commits(broker, ErrorCode.UNKNOWN_MEMBER_ID)
    for _ in range(2):
        assert reader.latestOffset(position(0, 5), ReadAllAvailable()) == position(0, LOG_END)
    answer_commits(broker, ErrorCode.NONE)
    reader.latestOffset(position(0, 5), ReadAllAvailable())
    assert committed(broker) == [[(0, 0), (1, 5)]] * 3
    (warning,) = caplog.messages
    assert "the lag of group readers is not up to date" in warning
