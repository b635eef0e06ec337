"""A broker with 1,000,000 committed offsets: how long it loads them, and a produce meanwhile and
after."""

from __future__ import annotations

import time

from bench import client, groups, topics
from bench.benchmark import Measures, Setting
from bench.broker import BenchError, Broker

PARTITIONS = 200
GROUPS = 5000
_PROBED_GROUPS = 500
"""Enough to meet each of the 50 partitions of the coordinator."""


class OffsetsLoad:
    """A broker of its own, which is stopped and started."""

    name = "offsets_load"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker.sibling()
        self._group_count = setting.effort.count(GROUPS)
        self._seconds = setting.effort.seconds(8.0)

    def prepare(self) -> None:
        self._broker.start()
        self._topic = topics.create(self._broker, "offsets", PARTITIONS)
        self._produced = topics.create(self._broker, "produced")
        groups.wait_for_coordinator(self._broker, "group-0", self._topic)
        client.run_python(
            "offset_filler", self._broker.address, self._topic, self._group_count, PARTITIONS
        )
        self._broker.stop()

    def measure(self) -> Measures:
        broker = self._broker
        broker.spawn()
        broker.wait_for_topic(self._produced)
        begin_s = time.perf_counter()
        with client.Running("sync_producer", *self._producer_arguments(0.0, 600.0)) as meanwhile:
            for number in range(min(_PROBED_GROUPS, self._group_count)):
                found = groups.wait_for_coordinator(broker, f"group-{number}", self._topic)
                if found != number:
                    raise BenchError(f"group-{number} is at {found}, where {number} was committed")
            load_s = time.perf_counter() - begin_s
            meanwhile.finish()
            loading = meanwhile.report(60.0)
        after = client.run_python("sync_producer", *self._producer_arguments(1.0, self._seconds))
        broker.stop()
        return {
            "offsets_load_s": load_s,
            "loading_p99_us": loading["p99_us"],
            "loaded_p999_us": after["p999_us"],
        }

    def _producer_arguments(self, warm_up_s: float, seconds: float) -> tuple[object, ...]:
        broker = self._broker
        return (broker.address, broker.pid, self._produced, 1, 1, warm_up_s, seconds)

    def clean_up(self) -> None:
        self._broker.stop()
