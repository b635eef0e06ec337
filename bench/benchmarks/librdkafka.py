"""librdkafka, through confluent-kafka: 1 KB records out and in."""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker

_RECORD_BYTES = 1024


class Librdkafka:
    """Every round produces to a new topic and reads that topic back from the page cache."""

    name = "librdkafka"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._count = setting.effort.count(1_200_000)

    def prepare(self) -> None:
        pass

    def measure(self) -> Measures:
        broker, count = self._broker, self._count
        common = (broker.address, broker.pid)
        with topics.temporary(broker, "rdkafka") as topic:
            report = client.run_python("rdkafka_producer", *common, topic, count, _RECORD_BYTES)
            produced = client.spent(report)
            topics.check_end_offset(broker, topic, count)
            consumed = client.spent(client.run_python("rdkafka_consumer", *common, topic, count))
        return {
            "rdkafka_produce_1kb": produced.rate * _RECORD_BYTES / 1e6,
            "rdkafka_produce_1kb.cpu": produced.cpu_us,
            "rdkafka_consume_1kb": consumed.rate * _RECORD_BYTES / 1e6,
            "rdkafka_consume_1kb.cpu": consumed.cpu_us,
        }

    def clean_up(self) -> None:
        pass
