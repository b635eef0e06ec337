"""What Python has dropped and Java still keeps. Java has a frame for as long as Python has it, with
its plan and the files of its shuffles. Frames are in reference cycles, so they go when Python
collects: by itself after tens of thousands of new objects, which is hundreds of batches.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

_EVERY_S = 10.0


def freeze_imports() -> None:
    """For a process that does nothing else: collections no longer look at what is imported by now,
    which made each one take 70 ms."""
    gc.collect()
    gc.freeze()


class DriverGarbage:
    """Owned by a JobRun."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._collected_s = clock()

    def collect_if_due(self) -> None:
        if self._clock() - self._collected_s >= _EVERY_S:
            gc.collect()
            self._collected_s = self._clock()
