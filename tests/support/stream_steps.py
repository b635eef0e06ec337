"""A streaming query that is given rows step by step, with event times of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession


class StreamSteps:
    """Each step is a run of the query, over one checkpoint, until it has read what there is."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        schema: str,
        transform: Callable[[DataFrame], DataFrame],
    ) -> None:
        self._spark = spark
        self._input = folder / "input"
        self._input.mkdir()
        self._checkpoint = folder / "checkpoint"
        self._schema = schema
        self._transform = transform
        self._count = 0

    def given(self, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
        """What comes out when these rows have come in: with their batch, and the one after it,
        which knows of the watermark that they have moved."""
        self._count += 1
        text = "\n".join(json.dumps(row) for row in rows)
        (self._input / f"{self._count}.json").write_text(text)
        found: list[Row] = []
        query = (
            self._transform(self._spark.readStream.schema(self._schema).json(str(self._input)))
            .writeStream.outputMode("append")
            .option("checkpointLocation", str(self._checkpoint))
            .foreachBatch(lambda frame, _: found.extend(frame.collect()))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return found
