"""Apache Kafka's ProducerPerformance: 100 B with acks=1, and 1 KB with the client's defaults."""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker
from bench.process import PeakMemory

COUNT_100B = 4_000_000
COUNT_1KB = 600_000


class JavaProduce:
    """acks=1 switches idempotence off, as it does for any user; the 1 KB run has Java's defaults,
    acks=all and idempotence. The memory under load is the peak of the 100 B run."""

    name = "java_produce"
    needs_java = True
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._count_100b = setting.effort.count(COUNT_100B)
        self._count_1kb = setting.effort.count(COUNT_1KB)

    def prepare(self) -> None:
        pass

    def measure(self) -> Measures:
        broker = self._broker
        with topics.temporary(broker, "java-100b") as topic, PeakMemory(broker.pid) as memory:
            small = client.java_produce(broker, topic, self._count_100b, 100, {"acks": "1"})
            topics.check_end_offset(broker, topic, self._count_100b)
        with topics.temporary(broker, "java-1kb") as topic:
            big = client.java_produce(broker, topic, self._count_1kb, 1024, {"acks": "all"})
            topics.check_end_offset(broker, topic, self._count_1kb)
        return {
            "java_produce_100b": small.rate / 1e3,
            "java_produce_100b.cpu": small.cpu_us,
            "memory_load_mb": memory.bytes / 1e6,
            "java_produce_1kb": big.rate * 1024 / 1e6,
            "java_produce_1kb.cpu": big.cpu_us,
        }

    def clean_up(self) -> None:
        pass
