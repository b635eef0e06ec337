"""Transactions in a partition against a model of them: a list of batches and markers, in which
whatever is asked of the partition can be looked up the slow way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, NamedTuple, Never, TypeVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.kernel.disk import FileSlice
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import BrokerId, TopicPartition, new_topic_id
from ottla.metadata.image import ClusterImage
from ottla.records.batch import iter_headers
from ottla.records.builder import build_batch
from ottla.records.control import parse_end_txn_marker
from ottla.records.record import Record
from ottla.replication.replica_manager import ReplicaManager
from ottla.storage.log_manager import LogManager
from ottla.storage.pending_write import Appended
from ottla.storage.transaction_index import AbortedTransaction
from ottla.testing.disk import SimulatedDisk
from ottla.testing.loop import VirtualClock, VirtualLoop
from ottla.testing.workers import SimulatedWorkers

T = TypeVar("T")

PARTITION = TopicPartition("events", 0)
PRODUCER_IDS = (11, 12, 13)
SETTINGS = {
    "log.dirs": "/data",
    "producer.id.expiration.ms": "60000",
    "producer.id.expiration.check.interval.ms": "10000",
}
INT64_MAX = 2**63 - 1


class ModelBatch(NamedTuple):
    base_offset: int
    last_offset: int
    producer_id: int
    epoch: int
    next_sequence: int
    is_transactional: bool = False
    is_commit: bool | None = None
    """Of a marker; None for records."""


class ModelTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    end: ModelBatch | None


class Producer:
    def __init__(self) -> None:
        self.epoch = 0
        self.sequence = 0


class TransactionsMachine(RuleBasedStateMachine):
    @initialize(
        seed=st.integers(0, 2**32),
        flush_messages=st.sampled_from([1, INT64_MAX]),
        segment_bytes=st.sampled_from([300, 1000]),
    )
    def begin(self, seed: int, flush_messages: int, segment_bytes: int) -> None:
        self.config = TopicConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=100,
            flush_messages=flush_messages,
            retention_ms=-1,
        )
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.rng = random.Random(seed)
        self.disk = SimulatedDisk(self.rng, now_ms=self.clock.now_ms)
        self.topic_id = new_topic_id(self.rng)
        self.batches: list[ModelBatch] = []
        self.start_offset = 0
        self.end_offset = 0
        self.producers = {producer_id: Producer() for producer_id in PRODUCER_IDS}
        self.reopen()
        self.run(asyncio.sleep(1))

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    # Life and death

    def reopen(self) -> None:
        for handle in list(self.loop._scheduled):
            handle.cancel()  # The dead broker's timers would go on in the same loop.
        workers = SimulatedWorkers(self.loop, self.rng)
        self.manager = LogManager(
            disk=self.disk,
            clock=self.clock,
            workers=workers,
            rng=self.rng,
            config=BrokerConfig(SETTINGS),
            on_failure=lambda folder, logs: pytest.fail(str(folder.failure)),
        )
        self.manager.lock()
        self.run(
            self.manager.start(broker_id=1, cluster_id="c", topic_configs=lambda _: self.config)
        )
        self.workers = workers
        self.log = self.manager.create_log(PARTITION, self.topic_id, self.config)
        self.lead()

    def lead(self) -> None:
        replicas = ReplicaManager(
            self.manager,
            BrokerConfig(SETTINGS),
            own_id=BrokerId(1),
            image=ClusterImage(),
            broker_epochs=lambda _: None,
            connect=self._connect,
            clock=self.clock,
            workers=self.workers,
        )
        self.partition = self.run(
            replicas.become_leader(
                PARTITION,
                self.topic_id,
                self.config,
                leader_epoch=0,
                replicas=(BrokerId(1),),
                isr=(BrokerId(1),),
                partition_epoch=0,
                is_new=False,
            )
        )

    async def _connect(self, broker_id: BrokerId) -> Never:
        raise AssertionError("there is nobody to follow")

    @rule()
    def stop_and_start(self) -> None:
        self.run(self.manager.close())
        self.disk.crash()
        self.reopen()
        assert self.log.log_end_offset == self.end_offset

    @rule()
    def kill_and_start(self) -> None:
        self.disk.kill()
        self.reopen()
        assert self.log.log_end_offset == self.end_offset
        self.start_offset = self.log.log_start_offset

    @rule()
    def lose_power_and_start(self) -> None:
        self.disk.crash()
        self.reopen()
        self.start_offset = self.log.log_start_offset
        if not self.log.producer_state.producers and self.log.size_bytes == 0:
            # All that was left lay below the start that was written down, and was dropped.
            self.batches = []
        self.forget_from(self.log.log_end_offset)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        ends = [batch.last_offset + 1 for batch in self.batches]
        ends = [end for end in ends if end >= self.start_offset] or [self.end_offset]
        offset = data.draw(st.sampled_from(ends), "offset")
        self.run(self.log.folder.drain())
        self.log.truncate_to(offset)
        self.run(self._make_truncation_durable())
        self.forget_from(offset)
        self.lead()

    async def _make_truncation_durable(self) -> None:
        begin(self.manager.checkpoint_recovery_points())
        await self.log.flush()
        await self.log.folder.drain()

    def forget_from(self, offset: int) -> None:
        """A producer that finds its last batches lost goes on from the one before."""
        self.end_offset = offset
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        for producer_id, producer in self.producers.items():
            own = [batch for batch in self.batches if batch.producer_id == producer_id]
            producer.epoch = own[-1].epoch if own else 0
            producer.sequence = own[-1].next_sequence if own else 0

    @rule()
    def wait_long(self) -> None:
        """Silent producers are forgotten. They may go on: with any sequence."""
        self.run(asyncio.sleep(120))
        self.start_offset = self.log.log_start_offset
        for producer_id, entry in self.log.producer_state.producers.items():
            assert entry.current_txn_first_offset is not None, producer_id

    @rule()
    def slow_down(self) -> None:
        self.log.folder.wrote(1.0)

    @precondition(lambda self: self.log.segments[-1].size_bytes)
    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset), "offset")
        self.start_offset = self.partition.delete_records(offset)

    @rule()
    def delete_segments(self) -> None:
        begin(self.manager.apply_retention())
        self.start_offset = self.log.log_start_offset

    # Writing

    def build(self, count: int, **producer: Any) -> memoryview:
        now_ms = self.clock.now_ms()
        records = [Record(n, now_ms, None, self.rng.randbytes(10)) for n in range(count)]
        return memoryview(build_batch(records, **producer))

    def added(self, appended: Appended, batch: ModelBatch) -> None:
        assert not appended.is_duplicate
        assert appended.first_offset == self.end_offset
        self.batches.append(batch)
        self.end_offset = appended.last_offset + 1

    @rule(count=st.integers(1, 4))
    def write_plain(self, count: int) -> None:
        async def write() -> Appended:
            appended = self.partition.leader.append(self.build(count), acks=-1, produce_version=12)
            return appended if isinstance(appended, Appended) else await appended

        appended = self.run(write())
        self.added(appended, ModelBatch(appended.first_offset, appended.last_offset, -1, -1, -1))

    @rule(count=st.integers(1, 4), producer_id=st.sampled_from(PRODUCER_IDS))
    def write(self, count: int, producer_id: int) -> None:
        producer = self.producers[producer_id]

        async def write() -> Appended:
            guard = self.partition.leader.begin_verification(
                producer_id, producer.epoch, producer.sequence, supports_epoch_bump=False
            )
            is_open = self.partition.leader.has_open_transaction(producer_id, producer.epoch)
            assert is_open == (guard is None)
            batch = self.build(
                count,
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                base_sequence=producer.sequence,
                is_transactional=True,
            )
            appended = self.partition.leader.append(batch, acks=-1, produce_version=12, guard=guard)
            return appended if isinstance(appended, Appended) else await appended

        appended = self.run(write())
        producer.sequence += count
        self.added(
            appended,
            ModelBatch(
                appended.first_offset,
                appended.last_offset,
                producer_id,
                producer.epoch,
                producer.sequence,
                is_transactional=True,
            ),
        )

    @rule(
        producer_id=st.sampled_from(PRODUCER_IDS),
        is_commit=st.booleans(),
        transaction_version=st.sampled_from([1, 2]),
    )
    def end(self, producer_id: int, is_commit: bool, transaction_version: int) -> None:
        producer = self.producers[producer_id]
        if transaction_version == 2:
            producer.epoch += 1
        if transaction_version == 2 or producer_id not in self.log.producer_state.producers:
            producer.sequence = 0
        appended = self.run(self.mark(producer_id, producer.epoch, is_commit, transaction_version))
        self.added(
            appended,
            ModelBatch(
                appended.first_offset,
                appended.last_offset,
                producer_id,
                producer.epoch,
                producer.sequence,
                is_commit=is_commit,
            ),
        )

    async def mark(
        self, producer_id: int, epoch: int, is_commit: bool, transaction_version: int
    ) -> Appended:
        appended = self.partition.leader.append_marker(
            producer_id=producer_id,
            producer_epoch=epoch,
            is_commit=is_commit,
            coordinator_epoch=0,
            transaction_version=transaction_version,
        )
        return appended if isinstance(appended, Appended) else await appended

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), is_commit=st.booleans())
    def end_too_late(self, producer_id: int, is_commit: bool) -> None:
        """A marker of version 2 that was sent for the transaction before."""
        epoch = self.producers[producer_id].epoch
        if self.partition.leader.has_open_transaction(producer_id, epoch):
            with pytest.raises(KafkaError) as caught:
                self.run(self.mark(producer_id, epoch, is_commit, 2))
            assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH

    # What everybody sees

    def transactions(self) -> list[ModelTransaction]:
        found: list[ModelTransaction] = []
        open_since: dict[int, int] = {}
        for batch in self.batches:
            if batch.is_transactional:
                open_since.setdefault(batch.producer_id, batch.base_offset)
            elif batch.is_commit is not None and batch.producer_id in open_since:
                first_offset = open_since.pop(batch.producer_id)
                found.append(ModelTransaction(batch.producer_id, first_offset, batch))
        found += [ModelTransaction(*each, None) for each in open_since.items()]
        return found

    @invariant()
    def last_stable_offset(self) -> None:
        if not hasattr(self, "log"):
            return
        open_ones = [each for each in self.transactions() if each.end is None]
        first = min((each.first_offset for each in open_ones), default=self.end_offset)
        assert self.partition.last_stable_offset == max(first, self.start_offset)
        assert self.partition.high_watermark == self.end_offset
        # Below the start it does not matter where one began, and a truncation, which reads again
        # what is left, can not tell any more.
        start = self.start_offset
        known = {
            entry.producer_id: max(entry.current_txn_first_offset, start)
            for entry in self.log.producer_state.producers.values()
            if entry.current_txn_first_offset is not None
        }
        assert known == {each.producer_id: max(each.first_offset, start) for each in open_ones}

    @invariant()
    def readers_of_committed_records_see_these_and_no_other(self) -> None:
        if not hasattr(self, "log"):
            return
        stable_offset = self.partition.last_stable_offset
        aborted = [each for each in self.transactions() if each.end and not each.end.is_commit]
        left_out = {
            batch.base_offset
            for batch in self.batches
            for each in aborted
            if batch.is_transactional
            and batch.producer_id == each.producer_id
            and each.end is not None
            and each.first_offset <= batch.base_offset < each.end.base_offset
        }
        expected = [
            offset
            for batch in self.batches
            if batch.is_commit is None and batch.base_offset not in left_out
            for offset in range(batch.base_offset, batch.last_offset + 1)
            if self.start_offset <= offset < stable_offset
        ]
        told: set[AbortedTransaction] = set()
        assert self.read_committed(told) == expected
        note(f"aborted {told}")
        assert {each[:3] for each in told} == {
            (each.producer_id, each.first_offset, each.end.last_offset)
            for each in aborted
            if each.end
            and each.end.last_offset >= self.start_offset
            and self.start_offset < stable_offset > each.first_offset
        }

    def read_committed(self, told: set[AbortedTransaction]) -> list[int]:
        """As clients do it: fetch by fetch, each by itself."""
        found: list[int] = []
        offset = self.start_offset
        while True:
            piece = self.partition.read(
                offset, self.rng.choice([1, 200, 5000]), is_committed_only=True, at_least_one=True
            )
            if piece is None:
                return found
            assert isinstance(piece, FileSlice)
            aborted = self.partition.aborted_transactions(offset, piece)
            assert isinstance(aborted, list)
            told.update(aborted)
            offset = self.filter(piece.read(), aborted, offset, found)

    def filter(
        self, content: bytes, aborted: list[AbortedTransaction], offset: int, found: list[int]
    ) -> int:
        to_come = sorted(aborted, key=lambda each: each.first_offset)
        aborted_producers: set[int] = set()
        next_offset = offset
        for position, header in iter_headers(content, allow_partial=True):
            while to_come and to_come[0].first_offset <= header.last_offset:
                aborted_producers.add(to_come.pop(0).producer_id)
            next_offset = header.next_offset
            if header.is_control:
                marker = parse_end_txn_marker(content[position : position + header.size_bytes])
                if marker is not None and not marker.is_commit:
                    aborted_producers.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in aborted_producers:
                continue
            found += [o for o in range(header.base_offset, header.next_offset) if o >= offset]
        assert next_offset > offset, "a fetch that brings nothing would come again for ever"
        return next_offset


TestTransactions = TransactionsMachine.TestCase
