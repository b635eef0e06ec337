from __future__ import annotations

import json
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.jobs.keyed_records import iso, keyed_records


def test_a_key_names_the_row_and_the_value_has_all_of_it(spark: SparkSession) -> None:
    at = datetime(2026, 1, 1, 0, 0, 30, 500_000, UTC)
    frame = spark.createDataFrame([("cart", at, 3)], "service string, minute timestamp, lines long")
    ((key, value),) = keyed_records(frame, F.col("service"), iso("minute")).collect()
    assert key == "cart 2026-01-01T00:00:30.500Z"
    assert json.loads(value) == {
        "service": "cart",
        "minute": "2026-01-01T00:00:30.500Z",
        "lines": 3,
    }
