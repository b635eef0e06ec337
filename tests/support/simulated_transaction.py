"""Transactional producers and their readers, against a broker in virtual time."""

from __future__ import annotations

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import NO_TOPIC_ID, ProducerIdAndEpoch, TopicPartition
from ottla.records.batch import iter_headers
from ottla.records.record import iter_records
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import ProduceResponse
from tests.support.simulated_broker import SimulatedBroker, make_batch, produce_request

TRANSACTION = 1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

VERSION_1 = {"produce": 11, "end": 4}
VERSION_2 = {"produce": 12, "end": 5}
"""Which versions of requests a client of transactions version 1 sends, and one of version 2."""


class Transactional:
    """A producer with a transactional id. It counts its sequences as a client does; what it is
    told it only returns."""

    def __init__(
        self, broker: SimulatedBroker, transactional_id: str = "mine", *, is_version_2: bool = True
    ) -> None:
        self.transactional_id = transactional_id
        self.producer = ProducerIdAndEpoch(-1, -1)
        self._broker = broker
        self._is_version_2 = is_version_2
        self._versions = VERSION_2 if is_version_2 else VERSION_1
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self, *, timeout_ms: int = 60_000, version: int = 5) -> ErrorCode:
        found = await self._broker.call(
            FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.transactional_id]),
            FindCoordinatorResponse,
        )
        assert found.coordinators[0].error_code == ErrorCode.NONE
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        answer = await self._broker.call(request, InitProducerIdResponse, version)
        if answer.error_code == ErrorCode.NONE:
            self._go_on_as(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))
        return ErrorCode(answer.error_code)

    async def add(self, topic: str, *partitions: int, version: int = 3) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = await self._broker.call(request, AddPartitionsToTxnResponse, version)
        return [
            ErrorCode(one.partition_error_code)
            for result in answer.results_by_topic_v3_and_below
            for one in result.results_by_partition
        ]

    async def send(
        self, topic: str, *values: bytes, partition: int = 0, version: int | None = None
    ) -> ErrorCode:
        at = TopicPartition(topic, partition)
        sequence = self._sequences.get(at, 0)
        code = await self.send_numbered(
            topic, *values, sequence=sequence, partition=partition, version=version
        )
        if code is ErrorCode.NONE:
            self._sequences[at] = sequence + len(values)
        return code

    async def send_numbered(
        self,
        topic: str,
        *values: bytes,
        sequence: int,
        partition: int = 0,
        version: int | None = None,
    ) -> ErrorCode:
        batch = make_batch(
            *values,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        request = produce_request(topic, batch, partition=partition)
        request.transactional_id = self.transactional_id
        answer = await self._broker.call(
            request, ProduceResponse, self._versions["produce"] if version is None else version
        )
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def add_offsets(self, group_id: str, *, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            group_id=group_id,
        )
        answer = await self._broker.call(request, AddOffsetsToTxnResponse, version)
        return ErrorCode(answer.error_code)

    async def end(self, *, is_commit: bool, version: int | None = None) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            committed=is_commit,
        )
        answer = await self._broker.call(
            request, EndTxnResponse, self._versions["end"] if version is None else version
        )
        if answer.error_code == ErrorCode.NONE and self._is_version_2:
            self._go_on_as(ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch))
        return ErrorCode(answer.error_code)

    async def commit(self) -> None:
        assert await self.end(is_commit=True) is ErrorCode.NONE

    async def abort(self) -> None:
        assert await self.end(is_commit=False) is ErrorCode.NONE

    def _go_on_as(self, producer: ProducerIdAndEpoch) -> None:
        if producer != self.producer:
            self.producer = producer
            self._sequences.clear()


async def fetch(
    broker: SimulatedBroker,
    topic: str,
    *,
    partition: int = 0,
    isolation_level: int,
    offset: int = 0,
) -> FetchResponse:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        topics=[FetchTopic(topic=topic, topic_id=NO_TOPIC_ID, partitions=[asked])],
    )
    return await broker.call(request, FetchResponse, 12)


async def read(
    broker: SimulatedBroker, topic: str, *, partition: int = 0, is_committed: bool = True
) -> list[bytes | None]:
    """The values that a consumer hands to its user: of committed transactions only, or all."""
    level = READ_COMMITTED if is_committed else READ_UNCOMMITTED
    values: list[bytes | None] = []
    offset, end = 0, 1
    while offset < end:
        response = await fetch(
            broker, topic, partition=partition, isolation_level=level, offset=offset
        )
        (answer,) = response.responses[0].partitions
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        end = answer.last_stable_offset if is_committed else answer.high_watermark
        aborted = {(one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()}
        offset = _take(answer.records, aborted, offset, values)
    return values


def _take(
    records: object, aborted: set[tuple[int, int]], offset: int, values: list[bytes | None]
) -> int:
    """As a consumer does: an aborted transaction is passed over from its first offset to its
    marker. Returns where to go on."""
    assert isinstance(records, bytes | memoryview)
    skipped: set[int] = set()
    for position, header in iter_headers(memoryview(records), allow_partial=True):
        offset = header.next_offset
        begun = {one for one in aborted if one[0] < offset}
        aborted -= begun
        skipped |= {producer_id for _, producer_id in begun}
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            batch = records[position : position + header.size_bytes]
            values += [record.value for record in iter_records(batch)]
    return offset
