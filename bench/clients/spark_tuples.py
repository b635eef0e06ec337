"""The usual Python way from Kafka into Spark and back: confluent-kafka, a tuple for each record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

_CONSUMED_AT_ONCE = 10_000


class TuplesSource(DataSource):
    """Made by Spark. Reads each partition of a topic up to the offset that the options name."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return (
            "key binary, value binary, topic string, partition int, offset bigint,"
            " timestamp bigint, timestampType int"
        )

    def reader(self, schema: object) -> TuplesReader:
        return TuplesReader(self.options)


class TuplesReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._address = options["address"]
        self._topic = options["topic"]
        self._ends: list[int] = json.loads(options["ends"])

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(len(self._ends))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        consumer = Consumer({"bootstrap.servers": self._address, "group.id": "tuples"})
        consumer.assign([TopicPartition(self._topic, partition.value, 0)])
        left = self._ends[partition.value]
        try:
            while left:
                for message in consumer.consume(min(left, _CONSUMED_AT_ONCE), 10):
                    kind, timestamp_ms = message.timestamp()
                    yield (
                        message.key(),
                        message.value(),
                        message.topic(),
                        message.partition(),
                        message.offset(),
                        timestamp_ms,
                        kind,
                    )
                    left -= 1
        finally:
            consumer.close()


def send_rows(address: str, topic: str, rows: Iterable[Row]) -> None:
    """In a task."""
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 50})
    for number, row in enumerate(rows):
        while True:
            try:
                producer.produce(topic, row.value, row.key)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    if left := producer.flush(120):
        raise TimeoutError(f"{left} records were not delivered")
