"""librdkafka's producer and consumer with their own defaults: a line with an address and a group
comes in, one record is sent to a new topic and read by the group, and a line goes out; another one
when both are closed."""

from __future__ import annotations

import json
import sys

from confluent_kafka import Consumer, Producer

_PATIENCE_S = 60


def main() -> None:
    for line in sys.stdin:
        address, group = line.split()
        producer = Producer({"bootstrap.servers": address, "log_level": 0})
        producer.produce("first", b"hello")
        producer.flush(_PATIENCE_S)
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe(["first"])
        # A topic that is just being made may be unknown to the consumer at first.
        while (message := consumer.poll(_PATIENCE_S)) is not None and message.error():
            pass
        if message is None:
            raise SystemExit(f"no record came within {_PATIENCE_S} s")
        print(json.dumps({"group": group}), flush=True)
        consumer.close()
        print(json.dumps({"closed": group}), flush=True)


if __name__ == "__main__":
    main()
