"""Exactly once: read, work and write in one transaction.

What is written and how far was read are committed together, or not at all. A crash at any moment
leaves a transaction that nobody sees; whoever goes on aborts it, and begins where the last one that
was committed ended. Readers of what is written must ask for `read_committed`.

    ./ottla start                                      # in one terminal
    .venv/bin/python examples/exactly_once.py          # in another; again, to see that it goes on
    .venv/bin/python examples/exactly_once.py work     # works on for ever: kill it, start it again
"""

from __future__ import annotations

import os
import sys
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP: dict[str, Any] = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}
SOURCE = "payments"
TARGET = "receipts"
COUNT = 10


def create_topics() -> None:
    admin = AdminClient(BOOTSTRAP)
    wanted = [NewTopic(topic, num_partitions=3) for topic in (SOURCE, TARGET)]
    for future in admin.create_topics(wanted).values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def produce() -> None:
    producer = Producer({**BOOTSTRAP, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(SOURCE, key=f"customer-{number % 4}", value=str(number))
    producer.flush()


class Worker:
    """One of possibly many, each with a name of its own. It keeps the name when it is restarted:
    by it the broker knows whose transaction to abort, and whose partitions to hand back."""

    def __init__(self, name: str) -> None:
        self._producer = Producer({**BOOTSTRAP, "transactional.id": f"exactly-once-{name}"})
        self._producer.init_transactions()  # Aborts what a crash has left, before we read.
        self._consumer = Consumer(
            {
                **BOOTSTRAP,
                "group.id": "exactly-once",
                "group.instance.id": name,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,  # The transaction commits the offsets.
            }
        )
        self._consumer.subscribe([SOURCE])

    def work_once(self) -> int:
        """Returns how many payments it has worked on, all of them or none."""
        messages = self._consumer.consume(num_messages=10, timeout=0.5)
        if not messages:
            return 0
        self._producer.begin_transaction()
        try:
            for message in messages:
                self._work(message)
            self._producer.send_offsets_to_transaction(
                self._positions(),
                self._consumer.consumer_group_metadata(),  # Fences us if we lost our partitions.
            )
            self._producer.commit_transaction()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise  # Another one has our name: it is not ours to go on.
            self._producer.abort_transaction()
            self._rewind()
            return 0
        return len(messages)

    def _work(self, message: Message) -> None:
        if message.error():
            raise KafkaException(message.error())
        self._producer.produce(TARGET, key=message.key(), value=message.value())

    def _positions(self) -> list[TopicPartition]:
        positions = self._consumer.position(self._consumer.assignment())
        return [one for one in positions if one.offset >= 0]  # Where we have read something.

    def _rewind(self) -> None:
        """To where the last transaction that was committed ended."""
        for one in self._consumer.committed(self._consumer.assignment()):
            one.offset = one.offset if one.offset >= 0 else OFFSET_BEGINNING
            self._consumer.seek(one)

    def close(self) -> None:
        self._consumer.close()


def main() -> None:
    create_topics()
    worker = Worker("worker-1")
    if sys.argv[1:] == ["work"]:
        while True:
            worker.work_once()
    produce()
    done = 0
    while done < COUNT:
        done += worker.work_once()
    worker.close()
    print(f"{done} payments, each with exactly one receipt")


if __name__ == "__main__":
    main()
