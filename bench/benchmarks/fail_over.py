"""kill -9 of a leader: how long a producer waits."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, Message, Producer

from bench import topics
from bench.benchmark import Measures, Setting
from bench.broker import BenchError, Broker
from bench.cluster import REPLICATED

_PARTITIONS = 3
_BEFORE_S = 2.0
_PATIENCE_S = 60.0
_INTERVAL_S = 0.01


class FailOver:
    """The controller stays. The producer is librdkafka with its defaults, a record every 10 ms; the
    time is from the kill to the first acknowledgement of a record that came after it."""

    name = "fail_over"
    needs_java = False
    has_cluster = True

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._cluster = broker.cluster(3)

    def prepare(self) -> None:
        self._cluster.start()

    def measure(self) -> Measures:
        cluster = self._cluster
        with topics.temporary(cluster, "fail-over", _PARTITIONS, 3, REPLICATED) as topic:
            cluster.wait_until_in_sync(topic)
            may_go = cluster.without_controller()
            partitions = cluster.running()[0].metadata(topic).partitions
            partition, leader_id = next(
                (index, found.leader)
                for index, found in partitions.items()
                if found.leader in may_go
            )
            leader = cluster.nodes[leader_id]
            waited_s = _SteadyProducer(cluster.address, topic, partition).run(leader)
            leader.start()
            cluster.wait_for_brokers(cluster.nodes)
            cluster.wait_until_in_sync(topic)
        return {"fail_over_s": waited_s}

    def clean_up(self) -> None:
        self._cluster.discard()


class _SteadyProducer:
    def __init__(self, address: str, topic: str, partition: int) -> None:
        self._producer = Producer({"bootstrap.servers": address, "log_level": 0})
        self._topic = topic
        self._partition = partition
        self._acknowledged = 0
        self._first_after_s: float | None = None
        self._killed_s: float | None = None

    def run(self, leader: Broker) -> float:
        self._send_until(time.perf_counter() + _BEFORE_S)
        if not self._acknowledged:
            raise BenchError("nothing was acknowledged before the kill")
        leader.kill()
        self._killed_s = time.perf_counter()
        self._send_until(self._killed_s + _PATIENCE_S)
        if self._first_after_s is None:
            raise BenchError(f"nothing was acknowledged within {_PATIENCE_S:.0f} s of the kill")
        self._producer.flush(_PATIENCE_S)
        return self._first_after_s - self._killed_s

    def _send_until(self, deadline_s: float) -> None:
        while time.perf_counter() < deadline_s and self._first_after_s is None:
            is_after = self._killed_s is not None

            def delivered(error: KafkaError | None, _: Message, is_after: bool = is_after) -> None:
                if error is None:
                    self._acknowledged += 1
                    if is_after and self._first_after_s is None:
                        self._first_after_s = time.perf_counter()

            self._producer.produce(
                self._topic, b"x" * 100, partition=self._partition, on_delivery=delivered
            )
            self._producer.poll(_INTERVAL_S)
