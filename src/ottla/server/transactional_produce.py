"""Lets transactional batches in: only where their transaction knows the partition.

A write that belongs to no transaction would never be ended, and hold back readers for ever. So
before the first batch of a transaction is appended to a partition, its coordinator is asked
(KIP-890). Producers of transactions version 2 (Produce v12 on) say nothing of a partition before
they write to it: for them it is added now. For older ones, which have added it, that is verified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.kernel.eager import Done, begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import ProducerIdAndEpoch, TopicPartition
from ottla.records.batch import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    parse_header,
)
from ottla.replication.replica_manager import ReplicaManager
from ottla.server.transaction_verification import Codes, Question, TransactionVerification
from ottla.storage.verification import VerificationGuard

IMPLICIT_ADD_SINCE = 12
ABORTABLE_IS_TOLD_SINCE = 11

# A client that does not know these of a produce would give up. It tries again with this one,
# which does not make it fetch metadata.
_TRY_AGAIN = ErrorCode.NOT_ENOUGH_REPLICAS
_PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.NOT_COORDINATOR,
)


class Admission(NamedTuple):
    """Which of a request's partitions may not be appended to, and what the others have to show
    for it."""

    guards: dict[TopicPartition, VerificationGuard]
    refused: dict[TopicPartition, KafkaError]

    def guard_for(self, at: TopicPartition) -> VerificationGuard | None:
        """Raises KafkaError where the partition may not be appended to."""
        error = self.refused.get(at)
        if error is not None:
            raise error
        return self.guards.get(at)


def is_transactional(records: memoryview) -> bool:
    return len(records) >= HEADER_BYTES and records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_FLAG != 0


class TransactionalProduce:
    """Owned by the broker. A producer has up to five requests on their way, which must be appended
    in their order: while one of them waits for the coordinator, so do those after it."""

    def __init__(
        self,
        replicas: ReplicaManager,
        verification: TransactionVerification,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._replicas = replicas
        self._verification = verification
        self._config = config
        self._waiting: dict[int, asyncio.Task[Admission]] = {}

    def admit(
        self, transactional_id: str, batches: Mapping[TopicPartition, memoryview], version: int
    ) -> Done[Admission] | asyncio.Task[Admission]:
        """At once, nearly always: then what was received can be appended where it lies. The
        batches are looked at before this returns."""
        headers = {at: parse_header(records) for at, records in batches.items()}
        producers = {
            ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
            for header in headers.values()
        }
        if len(producers) != 1:
            error = KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"a produce request of {transactional_id!r} has batches of several producers",
            )
            return Done(Admission({}, dict.fromkeys(headers, error)))
        (producer,) = producers
        before = self._waiting.get(producer.producer_id)
        begun = begin(self._admit(transactional_id, producer, headers, version, before))
        if isinstance(begun, asyncio.Task):
            self._waiting[producer.producer_id] = begun
            begun.add_done_callback(lambda task: self._forget(producer.producer_id, task))
        return begun

    def _forget(self, producer_id: int, task: asyncio.Task[Admission]) -> None:
        if self._waiting.get(producer_id) is task:
            del self._waiting[producer_id]

    async def _admit(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        headers: Mapping[TopicPartition, BatchHeader],
        version: int,
        before: asyncio.Task[Admission] | None,
    ) -> Admission:
        if before is not None:
            await asyncio.wait([before])
        admission = Admission({}, {})
        is_added = version >= IMPLICIT_ADD_SINCE
        if not is_added and not self._config().transaction_partition_verification_enable:
            return admission
        for at, header in headers.items():
            try:
                guard = self._replicas.partition(at.topic, at.partition).leader.begin_verification(
                    producer.producer_id,
                    producer.producer_epoch,
                    header.base_sequence,
                    supports_epoch_bump=is_added,
                )
            except KafkaError as error:
                admission.refused[at] = error
            else:
                if guard is not None:
                    admission.guards[at] = guard
        if admission.guards:
            question = Question(
                transactional_id, producer, list(admission.guards), is_verified_only=not is_added
            )
            for at, code in (await self._ask(question)).items():
                if code is not ErrorCode.NONE:
                    admission.refused[at] = _as_produce_error(code, version)
        return admission

    async def _ask(self, question: Question) -> Codes:
        config = self._config()
        pause_ms = config.add_partitions_to_txn_retry_backoff_ms
        left_ms = config.add_partitions_to_txn_retry_backoff_max_ms
        while True:
            codes = await self._verification.ask(question)
            # The markers of the transaction before are being written.
            if (
                question.is_verified_only
                or ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values()
                or left_ms < pause_ms
            ):
                return codes
            left_ms -= pause_ms
            await asyncio.sleep(pause_ms / 1000)


def _as_produce_error(code: ErrorCode, version: int) -> KafkaError:
    """As the producer's version knows it."""
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_IS_TOLD_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    elif code in _PASSING:
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= IMPLICIT_ADD_SINCE:
            return KafkaError(code, "the transaction before this one is still being ended")
        return KafkaError(_TRY_AGAIN, f"the transaction coordinator cannot say yet: {code.name}")
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "the partition was not added to the transaction")
    return KafkaError(code)
