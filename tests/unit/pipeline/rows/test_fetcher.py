from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.client.blocking import GaveUp
from ottla.client.blocking_cluster import READ_COMMITTED, READ_UNCOMMITTED, BlockingCluster
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, TopicId, TopicPartition
from ottla.pipeline.rows.fetcher import DataLoss, Fetcher
from ottla.records.batch import parse_header
from ottla.records.builder import build_batch
from ottla.records.errors import CorruptRecord
from ottla.records.record import Record
from ottla.wire.api import ApiKey
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponseBroker
from tests.support.socket_broker import HOST, TOPIC_ID, SocketBroker

CLICKS = TopicPartition("clicks", 1)
BATCH_COUNT, RECORDS_A_BATCH = 6, 10
END = BATCH_COUNT * RECORDS_A_BATCH


def a_log() -> list[bytearray]:
    return [
        build_batch(
            [
                Record(offset, offset, None, b"%d" % offset)
                for offset in range(base, base + RECORDS_A_BATCH)
            ]
        )
        for base in range(0, END, RECORDS_A_BATCH)
    ]


def answered(**fields: Any) -> FetchResponse:
    partition = PartitionData(partition_index=1, high_watermark=END, **fields)
    return FetchResponse(
        responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])]
    )


class Log:
    """Two batches an answer."""

    def __init__(self, broker: SocketBroker) -> None:
        self.batches = a_log()
        self.problems: dict[int, list[Callable[[], Any]]] = {}
        """What to answer instead, once each, to a fetch at an offset."""
        broker.answers[FetchRequest] = self.fetch

    def fetch(self, request: FetchRequest) -> Any:
        offset = request.topics[0].partitions[0].fetch_offset
        if self.problems.get(offset):
            return self.problems[offset].pop(0)()
        found = [batch for batch in self.batches if parse_header(batch).next_offset > offset]
        return answered(records=b"".join(found[:2]))


def new_fetcher(
    cluster: BlockingCluster, start: int = 0, end: int = END, **options: Any
) -> Fetcher:
    topic_id: TopicId = options.pop("topic_id", TOPIC_ID)
    return Fetcher(
        cluster, CLICKS, topic_id, start, end, **{"columns": ["offset", "value"], **options}
    )


def read(fetcher: Fetcher) -> list[int]:
    found: list[int] = []
    for batch in fetcher:
        assert batch.column("value").to_pylist() == [
            b"%d" % offset for offset in batch.column("offset").to_pylist()
        ]
        found += batch.column("offset").to_pylist()
    return found


def cluster_of(broker: SocketBroker, **options: float) -> BlockingCluster:
    return BlockingCluster(broker.bootstrap, **{"retry_timeout_s": 20.0, **options})  # type: ignore[arg-type]


def earliest_is(broker: SocketBroker, offset: int) -> None:
    found = ListOffsetsPartitionResponse(partition_index=1, offset=offset)
    topic = ListOffsetsTopicResponse(name="clicks", partitions=[found])
    broker.answers[ListOffsetsRequest] = lambda _: ListOffsetsResponse(topics=[topic])


@pytest.mark.parametrize(("start", "end"), [(0, END), (5, 33), (20, 21), (7, 7)])
def test_a_range_is_read_exactly(start: int, end: int) -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        Log(broker)
        fetcher = new_fetcher(cluster, start, end)
        assert read(fetcher) == list(range(start, end))
        assert fetcher.offset == end


def test_the_next_fetch_is_on_its_way_before_one_is_decoded() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        Log(broker)
        batches = iter(new_fetcher(cluster, max_bytes=12345))
        next(batches)
        # Asked over the same connection, so answered after what was sent before it.
        cluster.forget()
        cluster.leader(CLICKS)
        fetches = broker.requests(FetchRequest)
        assert [one.topics[0].partitions[0].fetch_offset for one in fetches] == [0, 20]
        assert {one.max_bytes for one in fetches} == {12345}
        assert {one.isolation_level for one in fetches} == {READ_COMMITTED}
        assert {one.topics[0].partitions[0].current_leader_epoch for one in fetches} == {3}
        assert sum(batch.num_rows for batch in batches) == END - 20


