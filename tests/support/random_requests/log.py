"""Random requests to the log: Produce, Fetch and its sessions, ListOffsets, DeleteRecords,
OffsetForLeaderEpoch, and producers with sequences."""

from __future__ import annotations

from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.records.compression import Compression
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
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
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.random_requests.stage import CLOSED, Stage, fitting
from tests.support.sent_batches import DIFFERS, SENT, with_gaps
from tests.support.side_by_side import NOW_MS, a_batch

# Nothing may go by itself within a sequence, so retention is off.
CONFIGS: tuple[dict[str, str], ...] = (
    {},
    *({"compression_type": kind} for kind in ("gzip", "snappy", "lz4", "zstd", "uncompressed")),
    {"cleanup_policy": "compact"},
    {"cleanup_policy": "compact,delete", "compression_type": "lz4"},
    {"message_timestamp_type": "LogAppendTime"},
    {"message_timestamp_type": "LogAppendTime", "compression_type": "zstd"},
    {"message_timestamp_before_max_ms": "7200000"},
    {"message_timestamp_after_max_ms": "60000"},
    {"max_message_bytes": "300"},
    {"min_insync_replicas": "2"},
)
TIMESTAMPS = (NOW_MS, NOW_MS, NOW_MS - 1000, NOW_MS - 60_000, NOW_MS - 86_400_000, 0)


MAX_INT = 2**31 - 1
ALL_BYTES = 1 << 26


class Log(Stage):
    """`producers` have what their last request would be followed by."""

    def prepare(self) -> None:
        configs = self.pick(*CONFIGS)
        self.topics = [
            self.create("plain", 2, retention_ms="-1"),
            self.create("other", 1, **{"retention_ms": "-1", **configs}),
        ]
        is_recompressing = configs.get("compression_type", "uncompressed") != "uncompressed"
        self.recompressing = self.topics[1:] if is_recompressing else []
        self.missing = self.topic("missing")
        self.has_deleted = False
        self.pass_first_producer_id()
        self.producers: list[dict[Any, int]] = []
        self.session = (0, -1, 0)
        """Its id, its next epoch, and its version: a later request in an older version could not
        be told all that an earlier one has asked for."""

    def any_topic(self) -> str:
        return self.mostly(self.pick(*self.topics), self.missing, share=0.95)

    def partition(self) -> int:
        return self.mostly(0, 1, 1, 2, -1, share=0.6)

    def offset(self) -> int:
        return self.pick(0, 0, 1, 2, 3, 5, 8, 13, -1, 1000)

    def leader_epoch(self) -> int:
        return self.mostly(-1, 0, 0, 1, -2, share=0.6)


# -- Produce ----------------------------------------------------------------------------------


def produce(log: Log) -> Any:
    version = log.version(ProduceRequest)
    topics = [
        fitting(
            TopicProduceData,
            version,
            name=topic,
            topic_id=log.topic_id(topic),
            partition_data=[
                PartitionProduceData(index=index, records=memoryview(bytes(_records(log, topic))))
                for index in log.rng.sample((0, 1, 2), log.mostly(1, 2))
            ],
        )
        for topic in {log.any_topic(): None, log.any_topic(): None}
    ]
    acks = log.mostly(log.pick(1, -1), 2, -2, share=0.97)
    return log.ask(ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics), version)


def produce_without_answer(log: Log) -> Any:
    """And what the next request of the connection sees of it."""
    topic = log.pick(*log.topics)
    data = [PartitionProduceData(index=0, records=memoryview(bytes(_records(log, topic))))]
    request = ProduceRequest(
        acks=0, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    after = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    log.subject.client.tell(request, log.version(ProduceRequest, at_least=7, at_most=12))
    return log.ask(after, 4)


def _records(log: Log, topic: str) -> bytes | bytearray:
    if log.chance(0.25):
        odd = SENT[log.rng.choice([name for name in SENT if name not in DIFFERS])]()
        assert odd is not None
        return odd
    if topic in log.recompressing and log.chance(0.1):
        return with_gaps(*log.pick((0, 2), (1, 2), (0, 0), (0, 5, 1)))
    values = [b"v%d" % log.rng.randrange(100) for _ in range(log.pick(1, 1, 2, 3, 5))]
    return a_batch(
        *values,
        timestamp=log.pick(*TIMESTAMPS),
        compression=log.mostly(Compression.NONE, *Compression, share=0.5),
    )


def init_producer(log: Log) -> Any:
    version = log.version(InitProducerIdRequest)
    answer = log.ask(InitProducerIdRequest(transactional_id=None), version)
    if answer is not CLOSED and answer.error_code == ErrorCode.NONE:
        log.names[answer.producer_id] = f"producer {len(log.producers)}"
        log.producers.append({"id": answer.producer_id, "epoch": answer.producer_epoch})
    return answer


def produce_in_sequence(log: Log) -> Any:
    if not log.producers:
        return init_producer(log)
    producer = log.pick(*log.producers)
    topic, index = log.pick(*log.topics), log.pick(0, 0, 0, 1)
    following = producer.get((topic, index), 0)
    others = (following + 1 & MAX_INT, max(0, following - 1), 0, MAX_INT)
    sequence = log.mostly(following, *others, share=0.7)
    values = [b"s"] * log.pick(1, 2, 3)
    batch = a_batch(
        *values,
        producer_id=producer["id"],
        producer_epoch=log.mostly(producer["epoch"], producer["epoch"] + 1, share=0.93),
        base_sequence=sequence,
        compression=log.mostly(Compression.NONE, Compression.LZ4),
    )
    version = log.version(ProduceRequest)
    data = fitting(
        TopicProduceData,
        version,
        name=topic,
        topic_id=log.topic_id(topic),
        partition_data=[PartitionProduceData(index=index, records=memoryview(bytes(batch)))],
    )
    answer = log.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), version)
    if answer is not CLOSED:
        (found,) = answer.responses[0].partition_responses
        if found.error_code == ErrorCode.NONE:
            producer[topic, index] = (sequence + len(values)) & MAX_INT
    return answer


