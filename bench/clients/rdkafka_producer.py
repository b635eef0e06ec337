"""librdkafka's producer with its own defaults. Arguments: ADDRESS BROKER_PIDS TOPIC COUNT BYTES"""

from __future__ import annotations

import json
import sys

from confluent_kafka import KafkaError, Message, Producer

from bench.clients.window import Window, parse_pids

_FLUSH_PATIENCE_S = 120


def main() -> None:
    address, pids, topic, count, record_bytes = sys.argv[1:]
    failures: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer({"bootstrap.servers": address, "delivery.report.only.error": True})
    value = b"x" * int(record_bytes)
    producer.list_topics(topic, timeout=30)
    window = Window(*parse_pids(pids))
    for _ in range(int(count)):
        while True:
            try:
                producer.produce(topic, value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
    left = producer.flush(_FLUSH_PATIENCE_S)
    report = window.close(int(count))
    if failures or left:
        raise SystemExit(f"{len(failures)} failed {failures[:1]}, {left} not delivered")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
