"""librdkafka's consumer with its own defaults, one partition assigned by hand.

Arguments: ADDRESS BROKER_PID TOPIC COUNT
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Consumer, TopicPartition

from bench.clients.window import Window

_PATIENCE_S = 120
_BATCH = 10_000


def main() -> None:
    address, pid, topic, count = sys.argv[1:]
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.list_topics(topic, timeout=30)
    deadline = time.monotonic() + _PATIENCE_S
    received = 0
    window = Window(int(pid))
    consumer.assign([TopicPartition(topic, 0, 0)])
    while received < int(count) and time.monotonic() < deadline:
        for message in consumer.consume(_BATCH, timeout=1.0):
            error = message.error()
            if error is not None:
                raise SystemExit(f"consume failed: {error}")
            received += 1
    report = window.close(received)
    consumer.close()
    if received < int(count):
        raise SystemExit(f"only {received} of {count} records came within {_PATIENCE_S} s")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
