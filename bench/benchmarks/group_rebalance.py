"""A group of 50 members over 200 partitions: until it is stable, and after one was killed."""

from __future__ import annotations

import itertools

from bench import client, groups, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker

MEMBERS = 50
PARTITIONS = 200

_numbers = itertools.count()


class GroupRebalance:
    """Raw members in one process, with heartbeats every 30 ms: what is left is the broker."""

    name = "group_rebalance"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker

    def prepare(self) -> None:
        pass

    def measure(self) -> Measures:
        with topics.temporary(self._broker, "rebalance", PARTITIONS) as topic:
            group = f"rebalance-{next(_numbers)}"
            groups.wait_for_coordinator(self._broker, group, topic)
            report = client.run_python(
                "group_members", self._broker.address, group, topic, MEMBERS, PARTITIONS
            )
        return {
            "group_start_ms": report["start_s"] * 1e3,
            "group_kill_ms": report["kill_s"] * 1e3,
        }

    def clean_up(self) -> None:
        pass
