"""At most once: commit before the work begins.

A crash between the commit and the work loses that work: nobody does it again. For what must not
happen twice, and may be missing: here, sending a notice.

    ./ottla start                                  # in one terminal
    .venv/bin/python examples/at_most_once.py      # in another; again, to see that it goes on
"""

from __future__ import annotations

import os
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP: dict[str, Any] = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}
TOPIC = "notices"
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
    producer = Producer(BOOTSTRAP)
    for number in range(COUNT):
        producer.produce(TOPIC, value=f"notice {number}")
    producer.flush()


def work(value: bytes) -> None:
    print(f"sent: {value.decode()}")


def main() -> None:
    produce()
    consumer = Consumer(
        {
            **BOOTSTRAP,
            "group.id": "at-most-once",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    done = 0
    while done < COUNT:
        messages = consumer.consume(num_messages=5, timeout=1)
        for message in messages:
            if message.error():
                raise SystemExit(str(message.error()))
        if not messages:
            continue
        consumer.commit(asynchronous=False)  # Before the work: that is the point.
        for message in messages:
            work(message.value() or b"")
        done += len(messages)
    consumer.close()
    print(f"{done} notices, none of them sent twice")


if __name__ == "__main__":
    main()
