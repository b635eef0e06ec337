"""The broker's CPU for one request among 1,000 partitions or connections, divided by the same
among one.

One request is in flight in all, so that the work of a request is the same and only what lies
around it grows. (With all connections busy at once a broker answers many requests for one wake-up,
and the quotient would show how it batches, not how it scales.)
"""

from __future__ import annotations

from bench import client, process, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker

MANY = 1000
_ACTIVE_PARTITIONS = 5
_BATCHES = 40_000


class Scaling:
    """A produce goes to each partition in turn; a fetch is one of a session over all partitions,
    five of which have data. What is divided, and what by, are measured one after the other:
    a JVM gets quicker for minutes, and a quotient over that time would show just this."""

    name = "scaling"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._effort = setting.effort
        self._batches = setting.effort.count(_BATCHES)
        self._topics: list[str] = []

    def prepare(self) -> None:
        self._produce_topics = {count: self._create("produce", count) for count in (1, MANY)}
        self._fetch_topics = {count: self._create("fetch", count) for count in (1, MANY)}
        self._fill(self._fetch_topics[1], 1)
        self._fill(self._fetch_topics[MANY], _ACTIVE_PARTITIONS)
        # Not counted: the first time of each is for the JVM's compilers.
        self.measure()

    def measure(self) -> Measures:
        partitions_us = self._produce(connections=1, partitions=MANY)
        one_us = self._produce(connections=1, partitions=1)
        connections_us = self._produce(connections=MANY, partitions=1)
        fetch_us = self._fetch(MANY)
        fetch_one_us = self._fetch(1)
        return {
            "produce_1000_partitions": partitions_us / one_us,
            "produce_1000_connections": connections_us / one_us,
            "fetch_1000_partitions": fetch_us / fetch_one_us,
            "produce_1_us": one_us,
            "fetch_1_us": fetch_one_us,
        }

    def clean_up(self) -> None:
        for topic in self._topics:
            topics.delete(self._broker, topic)

    def _create(self, stem: str, partitions: int) -> str:
        topic = topics.create(self._broker, stem, partitions)
        self._topics.append(topic)
        return topic

    def _fill(self, topic: str, active: int) -> None:
        arguments = (self._broker.address, topic, active, self._batches // active, 1, 100)
        client.run(client.python_command("filler", *arguments))

    def _produce(self, *, connections: int, partitions: int) -> float:
        process.settle(self._broker.pid)
        topic = self._produce_topics[partitions]
        arguments = (self._broker.address, self._broker.pid, topic, connections, partitions)
        times = (self._effort.seconds(1.0), self._effort.seconds(5.0))
        return client.spent(client.run_python("sync_producer", *arguments, *times)).cpu_us

    def _fetch(self, partitions: int) -> float:
        process.settle(self._broker.pid)
        topic = self._fetch_topics[partitions]
        arguments = (self._broker.address, self._broker.pid, topic, partitions, self._batches)
        report = client.run_python("session_fetcher", *arguments, self._effort.seconds(6.0))
        return client.spent(report).cpu_us
