"""Reads a partition from its beginning by plain fetches and throws the bytes away.

Arguments: ADDRESS BROKER_PID TOPIC BYTES SECONDS_MAX
"""

from __future__ import annotations

import json
import sys
import time

from bench import protocol
from bench.clients.window import Window
from bench.connection import Connection

_PARTITION_MAX_BYTES = 1024 * 1024  # max.partition.fetch.bytes of a consumer by default


def main() -> None:
    address, pid, topic, wanted_bytes, seconds_max = sys.argv[1:]
    deadline = time.monotonic() + float(seconds_max)
    offset = count = received_bytes = 0
    with Connection(address) as connection:
        window = Window(int(pid))
        while received_bytes < int(wanted_bytes) and time.monotonic() < deadline:
            position = protocol.FetchPosition(0, offset, _PARTITION_MAX_BYTES)
            answer = connection.ask(protocol.fetch_request(topic, [position]))
            (partition,) = protocol.parse_fetch(answer).partitions
            if partition.error_code != 0:
                raise SystemExit(f"fetch failed with error code {partition.error_code}")
            next_offset = partition.next_offset()
            if next_offset is None:
                raise SystemExit(f"nothing to read at offset {offset}")
            received_bytes += len(partition.records)
            offset = next_offset
            count += 1
        report = window.close(count)
    report["bytes"] = received_bytes
    print(json.dumps(report))


if __name__ == "__main__":
    main()
