"""From spawning the process to the first metadata answer; what it takes of memory then."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from bench import groups, process, start_parts, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker
from bench.start_parts import Answered

_SETTLE_S = 2.0


class Start:
    """Measures brokers of its own, the run's stays up: one that has a topic, and new ones on empty
    data dirs. The latter also make the 50 partitions that keep the offsets of groups."""

    name = "start"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker.sibling()
        self._times = 1 if setting.effort.is_quick else 3

    def prepare(self) -> None:
        self._broker.start()
        self._topic = topics.create(self._broker, "start")
        self._broker.stop()

    def measure(self) -> Measures:
        found = [self._with_topic() | self._on_empty_dir() for _ in range(self._times)]
        return {key: statistics.median(each[key] for each in found) for key in found[0]}

    def clean_up(self) -> None:
        self._broker.stop()

    def _with_topic(self) -> Measures:
        broker = self._broker
        answered = _start(broker, lambda: broker.wait_for_topic(self._topic))
        time.sleep(_SETTLE_S)
        idle_bytes = process.pss_bytes(broker.pid)
        broker.stop()
        return {"start_s": answered.elapsed_s, "memory_idle_mb": idle_bytes / 1e6}

    def _on_empty_dir(self) -> Measures:
        broker = self._broker.sibling()
        broker.make_folder_ready()
        broker.tells_start_parts = True
        try:
            answered = _start(broker, broker.wait_until_it_answers)
            groups.wait_for_coordinator(broker, "start", "none")
            process.settle(broker.pid)
            measures = {
                "start_empty_s": answered.elapsed_s,
                "start_empty_cpu_s": answered.cpu_s,
                "memory_shards_mb": process.pss_bytes(broker.pid) / 1e6,
            }
            return measures | _parts(broker, answered)
        finally:
            broker.stop()


def _start(broker: Broker, wait: Callable[[], None]) -> Answered:
    begin_s = time.perf_counter()
    broker.spawn()
    wait()
    elapsed_s = time.perf_counter() - begin_s
    return Answered(elapsed_s, process.exact_cpu_s(broker.pid), time.time())


def _parts(broker: Broker, answered: Answered) -> Measures:
    output = broker.start_parts_output()
    if output is None:
        return {}
    measures: Measures = {}
    for part in start_parts.parts(output, answered):
        measures[f"start_part: {part.name}"] = part.elapsed_ms
        measures[f"start_part: {part.name}.cpu"] = part.cpu_ms
    for package, elapsed_ms in start_parts.imports().items():
        measures[f"start_import: {package}"] = elapsed_ms
    return measures
