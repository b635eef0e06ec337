"""Where the time of a start goes: a line of the log, which `./ottla bench` reads too."""

from __future__ import annotations

import time


class StartTimes:
    """Owned by `ottla start`, until the broker is ready. Each part has its milliseconds, and those
    of them in which the process had the processor: the rest it waited for the disk, or for others.
    Of the first part, Python itself and all before this object was made, only the latter is known.
    """

    def __init__(self) -> None:
        self.began_s = self._passed_s = time.monotonic()
        self._cpu_s = time.process_time()
        self._parts = [_text("Python and command line", self._cpu_s, self._cpu_s)]

    def passed(self, part: str) -> None:
        """What was done since the last call."""
        now_s, cpu_s = time.monotonic(), time.process_time()
        self._parts.append(_text(part, now_s - self._passed_s, cpu_s - self._cpu_s))
        self._passed_s, self._cpu_s = now_s, cpu_s

    def __str__(self) -> str:
        return ", ".join(self._parts)


def _text(part: str, elapsed_s: float, cpu_s: float) -> str:
    return f"{part} {elapsed_s * 1000:.1f} ms (CPU {cpu_s * 1000:.1f})"
