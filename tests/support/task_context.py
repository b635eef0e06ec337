"""What Spark tells a task of itself, where no Spark runs."""

from __future__ import annotations


class Context:
    """Of a batch of a stream, if there is one."""

    def __init__(self, task: int, *, attempt: int = 0, batch: int | None = None) -> None:
        self._properties = {} if batch is None else {"streaming.sql.batchId": str(batch)}
        self.partitionId = lambda: task
        self.attemptNumber = lambda: attempt
        self.getLocalProperty = self._properties.get
