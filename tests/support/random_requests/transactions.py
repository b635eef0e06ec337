"""Random requests of transactional producers, of both versions of transactions."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.random_requests.stage import CLOSED, TIMEOUT_S, Stage, fitting
from tests.support.raw_group import fetch_request, wait_for_coordinator
from tests.support.side_by_side import a_batch

TRANSACTION = 1
VERSION_2_END = 5
"""From this on an EndTxn is of transactions version 2 (KIP-890)."""


@dataclass
class Producer:
    transactional_id: str
    id: int = -1
    epoch: int = -1
    ends_by_version_2: bool = False
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)


class Transactions(Stage):
    def prepare(self) -> None:
        self.topics = [self.create("in", 1), self.create("out", 2)]
        self.missing = self.topic("missing")
        self.group = self.topic("group")
        self.producers = [Producer(self.topic("one")), Producer(self.topic("two"))]
        self.pass_first_producer_id()
        wait_for_coordinator(self.subject.ask, self.group)
        for producer in self.producers:
            self._wait_for_transactions(producer.transactional_id)
            self.initialise(producer, 4)

    def _wait_for_transactions(self, transactional_id: str) -> None:
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id])
        deadline_s = time.monotonic() + TIMEOUT_S
        while self.subject.ask(find, 4).coordinators[0].error_code != ErrorCode.NONE:
            assert time.monotonic() < deadline_s, "no coordinator of transactions"
            time.sleep(0.02)

    def initialise(self, producer: Producer, version: int, **fields: Any) -> Any:
        request = fitting(
            InitProducerIdRequest,
            version,
            **{
                "transactional_id": producer.transactional_id,
                "transaction_timeout_ms": 60_000,
                **fields,
            },
        )
        return self.taken_over(producer, self.ask(request, version))

    def taken_over(self, producer: Producer, answer: Any) -> Any:
        """With the id and epoch that the producer goes on with."""
        if answer is not CLOSED and answer.error_code == ErrorCode.NONE:
            if (producer.id, producer.epoch) != (answer.producer_id, answer.producer_epoch):
                producer.sequences.clear()
            producer.id, producer.epoch = answer.producer_id, answer.producer_epoch
            self.names[producer.id] = f"producer of {producer.transactional_id}"
        self.wait_until_ended(producer)
        return answer

    def wait_until_ended(self, producer: Producer) -> None:
        """Apache Kafka answers an EndTxn before the markers are written."""
        request = DescribeTransactionsRequest(transactional_ids=[producer.transactional_id])
        deadline_s = time.monotonic() + TIMEOUT_S
        while True:
            (found,) = self.subject.ask(request, 0).transaction_states
            if not found.transaction_state.startswith("Prepare"):
                return
            assert time.monotonic() < deadline_s, found
            time.sleep(0.005)

    def producer(self) -> Producer:
        return self.pick(*self.producers)

    def identity(self, producer: Producer) -> tuple[int, int]:
        """Mostly its own."""
        others = producer.epoch + 1, max(0, producer.epoch - 1)
        epoch = self.mostly(producer.epoch, *others, share=0.92)
        return self.mostly(producer.id, producer.id + 10**6, share=0.97), epoch

    def any_topic(self) -> str:
        return self.mostly(self.pick(*self.topics), self.missing, share=0.95)


def init_producer(stage: Transactions) -> Any:
    producer = stage.producer()
    fields: dict[str, Any] = {}
    if stage.chance(0.4):
        fields["producer_id"], fields["producer_epoch"] = stage.identity(producer)
    if stage.chance(0.1):
        fields |= stage.pick(
            {"transactional_id": ""},
            {"transaction_timeout_ms": 0},
            {"transaction_timeout_ms": 2**31 - 1},
            {"transaction_timeout_ms": -1},
        )
    return stage.initialise(producer, stage.version(InitProducerIdRequest), **fields)


def add_partitions(stage: Transactions) -> Any:
    version = stage.version(AddPartitionsToTxnRequest)
    producer = stage.producer()
    producer_id, epoch = stage.identity(producer)
    topics = [
        AddPartitionsToTxnTopic(name=topic, partitions=stage.mostly([0], [0, 1], [1]))
        for topic in dict.fromkeys((stage.any_topic(), stage.any_topic()))
    ]
    if version <= 3:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
    else:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=stage.chance(0.5),
            topics=topics,
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
    return stage.ask(request, version)


def produce(stage: Transactions) -> Any:
    version = stage.version(ProduceRequest)
    producer = stage.producer()
    producer_id, epoch = stage.identity(producer)
    topic, index = stage.pick(*stage.topics), stage.mostly(0, 1)
    following = producer.sequences.get((topic, index), 0)
    sequence = stage.mostly(following, following + 1, 0, share=0.93)
    values = [b"t"] * stage.pick(1, 2)
    batch = a_batch(
        *values,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=stage.mostly(True, False, share=0.96),
    )
    data = fitting(
        TopicProduceData,
        version,
        name=topic,
        topic_id=stage.topic_id(topic),
        partition_data=[PartitionProduceData(index=index, records=memoryview(bytes(batch)))],
    )
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        transactional_id=stage.mostly(producer.transactional_id, None, share=0.96),
        topic_data=[data],
    )
    answer = stage.ask(request, version)
    if answer is not CLOSED:
        (found,) = answer.responses[0].partition_responses
        if found.error_code == ErrorCode.NONE:
            producer.sequences[topic, index] = sequence + len(values)
    return answer


def add_offsets(stage: Transactions) -> Any:
    producer = stage.producer()
    producer_id, epoch = stage.identity(producer)
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        group_id=stage.mostly(stage.group, ""),
    )
    return stage.ask(request, stage.version(AddOffsetsToTxnRequest))


def commit_offsets(stage: Transactions) -> Any:
    version = stage.version(TxnOffsetCommitRequest)
    producer = stage.producer()
    producer_id, epoch = stage.identity(producer)
    partition = fitting(
        TxnOffsetCommitRequestPartition,
        version,
        partition_index=stage.mostly(0, 1, -1),
        committed_offset=stage.rng.randrange(100),
        committed_leader_epoch=stage.pick(-1, 0),
        committed_metadata=stage.mostly("m", None, "x" * 5000),
    )
    request = fitting(
        TxnOffsetCommitRequest,
        version,
        transactional_id=producer.transactional_id,
        group_id=stage.mostly(stage.group, "", share=0.95),
        producer_id=producer_id,
        producer_epoch=epoch,
        member_id=stage.mostly("", "nobody", share=0.95),
        generation_id=stage.mostly(-1, 5, share=0.95),
        topics=[TxnOffsetCommitRequestTopic(name=stage.any_topic(), partitions=[partition])],
    )
    return stage.ask(request, version)


def end(stage: Transactions) -> Any:
    version = stage.version(EndTxnRequest)
    producer = stage.producer()
    producer_id, epoch = stage.identity(producer)
    if version >= VERSION_2_END and not producer.ends_by_version_2:
        epoch = max(epoch, producer.epoch)
    request = EndTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        committed=stage.chance(0.6),
    )
    answer = stage.ask(request, version)
    if answer is not CLOSED and answer.error_code == ErrorCode.NONE:
        producer.ends_by_version_2 = version >= VERSION_2_END
    if version >= VERSION_2_END:
        return stage.taken_over(producer, answer)
    stage.wait_until_ended(producer)
    return answer


# -- what they leave behind -------------------------------------------------------------------


def describe_transactions(stage: Transactions) -> Any:
    names = [producer.transactional_id for producer in stage.producers]
    request = DescribeTransactionsRequest(
        transactional_ids=[*names, stage.mostly("nobody", "", share=0.5)]
    )
    return stage.ask(request, 0)


def list_transactions(stage: Transactions) -> Any:
    version = stage.version(ListTransactionsRequest)
    request = fitting(
        ListTransactionsRequest,
        version,
        state_filters=stage.pick([], ["Ongoing"], ["Empty", "CompleteCommit"], ["NoSuch"]),
        producer_id_filters=stage.pick([], [stage.producers[0].id]),
        duration_filter=stage.pick(-1, 10**9),
        transactional_id_pattern=stage.pick(None, "", ".*one", "["),
    )
    answer = stage.ask(request, version)
    if answer is not CLOSED:
        answer.transaction_states = sorted(
            (one for one in answer.transaction_states if stage.prefix in one.transactional_id),
            key=lambda one: one.transactional_id,
        )
    return answer


def describe_producers(stage: Transactions) -> Any:
    topics = [TopicRequest(name=stage.pick(*stage.topics), partition_indexes=[0])]
    return stage.ask(DescribeProducersRequest(topics=topics), 0)


def fetch(stage: Transactions) -> Any:
    version = stage.version(FetchRequest)
    topic = stage.pick(*stage.topics)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        isolation_level=stage.mostly(1, 0),
        topics=[
            fitting(
                FetchTopic,
                version,
                topic=topic,
                topic_id=stage.topic_id(topic),
                partitions=[partition],
            )
        ],
    )
    return stage.ask(request, version)


def list_offsets(stage: Transactions) -> Any:
    version = stage.version(ListOffsetsRequest, at_least=2)
    partition = ListOffsetsPartition(partition_index=0, timestamp=stage.pick(-1, -2))
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=stage.pick(0, 1),
        topics=[ListOffsetsTopic(name=stage.pick(*stage.topics), partitions=[partition])],
    )
    return stage.ask(request, version)


def fetch_offsets(stage: Transactions) -> Any:
    version = stage.version(OffsetFetchRequest)
    partitions = {topic: [0, 1] for topic in stage.topics}
    request = fetch_request(version, stage.group, partitions, topic_ids=stage.topic_ids)
    if version >= 7:
        request.require_stable = stage.chance(0.5)
    return stage.ask(request, version)


STEPS = {
    init_producer: 2,
    add_partitions: 5,
    produce: 8,
    add_offsets: 2,
    commit_offsets: 4,
    end: 5,
    describe_transactions: 2,
    list_transactions: 1,
    describe_producers: 2,
    fetch: 4,
    list_offsets: 1,
    fetch_offsets: 3,
}
