"""Fills the first partitions of a topic with equal batches.

Arguments: ADDRESS TOPIC PARTITIONS BATCHES RECORDS_A_BATCH RECORD_BYTES
"""

from __future__ import annotations

import sys

from bench import protocol
from bench.clients.pipelined_producer import first_answer_bytes
from bench.connection import Connection


def main() -> None:
    address, topic, *numbers = sys.argv[1:]
    partitions, batches, records_a_batch, record_bytes = map(int, numbers)
    batch = protocol.record_batch(b"x" * record_bytes, records_a_batch)
    with Connection(address) as connection:
        for partition in range(partitions):
            frame = protocol.produce_request(topic, partition, batch)
            for _ in range(batches):
                first_answer_bytes(connection, frame)


if __name__ == "__main__":
    main()
