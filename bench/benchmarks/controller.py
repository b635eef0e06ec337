"""What the controller does with 1,000 and 10,000 partitions: creation, fail-over, reassignment,
controlled shutdown."""

from __future__ import annotations

import time

from bench import process, reassignments, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker
from bench.cluster import REPLICATED, Cluster

_COUNTS = {"": 1000, "_10k": 10_000}
"""By the end of the keys of their rows."""


class Controller:
    """Three brokers, three replicas. Creation counts until every broker names all leaders. A
    fail-over counts from kill -9 until no broker names the dead one as a leader, and so has the end
    of its session in it. Moved is a topic with two replicas, one of them to the third broker, until
    every broker names the new replicas and all are in sync. A controlled shutdown counts from
    SIGTERM until the process has ended. Brokers that go are not the controller; the second one
    leads half of the partitions, since it has taken over some of the first."""

    name = "controller"
    needs_java = False
    has_cluster = True

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._cluster = broker.cluster(3)
        self._counts = {end: setting.effort.count(count) for end, count in _COUNTS.items()}

    def prepare(self) -> None:
        self._cluster.start()

    def measure(self) -> Measures:
        measures: Measures = {}
        for end, count in self._counts.items():
            with topics.temporary(self._cluster, "moved", count, 2) as topic:
                self._cluster.wait_until_in_sync(topic)
                process.settle(*self._cluster.pids)
                measures[f"controller_move{end}_s"] = _move(self._cluster, topic)
            measures |= self._measure(end, count)
        return measures

    def _measure(self, end: str, count: int) -> Measures:
        cluster = self._cluster
        begin_s = time.perf_counter()
        with topics.temporary(cluster, "many", count, 3, REPLICATED) as topic:
            measures = {f"controller_create{end}_s": time.perf_counter() - begin_s}
            cluster.wait_until_in_sync(topic)
            process.settle(*cluster.pids)
            first_id, second_id = cluster.without_controller()
            measures[f"controller_fail_over{end}_s"] = _fail_over(cluster, first_id, topic)
            cluster.nodes[first_id].start()
            self._wait_for_all(topic)
            begin_s = time.perf_counter()
            cluster.nodes[second_id].stop()
            measures[f"controller_shutdown{end}_s"] = time.perf_counter() - begin_s
            cluster.nodes[second_id].start()
            self._wait_for_all(topic)
        return measures

    def _wait_for_all(self, topic: str) -> None:
        self._cluster.wait_for_brokers(self._cluster.nodes)
        self._cluster.wait_until_in_sync(topic)
        process.settle(*self._cluster.pids)

    def clean_up(self) -> None:
        self._cluster.discard()


def _fail_over(cluster: Cluster, broker_id: int, topic: str) -> float:
    cluster.nodes[broker_id].kill()
    begin_s = time.perf_counter()
    for node in cluster.running():

        def is_replaced(node: Broker = node) -> bool:
            partitions = node.metadata(topic).partitions.values()
            return bool(partitions) and all(
                each.leader not in (broker_id, -1) for each in partitions
            )

        node.wait_until(is_replaced, f"name other leaders than broker {broker_id}")
    return time.perf_counter() - begin_s


def _move(cluster: Cluster, topic: str) -> float:
    """The leaders stay where they are."""
    targets = {}
    for number, partition in cluster.running()[0].metadata(topic).partitions.items():
        (other,) = set(cluster.nodes).difference(partition.replicas)
        targets[number] = [partition.replicas[0], other]
    begin_s = time.perf_counter()
    reassignments.begin(cluster, topic, targets)
    for node in cluster.running():

        def is_moved(node: Broker = node) -> bool:
            partitions = node.metadata(topic).partitions
            return partitions.keys() == targets.keys() and all(
                sorted(partitions[number].replicas)
                == sorted(partitions[number].in_sync)
                == sorted(target)
                for number, target in targets.items()
            )

        node.wait_until(is_moved, f"have moved {topic}")
    return time.perf_counter() - begin_s
