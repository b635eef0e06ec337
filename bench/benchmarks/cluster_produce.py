"""Three brokers, three replicas, acks=all: what producers get through."""

from __future__ import annotations

from collections.abc import Callable

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker
from bench.client import Spent
from bench.cluster import REPLICATED
from bench.process import PeakMemory
from bench.warm_up import warm_up_cluster

PARTITIONS = 3
COUNTS = {100: 1_500_000, 1024: 200_000}


class ClusterProduce:
    """ProducerPerformance and librdkafka with their defaults, which have acks=all; Java's also has
    idempotence. Memory is that of all brokers, the peak of all four runs."""

    name = "cluster_produce"
    needs_java = True
    has_cluster = True

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._cluster = broker.cluster(3)
        self._effort = setting.effort

    def prepare(self) -> None:
        self._cluster.start()
        warm_up_cluster(self._cluster, self._effort.seconds(30.0))

    def measure(self) -> Measures:
        measures: Measures = {}
        with PeakMemory(*self._cluster.pids) as memory:
            for name, produce in (("java", self._java), ("rdkafka", self._rdkafka)):
                small, large = (self._spent(name, produce, size) for size in COUNTS)
                measures |= {
                    f"cluster_{name}_100b": small.rate / 1e3,
                    f"cluster_{name}_100b.cpu": small.cpu_us,
                    f"cluster_{name}_1kb": large.rate * 1024 / 1e6,
                    f"cluster_{name}_1kb.cpu": large.cpu_us,
                }
        return {**measures, "cluster_memory_mb": memory.bytes / 1e6}

    def _spent(
        self, name: str, produce: Callable[[str, int, int], Spent], record_bytes: int
    ) -> Spent:
        count, cluster = self._effort.count(COUNTS[record_bytes]), self._cluster
        with topics.temporary(cluster, name, PARTITIONS, 3, REPLICATED) as topic:
            spent = produce(topic, count, record_bytes)
            topics.check_committed_end(cluster, topic, PARTITIONS, count)
        return spent

    def _java(self, topic: str, count: int, record_bytes: int) -> Spent:
        return client.java_produce(self._cluster, topic, count, record_bytes, {"acks": "all"})

    def _rdkafka(self, topic: str, count: int, record_bytes: int) -> Spent:
        common = (self._cluster.address, self._cluster.pids_text)
        report = client.run_python("rdkafka_producer", *common, topic, count, record_bytes)
        return client.spent(report)

    def clean_up(self) -> None:
        self._cluster.discard()
