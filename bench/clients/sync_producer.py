"""One produce request in flight in all, over connections and partitions in turn.

SIGTERM ends it early, with its report.
Arguments: ADDRESS BROKER_PID TOPIC CONNECTIONS PARTITIONS WARM_UP_S SECONDS
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import time

from bench import protocol
from bench.clients.pipelined_producer import VALUE, first_answer_bytes
from bench.clients.window import Window
from bench.connection import Connection

# So that memory stays bounded however quick the broker is.
_COUNT_MAX = 2_000_000


def percentile_us(sorted_ns: list[int], share: float) -> float:
    return sorted_ns[min(int(len(sorted_ns) * share), len(sorted_ns) - 1)] / 1000


class SyncProducer:
    """Owns its connections; one request at a time."""

    def __init__(self, address: str, topic: str, connections: int, partitions: int) -> None:
        batch = protocol.record_batch(VALUE)
        frames = [protocol.produce_request(topic, each, batch) for each in range(partitions)]
        self._opened = [Connection(address) for _ in range(connections)]
        sizes = [first_answer_bytes(each, frames[0]) for each in self._opened]
        sizes += [first_answer_bytes(self._opened[0], each) for each in frames]
        if len(set(sizes)) != 1:
            raise SystemExit(f"answers of several lengths: {sorted(set(sizes))}")
        self._answer_bytes = sizes[0]
        self._frames = itertools.cycle(frames)
        self._sockets = itertools.cycle([each.socket for each in self._opened])
        self._is_over = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, _number: int, _frame: object) -> None:
        self._is_over = True

    def run(self, seconds: float) -> list[int]:
        """The latency of each request, in nanoseconds, in order."""
        buffer = bytearray(self._answer_bytes)
        view = memoryview(buffer)
        latencies_ns: list[int] = []
        clock = time.perf_counter_ns
        deadline = clock() + int(seconds * 1e9)
        for each, frame in zip(self._sockets, self._frames, strict=False):
            begin = clock()
            each.sendall(frame)
            received = each.recv_into(buffer)
            while 0 < received < self._answer_bytes:
                more = each.recv_into(view[received:])
                received = received + more if more else 0
            if received == 0:
                raise SystemExit("the broker closed a connection")
            end = clock()
            latencies_ns.append(end - begin)
            if end >= deadline or self._is_over or len(latencies_ns) >= _COUNT_MAX:
                break
        return latencies_ns


def main() -> None:
    address, pid, topic, connections, partitions, warm_up_s, seconds = sys.argv[1:]
    producer = SyncProducer(address, topic, int(connections), int(partitions))
    producer.run(float(warm_up_s))
    window = Window(int(pid))
    latencies_ns = producer.run(float(seconds))
    report = window.close(len(latencies_ns))
    latencies_ns.sort()
    report["p50_us"] = percentile_us(latencies_ns, 0.50)
    report["p99_us"] = percentile_us(latencies_ns, 0.99)
    report["p999_us"] = percentile_us(latencies_ns, 0.999)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
