"""All logs of a broker, in all of its log dirs."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig
from ottla.kernel.clock import Clock, Timer
from ottla.kernel.disk import Disk, Lock
from ottla.kernel.eager import begin
from ottla.kernel.errors import ErrorCode, KafkaError
from ottla.kernel.ids import TopicId, TopicPartition, topic_id_text
from ottla.kernel.slices import Slices, taking
from ottla.kernel.workers import Workers
from ottla.storage.checkpoint import format_checkpoint, format_offset, read_offsets
from ottla.storage.clean_shutdown import (
    UNKNOWN_EPOCH,
    take_clean_shutdown,
    write_clean_shutdown,
)
from ottla.storage.damaged_logs import DamagedLog, DamagedLogs
from ottla.storage.errors import BrokerStartRefused, CorruptFile, StorageFailure
from ottla.storage.file_cache import FileCache
from ottla.storage.file_names import (
    CHECKPOINTS,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    METADATA_TOPIC,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FolderKind,
    parse_folder_name,
    suffixed_folder_name,
)
from ottla.storage.folder import LogFolder
from ottla.storage.loader import Checkpoints, LogLoader
from ottla.storage.log import Log
from ottla.storage.meta_properties import claim_folder
from ottla.storage.partition_metadata import write_partition_metadata
from ottla.storage.producer_state import ProducerStateConfig
from ottla.storage.retention import apply_retention
from ottla.storage.run_mark import read_run_mark
from ottla.storage.topic_id_sync import TopicIdSync

logger = logging.getLogger(__name__)

# `flush.ms` of a topic is looked at this often, unless `log.flush.scheduler.interval.ms` says
# more often: Kafka's default for that is never, which makes `flush.ms` do nothing.
_FLUSH_CHECK_MS = 1000


class LogManager:
    """Owned by the broker, from start to stop. Opens, makes and deletes logs, and does what has
    to be done from time to time: retention, flushes, checkpoints, forgetting producers.

    A log dir that fails goes offline with its logs, `on_failure` hears of it once, and the others
    go on; as they do when a file of one log is damaged. A crash loses nothing that a log promised:
    see `Log`."""

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        workers: Workers,
        rng: random.Random,
        config: BrokerConfig,
        on_failure: Callable[[LogFolder, list[Log]], None],
        high_watermark_of: Callable[[Log], int] = lambda log: log.log_end_offset,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._workers = workers
        self._rng = rng
        self._config = config
        self.producer_config = ProducerStateConfig()
        self.producer_config.set(config)
        self._on_failure = on_failure
        self._high_watermark_of = high_watermark_of
        self._files = FileCache(disk)
        self._locks: list[Lock] = []
        self._timers: dict[str, Timer] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._forgotten_count = 0
        self._checkpoint_turn = asyncio.Lock()
        self._is_closed = False
        self._checkpointed: dict[LogFolder, set[TopicPartition]] = {}
        """What the checkpoints of the last run name."""
        self.logs: dict[TopicPartition, Log] = {}
        self.damaged = DamagedLogs()
        self.folders = [
            LogFolder(
                path.rstrip("/") or "/",
                disk=disk,
                clock=clock,
                workers=workers,
                files=self._files,
                on_failure=self._folder_failed,
            )
            for path in config.log_dirs
        ]
        self._topic_id_syncs = {folder: TopicIdSync(folder) for folder in self.folders}

    # Start and stop

    def lock(self) -> None:
        """Makes the log dirs this process's own, before anything in them is looked at."""
        for folder in self.folders:
            try:
                self._make_folder(folder.path)
                lock = self._disk.lock(f"{folder.path}/{LOCK}")
            except OSError as error:
                folder.fail(error, "cannot be opened")
                continue
            if lock is None:
                self.unlock()
                raise BrokerStartRefused(
                    f"{folder.path} is in use by another broker: stop that one first, or choose "
                    "another folder (--data-dir, log.dirs)"
                )
            self._locks.append(lock)
        self._check_any_online()

    def _make_folder(self, path: str) -> None:
        """With every folder above it, each made durable by syncing the one that holds it."""
        if self._disk.is_folder(path):
            return
        above = path.rpartition("/")[0]
        if above:
            self._make_folder(above)
        self._disk.make_folders(path)
        self._disk.sync_folder(above or ("/" if path.startswith("/") else "."))

    def unlock(self) -> None:
        while self._locks:
            self._locks.pop().release()

    async def start(
        self,
        *,
        broker_id: int,
        cluster_id: str,
        topic_configs: Callable[[str], TopicConfig],
    ) -> None:
        """Loads every log; after a crash, recovers them first. `lock` comes before."""
        for folder in self._online():
            try:
                claim_folder(self._disk, folder.path, broker_id=broker_id, cluster_id=cluster_id)
                await self._load_folder(folder, topic_configs)
                folder.is_loaded = True
            except OSError as error:
                self._forget_logs(folder)
                folder.fail(error, "loading its logs")
        self._check_any_online()
        self.logs_made()
        await self._forget_in_checkpoints([f for f in self._online() if self._has_stale(f)])
        self._schedule_tasks()

    async def close(self, *, broker_epoch: int = UNKNOWN_EPOCH) -> None:
        """A clean stop: everything is on the disk, and the next start need not look. Partitions
        must have stopped appending. After a start that failed, of a folder that it did not get to
        load nothing is known and nothing is said. Without an epoch nothing was appended: a folder
        is as clean as it was, of the run before."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for running in self._running:
            running.cancel()
        for folder in self._online():
            await folder.drain()
        logs = list(self.logs.values())
        results = await asyncio.gather(*(log.close() for log in logs), return_exceptions=True)
        for result in results:
            # A log dir that failed has said so, and gets no mark of a clean stop.
            if isinstance(result, BaseException) and not isinstance(result, StorageFailure):
                raise result
        await self.checkpoint_recovery_points()
        await self.checkpoint_log_start_offsets()
        for folder in self._online():
            await folder.drain()
            if folder.failure is None and folder.is_loaded:
                epoch = broker_epoch
                if epoch == UNKNOWN_EPOCH and folder.clean_epoch is not None:
                    epoch = folder.clean_epoch
                folder.submit(write_clean_shutdown, self._disk, folder.path, broker_epoch=epoch)
                await folder.drain()
        for folder in self.folders:
            folder.is_closed = True
        self._files.clear()
        self.unlock()

    async def _load_folder(
        self, folder: LogFolder, topic_configs: Callable[[str], TopicConfig]
    ) -> None:
        folder.clean_epoch = take_clean_shutdown(self._disk, folder.path)
        folder.last_run_mark = read_run_mark(self._disk, folder.path)
        is_clean = folder.clean_epoch is not None
        recovery_points = self._read_checkpoint(folder, RECOVERY_POINT_CHECKPOINT)
        start_offsets = self._read_checkpoint(folder, LOG_START_OFFSET_CHECKPOINT)
        found = self._find_logs(folder)
        loaders = [
            LogLoader(
                folder,
                path,
                topic_partition,
                topic_configs(topic_partition.topic),
                checkpoints=Checkpoints(
                    recovery_points.get(topic_partition, 0), start_offsets.get(topic_partition, 0)
                ),
                is_clean=is_clean,
                producer_config=self.producer_config,
                rng=self._rng,
            )
            for topic_partition, path in found
        ]
        if is_clean:
            loaded: Iterable[Log | CorruptFile] = map(_load, loaders)
        else:
            if loaders:
                logger.warning("recovering %d logs in %s", len(loaders), folder.path)
                # A kill may have come between making a log's folder and syncing the entry of it:
                # what is written there from now on must not go with the power.
                await self._workers.submit(self._disk.sync_folder, folder.path)
            loaded = await asyncio.gather(
                *(self._workers.submit(_load, loader) for loader in loaders)
            )
        self._checkpointed[folder] = {*recovery_points, *start_offsets}
        for (topic_partition, path), log in zip(found, loaded, strict=True):
            if isinstance(log, CorruptFile):
                checkpoints = {
                    name: offset
                    for name in CHECKPOINTS
                    if (offset := self._read_checkpoint(folder, name).get(topic_partition))
                    is not None
                }
                damaged = DamagedLog(folder, path, checkpoints)
                self.damaged.note(topic_partition, damaged, log)
                continue
            other = self.logs.get(log.topic_partition)
            if other is not None:
                raise BrokerStartRefused(
                    f"{log.topic_partition} is in both {other.path} and {log.path}: move the one "
                    "that is out of date away"
                )
            self._adopt(log)
        for loader in loaders:
            if loader.has_unsynced_topic_id:
                self._topic_id_syncs[folder].add(self.logs[loader.topic_partition])

    def _find_logs(self, folder: LogFolder) -> list[tuple[TopicPartition, str]]:
        """The folders of partitions; what an earlier run marked for deletion goes now."""
        found = []
        for name in self._disk.list_folder(folder.path):
            path = f"{folder.path}/{name}"
            if not self._disk.is_folder(path):
                continue
            parsed = parse_folder_name(name)
            if parsed is None or parsed.topic_partition.topic == METADATA_TOPIC:
                logger.warning("%s is not the folder of a partition; leaving it alone", path)
            elif parsed.kind is FolderKind.DELETE:
                folder.submit(self._disk.remove_folder, path)
            elif parsed.kind is FolderKind.CURRENT:
                found.append((parsed.topic_partition, path))
            else:
                logger.warning("%s is stray; leaving it alone", path)
        return found

    def _read_checkpoint(self, folder: LogFolder, name: str) -> dict[TopicPartition, int]:
        path = f"{folder.path}/{name}"
        try:
            return read_offsets(self._disk, path)
        except CorruptFile as error:
            logger.warning("doing without %s: %s", path, error)
            return {}

    def _check_any_online(self) -> None:
        if not self._online():
            raise BrokerStartRefused(
                "no log dir can be used: " + "; ".join(str(f.failure) for f in self.folders)
            )

    # Logs

    def get(self, topic_partition: TopicPartition) -> Log | None:
        return self.logs.get(topic_partition)

    def create_log(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId | None,
        config: TopicConfig,
        *,
        is_new: bool = True,
    ) -> Log:
        """In the log dir that has the fewest. Returns the one that is there already, if any. One
        that is not new may lie in a log dir that is offline: then it is not made a second time."""
        log = self.logs.get(topic_partition)
        if log is not None:
            return log
        if topic_partition in self.damaged:
            raise StorageFailure(f"{self.damaged[topic_partition].path} is damaged")
        online = self._online()
        if not online:
            raise StorageFailure("every log dir is offline")
        if not is_new and len(online) < len(self.folders):
            offline = ", ".join(folder.path for folder in self.folders if folder.failure)
            raise StorageFailure(
                f"{topic_partition} may be in a log dir that is offline: {offline}"
            )
        folder = min(online, key=lambda folder: folder.log_count)
        path = f"{folder.path}/{topic_partition}"
        if self._disk.exists(path):
            raise StorageFailure(f"{path} has come here since the start: move it away")
        loader = LogLoader(
            folder,
            path,
            topic_partition,
            config,
            checkpoints=Checkpoints(),
            is_clean=False,
            producer_config=self.producer_config,
            rng=self._rng,
        )
        try:
            self._disk.make_folders(path)
            log = loader.make(topic_id)
        except OSError as error:
            raise folder.fail(error, f"creating {path}") from error
        self._adopt(log)
        self._topic_id_syncs[folder].add(log)
        return log

    def logs_made(self) -> None:
        """Or loaded; no more come for now. Their topic ids are synced, off the loop."""
        for folder in self.folders:
            folder.submit_what_was_put_off()

    def assign_topic_id(self, log: Log, topic_id: TopicId) -> None:
        """For a log that was found, with an id or, from before topics had ids, without."""
        if log.topic_id == topic_id:
            return
        if log.topic_id is not None:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{log.path} belongs to an earlier topic of that name, "
                f"{topic_id_text(log.topic_id)}",
            )
        try:
            write_partition_metadata(self._disk, log.path, topic_id)
        except OSError as error:
            raise log.folder.fail(error, f"writing the topic id of {log.path}") from error
        log.topic_id = topic_id
        self._topic_id_syncs[log.folder].add(log)

    async def delete(self, *topic_partitions: TopicPartition) -> None:
        """Takes the logs away at once; their files follow after `file.delete.delay.ms`, so that
        fetches that are being sent come to their end."""
        renamed = await self._rename_away(topic_partitions, FolderKind.DELETE)
        async for log, path in Slices(self._clock).of(taking(renamed)):
            remove = partial(self._remove_folder, log.folder, path)
            self._clock.call_later(log.config.file_delete_delay_ms / 1000, remove)

    def _remove_folder(self, folder: LogFolder, path: str) -> None:
        if not folder.is_closed:
            folder.submit(self._disk.remove_folder, path)

    async def set_aside(self, *topic_partitions: TopicPartition) -> None:
        """For logs that belong to no topic: they are served no more, and their files are kept for
        whoever knows what they are."""
        await self._rename_away(topic_partitions, FolderKind.STRAY)

    async def _rename_away(
        self, topic_partitions: Iterable[TopicPartition], kind: FolderKind
    ) -> list[tuple[Log, str]]:
        """The logs, and where they are now. Those in a log dir that is offline stay there."""
        slices = Slices(self._clock)
        gone: list[Log] = []
        async for each in slices.of(topic_partitions):
            if (log := self._forget(each)) is not None:
                log.is_deleted = True
                gone.append(log)
        folders = list(dict.fromkeys(log.folder for log in gone))
        for folder in folders:
            await folder.drain()
        renamed: list[tuple[Log, str]] = []
        async for log in slices.of(gone):
            folder = log.folder
            if folder.failure is not None:
                continue
            target = f"{folder.path}/{suffixed_folder_name(log.topic_partition, kind, self._rng)}"
            for segment in log.segments:
                segment.forget_files()
            try:
                self._disk.rename(log.path, target)
            except OSError as error:
                folder.fail(error, f"renaming {log.path}")
                continue
            renamed.append((log, target))
        for folder in folders:
            if folder.failure is None:
                folder.submit(self._disk.sync_folder, folder.path)
        await self._forget_in_checkpoints(folders)
        return renamed

    def _adopt(self, log: Log) -> None:
        self.logs[log.topic_partition] = log
        log.folder.log_count += 1

    def _forget(self, topic_partition: TopicPartition) -> Log | None:
        log = self.logs.pop(topic_partition, None)
        if log is not None:
            self._forgotten_count += 1
            log.folder.log_count -= 1
        return log

    def _forget_logs(self, folder: LogFolder) -> list[Log]:
        gone = [log for log in self.logs.values() if log.folder is folder]
        for log in gone:
            self._forget(log.topic_partition)
        return gone

    def _folder_failed(self, folder: LogFolder) -> None:
        """Its logs stay known, and answer every call with `StorageFailure`."""
        self._on_failure(folder, [log for log in self.logs.values() if log.folder is folder])

    def _online(self) -> list[LogFolder]:
        return [folder for folder in self.folders if folder.failure is None]

    # Checkpoints

    def _has_stale(self, folder: LogFolder) -> bool:
        """Whether its checkpoints name a log that is not there."""
        return any(
            (log := self.logs.get(each) or self.damaged.get(each)) is None
            or log.folder is not folder
            for each in self._checkpointed.get(folder, ())
        )

    async def _forget_in_checkpoints(self, folders: Sequence[LogFolder]) -> None:
        """Logs that are not there any more. Before another of the same name can be made: if that
        were taken for as old as the one before, it would be dropped as lost after a crash."""
        if folders:
            await self.checkpoint_recovery_points()
            await self.checkpoint_log_start_offsets()
            for folder in folders:
                await folder.drain()

    async def checkpoint_recovery_points(self) -> None:
        await self._checkpoint(RECOVERY_POINT_CHECKPOINT, lambda log: log.recovery_point)

    async def checkpoint_log_start_offsets(self) -> None:
        """Only those that their first segment's name does not tell."""
        await self._checkpoint(
            LOG_START_OFFSET_CHECKPOINT,
            lambda log: (
                log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None
            ),
        )

    async def checkpoint_high_watermarks(self, of: Callable[[Log], int | None]) -> None:
        await self._checkpoint(REPLICATION_OFFSET_CHECKPOINT, of)

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """As of the last run. Those of logs that have moved away are in it too."""
        found: dict[TopicPartition, int] = {}
        for folder in self._online():
            found.update(self._read_checkpoint(folder, REPLICATION_OFFSET_CHECKPOINT))
        return found

    async def _checkpoint(self, name: str, offset_of: Callable[[Log], int | None]) -> None:
        """Each log dir has its own, of its own logs. Queued behind the fsyncs that they rest on,
        and one after another: what was asked for later is newer, a truncated log's above all."""
        async with self._checkpoint_turn:
            lines = await self._checkpoint_lines(offset_of)
            for folder, line in self.damaged.checkpoint_lines(name):
                lines.setdefault(folder, []).append(line)
            for folder in self._online():
                if folder.is_loaded:
                    content = format_checkpoint(lines.get(folder, ()))
                    folder.submit(self._disk.replace_file, f"{folder.path}/{name}", content)

    async def _checkpoint_lines(
        self, offset_of: Callable[[Log], int | None]
    ) -> dict[LogFolder, list[str]]:
        """Begins anew when a log goes meanwhile: it must not be named after its topic was deleted,
        and another of its name may be made."""
        while True:
            forgotten_count = self._forgotten_count
            lines: dict[LogFolder, list[str]] = {}
            async for log in Slices(self._clock).of(list(self.logs.values())):
                offset = offset_of(log)
                if offset is not None:
                    line = format_offset(log.topic_partition, offset)
                    lines.setdefault(log.folder, []).append(line)
            if forgotten_count == self._forgotten_count:
                return lines

    # From time to time

    async def apply_retention(self) -> None:
        now_ms = self._clock.now_ms()
        async for log in self._each_log():
            if log.folder.failure is None:
                try:
                    apply_retention(log, now_ms=now_ms, high_watermark=self._high_watermark_of(log))
                except StorageFailure as error:
                    logger.error("%s", error)
                except OSError as error:
                    log.folder.fail(error, f"looking for what {log.path} need not keep")
                except Exception:  # A bug of ours must not keep all other logs for ever.
                    logger.exception("the retention of %s could not be applied", log.path)

    async def flush_old(self) -> None:
        now_ms = self._clock.now_ms()
        async for log in self._each_log():
            if (
                log.recovery_point < log.log_end_offset
                and now_ms - log.last_flush_ms >= log.config.flush_ms
                and log.folder.failure is None
            ):
                log.flush_soon()

    async def expire_producers(self) -> None:
        now_ms = self._clock.now_ms()
        async for log in self._each_log():
            log.producer_state.expire(now_ms)

    async def _each_log(self) -> AsyncIterator[Log]:
        """In slices, and without those that go meanwhile."""
        async for log in Slices(self._clock).of(list(self.logs.values())):
            if not log.is_deleted:
                yield log

    def _schedule_tasks(self) -> None:
        config = self._config
        delay_ms = config.log_initial_task_delay_ms
        flush_ms = min(config.log_flush_scheduler_interval_ms, _FLUSH_CHECK_MS)
        for task, first_ms, interval_ms in (
            (self.apply_retention, delay_ms, config.log_retention_check_interval_ms),
            (self.flush_old, flush_ms, flush_ms),
            (
                self.checkpoint_recovery_points,
                delay_ms,
                config.log_flush_offset_checkpoint_interval_ms,
            ),
            (
                self.checkpoint_log_start_offsets,
                delay_ms,
                config.log_flush_start_offset_checkpoint_interval_ms,
            ),
            (self.expire_producers, delay_ms, config.producer_id_expiration_check_interval_ms),
        ):
            self._repeat(task, first_ms, max(1, interval_ms))

    def _repeat(
        self, task: Callable[[], Coroutine[Any, Any, None]], first_ms: int, interval_ms: int
    ) -> None:
        async def run_once() -> None:
            try:
                await task()
            except Exception:  # A bug of ours must not end it for good.
                logger.exception("%s failed", name)

        def run() -> None:
            begun = begin(run_once())
            if isinstance(begun, asyncio.Task):
                self._running.add(begun)
                begun.add_done_callback(self._running.discard)
                begun.add_done_callback(lambda _: again())
            else:
                again()

        def again() -> None:
            if not self._is_closed:
                self._timers[name] = self._clock.call_later(interval_ms / 1000, run)

        name = task.__name__
        self._timers[name] = self._clock.call_later(first_ms / 1000, run)


def _load(loader: LogLoader) -> Log | CorruptFile:
    try:
        return loader.load()
    except CorruptFile as error:
        return error
    except OSError:
        raise  # Of the disk, which all of the log dir is on.
    except Exception as error:
        logger.exception("a log met something unforeseen")
        return CorruptFile(f"it cannot be loaded: {error!r}")