@pytest.mark.parametrize("offset", [0, 20, 40])
def test_a_broker_that_goes_away_or_leads_no_more_is_asked_again(offset: int) -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        log = Log(broker)
        log.problems[offset] = [
            lambda: None,
            lambda: answered(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
            lambda: answered(records=b""),
            lambda: FetchResponse(error_code=ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        assert read(new_fetcher(cluster)) == list(range(END))
        assert log.problems[offset] == []


@pytest.mark.parametrize("offset", [0, 20])
def test_a_broker_that_holds_a_client_to_its_quota_is_asked_again(offset: int) -> None:
    """It answers with no partition at all, and says how long it will not listen (KIP-219)."""
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        log = Log(broker)
        log.problems[offset] = [lambda: FetchResponse(throttle_time_ms=10)] * 2
        assert read(new_fetcher(cluster)) == list(range(END))
        assert log.problems[offset] == []


def test_what_no_waiting_mends_is_raised() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        log = Log(broker)
        log.problems[20] = [lambda: answered(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 2
        with pytest.raises(KafkaError, match="fetching clicks-1") as raised:
            read(new_fetcher(cluster))
        assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_topic_made_anew_is_another_topic() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        Log(broker)
        with pytest.raises(KafkaError, match="deleted and made anew") as raised:
            read(new_fetcher(cluster, topic_id=TopicId(bytes(15) + b"\x07")))
        assert raised.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
        assert read(new_fetcher(cluster, topic_id=NO_TOPIC_ID)) == list(range(END))


def test_a_broker_that_knows_no_ids_is_asked_by_name() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        Log(broker)
        broker.versions[ApiKey.FETCH] = range(4, 12)
        broker.versions[ApiKey.METADATA] = range(9)
        assert read(new_fetcher(cluster)) == list(range(END))
        assert {one.topics[0].topic for one in broker.requests(FetchRequest)} == {"clicks"}


def test_records_that_retention_deleted_are_a_loss_or_left_out() -> None:
    gone = [lambda: answered(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)]
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        log = Log(broker)
        earliest_is(broker, 15)
        log.problems[0] = [*gone]
        with pytest.raises(DataLoss, match="offsets 0 to 14 of clicks-1 are gone") as raised:
            read(new_fetcher(cluster))
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

        log.problems[0] = [*gone]
        assert read(new_fetcher(cluster, is_loss_allowed=True)) == list(range(15, END))
        log.problems[0] = [*gone]
        assert read(new_fetcher(cluster, end=9, is_loss_allowed=True)) == []


def test_a_log_that_ends_too_early_is_a_loss_too() -> None:
    with SocketBroker() as broker, cluster_of(broker, retry_timeout_s=0.2) as cluster:
        Log(broker)
        earliest_is(broker, 0)
        with pytest.raises(DataLoss, match=f"ends at offset {END}, it had records up to 99"):
            read(new_fetcher(cluster, end=100))
        found = new_fetcher(cluster, end=100, is_loss_allowed=True)
        assert read(found) == list(range(END))
        assert found.offset == 100


def policy_is(broker: SocketBroker, policy: str) -> None:
    config = DescribeConfigsResourceResult(name="cleanup.policy", value=policy)
    result = DescribeConfigsResult(resource_type=2, resource_name="clicks", configs=[config])
    broker.answers[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(results=[result])


def test_nothing_behind_what_compaction_has_left_is_no_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.pipeline.rows.fetcher.GAP_S", 0.2)
    with SocketBroker() as broker, cluster_of(broker, retry_timeout_s=1.0) as cluster:
        log = Log(broker)
        del log.batches[4:]
        policy_is(broker, "delete,compact")
        fetcher = new_fetcher(cluster)
        assert read(fetcher) == list(range(40))
        assert fetcher.offset == END
        # Records of a transaction that is still open may come: those are waited for.
        log.problems[40] = [lambda: answered(records=b"", last_stable_offset=50)] * 1000
        with pytest.raises(DataLoss, match="ends at offset 40"):
            read(new_fetcher(cluster))
        assert read(new_fetcher(cluster, end=50)) == list(range(40))
        log.problems.clear()
        policy_is(broker, "delete")
        with pytest.raises(DataLoss, match="ends at offset 40"):
            read(new_fetcher(cluster))


def test_a_broker_that_could_not_read_in_time_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For less long than is believed; or with something else in between."""
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        log = Log(broker)
        policy_is(broker, "compact")
        log.problems[40] = [lambda: answered(records=b"")] * 3
        assert read(new_fetcher(cluster)) == list(range(END))
        monkeypatch.setattr("ottla.pipeline.rows.fetcher.GAP_S", 0.0001)
        log.problems[40] = [
            lambda: answered(records=b""),
            lambda: answered(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
            lambda: answered(records=b""),
        ]
        assert read(new_fetcher(cluster)) == list(range(END))


def test_a_broker_that_stays_away_fails_the_reading_with_its_name() -> None:
    with SocketBroker() as broker, cluster_of(broker, retry_timeout_s=0.2) as cluster:
        log = Log(broker)
        log.problems[20] = [lambda: None] * 100
        with pytest.raises(GaveUp, match=f"reading clicks-1.*{broker.port}"):
            read(new_fetcher(cluster))


@pytest.mark.parametrize("isolation_level", [READ_COMMITTED, READ_UNCOMMITTED])
def test_aborted_records_are_left_out_by_those_who_want_committed_ones(
    isolation_level: int,
) -> None:
    batch = build_batch(
        [Record(0, 0, None, b"0")],
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    aborted = [AbortedTransaction(producer_id=5, first_offset=0)]
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[FetchRequest] = lambda _: answered(
            records=batch, aborted_transactions=aborted
        )
        fetcher = new_fetcher(cluster, end=1, isolation_level=isolation_level)
        assert read(fetcher) == ([] if isolation_level == READ_COMMITTED else [0])
        assert fetcher.offset == 1


@pytest.mark.parametrize(
    "records",
    [b"x" * 100, bytes(a_log()[0])[:-1], bytes(a_log()[0])[:10]],
    ids=["nonsense", "cut", "short"],
)
def test_nonsense_is_an_error_at_once(records: bytes) -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[FetchRequest] = lambda _: answered(records=records)
        with pytest.raises(CorruptRecord):
            read(new_fetcher(cluster))
        broker.answers[FetchRequest] = lambda _: FetchResponse()
        with pytest.raises(CorruptRecord, match="answered with nothing"):
            read(new_fetcher(cluster))


def test_records_from_before_the_range_alone_are_no_endless_loop() -> None:
    with SocketBroker() as broker, cluster_of(broker) as cluster:
        broker.answers[FetchRequest] = lambda _: answered(records=a_log()[0])
        with pytest.raises(CorruptRecord, match="no record at or after it"):
            read(new_fetcher(cluster, start=30))


# With client.rack (KIP-392)

FOLLOWER_ID = 2


@contextmanager
def two_brokers() -> Iterator[tuple[SocketBroker, SocketBroker]]:
    """The leader, which sends everybody with a rack to the follower, and the follower."""
    with SocketBroker() as leader, SocketBroker() as follower:
        tell_of_follower(leader, follower.port)
        follower.answers[MetadataRequest] = leader.answers[MetadataRequest]
        records = Log(leader).fetch
        leader.answers[FetchRequest] = lambda request: (
            answered(preferred_read_replica=FOLLOWER_ID) if request.rack_id else records(request)
        )
        Log(follower)
        yield leader, follower


def tell_of_follower(leader: SocketBroker, port: int) -> None:
    nodes = [
        MetadataResponseBroker(node_id=1, host=HOST, port=leader.port),
        MetadataResponseBroker(node_id=FOLLOWER_ID, host=HOST, port=port),
    ]
    leader.answers[MetadataRequest] = lambda _: leader.metadata(brokers=nodes)


def fetch_offsets(broker: SocketBroker) -> list[int]:
    return [one.topics[0].partitions[0].fetch_offset for one in broker.requests(FetchRequest)]


def test_a_range_is_read_from_the_follower_that_the_leader_names() -> None:
    with two_brokers() as (leader, follower), cluster_of(leader) as cluster:
        assert read(new_fetcher(cluster, rack_id="a")) == list(range(END))
        assert fetch_offsets(leader) == [0]
        assert fetch_offsets(follower) == [0, 20, 40]
        (asked,) = leader.requests(FetchRequest)
        assert asked.rack_id == "a"


def test_without_a_rack_the_leader_is_read_from() -> None:
    with two_brokers() as (leader, follower), cluster_of(leader) as cluster:
        assert read(new_fetcher(cluster)) == list(range(END))
        assert (fetch_offsets(leader), follower.asked) == ([0, 20, 40], [])


@pytest.mark.parametrize("offset", [0, 20])
@pytest.mark.parametrize(
    "problem",
    [
        lambda: None,
        lambda: answered(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        lambda: answered(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        lambda: answered(error_code=ErrorCode.FENCED_LEADER_EPOCH),
        lambda: answered(records=b""),  # It has not heard yet that all of it is committed.
        lambda: answered(records=b"x" * 80),
        lambda: answered(preferred_read_replica=1),
        lambda: FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_whatever_is_wrong_at_a_follower_the_leader_is_read_from(
    problem: Callable[[], Any], offset: int
) -> None:
    with two_brokers() as (leader, follower), cluster_of(leader) as cluster:
        Log(follower).problems[offset] = [problem] * 2
        assert read(new_fetcher(cluster, rack_id="a")) == list(range(END))
        read_by_leader = [0, 20, 40] if offset == 0 else [20, 40]
        assert fetch_offsets(leader) == [0, *read_by_leader]


def test_a_follower_that_cannot_be_reached_or_is_unknown_is_done_without() -> None:
    with (
        two_brokers() as (leader, _),
        cluster_of(leader) as cluster,
        socket.socket() as nobody_listens,
    ):
        nobody_listens.bind((HOST, 0))
        tell_of_follower(leader, nobody_listens.getsockname()[1])
        assert read(new_fetcher(cluster, rack_id="a")) == list(range(END))
        leader.answers[MetadataRequest] = lambda _: leader.metadata()
        cluster.forget()
        assert read(new_fetcher(cluster, rack_id="a")) == list(range(END))
        assert fetch_offsets(leader) == [0, 0, 20, 40] * 2


def test_a_leader_that_names_a_replica_to_whoever_has_no_rack_is_not_followed_around() -> None:
    with two_brokers() as (leader, follower), cluster_of(leader) as cluster:
        log = Log(leader)
        log.problems[0] = [lambda: answered(preferred_read_replica=FOLLOWER_ID)]
        assert read(new_fetcher(cluster)) == list(range(END))
        assert follower.asked == []
