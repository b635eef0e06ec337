"""The logs pipeline: log lines of many services in one table, and how many of them are errors.
docs/pipelines/logs.md has the definitions. What needs Spark is imported when a query starts: to
describe a pipeline takes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.pipeline.jobs.job import Batch, Job, Query, Settings
from ottla.pipeline.jobs.keyed_records import iso, keyed_records
from ottla.pipeline.jobs.log_lines import ERROR
from ottla.pipeline.kept_imports import keep_imports
from ottla.pipeline.lake import dead_letters

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

LINES_TABLE = "logs"
RATES_TABLE = "logs_error_rates"
RATES_TOPIC = "logs-error-rates"

_SOURCE = ("topic", "partition", "offset")


def parsed(rows: DataFrame, names: Sequence[str] | None = None) -> DataFrame:
    """A row for each record: of these columns (without names: of all), and `reason`, which is
    null where the line is whole. Where it is not, nothing of the line is there."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from ottla.pipeline.jobs import log_columns

    if names is None:
        names = (*log_columns.LINES.names, *log_columns.RECORD.names)
    parse = partial(_parsed_batches, names=tuple(names))
    return rows.mapInArrow(parse, from_arrow_schema(log_columns.schema(names)))


def _parsed_batches(
    batches: Iterator[pa.RecordBatch], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    from ottla.pipeline.jobs import log_columns

    for batch in batches:
        yield log_columns.parsed(batch, names)
    keep_imports()


def lines(whole: DataFrame) -> DataFrame:
    """The table of lines."""
    from pyspark.sql import functions as F

    from ottla.pipeline.jobs import log_columns

    return whole.select(*log_columns.LINES.names, *_SOURCE, F.to_date("time").alias("day"))


def error_rates(parsed: DataFrame, watermark: str) -> DataFrame:
    """One row for each minute and service that has lines, when it is final."""
    from pyspark.sql import functions as F

    is_error = F.col("level").eqNullSafe(ERROR)
    return (
        parsed.where("reason is null")
        .withWatermark("time", watermark)
        .groupBy(F.window("time", "1 minute").alias("span"), "service")
        .agg(F.count("*").alias("lines"), F.count_if(is_error).alias("errors"))
        .select(
            F.col("span.start").alias("minute"),
            "service",
            "lines",
            "errors",
            (F.col("errors") / F.col("lines")).alias("rate"),
            F.to_date("span.start").alias("day"),
        )
    )


def rate_records(rates: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return keyed_records(rates.drop("day"), F.col("service"), iso("minute"))


def write_lines(frame: DataFrame, batch: Batch) -> None:
    whole, broken = dead_letters.split(frame)
    batch.lake.table(LINES_TABLE).append(
        lines(whole), batch.commit, partition_by=("day", "service")
    )
    dead_letters.append(batch.lake, broken, batch.commit, query="logs.lines")


def write_rates(frame: DataFrame, batch: Batch) -> None:
    batch.lake.table(RATES_TABLE).append(frame, batch.commit, partition_by=("day",))
    batch.to_topic(rate_records(frame), RATES_TOPIC, key="key", value="value")


def queries(settings: Settings) -> list[Query]:
    return [
        Query(
            name="lines",
            summary="every line in one table, and the broken ones with the reason",
            mode="append",
            transform=parsed,
            write=write_lines,
            tables=(LINES_TABLE, dead_letters.TABLE),
        ),
        Query(
            name="error-rates",
            summary="lines and errors a minute and service",
            mode="append",
            transform=lambda rows: error_rates(
                parsed(rows, ("time", "service", "level")), settings.watermark
            ),
            write=write_rates,
            topics=(RATES_TOPIC,),
            tables=(RATES_TABLE,),
            columns=("key", "value", "timestamp"),
        ),
    ]


JOB = Job(
    name="logs",
    summary="Log lines of many services in one lake table, and the rate of their errors.",
    default_topics=("logs",),
    queries=queries,
)
