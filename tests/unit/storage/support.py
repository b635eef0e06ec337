"""A log dir on a simulated disk with virtual time, for the tests of this folder."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.kernel.disk import FileSlice
from ottla.kernel.ids import TopicPartition
from ottla.records.batch import BatchHeader, iter_headers, parse_header
from ottla.records.builder import ControlType, build_batch, build_end_txn_marker
from ottla.records.record import Record, iter_records
from ottla.storage.file_cache import FileCache
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.storage.log_manager import LogManager
from ottla.storage.pending_write import Appended
from ottla.storage.transaction_index import AbortedTransaction
from ottla.storage.verification import VerificationGuard
from ottla.testing.disk import SimulatedDisk
from ottla.testing.loop import VirtualClock, VirtualLoop
from ottla.testing.workers import SimulatedWorkers

T = TypeVar("T")

PARTITION = TopicPartition("t", 0)


_open_loops: list[VirtualLoop] = []


def close_loops() -> None:
    """After each test, by `conftest.py`."""
    while _open_loops:
        _open_loops.pop().close()


class Machine:
    """One disk, and the brokers' storage that is started on it, one after another."""

    def __init__(
        self,
        config: TopicConfig | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        log_dirs: str = "/data",
    ) -> None:
        self.loop = VirtualLoop()
        _open_loops.append(self.loop)
        self.clock = VirtualClock(self.loop)
        self.rng = random.Random(5)
        self.disk = SimulatedDisk(self.rng, now_ms=self.clock.now_ms)
        self.config = config or TopicConfig()
        self.broker_config = BrokerConfig({"log.dirs": log_dirs, **(settings or {})})
        self.failed: list[tuple[str, list[str]]] = []
        self.workers = SimulatedWorkers(self.loop, self.rng)
        self.start()

    def start(self) -> LogManager:
        self.manager = self.new_manager()
        self.manager.lock()
        self.run(
            self.manager.start(
                broker_id=1, cluster_id="cluster", topic_configs=lambda topic: self.config
            )
        )
        return self.manager

    def new_manager(self) -> LogManager:
        self.workers = SimulatedWorkers(self.loop, self.rng)
        return LogManager(
            disk=self.disk,
            clock=self.clock,
            workers=self.workers,
            rng=self.rng,
            config=self.broker_config,
            on_failure=lambda folder, logs: self.failed.append(
                (folder.path, sorted(str(log.topic_partition) for log in logs))
            ),
        )

    def stop(self) -> None:
        self.run(self.manager.close())

    def restart(self, *, clean: bool = True) -> None:
        if clean:
            self.stop()
        else:
            self.disk.kill()
        self.start()

    def record_syncs(self) -> list[str]:
        """The paths of what is synced from now on."""
        synced: list[str] = []
        check = self.disk.check

        def record(operation: str, path: str) -> None:
            if operation in ("sync", "sync_folder"):
                synced.append(path)
            check(operation, path)

        self.disk.check = record  # type: ignore[method-assign]
        return synced

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def wait(self, seconds: float = 0.1) -> None:
        self.run(asyncio.sleep(seconds))

    def log(self, partition: TopicPartition = PARTITION) -> Log:
        """The log of the partition, made if it is not there."""
        return self.manager.create_log(partition, None, self.config)

    def append(self, log: Log, *, leader_epoch: int = 0, **batch: Any) -> Appended:
        content = self.batch(**batch)
        header = parse_header(content)
        guard = None
        if header.is_transactional:
            guard = self.verified(log, header)
        return log.append_as_leader(
            header, memoryview(content), leader_epoch, self.clock.now_ms(), guard
        )

    def verified(self, log: Log, header: BatchHeader) -> VerificationGuard | None:
        """As if the transaction's coordinator had been asked."""
        return log.producer_state.begin_verification(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            supports_epoch_bump=False,
            now_ms=self.clock.now_ms(),
            offset=log.log_end_offset,
        )

    def end_transaction(
        self,
        log: Log,
        kind: ControlType,
        *,
        producer_id: int,
        epoch: int = 0,
        coordinator_epoch: int = 0,
    ) -> Appended:
        content = build_end_txn_marker(
            kind,
            offset=0,
            timestamp=self.clock.now_ms(),
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
        )
        appended = log.append_as_leader(
            parse_header(content), memoryview(content), 0, self.clock.now_ms()
        )
        log.producer_state.transactions.replicated_to(log.log_end_offset)
        return appended

    def batch(
        self,
        count: int = 1,
        *,
        timestamp: int | None = None,
        value: bytes = b"value",
        producer_id: int = -1,
        epoch: int = -1,
        sequence: int = -1,
        is_transactional: bool = False,
    ) -> bytearray:
        if timestamp is None:
            timestamp = self.clock.now_ms()
        return build_batch(
            [Record(number, timestamp, None, value) for number in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )

    def folder(self, path: str = "/data") -> LogFolder:
        """A log dir by itself."""
        self.disk.make_folders(path)
        return LogFolder(
            path,
            disk=self.disk,
            clock=self.clock,
            workers=self.workers,
            files=FileCache(self.disk),
            on_failure=lambda folder: self.failed.append((folder.path, [])),
        )

    def names(self, path: str = "/data/t-0") -> list[str]:
        return self.disk.list_folder(path)


def offsets_in(log: Log) -> list[int]:
    """Every offset that can be read, by whole reads."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, max_offset=log.log_end_offset, at_least_one=True)
        if piece is None:
            break
        assert isinstance(piece, FileSlice)
        content = piece.read()
        for position, header in iter_headers(content):
            batch = content[position : position + header.size_bytes]
            found += [record.offset for record in iter_records(batch) if record.offset >= offset]
            offset = header.next_offset
    return found


def aborted_in(log: Log, offset: int = 0) -> list[AbortedTransaction]:
    """What a reader of everything from the offset on is told to leave out, by their ends."""
    found: list[AbortedTransaction] = []
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, max_offset=log.log_end_offset, at_least_one=True)
        assert isinstance(piece, FileSlice)
        aborted = log.aborted_transactions(offset, piece, log.log_end_offset)
        assert isinstance(aborted, list)
        found += [each for each in aborted if each not in found]
        for _, header in iter_headers(piece.read()):
            offset = header.next_offset
    return sorted(found, key=lambda each: each.last_offset)
