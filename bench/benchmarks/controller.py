"""What the controller does with 1,000 partitions: creation, fail-over, controlled shutdown."""

from __future__ import annotations

import time

from bench import process, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker
from bench.cluster import REPLICATED, Cluster


class Controller:
    """Three brokers, three replicas. Creation counts until every broker names all leaders. A
    fail-over counts from kill -9 until no broker names the dead one as a leader, and so has the end
    of its session in it. A controlled shutdown counts from SIGTERM until the process has ended.
    Brokers that go are not the controller; the second one leads half of the partitions, since it
    has taken over some of the first."""

    name = "controller"
    needs_java = False
    has_cluster = True

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._cluster = broker.cluster(3)
        self._count = 1000

    def prepare(self) -> None:
        self._cluster.start()

    def measure(self) -> Measures:
        cluster, count = self._cluster, self._count
        begin_s = time.perf_counter()
        with topics.temporary(cluster, "many", count, 3, REPLICATED) as topic:
            created_s = time.perf_counter() - begin_s
            cluster.wait_until_in_sync(topic)
            process.settle(*cluster.pids)
            first_id, second_id = cluster.without_controller()
            failed_over_s = _fail_over(cluster, first_id, topic)
            cluster.nodes[first_id].start()
            self._wait_for_all(topic)
            begin_s = time.perf_counter()
            cluster.nodes[second_id].stop()
            shut_down_s = time.perf_counter() - begin_s
            cluster.nodes[second_id].start()
            self._wait_for_all(topic)
        return {
            "controller_create_s": created_s,
            "controller_fail_over_s": failed_over_s,
            "controller_shutdown_s": shut_down_s,
        }

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
