"""A job that is as small as one can be and has all there is: topics to topics and to the lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.pipeline.jobs.job import Batch, Job, JobOption, Query, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def queries(settings: Settings) -> Sequence[Query]:
    return [
        Query(
            name="loud",
            summary="every word in capitals",
            mode="append",
            transform=loud,
            write=write_loud,
            topics=("loud", "short"),
            tables=("words",),
            columns=("value",),
        ),
        Query(
            name="counts",
            summary="how often each word was said",
            mode="update",
            transform=lambda rows: (
                rows.selectExpr("cast(value as string) word").groupBy("word").count()
            ),
            write=write_counts,
            tables=("counts",),
            columns=("value",),
        ),
    ]


def loud(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("cast(value as string) word", "upper(cast(value as string)) loud")


def write_loud(frame: DataFrame, batch: Batch) -> None:
    batch.lake.table("words").append(frame, batch.commit)
    batch.to_topic(frame, "loud", key="word", value="loud")
    batch.to_topic(frame.where("length(word) < 3"), "short", key=None)


def write_counts(frame: DataFrame, batch: Batch) -> None:
    if batch.settings.options["fail_at"] == str(batch.batch_id):
        raise ValueError("told to fail")
    batch.lake.table("counts").upsert(frame, batch.commit, keys=["word"])


JOB = Job(
    name="tiny",
    summary="Words, loud and counted.",
    default_topics=("words",),
    queries=queries,
    options=(JobOption("fail_at", "", "the batch at which counts fails"),),
)
