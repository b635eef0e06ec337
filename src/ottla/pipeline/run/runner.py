"""Runs the queries of a job on a Spark session. This module needs Spark.

Every query has a checkpoint in the job's folder, a consumer group that shows how far it is, and a
file that shows how it is doing. What a query writes is there once, whatever dies when: a batch that
was not finished is run again with the same id and the same offsets, and outputs that have it leave
it out.
"""

from __future__ import annotations

import functools
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import DataFrame

from ottla.client.blocking_topics import create_topics
from ottla.pipeline.jobs.job import Batch, Job, Query, Settings, offset_ranges
from ottla.pipeline.lake.lake import Lake, LakeCommit
from ottla.pipeline.run.causes import cause_of
from ottla.pipeline.run.driver_garbage import DriverGarbage
from ottla.pipeline.run.lag import LagListener, QueryWatcher
from ottla.pipeline.run.progress import BatchProgress, ProgressFolder, QueryProgress
from ottla.pipeline.run.replay import Replay, ReplayCommit, checkpoints_of, replay_of
from ottla.pipeline.run.stages import Stage
from ottla.pipeline.sink.checkpoint import Checkpoint
from ottla.pipeline.sink.sink import write_batch
from ottla.pipeline.source.given_options import CONNECTION_OPTIONS, Connection, GivenOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.pipeline.lake.table import Commit

_UPKEEP_S = 1.0
_TRANSACTION_MS = 300_000
"""A batch has to be written in that time. Long, since one that is too late is lost work; when a
driver dies, the next one aborts what it left open, without waiting."""
_START_ATTEMPTS = 5
_SLOW_PYTHON = "Python worker failed to connect back"
_BEFORE_A_BATCH = ("Initializing", "Getting offsets")
_AFTER_A_BATCH = "Waiting"
_HEAD_START_S = 30.0
"""Of a job's first query, at most: what has piled up may be one batch of an hour."""
_OF_THE_BROKER = -1
"""Partitions of a topic that is made: as many as the broker gives one."""


class JobFailed(Exception):
    """One line for people, and all that Spark said."""

    def __init__(self, query: str | None, cause: str, details: str) -> None:
        super().__init__(cause if query is None else f"query {query} failed: {cause}")
        self.query = query
        self.details = details


class _WriteFailed(Exception):
    """Told to Spark in place of what happened. Spark looks in the text for a sign that it was only
    interrupted, by a regular expression that overflows its stack where Java's own traces are in
    the text; the query then never ends, and the terminal gets a thousand lines."""


@dataclass(slots=True)
class _Started:
    query: Query
    checkpoint: Path
    progress: QueryProgress
    handle: StreamingQuery | None = None
    error: Exception | None = None
    """What its `write` raised. Spark tells it as a text only, in the middle of others."""


