"""A program that a test ends and starts again."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_STOP_TIMEOUT_S = 60


class RestartableProcess:
    """Owned by a test, which ends it in one way or another. Runs from the beginning on."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(_STOP_TIMEOUT_S)
