"""The broker's CPU for one request among 1,000 partitions or connections, divided by the same
among one.

One request is in flight in all, so that the work of a request is the same and only what lies
around it grows. (With all connections busy at once a broker answers many requests for one wake-up,
and the quotient would show how it batches, not how it scales.)
"""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker

MANY = 1000
_ACTIVE_PARTITIONS = 5
_BATCHES_AN_ACTIVE_PARTITION = 4000


class Scaling:
    """A produce goes to each partition in turn; a fetch is one of a session over all partitions,
    five of which have data."""

    name = "scaling"
    needs_java = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._effort = setting.effort

    def prepare(self) -> None:
        self._topics = {
            partitions: topics.create(self._broker, "scaling", partitions)
            for partitions in (1, MANY)
        }

    def measure(self) -> Measures:
        measures: Measures = {}
        one = self._produce_cpu_us(connections=1, partitions=1)
        measures["produce_1000_partitions"] = self._produce_cpu_us(1, MANY) / one
        measures["produce_1000_connections"] = self._produce_cpu_us(MANY, 1) / one
        fetch_one, fetch_many = self._fetch_cpu_us(1), self._fetch_cpu_us(MANY)
        measures["fetch_1000_partitions"] = fetch_many / fetch_one
        measures["produce_1_us"] = one
        measures["fetch_1_us"] = fetch_one
        return measures

    def _produce_cpu_us(self, connections: int, partitions: int) -> float:
        report = client.run_python(
            "sync_producer",
            self._broker.address,
            self._broker.pid,
            self._topics[partitions],
            connections,
            partitions,
            self._effort.seconds(1.0),
            self._effort.seconds(5.0),
        )
        return client.spent(report).cpu_us

    def _fetch_cpu_us(self, partitions: int) -> float:
        """Over a topic of its own, because the other partitions must have no data."""
        active = min(_ACTIVE_PARTITIONS, partitions)
        batches = self._effort.count(_ACTIVE_PARTITIONS * _BATCHES_AN_ACTIVE_PARTITION) // active
        with topics.temporary(self._broker, "session", partitions) as topic:
            report = client.run_python(
                "session_fetcher",
                self._broker.address,
                self._broker.pid,
                topic,
                partitions,
                active,
                batches,
                self._effort.seconds(8.0),
            )
        return client.spent(report).cpu_us

    def clean_up(self) -> None:
        for topic in self._topics.values():
            topics.delete(self._broker, topic)
