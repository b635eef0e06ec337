"""A broker that was away: how fast it fetches what it has missed."""

from __future__ import annotations

import time

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import BenchError, Broker
from bench.cluster import REPLICATED

_PARTITIONS = 3
_RECORD_BYTES = 1024
_PATIENCE_S = 120.0
_POLL_S = 0.01


class FollowerCatchUp:
    """Stopped in order, then started again once the others have the records. The time is that from
    the first new bytes in its logs to the last ones: how long it takes to start is another row."""

    name = "follower_catch_up"
    needs_java = False
    has_cluster = True

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._cluster = broker.cluster(3)
        self._count = setting.effort.count(600_000)

    def prepare(self) -> None:
        self._cluster.start()

    def measure(self) -> Measures:
        cluster = self._cluster
        with topics.temporary(cluster, "catch-up", _PARTITIONS, 3, REPLICATED) as topic:
            # Some records are there before, so that the logs are.
            self._produce(topic, 1000)
            cluster.wait_until_in_sync(topic)
            away = cluster.nodes[cluster.without_controller()[0]]
            away.stop()
            self._produce(topic, self._count)
            expected_bytes = _log_bytes(cluster.running()[0], topic)
            away.spawn()
            rate = _catch_up_rate(away, topic, expected_bytes)
            cluster.wait_for_brokers(cluster.nodes)
            cluster.wait_until_in_sync(topic)
        return {"catch_up_mb": rate / 1e6}

    def _produce(self, topic: str, count: int) -> None:
        common = (self._cluster.address, self._cluster.pids_text)
        client.run_python("rdkafka_producer", *common, topic, count, _RECORD_BYTES)

    def clean_up(self) -> None:
        self._cluster.discard()


def _catch_up_rate(away: Broker, topic: str, expected_bytes: int) -> float:
    """Bytes a second."""
    first_bytes = _log_bytes(away, topic)
    deadline_s = time.perf_counter() + _PATIENCE_S
    while (begin_bytes := _log_bytes(away, topic)) <= first_bytes:
        _pause(deadline_s)
    begin_s = time.perf_counter()
    while (end_bytes := _log_bytes(away, topic)) < expected_bytes:
        _pause(deadline_s)
    elapsed_s = time.perf_counter() - begin_s
    if begin_bytes >= expected_bytes:
        raise BenchError("it had caught up before anybody looked: there is too little to fetch")
    return (end_bytes - begin_bytes) / elapsed_s


def _pause(deadline_s: float) -> None:
    if time.perf_counter() > deadline_s:
        raise BenchError(f"the follower has not caught up within {_PATIENCE_S:.0f} s")
    time.sleep(_POLL_S)


def _log_bytes(node: Broker, topic: str) -> int:
    folders = [node.log_folder(topic, partition) for partition in range(_PARTITIONS)]
    return sum(path.stat().st_size for folder in folders for path in folder.glob("*.log"))