def describe_producers(log: Log) -> Any:
    topics = [TopicRequest(name=log.any_topic(), partition_indexes=[0, log.pick(1, 2, -1)])]
    return log.ask(DescribeProducersRequest(topics=topics), 0)


# -- Fetch ------------------------------------------------------------------------------------


def fetch(log: Log) -> Any:
    version = log.version(FetchRequest)
    topics = {log.any_topic(): None, log.any_topic(): None}
    return log.ask(_fetch(log, version, list(topics)), version)


def fetch_in_session(log: Log) -> Any:
    """Makes one, goes on with it, adds to it, forgets of it, or gets its numbers wrong."""
    session_id, epoch, version = log.session
    if epoch < 0 or log.chance(0.1):
        version = log.version(FetchRequest, at_least=7)
        epoch, topics = 0, list({log.pick(*log.topics): None, log.any_topic(): None})
        session_id = log.mostly(0, session_id)
    else:
        topics = log.some(log.topics) if log.chance(0.3) else []
        epoch = log.mostly(epoch, epoch + 1, -1, share=0.9)
        session_id = log.mostly(session_id, 1, share=0.95)
    request = _fetch(log, version, topics, session_id=session_id, session_epoch=epoch)
    if epoch > 0 and log.chance(0.2):
        topic = log.pick(*log.topics)
        request.forgotten_topics_data = [
            fitting(
                ForgottenTopic,
                version,
                topic=topic,
                topic_id=log.topic_id(topic),
                partitions=log.pick([0], [0, 1]),
            )
        ]
    answer = log.ask(request, version)
    log.session = (0, -1, 0)
    if answer is not CLOSED and answer.error_code == ErrorCode.NONE and answer.session_id:
        log.session = (answer.session_id, epoch + 1, version)
    return answer


def _fetch(log: Log, version: int, topics: list[str], **fields: Any) -> FetchRequest:
    return fitting(
        FetchRequest,
        version,
        # One that wants bytes that are not there would wait.
        min_bytes=0,
        max_wait_ms=0,
        # One batch or all: sizes of compressed batches are each broker's own.
        max_bytes=log.mostly(ALL_BYTES, 1),
        isolation_level=log.pick(0, 1),
        topics=[_fetched_topic(log, version, topic) for topic in topics],
        **fields,
    )


def _fetched_topic(log: Log, version: int, topic: str) -> FetchTopic:
    return fitting(
        FetchTopic,
        version,
        topic=topic,
        topic_id=log.topic_id(topic),
        partitions=[
            fitting(
                FetchPartition,
                version,
                partition=partition,
                current_leader_epoch=log.leader_epoch(),
                fetch_offset=log.offset(),
                last_fetched_epoch=log.mostly(-1, 0, 1),
                partition_max_bytes=log.mostly(ALL_BYTES, 1),
            )
            for partition in {log.partition(): None, log.partition(): None}
        ],
    )


# -- the others -------------------------------------------------------------------------------


def list_offsets(log: Log) -> Any:
    version = log.version(ListOffsetsRequest)
    marks = [
        -1,
        -2,
        -4,
        -5,
        -6,
        -7,
        NOW_MS + 10**9,
    ]
    if not log.has_deleted:
        marks += [-3, 0, NOW_MS - 60_000, NOW_MS - 1000, NOW_MS]
    request = fitting(
        ListOffsetsRequest,
        version,
        replica_id=-1,
        isolation_level=log.pick(0, 1),
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    fitting(
                        ListOffsetsPartition,
                        version,
                        partition_index=partition,
                        current_leader_epoch=log.leader_epoch(),
                        timestamp=log.pick(*marks),
                    )
                    for partition in {log.partition(): None, log.partition(): None}
                ],
            )
            for topic in {log.any_topic(): None, log.any_topic(): None}
        ],
    )
    return log.ask(request, version)


def delete_records(log: Log) -> Any:
    topics = [
        DeleteRecordsTopic(
            name=topic,
            partitions=[
                DeleteRecordsPartition(partition_index=partition, offset=log.pick(-1, 0, 1, 2, 99))
                for partition in {log.partition(): None, log.partition(): None}
            ],
        )
        for topic in {log.any_topic(): None, log.any_topic(): None}
    ]
    log.has_deleted = True
    request = DeleteRecordsRequest(topics=topics, timeout_ms=10_000)
    return log.ask(request, log.version(DeleteRecordsRequest))


def offset_for_leader_epoch(log: Log) -> Any:
    version = log.version(OffsetForLeaderEpochRequest)
    topics = [
        OffsetForLeaderTopic(
            topic=topic,
            partitions=[
                OffsetForLeaderPartition(
                    partition=partition,
                    current_leader_epoch=log.leader_epoch(),
                    leader_epoch=log.pick(0, 0, 1, -1, 5),
                )
                for partition in {log.partition(): None, log.partition(): None}
            ],
        )
        for topic in {log.any_topic(): None, log.any_topic(): None}
    ]
    return log.ask(
        fitting(OffsetForLeaderEpochRequest, version, replica_id=log.pick(-1, -2), topics=topics),
        version,
    )


STEPS = {
    produce: 8,
    produce_without_answer: 3,
    produce_in_sequence: 6,
    init_producer: 1,
    describe_producers: 1,
    fetch: 6,
    fetch_in_session: 6,
    list_offsets: 5,
    delete_records: 2,
    offset_for_leader_epoch: 2,
}
