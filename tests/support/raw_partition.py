"""Transactions in one partition of any broker, by raw requests: producers that may write to it, and
markers that end what they wrote, whatever their coordinator thinks of it."""

from __future__ import annotations

import time
from typing import Any

from ottla.kernel.errors import ErrorCode
from ottla.records.batch import iter_headers
from ottla.records.record import iter_records
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.raw_transaction import RawProducer
from tests.support.side_by_side import NOW_MS, Subject, a_batch

IMPLICIT_ADD_SINCE = 12


class RawPartition:
    """Partition 0 of a topic. Producers are known by small numbers, in which answers compare."""

    def __init__(self, subject: Subject, topic: str, **configs: str) -> None:
        self.subject = subject
        self.topic = topic
        self._producers: list[RawProducer] = []
        subject.create(topic, 1, **configs)

    def new_producer(self, *, is_version_2: bool = False) -> int:
        """Its transaction knows the partition."""
        number = len(self._producers)
        name = f"{self.topic}-{number}"
        producer = RawProducer(self.subject.ask, name, is_version_2=is_version_2)
        producer.init()
        self._producers.append(producer)
        if not is_version_2:
            self.add(number)
        return number

    def add(self, number: int) -> None:
        producer = self._producers[number]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[0])],
        )
        while True:
            (answer,) = self.subject.ask(request, 3).results_by_topic_v3_and_below
            (result,) = answer.results_by_partition
            # The transaction before is being ended.
            if result.partition_error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            time.sleep(0.02)
        assert result.partition_error_code == ErrorCode.NONE, result

    def write(
        self,
        number: int,
        sequence: int,
        *values: bytes,
        epoch: int | None = None,
        version: int = 11,
        is_transactional: bool = True,
        timestamp: int = NOW_MS,
    ) -> Any:
        producer = self._producers[number]
        batch = a_batch(
            *values,
            timestamp=timestamp,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        return self.subject.produce(
            self.topic,
            batch,
            version=version,
            transactional_id=producer.transactional_id if is_transactional else None,
        )

    def written(self, number: int, sequence: int, *values: bytes, **options: Any) -> int:
        """The offset."""
        answer = self.write(number, sequence, *values, **options)
        assert answer.error_code == ErrorCode.NONE, answer
        offset: int = answer.base_offset
        return offset

    def mark(
        self,
        number: int,
        *,
        is_commit: bool,
        epoch: int | None = None,
        coordinator_epoch: int = 0,
        transaction_version: int = 1,
        partitions: tuple[int, ...] = (0,),
    ) -> list[str]:
        """The error of each partition."""
        producer = self._producers[number]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch if epoch is None else epoch,
            transaction_result=is_commit,
            topics=[WritableTxnMarkerTopic(name=self.topic, partition_indexes=list(partitions))],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        answer = self.subject.ask(WriteTxnMarkersRequest(markers=[marker]))
        return [
            ErrorCode(one.error_code).name
            for one in sorted(
                answer.markers[0].topics[0].partitions, key=lambda one: one.partition_index
            )
        ]

    def end(self, number: int, *, is_commit: bool) -> None:
        """By its coordinator."""
        answer = self._producers[number].end(is_commit=is_commit)
        assert answer.error_code == ErrorCode.NONE, answer

    def number(self, producer_id: int) -> int:
        return [each.producer_id for each in self._producers].index(producer_id)

    def fetch(self, isolation_level: int, offset: int = 0, **options: Any) -> dict[str, Any]:
        answer = self.subject.fetch(self.topic, offset, isolation_level=isolation_level, **options)
        (data,) = answer.responses[0].partitions
        content = memoryview(bytes(data.records or b""))
        aborted = data.aborted_transactions
        return {
            "error": ErrorCode(data.error_code).name,
            "offsets": (data.high_watermark, data.last_stable_offset, data.log_start_offset),
            "aborted": aborted
            and sorted((each.first_offset, self.number(each.producer_id)) for each in aborted),
            "batches": [
                (
                    header.base_offset,
                    header.record_count,
                    header.attributes,
                    header.producer_epoch,
                    header.base_sequence,
                    header.producer_id >= 0 and self.number(header.producer_id),
                    [
                        (record.key, record.value)
                        for record in iter_records(content[at : at + header.size_bytes])
                    ],
                )
                for at, header in iter_headers(content, allow_partial=True)
            ],
        }

    def offset_at(self, timestamp: int, isolation_level: int) -> tuple[str, int, int]:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=self.topic, partitions=[asked])],
        )
        answer = self.subject.ask(request).topics[0].partitions[0]
        return ErrorCode(answer.error_code).name, answer.offset, answer.leader_epoch

    def producers(self) -> list[Any]:
        """As DescribeProducers tells of them; times that a broker took are left out."""
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=self.topic, partition_indexes=[0])]
        )
        (partition,) = self.subject.ask(request).topics[0].partitions
        return sorted(
            (
                self.number(one.producer_id),
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
                one.last_timestamp == NOW_MS,
            )
            for one in partition.active_producers
        )
