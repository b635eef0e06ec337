"""Three brokers, three replicas: how long acks=all takes at 1,000 records a second."""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker
from bench.cluster import REPLICATED
from bench.warm_up import warm_up_cluster

_RATE = 1000


class ClusterLatency:
    name = "cluster_latency"
    needs_java = False
    has_cluster = True

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._cluster = broker.cluster(3)
        self._effort = setting.effort

    def prepare(self) -> None:
        self._cluster.start()
        warm_up_cluster(self._cluster, self._effort.seconds(30.0))

    def measure(self) -> Measures:
        cluster, seconds = self._cluster, self._effort.seconds
        with topics.temporary(cluster, "paced", 3, 3, REPLICATED) as topic:
            common = (cluster.address, cluster.pids_text, topic)
            times_s = (seconds(2.0), seconds(20.0))
            report = client.run_python("paced_producer", *common, _RATE, *times_s)
        return {
            "cluster_p50_us": report["p50_us"],
            "cluster_p50_us.cpu": client.spent(report).cpu_us,
            "cluster_p99_us": report["p99_us"],
        }

    def clean_up(self) -> None:
        self._cluster.discard()
