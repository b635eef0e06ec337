"""A manual assignment: this consumer says itself which partitions it reads, and from where.

No group decides, nothing is rebalanced, and no offset is committed: the position is the program's
own business. Here it is kept in a file, next to what was made of the records.

    ./ottla start                                     # in one terminal
    .venv/bin/python examples/manual_assignment.py    # in another; again, to see that it goes on
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP: dict[str, Any] = {"bootstrap.servers": os.environ.get("BOOTSTRAP", "localhost:9092")}
TOPIC = "measurements"
PARTITIONS = (0, 2)
COUNT = 10
STATE = Path(os.environ.get("STATE", "manual-assignment.json"))


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
        producer.produce(TOPIC, value=str(number), partition=PARTITIONS[number % 2])
    producer.flush()


def main() -> None:
    produce()
    state: dict[str, Any] = {"sum": 0, "next": {}}
    if STATE.exists():
        state = json.loads(STATE.read_text())
    # The client wants the name of a group even where it is not used.
    consumer = Consumer({**BOOTSTRAP, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign(
        [TopicPartition(TOPIC, number, state["next"].get(str(number), 0)) for number in PARTITIONS]
    )
    done = 0
    while done < COUNT:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            raise SystemExit(str(message.error()))
        state["sum"] += int(message.value() or b"0")
        state["next"][str(message.partition())] = (message.offset() or 0) + 1
        done += 1
    consumer.close()
    # Sum and position together, in one step: a crash leaves both as they were before.
    temporary = STATE.with_suffix(".new")
    temporary.write_text(json.dumps(state))
    temporary.replace(STATE)
    print(f"the sum is {state['sum']}, the next offsets are {state['next']}")


if __name__ == "__main__":
    main()
