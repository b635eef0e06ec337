"""A producer with a transactional id that reads from one topic and writes to another, exactly once:
what it has read is committed in the transaction with what it has made of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ottla.kernel.errors import ErrorCode
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.testing.history.events import (
    AskCommit,
    Assigned,
    Begin,
    Ended,
    OffsetsFetched,
    Outcome,
    Polled,
    PolledRecord,
    Send,
    SendOffsets,
    Source,
)
from ottla.testing.simulation.client import GROUP, TRANSACTION, Refused, SimulatedClient, check
from ottla.testing.simulation.reading import fetch_committed, fetch_offsets, start_above
from ottla.testing.simulation.sending import (
    PRODUCE_FAILURES,
    Sequences,
    acknowledge,
    send_batch,
)
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

_FENCED = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
_ABORTABLE = PRODUCE_FAILURES | _FENCED

TRANSACTION_TIMEOUT_MS = 3000
_STALL_CHANCE = 0.05
_STALL_S_MAX = 5.0
"""The coordinator aborts a transaction that takes too long."""


class TransactionalProducer:
    """Copies one partition until it is told to stop. What was begun is ended by then."""

    def __init__(
        self,
        client: SimulatedClient,
        source: TopicPartition,
        targets: Sequence[TopicPartition],
        now_ms: Callable[[], int],
        *,
        is_version_2: bool,
        acknowledged: Callable[[TopicPartition], None],
        asking_coordinator: Callable[[int], None] = lambda broker_id: None,
        transactional_id: str | None = None,
    ) -> None:
        """In version 1 of transactions a client says beforehand where it will write. Of several
        with one transactional id each fences the one before."""
        self._client = client
        self._source = source
        self._targets = targets
        self._now_ms = now_ms
        self._is_version_2 = is_version_2
        self._acknowledged = acknowledged
        self._asking_coordinator = asking_coordinator
        self._sequences: Sequences | None = None
        self._transactional_id = transactional_id or client.name
        self._group = f"group-{self._transactional_id}"
        self._count = 0
        self.commit_count = 0
        self.abort_count = 0

    async def run(self) -> None:
        client = self._client
        while not client.is_stopping:
            if self._sequences is None:
                await client.insist(self._init, gives_up_on=frozenset())
            try:
                await self._one_transaction()
            except Refused:
                self._sequences = None  # Beginning anew ends what is left of it.
            await asyncio.sleep(client.rng.uniform(0, 0.2))
        if self._sequences is None:  # So that nothing hangs until its time is over.
            await client.insist(self._init, gives_up_on=frozenset())

    async def _init(self) -> None:
        answer = await self._coordinator_call(
            InitProducerIdRequest(
                transactional_id=self._transactional_id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            ),
            InitProducerIdResponse,
            5,
        )
        check(answer.error_code)
        self._go_on_as(answer.producer_id, answer.producer_epoch)

    def _go_on_as(self, producer_id: int, producer_epoch: int) -> None:
        self._sequences = Sequences(ProducerIdAndEpoch(producer_id, producer_epoch))

    async def _coordinator_call(self, request: Request, response_class: type[R], version: int) -> R:
        client = self._client
        coordinator = client.known_coordinator(TRANSACTION, self._transactional_id)
        if coordinator is not None:
            self._asking_coordinator(coordinator)
        return await client.ask_coordinator(
            TRANSACTION, self._transactional_id, request, response_class, version
        )

    async def _one_transaction(self) -> None:
        client, history = self._client, self._client.history
        since = history.now
        offsets = await client.insist(
            lambda: fetch_offsets(client, self._group, [self._source]), gives_up_on=_FENCED
        )
        history.add(OffsetsFetched(client.name, self._group, offsets, since))
        records, position, next_offset = await self._poll(max(0, offsets[self._source]))
        history.add(Assigned(client.name, {self._source: position}))
        if next_offset == position:
            return
        self._count += 1
        name = f"{client.name}/{self._count}"
        history.add(Begin(client.name, name))
        polled = tuple(PolledRecord(self._source, offset, value) for offset, value in records)
        history.add(Polled(client.name, polled, transaction=name))
        try:
            for offset, value in records:
                await self._copy(name, offset, value)
            await self._send_offsets(name, next_offset)
            if client.rng.random() < _STALL_CHANCE:
                await asyncio.sleep(client.rng.uniform(0, _STALL_S_MAX))
        except Refused as refused:
            if refused.code in _FENCED or client.rng.random() < 0.3:
                history.add(Ended(client.name, name, Outcome.ABORTED))
                raise
            await self._end(name, is_commit=False)
            return
        await self._end(name, is_commit=client.rng.random() < 0.8)

    async def _poll(self, position: int) -> tuple[list[tuple[int, str]], int, int]:
        """Records, from where they were read, and where to go on."""
        client = self._client
        while True:
            try:
                records, next_offset = await client.insist(
                    partial(fetch_committed, client, self._source, position, max_bytes=300),
                    gives_up_on=frozenset({ErrorCode.OFFSET_OUT_OF_RANGE}),
                )
            except Refused:
                position = await start_above(client, self._source, position)
            else:
                return records, position, next_offset

    async def _copy(self, name: str, offset: int, value: str) -> None:
        client = self._client
        assert self._sequences is not None
        target = client.rng.choice(self._targets)
        copied = f"{value}>{name}"
        source = Source(self._group, self._source, offset)
        client.history.add(Send(client.name, copied, target, name, source))
        if not self._is_version_2:
            await client.insist(lambda: self._add_partition(target), gives_up_on=_ABORTABLE)
        batch = self._sequences.batch(target, [copied], self._now_ms(), is_transactional=True)
        answer = await client.insist(
            lambda: send_batch(
                client,
                target,
                batch,
                transactional_id=self._transactional_id,
                version=12 if self._is_version_2 else 11,
            ),
            gives_up_on=_ABORTABLE,
        )
        acknowledge(client, [copied], answer)
        self._acknowledged(target)

    async def _add_partition(self, target: TopicPartition) -> None:
        assert self._sequences is not None
        producer = self._sequences.producer
        answer = await self._coordinator_call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._transactional_id,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=target.topic, partitions=[target.partition])
                ],
            ),
            AddPartitionsToTxnResponse,
            3,
        )
        check(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    async def _add_group(self) -> None:
        assert self._sequences is not None
        producer = self._sequences.producer
        answer = await self._coordinator_call(
            AddOffsetsToTxnRequest(
                transactional_id=self._transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                group_id=self._group,
            ),
            AddOffsetsToTxnResponse,
            4,
        )
        check(answer.error_code)

    async def _send_offsets(self, name: str, next_offset: int) -> None:
        client = self._client
        client.history.add(SendOffsets(client.name, name, self._group, {self._source: next_offset}))
        if not self._is_version_2:
            await client.insist(self._add_group, gives_up_on=_ABORTABLE)
        await client.insist(
            lambda: self._commit_offsets_in_transaction(next_offset), gives_up_on=_ABORTABLE
        )

    async def _commit_offsets_in_transaction(self, next_offset: int) -> None:
        assert self._sequences is not None
        producer = self._sequences.producer
        at = TxnOffsetCommitRequestPartition(
            partition_index=self._source.partition,
            committed_offset=next_offset,
            committed_metadata="",
        )
        answer = await self._client.ask_coordinator(
            GROUP,
            self._group,
            TxnOffsetCommitRequest(
                transactional_id=self._transactional_id,
                group_id=self._group,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                topics=[TxnOffsetCommitRequestTopic(name=self._source.topic, partitions=[at])],
            ),
            TxnOffsetCommitResponse,
            5 if self._is_version_2 else 4,
        )
        check(answer.topics[0].partitions[0].error_code)

    async def _end(self, name: str, *, is_commit: bool) -> None:
        """Raises Refused when the producer has to begin anew."""
        client = self._client
        attempt_count = 0

        async def attempt() -> EndTxnResponse:
            nonlocal attempt_count
            attempt_count += 1
            assert self._sequences is not None
            producer = self._sequences.producer
            answer = await self._coordinator_call(
                EndTxnRequest(
                    transactional_id=self._transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    committed=is_commit,
                ),
                EndTxnResponse,
                5 if self._is_version_2 else 4,
            )
            check(answer.error_code)
            return answer

        if is_commit:
            client.history.add(AskCommit(client.name, name))
        try:
            answer = await client.insist(attempt, gives_up_on=_FENCED)
        except Refused:
            # An attempt before may have ended it.
            is_known = not is_commit or attempt_count == 1
            outcome = Outcome.ABORTED if is_known else Outcome.UNKNOWN
            client.history.add(Ended(client.name, name, outcome))
            raise
        outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        client.history.add(Ended(client.name, name, outcome))
        self.commit_count += is_commit
        self.abort_count += not is_commit
        if self._is_version_2:
            self._go_on_as(answer.producer_id, answer.producer_epoch)
