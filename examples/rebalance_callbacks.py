"""Rebalance callbacks: two consumers of one group hand partitions over in good order.

Each keeps a count for every partition that it owns. When a partition is revoked, the count and the
offset are put down before anyone else gets it; when it is lost (this consumer was thought dead, and
another has it already), nothing may be written any more.

    ./ottla start                                       # in one terminal
    .venv/bin/python examples/rebalance_callbacks.py    # in another
"""

from __future__ import annotations

import os
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP: dict[str, Any] = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}
TOPIC = "clicks"
PARTITION_COUNT = 4


class Counter:
    """Counts the records of the partitions that it owns just now."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: dict[int, int] = {}
        self._next_offsets: dict[int, int] = {}
        self._consumer = Consumer(
            {
                **BOOTSTRAP,
                "group.id": "rebalance-callbacks",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "cooperative-sticky",
            }
        )
        self._consumer.subscribe(
            [TOPIC],
            on_assign=self._assigned,
            on_revoke=self._revoked,
            on_lost=self._lost,
        )

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        print(f"{self.name} gets {numbers(partitions)}")
        self.counts.update({one.partition: 0 for one in partitions})

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        print(f"{self.name} gives up {numbers(partitions)}")
        self._commit([one.partition for one in partitions])
        for one in partitions:
            print(f"{self.name} counted {self.counts.pop(one.partition)} in {one.partition}")

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        print(f"{self.name} has lost {numbers(partitions)}")
        for one in partitions:
            del self.counts[one.partition]
            self._next_offsets.pop(one.partition, None)

    def poll(self) -> None:
        message = self._consumer.poll(0.1)
        if message is None:
            return
        if message.error():
            raise SystemExit(str(message.error()))
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.counts[partition] += 1
        self._next_offsets[partition] = offset + 1

    def _commit(self, partitions: list[int]) -> None:
        consumed = [
            TopicPartition(TOPIC, number, self._next_offsets.pop(number))
            for number in partitions
            if number in self._next_offsets
        ]
        if consumed:
            self._consumer.commit(offsets=consumed, asynchronous=False)

    def close(self) -> None:
        # In the callback it can be too late: the client may have left the group by then.
        self._commit(list(self._next_offsets))
        self._consumer.close()


def create_topic() -> None:
    admin = AdminClient(BOOTSTRAP)
    future = admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITION_COUNT)])[TOPIC]
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def numbers(partitions: list[TopicPartition]) -> list[int]:
    return sorted(one.partition for one in partitions)


def main() -> None:
    create_topic()
    producer = Producer(BOOTSTRAP)
    for number in range(20):
        producer.produce(TOPIC, value=f"click {number}", partition=number % PARTITION_COUNT)
    producer.flush()

    first = Counter("first")
    while sum(first.counts.values()) < 20:
        first.poll()
    second = Counter("second")
    while len(first.counts) != PARTITION_COUNT // 2 or len(second.counts) != PARTITION_COUNT // 2:
        first.poll()
        second.poll()
    first.close()
    while len(second.counts) < PARTITION_COUNT:
        second.poll()
    second.close()


if __name__ == "__main__":
    main()
