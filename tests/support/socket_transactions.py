"""What a broker behind a socket answers to one who writes, in transactions or without: enough to
see who wrote what, and how it ended."""

from __future__ import annotations

from collections import defaultdict

from ottla.client.blocking_groups import CommittedOffset
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.records.batch import parse_header
from ottla.records.record import Record, iter_records
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.support.socket_broker import HOST, SocketBroker

PRODUCER_ID = 9


class Transactions:
    """Of the one producer there is. Every InitProducerId raises its epoch, as every end does."""

    def __init__(self, broker: SocketBroker) -> None:
        self.epoch = -1
        self.records: dict[int, list[Record]] = defaultdict(list)
        """By partition of `clicks`, whether committed or not."""
        self.ends: list[str] = []
        self.pending: dict[TopicPartition, CommittedOffset] = {}
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        self._port = broker.port
        self._last: dict[int, tuple[ProducerIdAndEpoch, int]] = {}
        broker.answers |= {
            FindCoordinatorRequest: self._find_coordinator,
            InitProducerIdRequest: self._init,
            DescribeProducersRequest: self._describe,
            ProduceRequest: self._produce,
            TxnOffsetCommitRequest: self._commit_offsets,
            OffsetFetchRequest: self._fetch_offsets,
            EndTxnRequest: self._end,
        }

    def values(self, partition: int) -> list[bytes | None]:
        return [record.value for record in self.records[partition]]

    def _find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        found = Coordinator(key=request.coordinator_keys[0], node_id=1, host=HOST, port=self._port)
        return FindCoordinatorResponse(coordinators=[found])

    def _init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        self.epoch += 1
        return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _describe(self, request: DescribeProducersRequest) -> DescribeProducersResponse:
        topics = [
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, active_producers=self._states(index))
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
        return DescribeProducersResponse(topics=topics)

    def _states(self, partition: int) -> list[ProducerState]:
        if partition not in self._last:
            return []
        (producer_id, epoch), sequence = self._last[partition]
        return [
            ProducerState(producer_id=producer_id, producer_epoch=epoch, last_sequence=sequence)
        ]

    def _produce(self, request: ProduceRequest) -> ProduceResponse:
        responses = []
        for topic in request.topic_data:
            answers = []
            for one in topic.partition_data:
                batch = bytes(one.records or b"")
                header = parse_header(batch)
                answers.append(
                    PartitionProduceResponse(
                        index=one.index, base_offset=len(self.records[one.index])
                    )
                )
                self.records[one.index] += iter_records(batch)
                producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
                self._last[one.index] = producer, header.base_sequence + header.record_count - 1
            responses.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        return ProduceResponse(responses=responses)

    def _commit_offsets(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        topics = []
        for topic in request.topics:
            for one in topic.partitions:
                self.pending[TopicPartition(topic.name, one.partition_index)] = CommittedOffset(
                    one.committed_offset, one.committed_metadata or ""
                )
            partitions = [
                TxnOffsetCommitResponsePartition(partition_index=one.partition_index)
                for one in topic.partitions
            ]
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return TxnOffsetCommitResponse(topics=topics)

    def _fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        group = OffsetFetchResponseGroup(group_id=request.groups[0].group_id)
        for topic in request.groups[0].topics or []:
            partitions = [
                self._committed(TopicPartition(topic.name, index))
                for index in topic.partition_indexes
            ]
            group.topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
        return OffsetFetchResponse(groups=[group])

    def _committed(self, where: TopicPartition) -> OffsetFetchResponsePartitions:
        found = self.committed.get(where, CommittedOffset(-1))
        return OffsetFetchResponsePartitions(
            partition_index=where.partition, committed_offset=found.offset, metadata=found.metadata
        )

    def _end(self, request: EndTxnRequest) -> EndTxnResponse:
        self.ends.append("commit" if request.committed else "abort")
        if request.committed:
            self.committed |= self.pending
        self.pending.clear()
        self.epoch += 1
        return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)
