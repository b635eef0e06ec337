"""Load before anything is measured: a JVM that has compiled nothing yet is not what users run."""

from __future__ import annotations

import time

from bench import client, topics
from bench.broker import Broker
from bench.cluster import REPLICATED, Cluster

_RECORDS = 1_000_000


def warm_up(broker: Broker, seconds: float, *, with_java: bool) -> None:
    """All kinds of requests in turn, until the time is over. Both brokers get the same."""
    deadline = time.monotonic() + seconds
    common = (broker.address, broker.pid)
    while time.monotonic() < deadline:
        with topics.temporary(broker, "warm-up") as topic:
            if with_java:
                client.java_produce(broker, topic, _RECORDS, 100, {"acks": "1"})
                client.java_consume(broker, topic, _RECORDS)
            else:
                client.run_python("rdkafka_producer", *common, topic, _RECORDS, 100)
                client.run_python("rdkafka_consumer", *common, topic, _RECORDS)
            client.run_python("pipelined_producer", *common, topic, 16, 5, 0, 3)
            client.run_python("sync_producer", *common, topic, 1, 1, 0, 2)


def warm_up_cluster(cluster: Cluster, seconds: float) -> None:
    """Replicated records, until the time is over."""
    deadline = time.monotonic() + seconds
    with topics.temporary(cluster, "warm-up", 3, 3, REPLICATED) as topic:
        common = (cluster.address, cluster.pids_text, topic)
        while time.monotonic() < deadline:
            client.run_python("rdkafka_producer", *common, _RECORDS // 5, 100)
