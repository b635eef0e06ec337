"""A log against a model of it: a list of batches, of which a crash may take the unsynced end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.kernel.disk import FileSlice
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicPartition, new_topic_id
from ottla.records.batch import iter_headers, parse_header
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.storage.batch_scan import Cold
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.storage.pending_write import PendingWrite
from ottla.storage.retention import apply_retention
from ottla.testing.disk import SimulatedDisk
from ottla.testing.loop import VirtualClock, VirtualLoop
from ottla.testing.workers import SimulatedWorkers

T = TypeVar("T")

PARTITION = TopicPartition("events", 0)
CONFIG = TopicConfig(
    segment_bytes=1500, index_interval_bytes=150, retention_bytes=4000, segment_index_bytes=120
)
PRODUCER_IDS = (11, 12)
SEQUENCE_MAX = 2**31 - 1


class ModelBatch(NamedTuple):
    base_offset: int
    last_offset: int
    content: bytes
    producer_id: int
    last_sequence: int


class LogMachine(RuleBasedStateMachine):
    gap_max = 0
    """How many offsets may be missing between a follower's batches."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop)
        self.rng = random.Random(seed)
        self.disk = SimulatedDisk(self.rng, now_ms=self.clock.now_ms)
        self.topic_id = new_topic_id(self.rng)
        self.batches: list[ModelBatch] = []
        self.start_offset = 0
        self.end_offset = 0
        self.synced_offset = 0
        self.epochs_offset = 0
        """The highest start so far: the epochs of what was below it are forgotten."""
        self.leader_epoch = 0
        self.producer_epoch = dict.fromkeys(PRODUCER_IDS, 0)
        self.next_sequence = dict.fromkeys(PRODUCER_IDS, SEQUENCE_MAX - 5)
        self.last_batch: dict[int, ModelBatch] = {}
        self.start()
        self.log: Log = self.manager.create_log(PARTITION, self.topic_id, CONFIG)
        self.pass_time(1)

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    # Life and death

    def start(self) -> None:
        self.failures: list[str] = []
        self.manager = LogManager(
            disk=self.disk,
            clock=self.clock,
            workers=SimulatedWorkers(self.loop, self.rng),
            rng=self.rng,
            config=BrokerConfig({"log.dirs": "/data"}),
            on_failure=lambda folder, logs: self.failures.append(str(folder.failure)),
        )
        self.manager.lock()
        self.run(
            self.manager.start(broker_id=1, cluster_id="c", topic_configs=lambda topic: CONFIG)
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def pass_time(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule(seconds=st.sampled_from([0.0005, 0.01, 70]))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)
        # The manager may have applied retention.
        assert self.log.log_start_offset >= self.start_offset
        self.start_offset = self.log.log_start_offset

    @rule()
    def stop_and_start(self) -> None:
        self.run(self.manager.close())
        self.disk.crash()
        self.reopen()
        assert self.log.log_end_offset == self.end_offset
        assert self.log.log_start_offset == self.start_offset
        assert self.log.recovery_point == self.end_offset
        self.check_epochs()

    @rule()
    def kill_and_start(self) -> None:
        self.disk.kill()
        self.reopen()
        assert self.log.log_end_offset == self.end_offset
        self.check_start_after_crash()

    @rule()
    def lose_power_and_start(self) -> None:
        if self.gap_max:
            # In a log with gaps a lost end of a segment cannot be told from a compacted one.
            self.flush()
        durable_offset = max(self.synced_offset, self.log.recovery_point)
        self.disk.crash()
        self.reopen()
        end_offset = self.log.log_end_offset
        note(f"durable {durable_offset}, found {end_offset} of {self.end_offset}")
        assert durable_offset <= end_offset <= self.end_offset
        self.batches = [batch for batch in self.batches if batch.last_offset < end_offset]
        if self.log.size_bytes == 0:
            # All that is left lay below the start that was written down.
            self.batches = []
        if end_offset < self.end_offset:
            assert not self.batches or self.batches[-1].last_offset + 1 == end_offset
        self.end_offset = end_offset
        self.check_start_after_crash()
        self.check_producers()

    def reopen(self) -> None:
        # The dead broker's timers would go on in the same loop.
        for handle in list(self.loop._scheduled):
            handle.cancel()
        self.start()
        log = self.manager.get(PARTITION)
        if log is None:
            assert self.synced_offset == 0
            log = self.manager.create_log(PARTITION, self.topic_id, CONFIG)
        self.log = log

    def check_start_after_crash(self) -> None:
        """Deleted records may come back: that they are gone is written down now and then."""
        assert self.log.log_start_offset <= self.start_offset
        self.check_epochs()
        self.start_offset = self.log.log_start_offset

    def check_epochs(self) -> None:
        self.epochs_offset = max(self.epochs_offset, self.start_offset)
        for batch in self.batches:
            if batch.base_offset >= self.epochs_offset:
                epoch = parse_header(batch.content).partition_leader_epoch
                assert self.log.leader_epochs.epoch_for_offset(batch.base_offset) == epoch

    def check_producers(self) -> None:
        """After lost records, each producer goes on from its last one that is left."""
        self.last_batch = {}
        for batch in self.batches:
            if batch.producer_id >= 0:
                self.last_batch[batch.producer_id] = batch
        for producer_id in PRODUCER_IDS:
            entry = self.log.producer_state.producers.get(producer_id)
            last = self.last_batch.get(producer_id)
            if last is not None and last.base_offset >= self.start_offset:
                assert entry is not None
                assert entry.last_offset == last.last_offset
                assert entry.last_sequence == last.last_sequence
            if entry is None:
                self.last_batch.pop(producer_id, None)
                continue
            self.producer_epoch[producer_id] = entry.producer_epoch
            self.next_sequence[producer_id] = entry.next_sequence

    # Appending

    def build(self, count: int, producer_id: int = -1, sequence: int = -1) -> bytearray:
        now_ms = self.clock.now_ms()
        return build_batch(
            [
                Record(number, now_ms + self.rng.randrange(50), None, self.rng.randbytes(30))
                for number in range(count)
            ],
            producer_id=producer_id,
            producer_epoch=self.producer_epoch.get(producer_id, -1),
            base_sequence=sequence,
        )

    def append(self, batch: bytearray, *, slowly: bool) -> None:
        header = parse_header(batch)
        now_ms = self.clock.now_ms()
        if slowly:
            pending = self.log.prepare(header, memoryview(batch), self.leader_epoch, now_ms)
            assert isinstance(pending, PendingWrite)
            assert self.log.log_end_offset == self.end_offset
            self.run(self._write(pending))
            appended = self.log.commit(pending)
        else:
            appended = self.log.append_as_leader(
                header, memoryview(batch), self.leader_epoch, now_ms
            )
        assert not appended.is_duplicate
        assert appended.first_offset == self.end_offset
        self.end_offset = appended.last_offset + 1
        placed = parse_header(batch)
        assert placed.base_offset == appended.first_offset
        assert placed.partition_leader_epoch == self.leader_epoch
        model = ModelBatch(
            placed.base_offset,
            placed.last_offset,
            bytes(batch),
            placed.producer_id,
            placed.last_sequence,
        )
        self.batches.append(model)
        if placed.producer_id >= 0:
            self.last_batch[placed.producer_id] = model
            self.next_sequence[placed.producer_id] = (placed.last_sequence + 1) % 2**31

    async def _write(self, pending: PendingWrite) -> None:
        await self.log.folder.submit_write(pending.write)

    @rule(count=st.integers(1, 8), slowly=st.booleans())
    def append_plain(self, count: int, slowly: bool) -> None:
        self.append(self.build(count), slowly=slowly)

    @rule(count=st.integers(1, 4), producer_id=st.sampled_from(PRODUCER_IDS), slowly=st.booleans())
    def append_idempotent(self, count: int, producer_id: int, slowly: bool) -> None:
        batch = self.build(count, producer_id, self.next_sequence[producer_id])
        self.append(batch, slowly=slowly)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS))
    def append_again(self, producer_id: int) -> None:
        last = self.last_batch.get(producer_id)
        if last is None:
            return
        batch = bytearray(last.content)
        appended = self.log.append_as_leader(
            parse_header(batch), memoryview(batch), self.leader_epoch, self.clock.now_ms()
        )
        assert appended[:2] == (last.base_offset, last.last_offset)
        assert appended.is_duplicate

    @rule(producer_id=st.sampled_from(PRODUCER_IDS), gap=st.integers(1, 100))
    def append_out_of_order(self, producer_id: int, gap: int) -> None:
        if producer_id not in self.last_batch:
            return
        sequence = (self.next_sequence[producer_id] + gap) % 2**31
        self.refuse(self.build(1, producer_id, sequence), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    @rule(producer_id=st.sampled_from(PRODUCER_IDS))
    def fence(self, producer_id: int) -> None:
        """A new epoch begins at 0, and the old one is refused."""
        if producer_id not in self.last_batch:
            return
        old_batch = self.build(1, producer_id, self.next_sequence[producer_id])
        self.producer_epoch[producer_id] += 1
        self.append(self.build(2, producer_id, 0), slowly=False)
        self.refuse(old_batch, ErrorCode.INVALID_PRODUCER_EPOCH)

    def refuse(self, batch: bytearray, code: ErrorCode) -> None:
        with pytest.raises(KafkaError) as caught:
            self.log.append_as_leader(
                parse_header(batch), memoryview(batch), self.leader_epoch, self.clock.now_ms()
            )
        assert caught.value.code is code

    @rule()
    def elect(self) -> None:
        self.leader_epoch += 1

    @rule(gap=st.integers(0, 3), sizes=st.lists(st.integers(1, 10), min_size=1, max_size=5))
    def follow(self, gap: int, sizes: list[int]) -> None:
        """As a follower: batches of a leader, with a gap where it has compacted."""
        buffer = bytearray()
        offset = self.end_offset + min(gap, self.gap_max)
        for size in sizes:
            batch = self.build(size)
            batch[0:8] = offset.to_bytes(8, "big")
            batch[12:16] = self.leader_epoch.to_bytes(4, "big")
            header = parse_header(batch)
            self.batches.append(ModelBatch(offset, header.last_offset, bytes(batch), -1, -1))
            offset = header.next_offset
            buffer += batch
        rest = memoryview(buffer)
        while appended := self.log.append_as_follower(rest):
            rest = rest[appended:]
        self.end_offset = offset

    # Durability and deletion

    @rule()
    def flush(self) -> None:
        self.run(self._flush())
        assert self.log.recovery_point == self.end_offset

    async def _flush(self) -> None:
        await self.log.flush()
        self.synced_offset = self.end_offset

    @precondition(lambda self: self.log.segments[-1].size_bytes)
    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        # Leader epochs, by which a follower truncates, end where a batch ends.
        ends = [batch.last_offset + 1 for batch in self.batches]
        ends = [end for end in ends if end >= self.start_offset] or [self.end_offset]
        offset = data.draw(st.sampled_from(ends), "offset")
        self.run(self.log.folder.drain())
        was_cut = self.log.truncate_to(offset)
        assert was_cut == (offset < self.end_offset)
        self.batches = [batch for batch in self.batches if batch.last_offset < offset]
        self.end_offset = offset
        self.synced_offset = min(self.synced_offset, offset)
        assert self.log.recovery_point <= offset
        self.check_producers()
        self.run(self._make_truncation_durable())

    async def _make_truncation_durable(self) -> None:
        begin(self.manager.checkpoint_recovery_points())
        await self._flush()
        await self.log.folder.drain()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start_offset = data.draw(st.integers(self.start_offset, self.end_offset), "offset")
        self.log.advance_log_start_offset(self.start_offset)

    @rule(seconds=st.sampled_from([0, 8 * 86_400]))
    def retain(self, seconds: int) -> None:
        size_bytes = self.log.size_bytes
        apply_retention(
            self.log,
            now_ms=self.clock.now_ms() + seconds * 1000,
            high_watermark=self.end_offset,
        )
        assert self.log.log_start_offset >= self.start_offset
        self.start_offset = self.log.log_start_offset
        if seconds:
            assert self.log.size_bytes == 0
        else:
            first = self.log.segments[0].size_bytes
            assert self.log.size_bytes - first < CONFIG.retention_bytes or not first
            assert self.log.size_bytes in (size_bytes, *range(size_bytes))

    # Reading

    @rule(data=st.data(), max_bytes=st.integers(0, 3000), at_least_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        offset = data.draw(st.integers(self.start_offset, self.end_offset), "offset")
        bounds = [self.end_offset, *(batch.base_offset for batch in self.batches)]
        max_offset = data.draw(st.sampled_from(bounds), "max_offset")
        expected = [batch for batch in self.batches if offset <= batch.last_offset < max_offset]
        found = self.read_slice(offset, max_bytes, max_offset, at_least_one)
        if not expected or offset >= max_offset:
            assert found is None
        elif found is None:
            assert max_bytes < len(expected[0].content)
            assert not at_least_one
        else:
            joined = b"".join(batch.content for batch in expected)
            assert joined.startswith(found)
            assert len(found) <= max(max_bytes, len(expected[0].content) * at_least_one)
            assert len(found) >= len(expected[0].content)

    def read_slice(
        self, offset: int, max_bytes: int, max_offset: int, at_least_one: bool
    ) -> bytes | None:
        found = self.log.read(offset, max_bytes, max_offset=max_offset, at_least_one=at_least_one)
        while isinstance(found, Cold):
            found.warm()
            found = self.log.read(
                offset, max_bytes, max_offset=max_offset, at_least_one=at_least_one
            )
        return found.read() if isinstance(found, FileSlice) else None

    @rule()
    def evict(self) -> None:
        for name in self.disk.list_folder("/data/events-0"):
            self.disk.evict(f"/data/events-0/{name}")

    @rule()
    def read_everything(self) -> None:
        offset = self.start_offset
        found = bytearray()
        while (piece := self.read_slice(offset, 700, self.end_offset, True)) is not None:
            for position, header in iter_headers(piece, allow_partial=True):
                found += piece[position : position + header.size_bytes]
                offset = header.next_offset
        expected = [b for b in self.batches if b.last_offset >= self.start_offset]
        assert bytes(found) == b"".join(batch.content for batch in expected)

    @invariant()
    def bounds_are_right(self) -> None:
        if not hasattr(self, "log"):
            return
        assert not self.failures
        assert self.log.log_end_offset == self.end_offset
        assert self.log.log_start_offset == self.start_offset
        assert self.log.recovery_point <= self.end_offset
        segments = self.log.segments
        offsets = [segment.base_offset for segment in segments]
        assert offsets == sorted(set(offsets))
        assert all(segment.size_bytes <= CONFIG.segment_bytes for segment in segments)


class CompactedLogMachine(LogMachine):
    gap_max = 3


TestLog = LogMachine.TestCase
TestCompactedLog = CompactedLogMachine.TestCase
