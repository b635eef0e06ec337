"""What the benchmarks of groups share."""

from __future__ import annotations

import time

from bench import group_protocol as protocol
from bench.broker import BenchError, Broker
from bench.connection import Connection

_PATIENCE_S = 120.0
_WAIT_FOR = (protocol.LOAD_IN_PROGRESS, protocol.NOT_AVAILABLE, protocol.NOT_COORDINATOR)


def wait_for_coordinator(broker: Broker, group: str, topic: str) -> int:
    """Until the group's offsets can be read; returns the one of partition 0."""
    deadline = time.monotonic() + _PATIENCE_S
    find = protocol.find_coordinator(group)
    fetch = protocol.fetch_offset(group, topic, 0)
    with Connection(broker.address) as connection:
        while time.monotonic() < deadline:
            if protocol.error_code(connection.ask(find)) == protocol.NONE:
                code, offset = protocol.fetched_offset(connection.ask(fetch))
                if code == protocol.NONE:
                    return offset
                if code not in _WAIT_FOR:
                    raise BenchError(f"OffsetFetch: error {code}")
            time.sleep(0.002)
    raise BenchError(f"{broker.name} has no coordinator for {group}")
