"""The activity pipeline: what visitors of a site do, as traffic, sessions and rankings.
docs/pipelines/activity.md has the definitions.

Every query reads and parses all records, so there are as few as answers of different kinds allow:
what is kept as it came, what comes again when it has changed (by window, and by day and subject),
and what comes once when it is final.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

from ottla.pipeline.jobs.job import Batch, Job, Query, Settings
from ottla.pipeline.jobs.keyed_records import iso, keyed_records
from ottla.pipeline.lake import dead_letters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENTS_TABLE = "activity"
TRAFFIC_TABLE, TRAFFIC_TOPIC = "activity_traffic", "activity-traffic"
SESSIONS_TABLE, SESSIONS_TOPIC = "activity_sessions", "activity-sessions"
SUBJECTS_TABLE = "activity_subjects"
TOP_TABLE, TOP_TOPIC = "activity_top", "activity-top"

_NEEDED = ("value", "timestamp")
_SOURCE = ("topic", "partition", "offset")
_PLACE = "day date, kind string, rank int, subject string, count long"


# What needs Spark is imported when a query starts: to describe a pipeline takes none.


def events(rows: DataFrame) -> DataFrame:
    from ottla.pipeline.jobs.activity_records import parsed

    return parsed(rows)


def traffic(rows: DataFrame, watermark: str) -> DataFrame:
    from ottla.pipeline.jobs import activity_answers
    from ottla.pipeline.jobs.activity_records import actions

    return activity_answers.traffic(actions(rows), watermark)


def sessions(rows: DataFrame, watermark: str) -> DataFrame:
    from ottla.pipeline.jobs import activity_answers
    from ottla.pipeline.jobs.activity_records import actions

    return activity_answers.sessions(actions(rows), watermark)


def subjects(rows: DataFrame, watermark: str) -> DataFrame:
    from ottla.pipeline.jobs import activity_answers
    from ottla.pipeline.jobs.activity_records import actions

    return activity_answers.subjects(actions(rows), watermark)


def write_events(frame: DataFrame, batch: Batch) -> None:
    from pyspark.sql import functions as F

    from ottla.pipeline.jobs.activity_records import FIELDS

    whole, broken = dead_letters.split(frame)
    batch.lake.table(EVENTS_TABLE).append(
        whole.select(*FIELDS, *_SOURCE, F.to_date("time").alias("day")),
        batch.commit,
        partition_by=("day",),
    )
    dead_letters.append(batch.lake, broken, batch.commit, query="activity.events")


def write_traffic(frame: DataFrame, batch: Batch) -> None:
    from pyspark.sql import functions as F

    batch.lake.table(TRAFFIC_TABLE).upsert(
        frame.withColumn("day", F.to_date("start")),
        batch.commit,
        keys=("day", "window", "start"),
        partition_by=("day",),
    )
    batch.to_topic(keyed_records(frame, F.col("window"), iso("start")), TRAFFIC_TOPIC, **_RECORD)


def write_sessions(frame: DataFrame, batch: Batch) -> None:
    from pyspark.sql import functions as F

    batch.lake.table(SESSIONS_TABLE).append(
        frame.withColumn("day", F.to_date("start")), batch.commit, partition_by=("day",)
    )
    batch.to_topic(keyed_records(frame, F.col("user"), iso("start")), SESSIONS_TOPIC, **_RECORD)


def write_top(frame: DataFrame, batch: Batch) -> None:
    """Ranked from the table, which has the subjects that this batch did not see, too. A batch that
    is run again finds the table as it left it, so it writes the same ranking."""
    import pyarrow.compute as pc

    from ottla.pipeline.jobs import activity_top

    table = batch.lake.table(SUBJECTS_TABLE)
    table.upsert(frame, batch.commit, keys=("day", "kind", "subject"), partition_by=("day",))
    days = [row.day for row in frame.select("day").distinct().collect()]
    ranking: list[activity_top.Place] = []
    if days:
        counts = table.delta().to_pyarrow_dataset()
        of_days = counts.to_batches(list(activity_top.COLUMNS), filter=pc.field("day").isin(days))
        ranking.extend(activity_top.places(of_days))
    spark = frame.sparkSession
    batch.lake.table(TOP_TABLE).upsert(
        spark.createDataFrame([astuple(place) for place in ranking], _PLACE),
        batch.commit,
        keys=("day", "kind", "rank"),
        partition_by=("day",),
    )
    records = list(activity_top.records(ranking))
    batch.to_topic(spark.createDataFrame(records, "key string, value string"), TOP_TOPIC, **_RECORD)


_RECORD = {"key": "key", "value": "value"}


def queries(settings: Settings) -> list[Query]:
    """Traffic first: the first query starts alone, and page views are what people look for."""
    watermark = settings.watermark
    return [
        Query(
            name="traffic",
            summary="page views and visitors of a minute and of a day, as they change",
            mode="update",
            transform=lambda rows: traffic(rows, watermark),
            write=write_traffic,
            topics=(TRAFFIC_TOPIC,),
            tables=(TRAFFIC_TABLE,),
            columns=_NEEDED,
        ),
        Query(
            name="events",
            summary="every record in one table, and the broken ones with the reason",
            mode="append",
            transform=events,
            write=write_events,
            tables=(EVENTS_TABLE, dead_letters.TABLE),
        ),
        Query(
            name="sessions",
            summary="sessions of users, when they have ended",
            mode="append",
            transform=lambda rows: sessions(rows, watermark),
            write=write_sessions,
            topics=(SESSIONS_TOPIC,),
            tables=(SESSIONS_TABLE,),
            columns=_NEEDED,
        ),
        Query(
            name="top",
            summary="top pages and top searches of a day, as they change",
            mode="update",
            transform=lambda rows: subjects(rows, watermark),
            write=write_top,
            topics=(TOP_TOPIC,),
            tables=(SUBJECTS_TABLE, TOP_TABLE),
            columns=_NEEDED,
        ),
    ]


JOB = Job(
    name="activity",
    summary="Page views, searches and clicks: traffic, visitors, sessions, top pages and searches.",
    default_topics=("activity",),
    queries=queries,
)
