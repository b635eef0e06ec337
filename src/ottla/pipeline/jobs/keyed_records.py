"""Results as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.pipeline.jobs.times import SPARK_ISO

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def keyed_records(frame: DataFrame, *key: Column) -> DataFrame:
    """The key names the row: by it, what comes again is known, and a compacted topic keeps the
    newest. The value is the JSON of all columns."""
    from pyspark.sql import functions as F

    return frame.select(
        F.concat_ws(" ", *key).alias("key"), F.to_json(F.struct("*")).alias("value")
    )


def iso(name: str) -> Column:
    """A time in a key, as the JSON of the value has it."""
    from pyspark.sql import functions as F

    return F.date_format(name, SPARK_ISO)