class JobRun:
    """One run of a job, by whoever holds the RunLock of its folder. `poll` it until it says that
    all has ended; `stop` it before. `on_batch` is called on a thread of Spark's, with each batch
    that is finished, and `on_stage` there or in `start` and `poll`.

    The first query starts alone, and the others when its first batch has ended: four that start at
    once on two cores all have their first result when the last one has, and the first one alone in
    a third of that time."""

    def __init__(
        self,
        job: Job,
        settings: Settings,
        spark: SparkSession,
        *,
        is_once: bool,
        on_batch: Callable[[BatchProgress], None] = lambda batch: None,
        on_stage: Callable[[Stage], None] = lambda stage: None,
    ) -> None:
        self._job = job
        self._settings = settings
        self._spark = spark
        self._is_once = is_once
        self._on_batch = on_batch
        self._on_stage = on_stage
        self._folder = ProgressFolder(settings.folder)
        self._checkpoints = checkpoints_of(settings.folder)
        self._replay = replay_of(self._checkpoints)
        self._lake = Lake(settings.lake)
        self._queries = [self._known(query) for query in job.queries(settings)]
        by_name = {one.query.name: one for one in self._queries}
        assert len(by_name) == len(self._queries), f"queries of {job.name} have the same name"
        self._watcher = _Watcher(by_name, self._finished_batch)
        self._lag = LagListener(
            settings.bootstrap,
            # Where the output is a topic the transaction has the offsets, and the ledger in them.
            {one.query.name: one.progress.group for one in self._queries if not one.query.topics},
        )
        self._garbage = DriverGarbage()
        self._upkept_s = 0.0
        self._started_s = 0.0
        self._has_result = False
        self._is_stopping = False
        self._batches_at_stop: dict[str, int] | None = None
        self._lock = threading.Lock()

    @property
    def progress(self) -> list[QueryProgress]:
        return [one.progress for one in self._queries]

    @property
    def replay(self) -> Replay | None:
        """That this run goes on with."""
        return self._replay

    def start(self) -> None:
        """The first query; `poll` starts the others. Raises JobFailed where it cannot be."""
        self._spark.streams.addListener(self._watcher)
        self._spark.streams.addListener(self._lag)
        try:
            self._create_topics()
            self._upkeep(is_last=False)
            self._started_s = time.monotonic()
            self._start_next()
        except Exception as error:
            self._fail(None, error)

    def poll(self) -> bool:
        """Whether it goes on. Raises JobFailed when one query has failed, or cannot be started, and
        stops the others."""
        handles = [(one, one.handle) for one in self._queries if one.handle is not None]
        for one, handle in handles:
            if handle.isActive or self._is_stopping:
                continue
            if (error := handle.exception()) is not None:
                self._fail(one, one.error or error)
        is_starting = len(handles) < len(self._queries) and not self._is_stopping
        running = is_starting or any(handle.isActive for _, handle in handles)
        try:
            if is_starting and self._has_had_its_head_start(self._queries[0]):
                self._start_next()
            if not running and not self._is_stopping:
                self._upkeep(is_last=True)
            elif running and time.monotonic() - self._upkept_s >= _UPKEEP_S:
                self._upkeep(is_last=False)
        except Exception as error:
            self._fail(None, error)
        self._garbage.collect_if_due()
        return running

    def stop_after_batch(self) -> bool:
        """Stops each query as soon as it has no batch in hand. Whether any has one: then call this
        again."""
        if self._batches_at_stop is None:
            self._is_stopping = True
            self._batches_at_stop = {one.query.name: one.progress.batches for one in self._queries}
        is_busy = False
        for one in self._queries:
            if one.handle is None or not one.handle.isActive:
                continue
            is_done = one.progress.batches > self._batches_at_stop[one.query.name]
            if is_done or not one.handle.status["isTriggerActive"]:
                one.handle.stop()
            else:
                is_busy = True
        return is_busy

    def stop(self) -> None:
        """A batch that is being run is broken off: the next run begins with it."""
        self._is_stopping = True
        for one in self._queries:
            if one.handle is not None and one.handle.isActive:
                one.handle.stop()

    def close(self) -> None:
        """After the end. Waits until the last batches were told of."""
        self.stop()
        self._watcher.wait_until_ended()
        self._lag.close()
        for listener in (self._watcher, self._lag):
            self._spark.streams.removeListener(listener)
        for one in self._queries:
            if one.progress.state != "failed":
                one.progress.state = "ended"
            self._written(one)

    # -- a query ------------------------------------------------------------------------------

    def _known(self, query: Query) -> _Started:
        group = f"{self._settings.group_prefix}{self._job.name}.{query.name}"
        progress = QueryProgress(self._job.name, query.name, group)
        before = self._folder.read(query.name)
        if before is not None:
            progress.last = before.last
        return _Started(query, self._checkpoints / query.name, progress)

    def _start_next(self) -> None:
        waiting = [one for one in self._queries if one.handle is None]
        one = waiting[0]
        self._tell_lag(one)
        one.handle = start_patiently(functools.partial(self._start, one))
        one.progress.state = "running"
        self._written(one)
        if one is self._queries[0]:
            self._on_stage("first query")
        if len(waiting) == 1:
            self._on_stage("all queries")

    def _has_had_its_head_start(self, first: _Started) -> bool:
        """It has ended its first batch, or has none to run."""
        assert first.handle is not None, "it was started"
        return (
            first.progress.batches > 0
            or not first.handle.isActive
            or first.handle.status["message"].startswith(_AFTER_A_BATCH)
            or time.monotonic() - self._started_s >= _HEAD_START_S
        )

    def _start(self, one: _Started) -> StreamingQuery:
        query = one.query
        reader = self._spark.readStream.format("ottla").options(
            **source_options(self._job.name, query, self._settings, self._replay)
        )
        writer = (
            query.transform(reader.load())
            .writeStream.queryName(query.name)
            .outputMode(query.mode)
            .option("checkpointLocation", str(one.checkpoint))
            .foreachBatch(functools.partial(self._write, one))
        )
        if self._is_once:
            return writer.trigger(availableNow=True).start()
        milliseconds = round(self._settings.trigger_s * 1000)
        return writer.trigger(processingTime=f"{milliseconds} milliseconds").start()

    def _write(self, one: _Started, frame: DataFrame, batch_id: int) -> None:
        """On a thread of Spark's, which waits."""
        try:
            self._write_batch(one, frame, batch_id)
        except Exception as error:
            one.error = error
            raise _WriteFailed(cause_of(error)) from None

    def _write_batch(self, one: _Started, frame: DataFrame, batch_id: int) -> None:
        query, checkpoint = one.query, Checkpoint(str(one.checkpoint))
        starts, end = checkpoint.starts(batch_id).offsets, checkpoint.offsets(batch_id)
        ends = end.offsets
        query_id = checkpoint.query_id()
        commit = LakeCommit(query_id, batch_id, offset_ranges(starts, ends))
        batch = Batch(
            settings=self._settings,
            group=one.progress.group,
            query=query,
            query_id=query_id,
            batch_id=batch_id,
            starts=starts,
            ends=ends,
            topic_ids=end.topic_ids,
            lake=self._lake,
            commit=self._replacing(commit),
        )
        # State must not be computed once for each output: that costs, and Spark does not promise
        # that it comes out the same.
        is_cached = len(query.topics) + len(query.tables) > 1
        if is_cached:
            frame.persist()
        try:
            query.write(frame, batch)
            if query.topics:
                self._write_topics(batch)
        finally:
            if is_cached:
                frame.unpersist()

    def _replacing(self, commit: LakeCommit) -> Commit:
        if self._replay is None:
            return commit
        return ReplayCommit(
            commit,
            lambda name: self._lake.table(name).last_batch(commit.query_id) is not None,
        )

    def _write_topics(self, batch: Batch) -> None:
        assert batch.topic_frames, f"query {batch.query.name} wrote to none of its topics"
        options = {
            "kafka.bootstrap.servers": self._settings.bootstrap,
            "kafka.transactional.id": batch.group,
            "kafka.group.id": batch.group,
            "kafka.transaction.timeout.ms": str(_TRANSACTION_MS),
        }
        write_batch(
            functools.reduce(DataFrame.unionByName, batch.topic_frames),
            options,
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            offsets=batch.ends,
        )

    # -- beside the queries -------------------------------------------------------------------

    def _create_topics(self) -> None:
        names = {
            self._settings.output_topic(name): _OF_THE_BROKER
            for one in self._queries
            for name in one.query.topics
        }
        given = GivenOptions(
            {"kafka.bootstrap.servers": self._settings.bootstrap}, CONNECTION_OPTIONS
        )
        with Connection.parse(given).cluster() as cluster:
            there = cluster.topics(names)
            create_topics(cluster, {name: names[name] for name in names if name not in there})

    def _tell_lag(self, one: _Started) -> None:
        """What a run before may have died without telling."""
        checkpoint = Checkpoint(str(one.checkpoint))
        last = checkpoint.last_committed()
        if last is not None and not one.query.topics:
            self._lag.commit(one.progress.group, checkpoint.offsets(last).offsets)

    def _upkeep(self, *, is_last: bool) -> None:
        for one in self._queries:
            if one.query.upkeep is not None:
                one.query.upkeep(is_last)
        self._upkept_s = time.monotonic()

    def _finished_batch(self, one: _Started, batch: BatchProgress) -> None:
        one.progress.add(batch)
        self._written(one)
        if not self._has_result:
            self._has_result = True
            self._on_stage("first result")
        self._on_batch(batch)

    def _written(self, one: _Started) -> None:
        with self._lock:
            self._folder.write(one.progress)

    def _fail(self, failed: _Started | None, error: Exception) -> NoReturn:
        self.stop()
        cause = cause_of(error)
        if failed is not None:
            failed.progress.state, failed.progress.error = "failed", cause
            self._written(failed)
        details = "".join(traceback.format_exception(error))
        raise JobFailed(failed.query.name if failed else None, cause, details) from error


