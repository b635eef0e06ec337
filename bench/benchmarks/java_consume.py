"""Apache Kafka's consumer over 100 B records that its own producer wrote."""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker


class JavaConsume:
    """ConsumerPerformance wants a consumer group; AssignConsumer does the same work by assign(),
    for both brokers alike, so that the coordinator is not what is measured."""

    name = "java_consume"
    needs_java = True
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._count = setting.effort.count(6_000_000)

    def prepare(self) -> None:
        self._topic = topics.create(self._broker, "java-read")
        client.java_produce(self._broker, self._topic, self._count, 100, {"acks": "1"})

    def measure(self) -> Measures:
        spent = client.java_consume(self._broker, self._topic, self._count)
        return {"java_consume_100b": spent.rate / 1e3, "java_consume_100b.cpu": spent.cpu_us}

    def clean_up(self) -> None:
        topics.delete(self._broker, self._topic)
