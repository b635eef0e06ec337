"""Spark's log, `spark.log`. Several processes write to it: Java's logger, what Java and its Python
workers print, and the driver. All of them only append, so whoever empties it disturbs nobody. Were
it renamed, those that have it open would go on writing where nobody looks, and without a bound.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from threading import Event

_BYTES_MAX = 10 << 20
_EVERY_S = 10.0


class SharedLog:
    """Kept small by the process that started Java. A crash leaves the file as it is."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def keep_small(self, has_ended: Event) -> None:
        """Until then."""
        while not has_ended.wait(_EVERY_S):
            self.roll_if_large()

    def roll_if_large(self) -> None:
        """What was in it is in `spark.log.1` then. A line that comes in between may be lost. A disk
        that fails is no reason to fail."""
        with suppress(OSError):
            if self._path.stat().st_size >= _BYTES_MAX:
                shutil.copyfile(self._path, self._path.with_name(f"{self._path.name}.1"))
                os.truncate(self._path, 0)
