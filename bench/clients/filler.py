"""Fills a partition with big batches, as quickly as the broker takes them.

Arguments: ADDRESS TOPIC BYTES
"""

from __future__ import annotations

import sys

from bench import protocol
from bench.clients.pipelined_producer import first_answer_bytes
from bench.connection import Connection

_RECORD_BYTES = 1000
_RECORDS_A_BATCH = 500


def main() -> None:
    address, topic, wanted_bytes = sys.argv[1:]
    batch = protocol.record_batch(b"x" * _RECORD_BYTES, _RECORDS_A_BATCH)
    frame = protocol.produce_request(topic, 0, batch)
    with Connection(address) as connection:
        for _ in range(int(wanted_bytes) // len(batch) + 1):
            first_answer_bytes(connection, frame)


if __name__ == "__main__":
    main()
