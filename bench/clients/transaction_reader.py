"""From the begin of a transaction until its records are there for a reader of committed ones, whose
fetch always waits at the broker. One transaction at a time; raw requests, transactions version 2.

Arguments: ADDRESS BROKER_PID TOPIC PARTITIONS RECORDS WARM_UP_S SECONDS
"""

from __future__ import annotations

import json
import select
import sys
import time

from bench import protocol
from bench.clients.sync_producer import percentile_us
from bench.clients.window import Window
from bench.connection import Connection
from bench.transactional_producer import TransactionalProducer, spread

_MAX_BYTES = 1024 * 1024
_PATIENCE_MS = 10_000


class CommittedReader:
    """Has one fetch at the broker, over all partitions from their beginning."""

    def __init__(self, address: str, topic: str, partitions: int) -> None:
        self.connection = Connection(address)
        self._topic = topic
        self._offsets = dict.fromkeys(range(partitions), 0)
        self.record_count = 0
        self._ask()

    def _ask(self) -> None:
        positions = [
            protocol.FetchPosition(partition, offset, _MAX_BYTES)
            for partition, offset in self._offsets.items()
        ]
        frame = protocol.fetch_request(self._topic, positions, is_committed_only=True)
        self.connection.send(frame)

    def take(self) -> None:
        """Waits for the answer, and asks for more."""
        fetched = protocol.parse_fetch(self.connection.receive())
        for each in fetched.partitions:
            if each.error_code or fetched.error_code:
                raise SystemExit(f"fetch failed: {fetched.error_code}, {each.error_code}")
            next_offset = each.next_offset()
            if next_offset is not None:
                self._offsets[each.partition] = next_offset
                self.record_count += each.record_count()
        self._ask()


class EndToEnd:
    """One producer and one reader."""

    def __init__(self, producer: TransactionalProducer, reader: CommittedReader) -> None:
        self._producer = producer
        self._reader = reader
        self._reading = reader.connection.socket.fileno()
        self._poll = select.poll()
        self._poll.register(self._reading, select.POLLIN)
        self._poll.register(producer.socket, select.POLLIN)

    def one(self, record_count: int) -> int:
        """Nanoseconds until the reader has all records, which is before or after the producer
        hears of its commit; both are waited for."""
        expected = self._reader.record_count + record_count
        begin_ns = time.perf_counter_ns()
        read_ns = 0
        frame = self._producer.begin()
        self._producer.socket.sendall(frame)
        is_open = True
        while is_open or self._reader.record_count < expected:
            ready = self._poll.poll(_PATIENCE_MS)
            if not ready:
                raise SystemExit("the records of a transaction never came")
            for descriptor, _ in ready:
                if descriptor == self._reading:
                    self._reader.take()
                    read_ns = time.perf_counter_ns()
                    continue
                next_frame = self._producer.answered(self._producer.receive())
                if next_frame is None:
                    is_open = False
                else:
                    self._producer.socket.sendall(next_frame)
        return read_ns - begin_ns

    def run(self, record_count: int, seconds: float) -> list[int]:
        deadline = time.perf_counter() + seconds
        latencies_ns: list[int] = []
        while time.perf_counter() < deadline or not latencies_ns:
            latencies_ns.append(self.one(record_count))
        return latencies_ns


def main() -> None:
    address, pid, topic, partitions, records, warm_up_s, seconds = sys.argv[1:]
    count = int(records)
    counts = spread(count, int(partitions))
    producer = TransactionalProducer(address, f"{topic}-0", topic, counts)
    reader = CommittedReader(address, topic, int(partitions))
    while reader.record_count < count:
        reader.take()  # What the producer began with.
    both = EndToEnd(producer, reader)
    both.run(count, float(warm_up_s))
    window = Window(int(pid))
    latencies_ns = both.run(count, float(seconds))
    report = window.close(len(latencies_ns))
    report["transactions_in_all"] = producer.count
    latencies_ns.sort()
    report["p50_us"] = percentile_us(latencies_ns, 0.50)
    report["p99_us"] = percentile_us(latencies_ns, 0.99)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
