"""A driver of a process of its own: reads a topic as a batch, and counts its values as a stream.

Arguments: BOOTSTRAP TOPIC FOLDER. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.run.session import new_session


def main(bootstrap: str, topic: str, folder: Path) -> None:
    spark = new_session("count-words", master="local[2]", folder=folder)
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    batch = spark.read.format("ottla").options(**options).load()
    stream = spark.readStream.format("ottla").options(**options).load()
    found = {
        "java_home": java_property(spark, "java.home"),
        "java_version": int(java_property(spark, "java.specification.version")),
        "rows": batch.count(),
        **counted(spark, stream, folder),
    }
    spark.stop()
    print(json.dumps(found))


def java_property(spark: SparkSession, name: str) -> str:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return str(jvm.java.lang.System.getProperty(name))


def counted(spark: SparkSession, rows: DataFrame, folder: Path) -> dict[str, object]:
    query = (
        rows.groupBy(rows.value.cast("string").alias("word"))
        .count()
        .writeStream.format("memory")
        .queryName("counted")
        .outputMode("complete")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    return {
        "counts": {row.word: row["count"] for row in spark.table("counted").collect()},
        "state_metrics": sorted(progress.stateOperators[0].customMetrics),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
