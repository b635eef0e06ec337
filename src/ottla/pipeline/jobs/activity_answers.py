"""The answers of the activity pipeline: pure functions from actions to rows. This module needs
Spark. docs/pipelines/activity.md has the definitions.

An action counts, however late, until the watermark has passed the end of its window or session;
then what is kept of that window or session goes."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline.jobs.activity_records import PAGE_VIEW, SEARCH

SESSION_GAP = "30 minutes"
MINUTE, DAY = "minute", "day"
PAGE, QUERY = "page", "search"

_WIDTHS_MS = {MINUTE: 60_000, DAY: 86_400_000}


def traffic(actions: DataFrame, watermark: str) -> DataFrame:
    """Page views and visitors by minute and by day: `window` says which, `start` when it begins.
    For update mode: a row comes again when it has changed.

    Visitors are counted exactly, so the state has their names: a set for each window, those of a
    minute until the watermark has passed the minute, those of a day until it has passed the day.
    Minutes and days are one query, since each query reads and parses all records."""
    views = actions.where(F.col("type") == PAGE_VIEW).withWatermark("time", watermark)
    # Spark compares the watermark with the column that says so. Its own windows say it, but they
    # are all of one width.
    of_time = views.schema["time"].metadata
    widths = F.create_map(*(F.lit(item) for pair in _WIDTHS_MS.items() for item in pair))
    views = views.select("time", "user", F.explode(widths).alias("window", "width_ms"))
    time_ms = F.unix_millis("time")
    start_ms = time_ms - F.pmod(time_ms, "width_ms")
    counts = (
        views.select(
            "user",
            "window",
            F.timestamp_millis(start_ms).alias("start"),
            F.timestamp_millis(start_ms + F.col("width_ms")).alias("end", metadata=of_time),
        )
        .groupBy("window", "start", "end")
        .agg(F.count("*").alias("page_views"), F.collect_set("user").alias("users"))
    )
    return counts.select("window", "start", "page_views", F.size("users").alias("visitors"))


def sessions(actions: DataFrame, watermark: str) -> DataFrame:
    """For append mode: a session comes once, when the watermark has passed the gap after its last
    action, so that nothing can belong to it any more."""
    window = F.session_window("time", SESSION_GAP)
    counts = (
        actions.withWatermark("time", watermark)
        .groupBy("user", window)
        .agg(
            F.count("*").alias("actions"),
            F.count_if(F.col("type") == PAGE_VIEW).alias("page_views"),
        )
    )
    return counts.select(
        "user",
        F.col("session_window.start").alias("start"),
        (F.col("session_window.end") - F.expr(f"interval {SESSION_GAP}")).alias("end"),
        "actions",
        "page_views",
    )


def subjects(actions: DataFrame, watermark: str) -> DataFrame:
    """How often each page was viewed and each query searched for on a day. For update mode."""
    kind = F.when(F.col("type") == PAGE_VIEW, PAGE).when(F.col("type") == SEARCH, QUERY)
    counts = (
        actions.withWatermark("time", watermark)
        .select("time", kind.alias("kind"), "subject")
        .where("kind is not null")
        .groupBy(F.window("time", "1 day"), "kind", "subject")
        .count()
    )
    return counts.select(F.to_date("window.start").alias("day"), "kind", "subject", "count")
