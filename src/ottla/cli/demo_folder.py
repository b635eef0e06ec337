"""Temporary folders of the demo. One that is killed leaves them, and the next one removes them."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_PREFIX = "ottla-demo-"
_LOCK = "lock"


class DemoFolder:
    """From its making to `remove`. Owned by one process, which has its lock as long as it lives: a
    folder whose lock is free is of one that was killed, and goes when the next one is made."""

    def __init__(self, kind: str) -> None:
        _remove_left(Path(tempfile.gettempdir()))
        self.path = tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-")
        lock = os.path.join(self.path, _LOCK)
        # Python hands it to no child: one that outlives this process for a moment must not have it.
        self._lock = os.open(f"{lock}.new", os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # Only now others see it.
        os.rename(f"{lock}.new", lock)

    def remove(self, timeout_s: float) -> None:
        """A child that was killed may write for a moment until it is gone. May be called again."""
        deadline_s = time.monotonic() + timeout_s
        while os.path.exists(self.path):
            shutil.rmtree(self.path, ignore_errors=True)
            if time.monotonic() > deadline_s:
                break
            time.sleep(0.02)
        lock, self._lock = self._lock, -1
        with suppress(OSError):
            os.close(lock)


def _remove_left(temporary: Path) -> None:
    for lock in temporary.glob(f"{_PREFIX}*/{_LOCK}"):
        # It is of another user, or was removed just now.
        with suppress(OSError):
            found = lock.parent.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            with open(lock, "r+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
