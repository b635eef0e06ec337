"""aiokafka's producer and consumer with their own defaults: a line with an address and a group
comes in, one record is sent to a new topic and read by the group, and a line goes out; another one
when both are closed."""

from __future__ import annotations

import asyncio
import json
import logging
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

_PATIENCE_S = 60


async def first_record(address: str, group: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=address)
    await producer.start()
    await producer.send_and_wait("first", b"hello")
    consumer = AIOKafkaConsumer(
        "first", bootstrap_servers=address, group_id=group, auto_offset_reset="earliest"
    )
    await consumer.start()
    await asyncio.wait_for(consumer.getone(), _PATIENCE_S)
    print(json.dumps({"group": group}), flush=True)
    await consumer.stop()
    await producer.stop()
    print(json.dumps({"closed": group}), flush=True)


def main() -> None:
    logging.disable()
    for line in sys.stdin:
        address, group = line.split()
        asyncio.run(first_record(address, group))


if __name__ == "__main__":
    main()
