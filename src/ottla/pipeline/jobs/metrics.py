"""The metrics pipeline: what hosts measure, in windows of 10 s, 1 min and 1 h, and alarms by rules.
docs/pipelines/metrics.md has the definitions. What needs Spark is imported when a query starts: to
describe a pipeline takes none.

Windows of all three lengths come out of one aggregation, so that a record is read and parsed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipeline.jobs.alarms import RULES, WINDOWS_S, Rule, read_rules
from ottla.pipeline.jobs.job import Batch, Job, JobOption, Query, Settings
from ottla.pipeline.jobs.keyed_records import iso, keyed_records
from ottla.pipeline.kept_imports import keep_imports
from ottla.pipeline.lake import dead_letters

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

WINDOWS_TABLE = "metrics"
ALARMS_TABLE = "metrics_alarms"
ALARMS_TOPIC = "metrics-alarms"

SKETCH_K = 800
"""Of the KLL sketches. Up to so many values a sketch keeps them all, and percentiles are exact;
beyond, RANK_ERROR is what the authors of DataSketches have measured for it, with a confidence of
99 %. It has at most 20 kB then."""
RANK_ERROR = 0.0035


def samples(rows: DataFrame) -> DataFrame:
    """(time, host, metric, value) of the records that are whole."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from ottla.pipeline.jobs.metric_samples import SAMPLES

    return rows.select("value", "timestamp").mapInArrow(_whole, from_arrow_schema(SAMPLES))


def broken(rows: DataFrame) -> DataFrame:
    """The records that are not, with the reason."""
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([*rows.schema, StructField("reason", StringType())])
    return rows.mapInArrow(_broken, schema)


# By name, so that Spark's Python workers import them.
def _whole(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from ottla.pipeline.jobs import metric_samples

    yield from map(metric_samples.whole, batches)
    keep_imports()


def _broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from ottla.pipeline.jobs import metric_samples

    yield from map(metric_samples.broken, batches)
    keep_imports()


def windows(samples: DataFrame, watermark: str) -> DataFrame:
    """One row for each window of each metric of each host, when it is final."""
    from pyspark.sql import functions as F

    samples = samples.withWatermark("time", watermark)
    spans = F.array(*(_span(name, length_s) for name, length_s in WINDOWS_S.items()))
    # Spark knows a window's place in time by what the column of the time says of its watermark.
    # explode() forgets that, so it is said again.
    by_time = samples.schema["time"].metadata
    return (
        samples.select("host", "metric", "value", F.explode(spans).alias("one"))
        .select(
            "host",
            "metric",
            "value",
            F.col("one.window_length").alias("window_length"),
            F.col("one.span").alias("span", metadata=by_time),
        )
        .groupBy("span", "window_length", "host", "metric")
        .agg(
            F.count("value").alias("count"),
            F.min("value").alias("min"),
            F.max("value").alias("max"),
            F.avg("value").alias("mean"),
            F.kll_sketch_agg_double("value", SKETCH_K).alias("sketch"),
        )
        .select(
            "window_length",
            F.col("span.start").alias("window_start"),
            F.col("span.end").alias("window_end"),
            *("host", "metric", "count", "min", "max", "mean"),
            percentile("sketch", 50).alias("p50"),
            percentile("sketch", 99).alias("p99"),
            "sketch",
            F.to_date("span.start").alias("day"),
        )
    )


def _span(name: str, length_s: int) -> Column:
    """The window that a time is in, as Spark's own window() has it."""
    from pyspark.sql import functions as F

    seconds = F.unix_seconds("time")
    start = seconds - F.pmod(seconds, F.lit(length_s))
    span = F.struct(
        F.timestamp_seconds(start).alias("start"),
        F.timestamp_seconds(start + length_s).alias("end"),
    )
    return F.struct(F.lit(name).alias("window_length"), span.alias("span"))


def percentile(sketch: str, percent: int) -> Column:
    """By nearest rank, of a column of sketches."""
    from pyspark.sql import functions as F

    return F.kll_sketch_get_quantile_double(sketch, F.lit(percent / 100))


def alarms(windows: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """One row for each window and rule whose threshold it is beyond."""
    from pyspark.sql import functions as F

    found = F.array(*(_alarm(rule) for rule in rules)) if rules else F.expr(_NO_ALARM)
    return windows.select("*", F.explode(F.array_compact(found)).alias("alarm")).select(
        "alarm.*", "host", "metric", "window_length", "window_start", "window_end", "day"
    )


_NO_ALARM = (
    "cast(array() as array<struct<rule: string, aggregate: string, value: double, "
    "threshold: double, is_above: boolean>>)"
)


def _alarm(rule: Rule) -> Column:
    """Null where there is none."""
    from pyspark.sql import functions as F

    value = F.col(rule.aggregate).cast("double")
    is_beyond = value > rule.threshold if rule.is_above else value < rule.threshold
    is_named = F.col("host").like(like_of(rule.host))
    is_its = (F.col("metric") == rule.metric) & (F.col("window_length") == rule.window)
    return F.when(
        is_its & is_named & is_beyond,
        F.struct(
            F.lit(rule.name).alias("rule"),
            F.lit(rule.aggregate).alias("aggregate"),
            value.alias("value"),
            F.lit(rule.threshold).alias("threshold"),
            F.lit(rule.is_above).alias("is_above"),
        ),
    )


def like_of(pattern: str) -> str:
    """A pattern of hosts as SQL's LIKE has it."""
    escaped = "".join(f"\\{one}" if one in "\\%_" else one for one in pattern)
    return escaped.replace("*", "%").replace("?", "_")


def alarm_records(alarms: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    key = (F.col("rule"), F.col("host"), iso("window_start"))
    return keyed_records(alarms.drop("day"), *key)


def write_windows(frame: DataFrame, batch: Batch, rules: Sequence[Rule]) -> None:
    lake, commit = batch.lake, batch.commit
    found = alarms(frame, rules)
    lake.table(WINDOWS_TABLE).append(frame, commit, partition_by=("window_length", "day"))
    lake.table(ALARMS_TABLE).append(found, commit, partition_by=("day",))
    batch.to_topic(alarm_records(found), ALARMS_TOPIC, key="key", value="value")


def write_broken(frame: DataFrame, batch: Batch) -> None:
    dead_letters.append(batch.lake, frame, batch.commit, query="metrics.dead-letters")


def rules_of(settings: Settings) -> tuple[Rule, ...]:
    path = settings.options["rules"]
    return read_rules(Path(path)) if path else RULES


def queries(settings: Settings) -> list[Query]:
    rules = rules_of(settings)
    return [
        Query(
            name="windows",
            summary="windows of 10 s, 1 min and 1 h, and their alarms",
            mode="append",
            transform=lambda rows: windows(samples(rows), settings.watermark),
            write=lambda frame, batch: write_windows(frame, batch, rules),
            topics=(ALARMS_TOPIC,),
            tables=(WINDOWS_TABLE, ALARMS_TABLE),
            columns=("value", "timestamp"),
        ),
        Query(
            name="dead-letters",
            summary="records that are no metrics",
            mode="append",
            transform=broken,
            write=write_broken,
            tables=(dead_letters.TABLE,),
        ),
    ]


JOB = Job(
    name="metrics",
    summary="Metrics of hosts in windows of 10 s, 1 min and 1 h, and alarms by rules.",
    default_topics=("metrics",),
    queries=queries,
    options=(
        JobOption("rules", "", "A TOML file of rules for alarms; docs/pipelines/metrics.md."),
    ),
)
