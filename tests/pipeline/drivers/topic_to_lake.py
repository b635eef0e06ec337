"""A driver of a process of its own: a topic to a table of the lake, as far as there is something to
read. At a point that was named it kills the JVM and itself, the way a crash would.

Arguments: BOOTSTRAP TOPIC FOLDER POINT. Prints the id of the JVM's process when it begins.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.jobs.job import offset_ranges
from ottla.pipeline.lake.lake import Lake, LakeCommit
from ottla.pipeline.lake.table import LakeTable
from ottla.pipeline.run.session import new_session
from ottla.pipeline.sink.checkpoint import Checkpoint

ROWS_A_BATCH = 200
LET_PASS = 1
"""The crash is at the second batch of a run: so there is one before it that must stay."""


def main(bootstrap: str, topic: str, folder: Path, point: str) -> None:
    spark = new_session("topic-to-lake", master="local[2]", folder=folder / "spark")
    jvm = process_of(spark)
    crash = Crash(jvm)
    arm(point, folder, crash)
    print(jvm, flush=True)

    def write(frame: DataFrame, batch_id: int) -> None:
        checkpoint = Checkpoint(str(folder / "checkpoint"))
        starts, ends = checkpoint.starts(batch_id).offsets, checkpoint.offsets(batch_id).offsets
        commit = LakeCommit(checkpoint.query_id(), batch_id, offset_ranges(starts, ends))
        rows = frame.selectExpr("*", "offset % 2 AS odd")
        Lake(folder / "lake").table("records").append(rows, commit, partition_by=["odd"])
        if point == "between":
            crash()

    query = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(ROWS_A_BATCH))
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def process_of(spark: SparkSession) -> int:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


class Crash:
    """Of the driver and its JVM, at the second time that it is called."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self._passed = 0

    def __call__(self) -> None:
        if self._passed >= LET_PASS:
            self.now()
        self._passed += 1

    def now(self) -> NoReturn:
        os.kill(self._jvm, signal.SIGKILL)
        os._exit(1)


def arm(point: str, folder: Path, crash: Crash) -> None:
    if point in ("before", "after"):
        LakeTable._add = at(point, LakeTable._add, crash)  # type: ignore[method-assign]
    if point == "offsets":
        begun = len(list((folder / "checkpoint" / "offsets").glob("[0-9]*")))
        threading.Thread(
            target=wait_for_offsets, args=(folder, begun + LET_PASS, crash), daemon=True
        ).start()


def at(point: str, function: Callable[..., Any], crash: Crash) -> Callable[..., Any]:
    def patched(*args: Any, **options: Any) -> Any:
        if point == "before":
            crash()
        answer = function(*args, **options)
        if point == "after":
            crash()
        return answer

    return patched


def wait_for_offsets(folder: Path, batch_id: int, crash: Crash) -> None:
    """Spark writes the file under another name, and then renames it."""
    while True:
        offsets = folder / "checkpoint" / "offsets"
        if any(offsets.glob(f".{batch_id}.*")) or (offsets / str(batch_id)).exists():
            crash.now()
        time.sleep(0.0005)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
