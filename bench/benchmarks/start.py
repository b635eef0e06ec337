"""From spawning the process to the first metadata answer, on a folder that has a topic."""

from __future__ import annotations

import statistics
import time

from bench import process, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker

_SETTLE_S = 2.0


class Start:
    """Measures a broker of its own, the run's stays up: `fresh` makes it."""

    name = "start"
    needs_java = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker.sibling()
        self._times = 1 if setting.effort.is_quick else 3

    def prepare(self) -> None:
        self._broker.start()
        self._topic = topics.create(self._broker, "start")
        self._broker.stop()

    def measure(self) -> Measures:
        elapsed_s, idle_bytes = [], []
        for _ in range(self._times):
            begin_s = time.perf_counter()
            self._broker.spawn()
            self._broker.wait_for_topic(self._topic)
            elapsed_s.append(time.perf_counter() - begin_s)
            time.sleep(_SETTLE_S)
            idle_bytes.append(process.pss_bytes(self._broker.pid))
            self._broker.stop()
        return {
            "start_s": statistics.median(elapsed_s),
            "memory_idle_mb": statistics.median(idle_bytes) / 1e6,
        }

    def clean_up(self) -> None:
        self._broker.stop()
