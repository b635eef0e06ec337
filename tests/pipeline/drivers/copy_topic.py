"""A driver of a process of its own: a topic to another, exactly once, on any master.

Arguments: MASTER BOOTSTRAP FROM TO FOLDER. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ottla.pipeline.run.session import new_session
from ottla.pipeline.sink.placement import placed


def main(master: str, bootstrap: str, source: str, target: str, folder: Path) -> None:
    spark = new_session(
        "copy-topic",
        master=master,
        # As little as the workers of a test have.
        settings={"spark.driver.host": "127.0.0.1", "spark.executor.memory": "600m"},
        folder=folder,
    )
    read = {"kafka.bootstrap.servers": bootstrap, "subscribe": source}
    write = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": target,
        "kafka.transactional.id": f"copy-to-{target}",
    }
    rows = spark.read.format("ottla").options(**read).load()
    found = {"rows": rows.count()}
    stream = (
        spark.readStream.format("ottla")
        .options(**read)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", "150")
        .load()
    )
    query = (
        placed(stream.select("key", "value", "headers", "partition"), write)
        .writeStream.format("ottla")
        .options(**write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found["batches"] = sum(1 for one in query.recentProgress if one.numInputRows)
    found["executors"] = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5]))
