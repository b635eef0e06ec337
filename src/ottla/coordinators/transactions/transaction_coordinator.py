"""The transaction coordinator as the handlers see it: finds the shard of a transactional id, gets
producer ids, and sees prepared transactions through to their end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.coordinators.result import Result
from ottla.coordinators.runtime import Runtime
from ottla.coordinators.shard import ShardTimers
from ottla.coordinators.transactions.context import TransactionContext
from ottla.coordinators.transactions.markers import MarkerWriter, TransactionMarkers
from ottla.coordinators.transactions.state import (
    NEVER_SHOWN,
    STATES_BY_TEXT,
    TransactionState,
)
from ottla.coordinators.transactions.transaction import NO_TIMEOUT_MS, Transaction
from ottla.coordinators.transactions.transaction_shard import (
    ListFilter,
    ProducerIdNeeded,
    TransactionShard,
)
from ottla.kernel.clock import Clock
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerId, ProducerIdAndEpoch, TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.messages import describe_transactions
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_S = 0.5

ANSWER_TIMEOUT_MS = 30_000
"""Of what writes no record of a transaction, which would have a time-out of its own. By default
clients wait as long."""

FENCED_IS_TOLD_SINCE = {"init_producer_id": 4, "add_partitions": 2, "add_offsets": 2, "end": 2}
"""PRODUCER_FENCED, by operation. Older versions hear INVALID_PRODUCER_EPOCH (KIP-588)."""


class ProducerIdSource(Protocol):
    async def next(self) -> ProducerId: ...


class TransactionCoordinator(Runtime[TransactionShard]):
    """Owned by the broker."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        clock: Clock,
        rng: random.Random,
        producer_ids: ProducerIdSource,
        markers: MarkerWriter,
    ) -> None:
        def make_shard(timers: ShardTimers) -> TransactionShard:
            return TransactionShard(TransactionContext(timers, config, clock.now_ms, rng, self))

        super().__init__(make_shard, clock, ANSWER_TIMEOUT_MS)
        self._config = config
        self._producer_ids = producer_ids
        self._markers = markers
        self._followups: dict[int, dict[asyncio.Task[None], None]] = {}
        """By partition: what goes on for its transactions, and ends with its leadership."""

    # -- producers --------------------------------------------------------------------------

    async def init_producer_id(
        self, request: InitProducerIdRequest, client_version: int
    ) -> InitProducerIdResponse:
        try:
            producer = await self._init_producer_id(request)
        except KafkaError as error:
            code = told_to_client(error.code, "init_producer_id", client_version)
            return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)
        return InitProducerIdResponse(
            producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
        )

    async def _init_producer_id(self, request: InitProducerIdRequest) -> ProducerIdAndEpoch:
        has_id = request.producer_id != NO_PRODUCER_ID
        if has_id != (request.producer_epoch != NO_PRODUCER_EPOCH):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer has both, an id and an epoch")
        transactional_id = request.transactional_id
        if transactional_id is None:
            return ProducerIdAndEpoch(await self._producer_ids.next(), 0)
        _check_id(transactional_id)
        timeout_ms = self._timeout_ms(request)
        expected = None
        if has_id:
            expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        producer = await self._write_with_id(
            transactional_id,
            lambda shard, fresh: shard.init_producer_id(
                transactional_id, timeout_ms, expected, fresh
            ),
        )
        if producer is None:
            raise KafkaError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"the open transaction of {transactional_id!r} is being aborted",
            )
        return producer

    def _timeout_ms(self, request: InitProducerIdRequest) -> int:
        config = self._config()
        if request.enable_2pc and not config.transaction_two_phase_commit_enable:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.keep_prepared_txn:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if request.enable_2pc:
            return NO_TIMEOUT_MS
        if not 0 < request.transaction_timeout_ms <= config.transaction_max_timeout_ms:
            raise KafkaError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"{request.transaction_timeout_ms} ms is not between 1 and "
                f"transaction.max.timeout.ms, {config.transaction_max_timeout_ms}",
            )
        return request.transaction_timeout_ms

    # -- transactions -----------------------------------------------------------------------

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        *,
        transaction_version: int,
    ) -> None:
        """Also for the offsets of a group: then it is a partition of `__consumer_offsets`."""
        _check_id(transactional_id)
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        added = frozenset(partitions)
        await self.write(
            transactional_id,
            lambda shard: shard.add_partitions(
                transactional_id, producer, added, transaction_version
            ),
        )

    async def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether a transaction writes to them; raises nothing."""
        asked = list(partitions)
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        try:
            _check_id(transactional_id)
            return await self.read(
                transactional_id,
                lambda shard: shard.verify_partitions(transactional_id, producer, asked),
            )
        except KafkaError as error:
            return dict.fromkeys(asked, error.code)

    async def end(self, request: EndTxnRequest, *, transaction_version: int) -> ProducerIdAndEpoch:
        """Returns when the outcome is in the log. What the producer is for its next transaction;
        (-1, -1) with versions before 2."""
        transactional_id = request.transactional_id
        _check_id(transactional_id)
        producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
        return await self._write_with_id(
            transactional_id,
            lambda shard, fresh: shard.end(
                transactional_id, producer, request.committed, transaction_version, fresh
            ),
        )

    async def list(self, request: ListTransactionsRequest) -> ListTransactionsResponse:
        """Of the shards of this broker. Raises KafkaError."""
        known = NEVER_SHOWN.union(STATES_BY_TEXT)
        response = ListTransactionsResponse(
            # Each once: the rest would let a client make a long answer of a short question.
            unknown_state_filters=[
                text for text in dict.fromkeys(request.state_filters) if text not in known
            ]
        )
        wanted = ListFilter(request)
        for found in await self.read_all(lambda shard: shard.list_ids(wanted)):
            response.transaction_states += found
        return response

    async def describe(self, transactional_id: str) -> describe_transactions.TransactionState:
        try:
            _check_id(transactional_id)
            return await self.read(transactional_id, lambda shard: shard.describe(transactional_id))
        except KafkaError as error:
            return describe_transactions.TransactionState(
                error_code=error.code, transactional_id=transactional_id
            )

    async def _write_with_id(
        self,
        transactional_id: str,
        operation: Callable[[TransactionShard, ProducerId | None], Result[T]],
    ) -> T:
        """A producer id is taken only if it is needed: there are as many as there are, but a block
        of them is a write to the store."""
        try:
            return await self.write(transactional_id, lambda shard: operation(shard, None))
        except ProducerIdNeeded:
            fresh = await self._producer_ids.next()
        return await self.write(transactional_id, lambda shard: operation(shard, fresh))

    # -- what follows a record --------------------------------------------------------------

    def finish(self, transaction: Transaction) -> None:
        begun = begin(self._finish(transaction))
        if isinstance(begun, asyncio.Task):
            self._keep(transaction.transactional_id, begun)

    def finish_later(self, transaction: Transaction) -> None:
        self._follow_up(transaction.transactional_id, self._finish(transaction))

    async def _finish(self, transaction: Transaction) -> None:
        transactional_id = transaction.transactional_id
        shard = self._shards.get(self.partition_of(transactional_id))
        if shard is None:
            return  # Leadership was lost; whoever has it now finds the transaction prepared.
        markers = TransactionMarkers(
            transactional_id=transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            coordinator_epoch=shard.leader.leader_epoch,
            is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
            transaction_version=transaction.transaction_version,
            partitions=transaction.partitions,
        )
        try:
            if markers.partitions:
                await self._markers.write(markers)
        except KafkaError as error:
            # It stays prepared until the partition is loaded again, here or elsewhere.
            logger.error("markers of %r cannot be written: %s", transactional_id, error)
            return
        while True:
            try:
                await self.write(
                    transactional_id,
                    lambda shard: shard.complete(transactional_id, transaction.producer),
                )
                return
            except KafkaError as error:
                logger.info("%r cannot be completed yet: %s", transactional_id, error)
                if error.code is ErrorCode.NOT_COORDINATOR:
                    return
            await asyncio.sleep(_RETRY_S)

    def abort_timed_out(self, transactional_ids: Iterable[str]) -> None:
        for transactional_id in transactional_ids:
            self._follow_up(transactional_id, self._abort_timed_out(transactional_id))

    async def _abort_timed_out(self, transactional_id: str) -> None:
        try:
            await self._write_with_id(
                transactional_id,
                lambda shard, fresh: shard.abort_timed_out(transactional_id, fresh),
            )
        except KafkaError as error:
            # The next look at time-outs finds it again.
            logger.info("%r cannot be aborted yet: %s", transactional_id, error)

    def _follow_up(self, transactional_id: str, work: Coroutine[Any, Any, None]) -> None:
        self._keep(transactional_id, asyncio.get_running_loop().create_task(work))

    def _keep(self, transactional_id: str, task: asyncio.Task[None]) -> None:
        running = self._followups.setdefault(self.partition_of(transactional_id), {})
        running[task] = None
        task.add_done_callback(lambda _: running.pop(task, None))

    def _unload(self, number: int) -> None:
        for task in self._followups.pop(number, ()):
            task.cancel()
        super()._unload(number)

    async def close(self) -> None:
        running = [task for tasks in self._followups.values() for task in tasks]
        await super().close()
        if running:
            await asyncio.wait(running)


def told_to_client(code: ErrorCode, operation: str, client_version: int) -> ErrorCode:
    """What this version of a client understands."""
    if code is ErrorCode.PRODUCER_FENCED and client_version < FENCED_IS_TOLD_SINCE[operation]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
