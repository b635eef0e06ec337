"""Fetches in one incremental session (KIP-227) over many partitions, of which few have data.

Each fetch names only the partition whose position moved, as a consumer does, and gets one small
batch of one partition back. Arguments: ADDRESS BROKER_PID TOPIC PARTITIONS BATCHES SECONDS
where BATCHES is how many there are in the whole topic.
"""

from __future__ import annotations

import json
import sys
import time

from bench import protocol
from bench.clients.window import Window
from bench.connection import Connection

# Too small for any batch: the broker then gives one batch of one partition, and fetches are alike.
_PARTITION_MAX_BYTES = 1


class Session:
    """One fetch session on one connection."""

    def __init__(self, connection: Connection, topic: str, partitions: int) -> None:
        self._connection = connection
        self._topic = topic
        self._epoch = 0
        self._session_id = 0
        self._moved = [
            protocol.FetchPosition(each, 0, _PARTITION_MAX_BYTES) for each in range(partitions)
        ]
        self.fetch()
        if self._session_id == 0:
            raise SystemExit("the broker opened no fetch session")

    def fetch(self) -> int:
        """How many partitions had data."""
        frame = protocol.fetch_request(
            self._topic, self._moved, session_id=self._session_id, session_epoch=self._epoch
        )
        fetched = protocol.parse_fetch(self._connection.ask(frame))
        error_codes = {fetched.error_code, *(each.error_code for each in fetched.partitions)}
        if error_codes != {0}:
            raise SystemExit(f"fetch failed with error codes {error_codes}")
        self._session_id = fetched.session_id
        self._epoch += 1
        self._moved = [
            protocol.FetchPosition(each.partition, next_offset, _PARTITION_MAX_BYTES)
            for each in fetched.partitions
            if (next_offset := each.next_offset()) is not None
        ]
        return len(self._moved)


def main() -> None:
    address, pid, topic, partitions, batches, seconds = sys.argv[1:]
    with Connection(address) as connection:
        session = Session(connection, topic, int(partitions))
        warm_up = int(batches) // 5
        for _ in range(warm_up):
            session.fetch()
        deadline = time.monotonic() + float(seconds)
        window = Window(int(pid))
        fetches = with_data = 0
        # The last batches are left: a fetch that finds nothing would wait for its long poll.
        while fetches < int(batches) - warm_up - 20 and time.monotonic() < deadline:
            with_data += session.fetch()
            fetches += 1
        report = window.close(fetches)
    if with_data < fetches:
        raise SystemExit(f"{fetches} fetches brought data of {with_data} partitions only")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
