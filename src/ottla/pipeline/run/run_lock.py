"""One run of a job at a time in one folder: two would write over each other's checkpoints."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import IO

_ATTEMPTS = 5
_PAUSE_S = 0.05


class AlreadyRunning(Exception):
    """Names the folder and the process that has it."""


class RunLock:
    """Held by a process while it runs the job, and given up when it ends, however that happens."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> RunLock:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+")
        if not _is_taken(file):
            file.close()
            holder = self._text()
            raise AlreadyRunning(
                f"process {holder or '?'} runs this job in {self._path.parent} already; stop it, "
                "or take another folder"
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._file = file
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None, "it is held"
        self._file.truncate(0)
        self._file.close()
        self._file = None

    def holder(self) -> int | None:
        """The process that runs the job now. None where there is none."""
        try:
            file = self._path.open()
        except FileNotFoundError:
            return None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(self._text() or 0)
        return None

    def _text(self) -> str:
        return self._path.read_text().strip()


def _is_taken(file: IO[str]) -> bool:
    """Not at once: whoever looks at who has it has it for an instant, too."""
    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE_S)
        else:
            return True
    return False
