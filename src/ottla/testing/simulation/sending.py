"""What producers of both kinds do: number their batches, send them, tell what was acknowledged."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.testing.history.events import Acknowledged
from ottla.testing.simulation.client import Refused, SimulatedClient, check
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PRODUCE_VERSION = 12

PRODUCE_FAILURES = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)
"""With all others a producer sends again."""


class Sequences:
    """The sequence numbers of one producer epoch."""

    def __init__(self, producer: ProducerIdAndEpoch) -> None:
        self.producer = producer
        self._next: dict[TopicPartition, int] = {}

    def batch(
        self,
        partition: TopicPartition,
        values: Sequence[str],
        timestamp_ms: int,
        *,
        is_transactional: bool = False,
    ) -> bytes:
        first = self._next.get(partition, 0)
        self._next[partition] = first + len(values)
        records = [
            Record(index, timestamp_ms, None, value.encode()) for index, value in enumerate(values)
        ]
        return bytes(
            build_batch(
                records,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.producer_epoch,
                base_sequence=first,
                is_transactional=is_transactional,
            )
        )


async def send_batch(
    client: SimulatedClient,
    partition: TopicPartition,
    batch: bytes,
    *,
    transactional_id: str | None = None,
    version: int = PRODUCE_VERSION,
) -> PartitionProduceResponse:
    """One attempt, with acks=all. Raises OSError and Refused."""
    leader = await client.leader_of(partition)
    request = _produce(partition, batch, transactional_id)
    return _checked(await client.ask(leader, request, ProduceResponse, version))


async def send_batches(
    client: SimulatedClient, partition: TopicPartition, batches: Sequence[bytes]
) -> list[PartitionProduceResponse | OSError | Refused]:
    """One attempt of each, all of them in flight together, in this order. Raises as `send_batch`
    when none was sent."""
    leader = await client.leader_of(partition)
    requests = [_produce(partition, batch, None) for batch in batches]
    answers: list[PartitionProduceResponse | OSError | Refused] = []
    for answer in await client.ask_in_a_row(leader, requests, ProduceResponse, PRODUCE_VERSION):
        try:
            answers.append(answer if isinstance(answer, OSError) else _checked(answer))
        except Refused as refused:
            answers.append(refused)
    return answers


def _produce(
    partition: TopicPartition, batch: bytes, transactional_id: str | None
) -> ProduceRequest:
    # A leader patches what it is sent, also here where nothing is copied on the way.
    data = PartitionProduceData(index=partition.partition, records=memoryview(bytearray(batch)))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
    )


def _checked(response: ProduceResponse) -> PartitionProduceResponse:
    (answer,) = response.responses[0].partition_responses
    if answer.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        check(answer.error_code)
    return answer


def acknowledge(
    client: SimulatedClient, values: Sequence[str], answer: PartitionProduceResponse
) -> None:
    for index, value in enumerate(values):
        is_known = not answer.error_code and answer.base_offset >= 0
        offset = answer.base_offset + index if is_known else None
        client.history.add(Acknowledged(client.name, value, offset))
