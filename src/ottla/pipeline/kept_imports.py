"""What a Python worker of Spark's has imported stays as long as the worker."""

from __future__ import annotations

import functools
import gc


def keep_imports() -> None:
    """At the end of a task, when it has imported all that tasks need. Spark has a worker collect
    garbage after every task, and all of that is looked at again: measured, 30 to 50 ms of work.
    Elsewhere than in a task it does nothing."""
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        _freeze()


@functools.cache
def _freeze() -> None:
    """Once in a worker: later tasks import nothing, and their own garbage must not stay."""
    gc.collect()
    gc.freeze()
