"""Fills a topic with keyed records of 100 bytes, evenly over its partitions.

Arguments: ADDRESS TOPIC PARTITIONS RECORDS
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer

_VALUE = b"x" * 92


def main() -> None:
    address, topic, *numbers = sys.argv[1:]
    partitions, records = map(int, numbers)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 50,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for number in range(records):
        while True:
            try:
                producer.produce(
                    topic,
                    _VALUE,
                    b"%08d" % number,
                    partition=number % partitions,
                    on_delivery=_check,
                )
                break
            except BufferError:
                producer.poll(0.05)
        if number % 10_000 == 0:
            producer.poll(0)
    if left := producer.flush(120):
        raise TimeoutError(f"{left} records were not delivered")


def _check(error: object, _message: object) -> None:
    if error is not None:
        raise RuntimeError(str(error))


if __name__ == "__main__":
    main()
