"""The mirror: topics of one cluster in another, as they are, with their settings and the offsets of
their groups.

    ottla pipeline run mirror --bootstrap east:9092 --set target=west:9092 --set topics=orders

A micro-batch is one transaction in the target: the records of all partitions, and the offsets up to
which the source has been read. So both are there or neither, and how far a mirror is does not hang
on its checkpoint: without one it goes on from what the target says. Docs: docs/pipelines/mirror.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.pipeline.jobs.job import Batch, Job, JobOption, Query, Settings
from ottla.pipeline.source.given_options import (
    GivenOptions,
    OptionError,
    addresses,
    comma_separated,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from ottla.pipeline.jobs.mirror_run import MirrorRun

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    name: str
    target: str
    groups: str
    config_exclude: tuple[str, ...]
    compression: str
    sync_s: float

    @classmethod
    def parse(cls, settings: Settings) -> MirrorOptions:
        """Raises OptionError."""
        if not settings.topics and settings.topic_pattern is None:
            raise OptionError("topics", "is missing", "set it, or topic_pattern")
        # What is empty was not given.
        given = {name: value for name, value in settings.options.items() if value}
        options = GivenOptions(given, settings.options)
        options.required("target", addresses)
        return cls(
            name=options.required("name", _name),
            target=given["target"],
            groups=options.required("groups", _pattern),
            config_exclude=options.parsed("config_exclude", comma_separated) or (),
            compression=options.required("compression", _compression),
            sync_s=options.required("sync_seconds", _seconds),
        )


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,100}", text):
        raise ValueError("take letters, digits and . _ - for it")
    return text


def _pattern(text: str) -> str:
    try:
        return re.compile(text).pattern
    except re.error as error:
        raise ValueError(f"it is not a regular expression: {error}") from None


def _compression(text: str) -> str:
    if text not in _COMPRESSIONS:
        raise ValueError(f"set it to one of {', '.join(_COMPRESSIONS)}")
    return text


def _seconds(text: str) -> float:
    if not text.isdecimal():
        raise ValueError("set it to a number of seconds")
    return float(text)


class Mirror:
    """One run of the job. Speaks to the clusters when it is first asked for something that needs
    them: `describe` does not."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._options = MirrorOptions.parse(settings)

    def query(self) -> Query:
        return Query(
            name=self._options.name,
            summary=f"topics to {self._options.target}, and the offsets of their groups",
            mode="append",
            transform=self.transform,
            write=self.write,
            columns=_COLUMNS,
            starting_offsets=self.starting_offsets,
            upkeep=self.upkeep,
        )

    @cached_property
    def _run(self) -> MirrorRun:
        from ottla.pipeline.jobs.mirror_run import MirrorRun

        return MirrorRun(self._settings, self._options)

    def transform(self, rows: DataFrame) -> DataFrame:
        return mirrored(rows, self._run.source_id, self._run.target_id)

    def write(self, frame: DataFrame, batch: Batch) -> None:
        self._run.write(frame, batch)

    def starting_offsets(self) -> str:
        return self._run.starting_offsets()

    def upkeep(self, is_last: bool) -> None:
        self._run.upkeep(is_last)


def mirrored(rows: DataFrame, source_id: str, target_id: str) -> DataFrame:
    """As they are, each with one header more. Those that have been in the target before are left
    out. They stay in the tasks that have read them."""
    from pyspark.sql import functions as F

    from ottla.pipeline.jobs.mirror_hops import HEADER

    def was_there(header: Column) -> Column:
        is_target = F.startswith(header["value"].cast("string"), F.lit(f"{target_id}:"))
        return (header["key"] == HEADER) & is_target

    has_been = F.coalesce(F.exists("headers", was_there), F.lit(False))
    hop = F.struct(
        F.lit(HEADER).alias("key"),
        F.concat(F.lit(f"{source_id}:"), F.col("offset")).cast("binary").alias("value"),
    )
    headers = F.when(F.col("headers").isNull(), F.array(hop)).otherwise(
        F.concat("headers", F.array(hop))
    )
    return rows.where(~has_been).select(
        "topic", "partition", "key", "value", headers.alias("headers"), "timestamp"
    )


def queries(settings: Settings) -> Sequence[Query]:
    return [Mirror(settings).query()]


JOB = Job(
    name="mirror",
    summary="Topics of one cluster copied to another, exactly once, with their groups' offsets.",
    default_topics=(),
    queries=queries,
    # What takes a minute or so on a small machine: a transaction may take five.
    max_offsets_per_trigger=500_000,
    is_replayable=False,
    options=(
        JobOption("target", "", "host:port of the cluster that records are copied to"),
        JobOption("name", "mirror", "of this mirror; one that runs twice under a name is fenced"),
        JobOption("groups", ".*", "pattern of the groups whose offsets are translated"),
        JobOption("config_exclude", "", "settings of topics that are not copied, with commas"),
        JobOption("compression", "zstd", "of what is written: none, gzip, snappy, lz4 or zstd"),
        JobOption("sync_seconds", "10", "how often settings and offsets of groups are copied"),
    ),
)
