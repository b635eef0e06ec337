"""A shard of transactions without a runtime: records go to a list, markers wait until the test lets
them be written, and time is moved by hand. `reload` is what a crash of the broker leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.coordinators.record import CoordinatorRecord, decode_record, encode_record
from ottla.coordinators.result import Deferred, Result
from ottla.coordinators.transactions.context import TransactionContext
from ottla.coordinators.transactions.records import RECORD_TYPES
from ottla.coordinators.transactions.transaction import Transaction
from ottla.coordinators.transactions.transaction_shard import (
    ListFilter,
    ProducerIdNeeded,
    TransactionShard,
)
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import ProducerId, ProducerIdAndEpoch, TopicPartition
from ottla.wire.messages.describe_transactions import TransactionState
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from tests.support.group_timers import ManualTimers

T = TypeVar("T")

ID = "tx"
TIMEOUT_MS = 60_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class TransactionLog:
    """Made by a test."""

    def __init__(self, settings: Mapping[str, str] | None = None, seed: int = 0) -> None:
        self.config = BrokerConfig(dict(settings or {}))
        self.log: list[tuple[bytes, bytes | None]] = []
        self.failure: KafkaError | None = None
        """What the next writes fail with."""
        self.timers = ManualTimers(self._run_timer)
        self.prepared: list[Transaction] = []
        """Whose markers are not written yet."""
        self._next_producer_id = 1000
        self._rng = random.Random(seed)
        self._begin()

    def _begin(self) -> None:
        self.shard = TransactionShard(
            TransactionContext(
                self.timers, lambda: self.config, self.timers.now_ms, self._rng, self
            )
        )
        for offset, record in enumerate(self.records):
            self.shard.replay(offset, record)
        self.shard.loaded()

    def reload(self) -> None:
        """The shard is closed, and loaded from its log."""
        self.timers.cancel_all()
        self.shard.unloaded()
        self.prepared.clear()
        self._begin()

    @property
    def records(self) -> list[CoordinatorRecord]:
        decoded = [decode_record(RECORD_TYPES, key, value) for key, value in self.log]
        return [record for record in decoded if record is not None]

    # -- what clients ask -------------------------------------------------------------------

    def init(
        self,
        expected: ProducerIdAndEpoch | None = None,
        *,
        transactional_id: str = ID,
        timeout_ms: int = TIMEOUT_MS,
    ) -> ProducerIdAndEpoch | None:
        return self._with_id(
            lambda fresh: self.shard.init_producer_id(transactional_id, timeout_ms, expected, fresh)
        )

    def begin(self, transactional_id: str = ID) -> ProducerIdAndEpoch:
        """A new producer, after what its predecessor left was aborted."""
        producer = self.init(transactional_id=transactional_id)
        if producer is None:
            self.finish()
            producer = self.init(transactional_id=transactional_id)
        assert producer is not None
        return producer

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        version: int = 2,
        transactional_id: str = ID,
    ) -> None:
        self.write(self.shard.add_partitions(transactional_id, producer, partitions, version))

    def end(
        self,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        *,
        version: int = 2,
        transactional_id: str = ID,
    ) -> ProducerIdAndEpoch:
        return self._with_id(
            lambda fresh: self.shard.end(transactional_id, producer, is_commit, version, fresh)
        )

    def commit(self, producer: ProducerIdAndEpoch, version: int = 2) -> ProducerIdAndEpoch:
        return self.end(producer, True, version=version)

    def abort(self, producer: ProducerIdAndEpoch, version: int = 2) -> ProducerIdAndEpoch:
        return self.end(producer, False, version=version)

    def describe(self, transactional_id: str = ID) -> TransactionState:
        return self.shard.describe(transactional_id)

    def state(self, transactional_id: str = ID) -> str:
        return self.describe(transactional_id).transaction_state

    def listed(self, **filters: Any) -> list[str]:
        wanted = ListFilter(ListTransactionsRequest(**filters))
        return [listed.transactional_id for listed in self.shard.list_ids(wanted)]

    # -- what the coordinator does ----------------------------------------------------------

    def finish(self, transaction: Transaction | None = None) -> None:
        """From the shard: it is prepared. From a test: the markers of all that are prepared are
        written."""
        if transaction is not None:
            self.prepared.append(transaction)
            return
        while self.prepared:
            self.complete(self.prepared[0])

    def finish_later(self, transaction: Transaction) -> None:
        self.finish(transaction)

    def complete(self, transaction: Transaction) -> None:
        self.write(self.shard.complete(transaction.transactional_id, transaction.producer))
        self.prepared.remove(transaction)

    def abort_timed_out(self, transactional_ids: Iterable[str]) -> None:
        for transactional_id in list(transactional_ids):
            self._abort_timed_out(transactional_id)

    def _abort_timed_out(self, transactional_id: str) -> None:
        try:
            self._with_id(lambda fresh: self.shard.abort_timed_out(transactional_id, fresh))
        except KafkaError:
            assert self.failure is not None

    # -- what the runtime does --------------------------------------------------------------

    def write(self, result: Result[T]) -> T:
        assert not isinstance(result.response, Deferred)
        if result.records and self.failure is not None:
            raise self.failure
        written = [encode_record(record) for record in result.records]
        for key, value in written:
            decoded = decode_record(RECORD_TYPES, key, value)
            assert decoded is not None
            self.shard.replay(len(self.log), decoded)
            self.log.append((key, value))
        for follows in (result.on_replayed, result.on_committed):
            if follows is not None:
                follows()
        return result.response

    def _with_id(self, operation: Callable[[ProducerId | None], Result[T]]) -> T:
        try:
            return self.write(operation(None))
        except ProducerIdNeeded:
            self._next_producer_id += 1
            return self.write(operation(ProducerId(self._next_producer_id)))

    def _run_timer(self, operation: Callable[[], Result[Any]]) -> None:
        try:
            self.write(operation())
        except KafkaError:
            assert self.failure is not None
