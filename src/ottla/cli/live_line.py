"""The line that tells how fast it goes while a command writes or reads."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_LIVE_PERIOD_S = 1.0

Clock = Callable[[], float]


class LiveLine:
    """Rate so far, once a second on standard error: in place on a terminal, else a line each."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._is_terminal = sys.stderr.isatty()
        self._shown_s = clock()
        self._shown_records = 0

    def update(self, records: int, size_bytes: int, note: str = "") -> None:
        now_s = self._clock()
        elapsed_s = now_s - self._shown_s
        if elapsed_s < _LIVE_PERIOD_S:
            return
        rate = (records - self._shown_records) / elapsed_s
        text = (
            f"{records:>12,} records  {rate:>10,.0f}/s  {rate * size_bytes / 1e6:>8.1f} MB/s{note}"
        )
        self._shown_s, self._shown_records = now_s, records
        print(
            f"\r\x1b[K{text}" if self._is_terminal else text,
            file=sys.stderr,
            flush=True,
            end="" if self._is_terminal else "\n",
        )

    def clear(self) -> None:
        if self._is_terminal:
            print("\r\x1b[K", file=sys.stderr, end="", flush=True)
