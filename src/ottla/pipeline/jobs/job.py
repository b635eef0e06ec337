"""What a pipeline is: a job with queries, and the settings that it is run with.

A job is a definition. It is made when its module is imported, knows no Spark session, and does
nothing by itself: `ottla.pipeline.run.runner` runs it. A query is a pure function from rows of the
source to rows of the result, and a function that writes the result of one micro-batch:

    def queries(settings: Settings) -> list[Query]:
        return [
            Query(
                name="traffic",
                summary="page views and visitors a minute",
                mode="update",
                transform=lambda rows: traffic(parsed(rows), settings.watermark),
                write=write_traffic,
                topics=("activity-traffic",),
                tables=("activity_traffic",),
            )
        ]

    def write_traffic(frame: DataFrame, batch: Batch) -> None:
        batch.lake.table("activity_traffic").upsert(frame, batch.commit, keys=("minute",))
        batch.to_topic(frame, "activity-traffic", key="minute")

    JOB = Job(name="activity", ..., queries=queries)

Each query has a checkpoint, and a consumer group that shows how far it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ottla.kernel.ids import TopicId, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ottla.pipeline.lake.lake import Lake
    from ottla.pipeline.lake.table import Commit

DEFAULT_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a job is run with: from flags, a file and defaults; see `run/settings.py`."""

    bootstrap: str
    folder: Path
    """Of this job, on the driver's machine: checkpoints/<query>, progress/<query>.json."""
    lake: str
    """The lake's root: a folder, or a URI."""
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    """Instead of topics."""
    output_prefix: str = ""
    """Before the name of every topic that is written."""
    group_prefix: str = "ottla-pipeline-"
    watermark: str = "3 minutes"
    """How late an event may come and still count. What `ottla generate` makes is up to 2 late."""
    starting: str = "earliest"
    """earliest, latest, or milliseconds since 1970. Counts when there is no checkpoint yet."""
    max_offsets_per_trigger: int | None = None
    trigger_s: float = 1.0
    """Between the beginnings of two batches, where a batch does not take longer."""
    master: str = "local[*]"
    spark: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings."""
    source: Mapping[str, str] = field(default_factory=dict)
    """More options for the data source, such as minPartitions."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the job itself: all that `Job.options` has, with what was set or the default."""

    def output_topic(self, name: str) -> str:
        """As it is called on the broker."""
        return self.output_prefix + name


@dataclass(frozen=True, slots=True)
class JobOption:
    """What can be set for one job only: [options] in its file, `--set name=value`."""

    name: str
    default: str
    help: str


@dataclass(frozen=True, slots=True)
class Query:
    """One streaming query of a job. `transform` is lazy and pure; `write` runs on the driver, once
    for each micro-batch, and again for one that was not finished when a driver died: what it
    writes through its Batch is there once all the same."""

    name: str
    summary: str
    mode: Literal["append", "update"]
    transform: Callable[[DataFrame], DataFrame]
    write: Callable[[DataFrame, Batch], None]
    topics: tuple[str, ...] = ()
    """What `write` gives to `Batch.to_topic`, without the prefix."""
    tables: tuple[str, ...] = ()
    """What it writes in the lake."""
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    """Those of the source that `transform` needs; fewer are quicker. There is headers, too."""
    starting_offsets: Callable[[], str] | None = None
    """Asked when the query starts, for the source's startingOffsets instead of `Settings.starting`:
    of a query whose outputs say where it goes on when there is no checkpoint."""
    upkeep: Callable[[bool], None] | None = None
    """What else a query sees to, with records or without. The runner calls it from its own thread,
    never in two at once: before the query starts, every second or so while it runs (False), and
    after it has ended without an error (True, the last time). It should return soon; what it raises
    ends the job."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    summary: str
    default_topics: tuple[str, ...]
    queries: Callable[[Settings], Sequence[Query]]
    """May raise ValueError for options that do not go together, with a text for the user. The first
    one is started first, and alone until it has its first result: the one that people wait for."""
    options: tuple[JobOption, ...] = ()
    max_offsets_per_trigger: int | None = None
    """By default. For a job whose first run may find more than fits a transaction."""
    is_replayable: bool = True
    """Not where what it writes says where it goes on."""


@dataclass(slots=True)
class Batch:
    """One micro-batch of a query, as its `write` sees it. Made by the runner, and thrown away when
    the batch is done. The same batch, after a crash, is made with the same ids and offsets."""

    settings: Settings
    group: str
    """The consumer group of the query."""
    query: Query
    query_id: str
    """From the checkpoint: a query whose checkpoint was deleted is another one."""
    batch_id: int
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, TopicId]
    """Of the topics that are read."""
    lake: Lake
    commit: Commit
    """For the writes to the lake."""
    topic_frames: list[DataFrame] = field(default_factory=list)
    """What was given to `to_topic`."""

    def to_topic(
        self, frame: DataFrame, name: str, *, key: str | None, value: str | None = None
    ) -> None:
        """Exactly once. `key` and `value` name columns (a string or binary is taken as it is, other
        types as their text); without `value` it is the JSON of all columns.

        All that a batch writes to topics is one transaction, together with the offsets that were
        read, so it is written when `write` has returned: what is cached should still be then (the
        frame that `write` was given is). Call it in every batch; the frame may be empty."""
        from pyspark.sql import functions as F

        assert name in self.query.topics, f"query {self.query.name} does not say it writes {name}"
        content = F.to_json(F.struct("*")) if value is None else F.col(value)
        self.topic_frames.append(
            frame.select(
                F.lit(self.settings.output_topic(name)).alias("topic"),
                _as_bytes(F.lit(None) if key is None else F.col(key)).alias("key"),
                _as_bytes(content).alias("value"),
            )
        )


def _as_bytes(column: Column) -> Column:
    # By way of the text, so that a number is its digits; bytes stay what they are.
    return column.cast("string").cast("binary")


def offset_ranges(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[str, dict[str, list[int | None]]]:
    """As JSON has them: {"clicks": {"0": [23, 42]}}. A checkpoint does not say where the first
    batch began, nor a partition that was added: then the start is null."""
    found: dict[str, dict[str, list[int | None]]] = {}
    for where in sorted(ends):
        offsets = [starts.get(where), ends[where]]
        found.setdefault(where.topic, {})[str(where.partition)] = offsets
    return found
