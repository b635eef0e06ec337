"""At least once: commit after the work is done.

A crash between the work and the commit has the work done again, by whoever takes over. So the work
should bear being done twice; in return nothing is lost.

    ./ottla start                                  # in one terminal
    .venv/bin/python examples/at_least_once.py     # in another; again, to see that it goes on
"""

from __future__ import annotations

import os
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP: dict[str, Any] = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}
TOPIC = "orders"
COUNT = 10


def create_topic() -> None:
    admin = AdminClient(BOOTSTRAP)
    future = admin.create_topics([NewTopic(TOPIC, num_partitions=3)])[TOPIC]
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def produce() -> None:
    create_topic()
    producer = Producer({**BOOTSTRAP, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(TOPIC, key=f"customer-{number % 4}", value=str(number))
    producer.flush()


def work(value: bytes) -> None:
    print(f"order {value.decode()} is done")


def main() -> None:
    produce()
    consumer = Consumer(
        {
            **BOOTSTRAP,
            "group.id": "at-least-once",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    done = 0
    while done < COUNT:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            raise SystemExit(str(message.error()))
        work(message.value() or b"")
        consumer.commit(message=message, asynchronous=False)  # After the work: that is the point.
        done += 1
    consumer.close()
    print(f"{done} orders, each done at least once")


if __name__ == "__main__":
    main()