def start_patiently(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Waits until the query has planned a batch, or has ended. Spark gives the Python process of a
    source ten seconds to come up, which cannot be set: several at once on few cores take longer,
    and one alone may on a busy machine, so then it is started again."""
    for attempt in range(1, _START_ATTEMPTS + 1):
        try:
            handle = start()
        except Exception as error:
            if _SLOW_PYTHON not in str(error) or attempt == _START_ATTEMPTS:
                raise
            continue
        while handle.isActive and handle.status["message"].startswith(_BEFORE_A_BATCH):
            time.sleep(0.02)
        failure = None if handle.isActive else handle.exception()
        if failure is None or _SLOW_PYTHON not in str(failure):
            break
    return handle


def source_options(
    job_name: str, query: Query, settings: Settings, replay: Replay | None
) -> dict[str, str]:
    """Of the data source. What the user has set for it wins."""
    options = {
        "kafka.bootstrap.servers": settings.bootstrap,
        "kafka.client.id": f"ottla-pipeline-{job_name}-{query.name}",
        "columns": ",".join(query.columns),
    }
    if settings.topic_pattern is not None:
        options["subscribePattern"] = settings.topic_pattern
    else:
        options["subscribe"] = ",".join(settings.topics)
    starting = settings.starting if replay is None else str(replay.from_ms)
    if query.starting_offsets is not None:
        options["startingOffsets"] = query.starting_offsets()
    elif starting.isdecimal():
        options["startingTimestamp"] = starting
        options["startingOffsetsByTimestampStrategy"] = "latest"
    else:
        options["startingOffsets"] = starting
    if settings.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(settings.max_offsets_per_trigger)
    return {**options, **settings.source}


class _Watcher(QueryWatcher):
    """Hands on what Spark tells about batches. Owned by a JobRun."""

    def __init__(
        self,
        queries: Mapping[str, _Started],
        on_batch: Callable[[_Started, BatchProgress], None],
    ) -> None:
        super().__init__()
        self._queries = queries
        self._on_batch = on_batch

    def on_progress(self, said: dict[str, Any]) -> None:
        one = self._queries.get(said.get("name") or "")
        # While nothing comes Spark repeats the batch before, without rows.
        if one is not None and "addBatch" in said["durationMs"]:
            self._on_batch(one, BatchProgress.parse(said))
