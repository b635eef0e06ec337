"""Rows in and out of Spark: through our data source, through Spark's own connector as it comes and
tuned, and through confluent-kafka.

Arguments: ADDRESS TOPIC PARTITIONS RECORDS OUT_TOPIC FOLDER CORES
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.clients.spark_tuples import TuplesSource, send_rows
from ottla.pipeline.run.session import new_session
from ottla.pipeline.sink.placement import placed
from tools.spark_connector import class_path

# What a user finds in guides for large reads and writes; more of either changed nothing.
_TUNED_IN = {
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(16 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
}
_TUNED_OUT = {
    "kafka.batch.size": str(1024 * 1024),
    "kafka.linger.ms": "50",
    "kafka.buffer.memory": str(128 * 1024 * 1024),
}
_TIMED = 2
_STREAM_BATCHES = 5
_STREAMS_UNTIMED = 3
_PATIENCE_S = 120
_TUPLES_SHARE = 5
"""Of the rows, for what is many times slower."""


class Rows:
    """One Spark, one topic to read and one to write to."""

    def __init__(self, spark: SparkSession, arguments: list[str]) -> None:
        self._spark = spark
        self._address, self._topic, partitions, records, self._out_topic, *_ = arguments
        self._partitions = int(partitions)
        self._records = int(records)

    def rows_in(self) -> dict[str, float]:
        """Thousand rows a second."""
        spark, count = self._spark, self._records
        spark.dataSource.register(TuplesSource)
        few = count // _TUPLES_SHARE
        return {
            "spark_in_ottla": self._rate(count, lambda: _drain(self._read("ottla"))),
            "spark_in_jvm": self._rate(count, lambda: _drain(self._read("kafka"))),
            "spark_in_tuned": self._rate(count, lambda: _drain(self._read("kafka", **_TUNED_IN))),
            "spark_in_tuples": self._rate(few, lambda: _drain(self._tuples(few))),
            "spark_in_value_ottla": self._rate(
                count, lambda: _drain(self._read("ottla", columns="value"))
            ),
            "spark_in_value_tuned": self._rate(
                count, lambda: _drain(self._read("kafka", **_TUNED_IN).select("value"))
            ),
        }

    def rows_in_ottla(self) -> float:
        return self._rate(self._records, lambda: _drain(self._read("ottla")))

    def rows_out(self) -> dict[str, float]:
        count = self._records
        few = count // _TUPLES_SHARE
        return {
            "spark_out_ottla": self._rate(count, lambda: self._write("ottla", count)),
            "spark_out_jvm": self._rate(count, lambda: self._write("kafka", count)),
            "spark_out_tuned": self._rate(count, lambda: self._write("kafka", count, **_TUNED_OUT)),
            "spark_out_tuples": self._rate(few, lambda: self._send_tuples(few)),
        }

    def rows_streamed(self) -> dict[str, float]:
        """From topic to topic, in a few large batches. In turn, since a JVM gets faster for
        minutes; the first of each kind are not counted."""
        rates: dict[str, list[float]] = {"spark_plain": [], "spark_once": []}
        plain = {"kafka.bootstrap.servers": self._address, "topic": self._out_topic}
        for _ in range(_STREAMS_UNTIMED + _TIMED):
            once = {**plain, "kafka.transactional.id": f"bench-{uuid.uuid4()}"}
            rows = self._stream()
            rates["spark_plain"].append(self._streamed(rows, plain))
            rates["spark_once"].append(self._streamed(placed(rows, once), once))
        return {name: statistics.mean(found[_STREAMS_UNTIMED:]) for name, found in rates.items()}

    # -- inside --------------------------------------------------------------------------------

    def _rate(self, count: int, work: Callable[[], None]) -> float:
        work()  # Classes are loaded, code is compiled, workers are there.
        began_s = time.monotonic()
        for _ in range(_TIMED):
            work()
        return _TIMED * count / (time.monotonic() - began_s) / 1e3

    def _read(self, format_name: str, **options: str) -> DataFrame:
        reader = self._spark.read.format(format_name).options(**options)
        reader = reader.option("kafka.bootstrap.servers", self._address)
        return reader.option("subscribe", self._topic).load()

    def _stream(self) -> DataFrame:
        reader = self._spark.readStream.format("ottla").option("columns", "key,value")
        reader = reader.option("kafka.bootstrap.servers", self._address)
        reader = reader.option("maxOffsetsPerTrigger", str(self._records // _STREAM_BATCHES))
        return reader.option("subscribe", self._topic).option("startingOffsets", "earliest").load()

    def _streamed(self, rows: DataFrame, options: dict[str, str]) -> float:
        with tempfile.TemporaryDirectory(prefix="checkpoint-") as checkpoint:
            writer = rows.writeStream.format("ottla").options(**options)
            writer = writer.option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            if not query.awaitTermination(_PATIENCE_S):
                query.stop()
                raise TimeoutError(f"a stream did not end within {_PATIENCE_S} s")
        # The first one starts workers and compiles.
        batches = [each for each in query.recentProgress if each.numInputRows][1:]
        spent_ms = sum(each.durationMs["triggerExecution"] for each in batches)
        return sum(each.numInputRows for each in batches) / spent_ms

    def _tuples(self, count: int) -> DataFrame:
        ends = [count // self._partitions] * self._partitions
        reader = self._spark.read.format("tuples").option("address", self._address)
        return reader.option("topic", self._topic).option("ends", json.dumps(ends)).load()

    def _made(self, count: int) -> DataFrame:
        """Rows that cost little to make."""
        rows = self._spark.range(0, count, 1, self._partitions)
        return rows.selectExpr(
            "cast(lpad(id, 8, '0') as binary) as key", "cast(repeat('x', 92) as binary) as value"
        )

    def _write(self, format_name: str, count: int, **options: str) -> None:
        writer = self._made(count).write.format(format_name).mode("append").options(**options)
        writer = writer.option("kafka.bootstrap.servers", self._address)
        writer.option("topic", self._out_topic).save()

    def _send_tuples(self, count: int) -> None:
        self._made(count).foreachPartition(partial(send_rows, self._address, self._out_topic))


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def main() -> None:
    *_, folder, cores = sys.argv[1:]
    spark = new_session(
        "bench",
        master=f"local[{cores}]",
        settings={"spark.driver.extraClassPath": class_path()},
        folder=Path(folder),
    )
    rows = Rows(spark, sys.argv[1:])
    if cores == "1":
        report = {"spark_in_1_core": rows.rows_in_ottla()}
    else:
        report = {**rows.rows_in(), **rows.rows_out(), **rows.rows_streamed()}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
