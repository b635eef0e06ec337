"""What a micro-batch costs, however small: through our data source and through Spark's own.

Arguments: ADDRESS FOLDER TOPIC=PARTITIONS...
Each topic has as many records a partition as there are batches.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from ottla.pipeline.run.session import new_session
from tools.spark_connector import class_path

_UNCOUNTED = 5
"""The first batches of a query plan, compile and connect."""
_PATIENCE_S = 120


def batch_ms(spark: SparkSession, format_name: str, address: str, topic: str, rows: int) -> float:
    """The median over the batches of one query, from the trigger to the end of the commit."""
    frame = (
        spark.readStream.format(format_name)
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(rows))
        .load()
    )
    with tempfile.TemporaryDirectory(prefix="checkpoint-") as checkpoint:
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(_PATIENCE_S):
            query.stop()
            raise TimeoutError(f"{format_name} did not read {topic} within {_PATIENCE_S} s")
    spent = [each.durationMs["triggerExecution"] for each in query.recentProgress]
    return statistics.median(spent[_UNCOUNTED:])


def main() -> None:
    address, folder, *topics = sys.argv[1:]
    spark = new_session(
        "bench",
        master="local[2]",
        settings={"spark.driver.extraClassPath": class_path()},
        folder=Path(folder),
    )
    report = {}
    for each in topics[:1] + topics:  # The first is not counted: whoever is first warms the JVM.
        topic, _, partitions = each.partition("=")
        for format_name in ("ottla", "kafka"):
            key = f"spark_batch_{partitions}_{format_name}"
            report[key] = batch_ms(spark, format_name, address, topic, int(partitions))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
