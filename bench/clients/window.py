"""What a client and the broker spent while a measurement ran, set-up left out."""

from __future__ import annotations

import time

from bench.process import cpu_s


def parse_pids(text: str) -> list[int]:
    """A cluster has several, with commas between them."""
    return [int(each) for each in text.split(",")]


class Window:
    """Opened right before the first measured request, closed right after the last answer."""

    def __init__(self, *broker_pids: int) -> None:
        self._broker_pids = broker_pids
        self._broker_cpu_s = cpu_s(*broker_pids)
        self._client_cpu_s = time.process_time()
        self._start_s = time.perf_counter()

    def close(self, count: int) -> dict[str, float]:
        elapsed_s = time.perf_counter() - self._start_s
        client_cpu_s = time.process_time() - self._client_cpu_s
        broker_cpu_s = cpu_s(*self._broker_pids) - self._broker_cpu_s
        return {
            "count": count,
            "elapsed_s": elapsed_s,
            "client_busy": client_cpu_s / elapsed_s,
            "broker_cpu_s": broker_cpu_s,
        }
