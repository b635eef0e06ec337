"""How throughput grows from one broker to two on this machine."""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker
from bench.cluster import Cluster

_PARTITIONS = 2
_RECORD_BYTES = 1024


class TwoBrokers:
    """librdkafka with its defaults, one replica: once with both partitions on one broker, once with
    one on each of two. The client takes its share of the processors."""

    name = "two_brokers"
    needs_java = False
    has_cluster = True

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._one, self._two = broker.cluster(1), broker.cluster(2)
        self._count = setting.effort.count(1_200_000)

    def prepare(self) -> None:
        for cluster in (self._one, self._two):
            cluster.start()
            self._produce(cluster)

    def measure(self) -> Measures:
        return {
            "brokers_1_mb": self._produce(self._one),
            "brokers_2_mb": self._produce(self._two),
        }

    def _produce(self, cluster: Cluster) -> float:
        """MB/s."""
        with topics.temporary(cluster, "grow", _PARTITIONS) as topic:
            common = (cluster.address, cluster.pids_text, topic)
            report = client.run_python("rdkafka_producer", *common, self._count, _RECORD_BYTES)
            topics.check_committed_end(cluster, topic, _PARTITIONS, self._count)
        return client.spent(report).rate * _RECORD_BYTES / 1e6

    def clean_up(self) -> None:
        for cluster in (self._one, self._two):
            cluster.discard()
