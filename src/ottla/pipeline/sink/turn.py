"""Where the rows of a task that have no key begin. This module needs Spark."""

from __future__ import annotations

from pyspark import TaskContext

_BATCH_ID = "streaming.sql.batchId"


def first_turn() -> int:
    """Another for each task, or all would write to the same partition at the same time; and for
    each batch of a stream, or one with few rows would write to the same partition for ever. A task
    that is run again has the same."""
    context = TaskContext.get()
    if context is None:
        return 0
    return context.partitionId() + int(context.getLocalProperty(_BATCH_ID) or 0)
