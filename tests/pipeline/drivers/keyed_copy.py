"""A driver of a process of its own: a topic to another by key, exactly once, as far as there is
something to read.

Arguments: WAY BOOTSTRAP FROM TO FOLDER. WAY is `stream`, by the writer of a stream, or `batch`, by
foreachBatch.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from ottla.pipeline.run.session import new_session
from ottla.pipeline.sink.checkpoint import Checkpoint
from ottla.pipeline.sink.placement import placed
from ottla.pipeline.sink.sink import write_batch

ROWS_A_BATCH = 200


def main(way: str, bootstrap: str, source: str, target: str, place: str) -> None:
    folder = Path(place)
    spark = new_session("keyed-copy", master="local[2]", folder=folder / "spark")
    location = str(folder / "checkpoint")
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": target,
        "kafka.transactional.id": f"copy-to-{target}",
    }
    frame = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(ROWS_A_BATCH))
        .option("columns", "key,value")
        .load()
    )

    def write(rows: DataFrame, batch_id: int) -> None:
        checkpoint = Checkpoint(location)
        query_id, ends = checkpoint.query_id(), checkpoint.offsets(batch_id).offsets
        write_batch(rows, options, query_id=query_id, batch_id=batch_id, offsets=ends)

    if way == "batch":
        writer = frame.writeStream.foreachBatch(write)
    else:
        writer = placed(frame, options).writeStream.format("ottla").options(**options)
    query = writer.option("checkpointLocation", location).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:6])
