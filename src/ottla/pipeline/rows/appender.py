"""Columns to partitions, each record once.

The broker drops what it has already (KIP-98): batches of a producer have sequence numbers, so one
whose answer was lost is sent again as it was. For that, one batch of a partition is in flight at a
time, and while it is, the next is encoded. Different partitions go together in one request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ottla.client.blocking import ClientError
from ottla.client.blocking_cluster import RETRIABLE, BlockingCluster, InFlight
from ottla.client.cluster import Node
from ottla.kernel.clock import Clock, SystemClock
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import NO_TOPIC_ID, ProducerIdAndEpoch, TopicId, TopicPartition
from ottla.pipeline.rows.encode import BATCH_BYTES, Column, EncodedBatch, Rows, encode_batches
from ottla.pipeline.rows.varints import Ints
from ottla.pipeline.sink.transaction import MEANINGS, PRODUCE_V1_UP_TO, Transaction
from ottla.records.batch import SEQUENCE_MODULUS
from ottla.records.compression import Compression
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_ACKS_ALL = -1
_QUEUED_MAX = 2
"""Batches of one partition: one in flight, one ready to follow it."""
_REQUEST_BYTES_MAX = 16 * 1024 * 1024
_NAMES_UP_TO = 12
"""The last version of Produce in which topics are named."""


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    record_count: int


@dataclass(slots=True)
class _Partition:
    queue: deque[EncodedBatch] = field(default_factory=deque)
    next_sequence: int = 0
    first_offset: int = -1
    last_offset: int = -1
    count: int = 0


class _Sent(NamedTuple):
    in_flight: InFlight[ProduceResponse]
    batches: dict[TopicPartition, EncodedBatch]
    names: dict[TopicId, str]


class Appender:
    """Made by whoever writes, for one set of partitions; nobody else writes to these with the same
    producer. With a transaction what it wrote counts when that commits; without, it gets a producer
    id of its own, and what was flushed is there. A crash leaves what the brokers had taken."""

    def __init__(
        self,
        cluster: BlockingCluster,
        *,
        transaction: Transaction | None = None,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        batch_bytes: int = BATCH_BYTES,
        timeout_ms: int = 30_000,
        clock: Clock | None = None,
    ) -> None:
        self._cluster = cluster
        self._transaction = transaction
        self._compression = compression
        self._level = level
        self._batch_bytes = batch_bytes
        self._timeout_ms = timeout_ms
        self._clock = clock or SystemClock()
        self._own_producer: ProducerIdAndEpoch | None = None
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._sent: list[_Sent] = []

    def append(
        self,
        topic: str,
        partition: int,
        key: Column | None,
        value: Column,
        headers: Column | None = None,
        timestamps_ms: Ints | None = None,
    ) -> None:
        """Without timestamps it is now. Returns when most is on its way; see `flush`."""
        if timestamps_ms is None:
            timestamps_ms = np.full(len(value), self._clock.now_ms(), np.int64)
        rows = Rows.of(key, value, headers, timestamps_ms)
        if len(rows) == 0:
            return
        where = TopicPartition(topic, partition)
        if self._transaction is not None:
            self._transaction.add_partitions([where])
        state = self._partitions.setdefault(where, _Partition())
        for batch in self._encoded(rows, state.next_sequence, self._batch_bytes):
            state.queue.append(batch)
            state.next_sequence = (state.next_sequence + len(batch.rows)) % SEQUENCE_MODULUS
            if not self._sent or len(state.queue) >= _QUEUED_MAX:
                self._turn()

    def flush(self) -> dict[TopicPartition, Appended]:
        """Waits until all is written by all replicas in sync. What was appended by now, in all."""
        while self._sent or any(state.queue for state in self._partitions.values()):
            self._turn()
        return {
            where: Appended(state.first_offset, state.last_offset, state.count)
            for where, state in self._partitions.items()
        }

    # -- inside -------------------------------------------------------------------------------

    def _encoded(self, rows: Rows, base_sequence: int, batch_bytes: int) -> Iterator[EncodedBatch]:
        return encode_batches(
            rows,
            producer=self._producer(),
            base_sequence=base_sequence,
            is_transactional=self._transaction is not None,
            compression=self._compression,
            level=self._level,
            batch_bytes=batch_bytes,
        )

    def _producer(self) -> ProducerIdAndEpoch:
        if self._transaction is not None:
            return self._transaction.producer
        if self._own_producer is None:
            self._own_producer = self._cluster.retrying(
                "asking for a producer id", self._init_producer
            )
        return self._own_producer

    def _init_producer(self) -> ProducerIdAndEpoch:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = self._cluster.ask(request, InitProducerIdResponse)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), "asking for a producer id")
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    def _turn(self) -> None:
        """What is in flight is answered, and what follows it is sent. When something fails it is
        sent again and waited for, so that the time for trying comes to an end."""
        is_again = False

        def attempt() -> None:
            nonlocal is_again
            must_wait, is_again = is_again, True
            self._collect()
            self._send_heads()
            if must_wait:
                self._collect()
                self._send_heads()

        waiting = [str(where) for where, state in self._partitions.items() if state.queue]
        self._cluster.retrying(f"writing to {', '.join(waiting[:3])}", attempt)

    def _collect(self) -> None:
        """All are heard before anything is raised; what no waiting mends is raised first."""
        sent, self._sent = self._sent, []
        problems: list[ClientError | KafkaError] = []
        for one in sent:
            try:
                response = one.in_flight.wait()
            except ClientError as error:
                problems.append(error)
                continue
            for topic in response.responses:
                name = topic.name or one.names[topic.topic_id]
                for answer in topic.partition_responses:
                    where = TopicPartition(name, answer.index)
                    problem = self._take(where, one.batches.pop(where), answer)
                    problems += [] if problem is None else [problem]
            if one.batches:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"the broker did not answer for {', '.join(map(str, one.batches))}",
                )
        if problems:
            raise min(problems, key=_is_retriable)

    def _take(
        self, where: TopicPartition, batch: EncodedBatch, answer: PartitionProduceResponse
    ) -> KafkaError | None:
        state = self._partitions[where]
        assert state.queue[0] is batch, "one batch of a partition is in flight at a time"
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            state.queue.popleft()
            state.count += len(batch.rows)
            if answer.base_offset >= 0:  # of a duplicate from long ago it is not known any more
                if state.first_offset < 0:
                    state.first_offset = answer.base_offset
                state.last_offset = answer.base_offset + len(batch.rows) - 1
            return None
        if code == ErrorCode.MESSAGE_TOO_LARGE and len(batch.rows) > 1:
            self._halve(state, batch)
            return None
        reason = _reason(batch, answer)
        if self._transaction is not None:
            reason = MEANINGS.get(code, reason)
        refusal = f"{where} refuses a batch of {len(batch.rows)} records ({code.name}) {reason}"
        return KafkaError(code, refusal.rstrip())

    def _halve(self, state: _Partition, batch: EncodedBatch) -> None:
        """The topic takes smaller batches. Nothing was written, so the sequence is free still."""
        state.queue.popleft()
        middle = len(batch.rows) // 2
        sequence = batch.base_sequence
        halves: list[EncodedBatch] = []
        for rows in (
            batch.rows.slice(0, middle),
            batch.rows.slice(middle, len(batch.rows) - middle),
        ):
            halves += self._encoded(rows, sequence, self._batch_bytes)
            sequence = (sequence + len(rows)) % SEQUENCE_MODULUS
        state.queue.extendleft(reversed(halves))

    def _send_heads(self) -> None:
        """The first batch of each partition, to its leader."""
        requests: dict[Node, list[dict[TopicPartition, EncodedBatch]]] = {}
        topic_ids: dict[str, TopicId] = {}
        for where, state in self._partitions.items():
            if not state.queue:
                continue
            topic, node, _ = self._cluster.leader(where)
            topic_ids[topic.name] = topic.topic_id
            to_node = requests.setdefault(node, [{}])
            used_bytes = sum(len(batch.content) for batch in to_node[-1].values())
            if used_bytes + len(state.queue[0].content) > _REQUEST_BYTES_MAX and to_node[-1]:
                to_node.append({})
            to_node[-1][where] = state.queue[0]
        for node, groups in requests.items():
            for batches in groups:
                self._send(node, batches, topic_ids)

    def _send(
        self,
        node: Node,
        batches: dict[TopicPartition, EncodedBatch],
        topic_ids: dict[str, TopicId],
    ) -> None:
        topics: dict[str, TopicProduceData] = {}
        for (name, partition), batch in batches.items():
            data = topics.setdefault(name, TopicProduceData(name=name, topic_id=topic_ids[name]))
            data.partition_data.append(
                PartitionProduceData(index=partition, records=memoryview(batch.content))
            )
        transaction = self._transaction
        request = ProduceRequest(
            transactional_id=None if transaction is None else transaction.transactional_id,
            acks=_ACKS_ALL,
            timeout_ms=self._timeout_ms,
            topic_data=list(topics.values()),
        )
        version_max: int | None = None
        if transaction is not None and not transaction.is_version_2:
            version_max = PRODUCE_V1_UP_TO
        elif NO_TOPIC_ID in topic_ids.values():
            version_max = _NAMES_UP_TO
        in_flight = self._cluster.begin(
            request, ProduceResponse, node=node, version_max=version_max
        )
        names = {topic_id: name for name, topic_id in topic_ids.items()}
        self._sent.append(_Sent(in_flight, batches, names))


def _is_retriable(problem: ClientError | KafkaError) -> bool:
    return isinstance(problem, ClientError) or problem.code in RETRIABLE


def _reason(batch: EncodedBatch, answer: PartitionProduceResponse) -> str:
    if answer.error_code == ErrorCode.MESSAGE_TOO_LARGE:
        return f"one record of {len(batch.content)} bytes is more than max.message.bytes allows"
    reason = answer.error_message or ""
    for one in answer.record_errors[:1]:
        reason += f"; record {one.batch_index}: {one.batch_index_error_message}"
    return reason
