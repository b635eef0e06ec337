"""How long one produce request takes, one at a time on one connection."""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker


class SyncLatency:
    name = "sync_latency"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._warm_up_s = setting.effort.seconds(1.0)
        self._seconds = setting.effort.seconds(8.0)

    def prepare(self) -> None:
        pass

    def measure(self) -> Measures:
        broker = self._broker
        with topics.temporary(broker, "sync") as topic:
            report = client.run_python(
                "sync_producer",
                broker.address,
                broker.pid,
                topic,
                1,
                1,
                self._warm_up_s,
                self._seconds,
            )
        return {
            "sync_p50_us": report["p50_us"],
            "sync_p50_us.cpu": client.spent(report).cpu_us,
            "sync_p99_us": report["p99_us"],
            "sync_p999_us": report["p999_us"],
        }

    def clean_up(self) -> None:
        pass
